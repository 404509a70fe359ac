"""A Docker engine of the tests' own: from Debian's packages, unpacked and installed nowhere; its images are kept.

What is kept (images and layers) lies in the cache of tools under the name of what made it, so that only the first run
takes minutes. What runs is gone with the engine: containers, networks, and the rules it made in the firewall.
"""

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping

from carico_core.domain import errors
from carico_core.runtime.process import settings
from carico_local.binaries import cache
from tests.tools import debian
from tests.tools.docker import docker_command

PACKAGES = {
    "docker.io": ("docker", "dockerd"),
    "containerd": ("containerd",),
    "runc": ("runc",),
    "tini": (),
    "iptables": ("xtables-nft-multi",),
    **dict.fromkeys(("libip4tc2", "libip6tc2", "libxtables12", "libmnl0", "libnftnl11"), ()),
    **dict.fromkeys(("libnfnetlink0", "libnetfilter-conntrack3", "libdevmapper1.02.1"), ()),
}
START_TIMEOUT_S = 180.0
# The lock of what is kept, next to it.
_PID = "engine.pid"
_IPTABLES = ("iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore")
# Firewall chains that an engine creates and leaves behind.
_CHAINS = ("DOCKER", "DOCKER-ISOLATION-STAGE-1", "DOCKER-ISOLATION-STAGE-2", "DOCKER-USER")
# Parts of a base image that are not used.
_LEFT_OUT = (
    "var/cache/apt/*", "var/lib/apt/lists/*", "var/log/*", "usr/share/doc/*", "usr/share/man/*", "usr/share/locale/*",
    "proc/*", "sys/*", "dev/*",
)  # fmt: skip
BASE_RECIPE = 1
_LAYERS_KEPT = "48h"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A running engine. `environ` reaches it, with its commands on PATH."""

    engine: docker_command.Engine
    environ: Mapping[str, str]


@contextlib.contextmanager
def running() -> Iterator[Running]:
    """Run an engine for the length of the block, one at a time on a machine. Raises `EnvironmentUnfit`."""
    root = _commands_root()
    kept = cache.directory(settings.environment()) / "docker-engine"
    kept.mkdir(parents=True, exist_ok=True)
    with (kept / "lock").open("wb") as lock, tempfile.TemporaryDirectory(prefix="carico-engine-") as made:
        fcntl.flock(lock, fcntl.LOCK_EX)
        place = pathlib.Path(made)
        environ = _environ(root, place)
        engine = docker_command.Engine(environ=environ)
        had_chains = _DOCKER in _filter(environ)
        policy = _forward_policy(environ)
        _end_orphan(kept)
        process = _start(kept, place, environ, engine)
        try:
            # A killed run cleans up nothing, and the kept state of an engine includes its containers.
            _clear(engine)
            yield Running(engine=engine, environ=environ)
        finally:
            _end(process, engine)
            # An engine mounts its folder onto itself; a killed one leaves that mount.
            subprocess.run(["umount", "--quiet", str(kept / "data")], stderr=subprocess.DEVNULL, check=False)
            if not had_chains:
                _remove_rules(environ, policy)


def base_image(found: Running, *packages: str) -> str:
    """Return the tag of an image of Debian bookworm with these packages, made by debootstrap if the engine lacks it."""
    key = hashlib.sha256(f"{BASE_RECIPE} {' '.join(sorted(packages))}".encode()).hexdigest()[:16]
    tag = f"carico-test-base:{key}"
    if found.engine.has_image(tag):
        return tag
    script = debian.unpacked({"debootstrap": ("debootstrap",)})["debootstrap"]
    mirror = _mirror()
    with tempfile.TemporaryDirectory(prefix="carico-base-") as made:
        tree, archive = pathlib.Path(made) / "tree", pathlib.Path(made) / "base.tar"
        environ = {**os.environ, "DEBOOTSTRAP_DIR": str(script.parents[1] / "share/debootstrap")}
        wanted = ["--variant=minbase", f"--include={','.join(packages)}", "bookworm", str(tree), mirror]
        _run([str(script), *wanted], environ)
        _run(
            ["tar", "-C", str(tree), *(f"--exclude=./{each}" for each in _LEFT_OUT), "-cf", str(archive), "."], environ
        )
        path = "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        found.engine.run("import", "--change", path, str(archive), tag)
    return tag


def commands() -> pathlib.Path:
    """Return the folder of the docker command."""
    return _commands_root() / "usr/bin"


def _commands_root() -> pathlib.Path:
    # `usr/bin/docker` of the folder into which the packages were unpacked.
    return debian.unpacked(PACKAGES)["docker"].parents[2]


def _environ(root: pathlib.Path, place: pathlib.Path) -> dict[str, str]:
    """Return an environment with the packages' commands and libraries first, as they are not in default places."""
    commands = place / "bin"
    commands.mkdir()
    for name in _IPTABLES:
        (commands / name).symlink_to(root / "usr/sbin/xtables-nft-multi")
    libraries = root / "usr/lib" / f"{os.uname().machine}-linux-gnu"
    path = f"{commands}:{root}/usr/bin:{root}/usr/sbin:{os.environ.get('PATH', os.defpath)}"
    return {
        **os.environ, "PATH": path, "LD_LIBRARY_PATH": str(libraries), "XTABLES_LIBDIR": str(libraries / "xtables"),
        "DOCKER_HOST": f"unix://{place}/docker.sock", "DOCKER_CONFIG": str(place / "client"), "DOCKER_BUILDKIT": "0",
    }  # fmt: skip


def _start(
    kept: pathlib.Path, place: pathlib.Path, environ: Mapping[str, str], engine: docker_command.Engine
) -> "subprocess.Popen[bytes]":
    limit = {"Soft": 1024, "Hard": 1024}
    config = {
        "data-root": str(kept / "data"), "exec-root": str(place / "exec"), "pidfile": str(place / "dockerd.pid"),
        "hosts": [environ["DOCKER_HOST"]], "bridge": "none", "userland-proxy": False,
        # An engine without CAP_SYS_RESOURCE can neither raise limits nor lower scores.
        "default-ulimits": {name: {"Name": name, **limit} for name in ("nofile", "nproc")}, "oom-score-adjust": 0,
    }  # fmt: skip
    (place / "daemon.json").write_text(json.dumps(config))
    with (place / "dockerd.log").open("wb") as log:
        process = subprocess.Popen(
            ["dockerd", "--config-file", str(place / "daemon.json")], env=dict(environ), stdout=log, stderr=log,
            stdin=subprocess.DEVNULL, executable=shutil.which("dockerd", path=environ["PATH"]),
        )  # fmt: skip
    (kept / _PID).write_text(str(process.pid))
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline_s:
        with contextlib.suppress(errors.EnvironmentUnfit):
            engine.check()
            return process
        time.sleep(0.1)
    process.kill()
    process.wait()
    raise errors.EnvironmentUnfit(f"dockerd did not come up: {(place / 'dockerd.log').read_text()[-500:]}")


def _end(process: "subprocess.Popen[bytes]", engine: docker_command.Engine) -> None:
    """End the engine with all that runs in it."""
    with contextlib.suppress(errors.EnvironmentUnfit):
        _clear(engine)
        # Stages of builds have no tag, and are the cache of the next run.
        engine.run("image", "prune", "--force", "--filter", f"until={_LAYERS_KEPT}")
    process.terminate()
    try:
        process.wait(30.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _clear(engine: docker_command.Engine) -> None:
    """Remove all containers, volumes and networks. The engine is the tests' own, so all are theirs."""
    for listed, removed in ((("ps", "--all"), ("rm", "--force", "--volumes")), (("volume", "ls"), ("volume", "rm"))):
        found = engine.run(*listed, "--quiet").split()
        if found:
            engine.run(*removed, *found)
    engine.run("network", "prune", "--force")


def _end_orphan(kept: pathlib.Path) -> None:
    """End an engine whose tests were killed: it holds the kept state, and no other can start."""
    with contextlib.suppress(OSError, ValueError):
        pid = int((kept / _PID).read_text())
        if "dockerd" in pathlib.Path(f"/proc/{pid}/cmdline").read_text():
            os.kill(pid, signal.SIGTERM)
            deadline_s = time.monotonic() + START_TIMEOUT_S
            while pathlib.Path(f"/proc/{pid}").exists() and time.monotonic() < deadline_s:
                time.sleep(0.1)


_DOCKER = "-N DOCKER-USER"


def _filter(environ: Mapping[str, str]) -> str:
    return _iptables(environ, "-S")


def _forward_policy(environ: Mapping[str, str]) -> str:
    return "DROP" if "-P FORWARD DROP" in _filter(environ) else "ACCEPT"


def _remove_rules(environ: Mapping[str, str], policy: str) -> None:
    for table in ("filter", "nat"):
        for rule in _iptables(environ, "-t", table, "-S").splitlines():
            words = rule.split()
            if words[0] == "-A" and "DOCKER" in rule and words[1] not in _CHAINS:
                _iptables(environ, "-t", table, "-D", *words[1:])
        for verb in ("-F", "-X"):
            for chain in _CHAINS:
                _iptables(environ, "-t", table, verb, chain)
    _iptables(environ, "-P", "FORWARD", policy)


def _iptables(environ: Mapping[str, str], *arguments: str) -> str:
    command = [shutil.which("iptables", path=environ["PATH"]) or "iptables", "--wait", *arguments]
    return subprocess.run(command, env=dict(environ), capture_output=True, text=True, check=False).stdout


def _mirror() -> str:
    """Return the mirror that this machine's apt uses."""
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(SITE) $(CODENAME)", "Created-By: Packages"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    for line in listed.stdout.splitlines():
        site, _, codename = line.partition(" ")
        if codename.strip() == "bookworm":
            return site
    raise errors.EnvironmentUnfit("apt here knows no Debian bookworm, from which base images could be made")


def _run(command: list[str], environ: Mapping[str, str]) -> None:
    done = subprocess.run(command, env=dict(environ), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise errors.EnvironmentUnfit(f"`{command[0]}` ended with {done.returncode}: {done.stderr.strip()[-500:]}")
