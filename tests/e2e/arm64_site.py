"""What the images have on arm64, run on this machine by qemu: Debian's Python, the locked wheels, our own."""

import dataclasses
import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence

from carico_core.domain import errors
from tests.tools import debian
from tests.tools.docker import images

QEMU: dict[str, tuple[str, ...]] = {"qemu-user-static": ("qemu-aarch64-static",)}
# Python of the Dockerfile's base, and the libraries that it and the wheels load.
_PYTHON = (
    "python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib", "libc6", "libgcc-s1", "libstdc++6", "zlib1g",
    "libexpat1", "libssl3", "libffi8", "libbz2-1.0", "liblzma5", "libsqlite3-0", "libuuid1",
)  # fmt: skip
_LOCKS = ("image", "nats")
_PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64", "any")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Emulated:
    """Commands of the other architecture."""

    qemu: pathlib.Path
    root: pathlib.Path
    locked: pathlib.Path
    own: pathlib.Path

    def python(self, *arguments: str) -> list[str]:
        """Return the command that runs Python with these arguments."""
        return [str(self.qemu), "-L", str(self.root), str(self.root / "usr/bin/python3.11"), *arguments]

    def nats_server(self, *arguments: str) -> list[str]:
        """Return the command that runs the NATS server of the image."""
        return [str(self.qemu), str(self.locked / "bin/nats-server"), *arguments]

    @property
    def environ(self) -> Mapping[str, str]:
        """The variables of the image; nothing of this environment."""
        return {"PATH": os.defpath, "PYTHONPATH": f"{self.own}:{self.locked}", "PYTHONDONTWRITEBYTECODE": "1",
                "OPENBLAS_NUM_THREADS": "1"}  # fmt: skip


def made(folder: pathlib.Path) -> Emulated:
    """Fetch everything into `folder`. Raises `EnvironmentUnfit`."""
    qemu = debian.unpacked(QEMU)["qemu-aarch64-static"]
    # Two folders: pip replaces a folder that it finds in a target, such as `bin`.
    locked, own = folder / "locked", folder / "own"
    _install_locked(locked)
    _install_own(own, folder / "wheels")
    return Emulated(qemu=qemu, root=_unpacked_python(folder), locked=locked, own=own)


def _unpacked_python(folder: pathlib.Path) -> pathlib.Path:
    """Unpack Debian's packages of arm64, fetched with an apt state of their own; this machine's is not changed."""
    state, root, fetched = folder / "apt", folder / "root", folder / "debs"
    for path in (state / "lists/partial", state / "archives/partial", root, fetched):
        path.mkdir(parents=True)
    (state / "status").touch()
    config = folder / "apt.conf"
    config.write_text(
        'APT::Architecture "arm64"; APT::Architectures {"arm64";}; APT::Sandbox::User "root";\n'
        f'Dir::State "{state}"; Dir::State::status "{state / "status"}"; Dir::Cache "{state}";\n',
        encoding="ascii",
    )
    environ = {**os.environ, "APT_CONFIG": str(config)}
    _run(["apt-get", "--quiet", "update"], environ=environ)
    _run(["apt-get", "--quiet", "download", *_PYTHON], environ=environ, cwd=fetched)
    for package in fetched.glob("*.deb"):
        _run(["dpkg-deb", "--extract", str(package), str(root)])
    return root


def _install_locked(target: pathlib.Path) -> None:
    abis = (word for abi in ("cp311", "abi3", "none") for word in ("--abi", abi))
    platforms = (word for platform in _PLATFORMS for word in ("--platform", platform))
    locks = (word for lock in _LOCKS for word in ("--requirement", str(images.ROOT / f"requirements/{lock}.txt")))
    _run(
        [*_pip("install"), "--no-deps", "--no-compile", "--only-binary=:all:", "--require-hashes", "--target",
         str(target), "--implementation", "cp", "--python-version", "3.11", *abis, *platforms, *locks]
    )  # fmt: skip


def _install_own(target: pathlib.Path, wheels: pathlib.Path) -> None:
    members = [str(images.ROOT / member) for member in images.MEMBERS]
    _run([*_pip("wheel"), "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(wheels), *members])
    _run([*_pip("install"), "--no-deps", "--no-index", "--no-compile", "--target", str(target),
          *map(str, wheels.glob("*.whl"))])  # fmt: skip


def _pip(verb: str) -> list[str]:
    return [sys.executable, "-m", "pip", verb, "--quiet", "--disable-pip-version-check"]


def _run(
    command: Sequence[str], *, environ: Mapping[str, str] | None = None, cwd: pathlib.Path | None = None
) -> None:  # fmt: skip
    done = subprocess.run(command, env=environ, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise errors.EnvironmentUnfit(f"{' '.join(command[:4])} ... failed: {done.stderr.strip()[-500:]}")
