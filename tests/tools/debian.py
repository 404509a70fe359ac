"""System software for tests, from Debian's packages: unpacked into the cache of tools, installed nowhere."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from typing import TypeVar

import pytest

from carico_core.domain import errors
from carico_core.runtime.process import settings
from carico_local.binaries import cache
from carico_local.kubelets import programs

_T = TypeVar("_T")
# Packages, and the commands needed of each.
CONTAINERD = {
    "containerd": ("containerd", "ctr", "containerd-shim-runc-v2"),
    "runc": ("runc",),
    "busybox-static": ("busybox",),
}
# What a machine has on which kubelets run.
NODE = {
    **CONTAINERD,
    "containernetworking-plugins": (),
    "iptables": ("xtables-nft-multi",),
    **dict.fromkeys(("libip4tc2", "libip6tc2", "libxtables12", "libmnl0", "libnftnl11"), ()),
    **dict.fromkeys(("libnfnetlink0", "libnetfilter-conntrack3", "conntrack"), ()),
}


def allowed() -> str | None:
    """Return why system software must not be started here; None if it may."""
    if os.environ.get("CARICO_TEST_SYSTEM") != "1":
        return "starts system software: runs only with CARICO_TEST_SYSTEM=1"
    return None if os.geteuid() == 0 else "starts system software, which needs root"


@contextlib.contextmanager
def opened(opening: "contextlib.AbstractContextManager[_T]") -> Iterator[_T]:
    """Yield what `opening` yields; skip the test, with the reason, where it is not available."""
    with contextlib.ExitStack() as held:
        try:
            found = held.enter_context(opening)
        except errors.EnvironmentUnfit as error:
            pytest.skip(f"not available here: {error}")
        yield found


def unpacked(packages: dict[str, tuple[str, ...]]) -> dict[str, pathlib.Path]:
    """Return the path of each command by its name, from the packages' newest versions, fetched once.

    Raises `errors.EnvironmentUnfit` without apt, or where it knows no such package.
    """
    root = cache.directory(settings.environment()) / f"debian-{'-'.join(sorted(packages))}"
    with cache.locked(root, lambda: None):
        if not root.exists():
            _unpack(tuple(packages), root)
    found = {}
    for command in (command for commands in packages.values() for command in commands):
        places = [root / folder / command for folder in ("usr/bin", "usr/sbin", "bin", "sbin")]
        path = next((place for place in places if place.exists()), None)
        if path is None:
            raise errors.EnvironmentUnfit(f"no command {command} in {root}")
        found[command] = path
    return found


def node_environ(folder: pathlib.Path) -> dict[str, str]:
    """Return the variables by which `carico_local.kubelets` finds the programs of `NODE`; links go to `folder`.

    Raises `errors.EnvironmentUnfit` as `unpacked`.
    """
    root = unpacked(NODE)["containerd"].parents[2]
    folder.mkdir()
    for name in programs.TABLES:
        (folder / name).symlink_to(root / "usr/sbin/xtables-nft-multi")
    libraries = root / "usr/lib" / f"{os.uname().machine}-linux-gnu"
    return {
        "PATH": f"{folder}:{root}/usr/bin:{root}/usr/sbin:{root}/bin:{os.environ.get('PATH', os.defpath)}",
        "LD_LIBRARY_PATH": str(libraries), "XTABLES_LIBDIR": str(libraries / "xtables"),
        "CNI_PATH": f"{root}/usr/lib/cni",
    }  # fmt: skip


def _unpack(packages: tuple[str, ...], root: pathlib.Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise errors.EnvironmentUnfit("not a Debian system: apt-get or dpkg-deb is missing")
    root.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root.parent) as made:
        folder = pathlib.Path(made)
        # apt downloads as another user, and warns where only root may write.
        folder.chmod(0o777)
        fetch = ["apt-get", "--quiet", "download", *packages]
        if _run(fetch, folder) is not None:
            _run(["apt-get", "--quiet", "update"], folder)
            failed = _run(fetch, folder)
            if failed is not None:
                raise errors.EnvironmentUnfit(failed)
        for package in folder.glob("*.deb"):
            failed = _run(["dpkg-deb", "--extract", str(package), str(folder / "root")], folder)
            if failed is not None:
                raise errors.EnvironmentUnfit(failed)
        (folder / "root").rename(root)


def _run(command: list[str], cwd: pathlib.Path) -> str | None:
    """Run a command; return why it failed, or None."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    return f"`{' '.join(command)}` ended with {done.returncode}: {done.stderr.strip()[-300:]}"
