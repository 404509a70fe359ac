"""Debian's Chromium for tests of the page: unpacked into the cache of tools, with the libraries this machine lacks."""

import pathlib
import re
import subprocess
import tempfile

from carico_core.domain import errors
from carico_core.runtime.process import settings
from carico_local.binaries import cache

# The browser without a screen: the same engine, a third of the libraries.
PACKAGE = "chromium-headless-shell"
# A machine without any font would draw boxes.
FONTS = "fonts-dejavu-core"


def command() -> pathlib.Path:
    """Return the browser's command, fetched once. Raises `errors.EnvironmentUnfit` without apt or the package."""
    root = cache.directory(settings.environment()) / f"debian-{PACKAGE}"
    with cache.locked(root, lambda: None):
        if not root.exists():
            _unpack(root)
    return root / "browser"


def _unpack(root: pathlib.Path) -> None:
    root.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root.parent) as made:
        folder = pathlib.Path(made)
        # apt downloads as another user, and warns where only root may write.
        folder.chmod(0o777)
        try:
            needed = _missing(folder)
        except errors.EnvironmentUnfit:
            _run(["apt-get", "--quiet", "update"], folder)
            needed = _missing(folder)
        _run(["apt-get", "--quiet", "download", *needed], folder)
        for package in folder.glob("*.deb"):
            _run(["dpkg-deb", "--extract", str(package), str(folder / "root")], folder)
        _write_command(folder / "root", root)
        (folder / "root").rename(root)


def _missing(folder: pathlib.Path) -> list[str]:
    """Return the package and those of its dependencies that this machine lacks."""
    said = _run(["apt-get", "--simulate", "--no-install-recommends", "install", PACKAGE, FONTS], folder)
    return re.findall(r"^Inst (\S+)", said, flags=re.MULTILINE) or [PACKAGE]


def _write_command(made: pathlib.Path, root: pathlib.Path) -> None:
    binary = next(made.glob("usr/lib/chromium/*headless*shell"), None)
    if binary is None:
        raise errors.EnvironmentUnfit(f"no browser in Debian's {PACKAGE}")
    # Some libraries are in folders of their own (pulseaudio).
    folders = sorted({library.parent for library in made.glob("usr/lib/*-linux-gnu*/**/*.so*")})
    libraries = ":".join(str(root / folder.relative_to(made)) for folder in folders)
    script = made / "browser"
    script.write_text(
        f'#!/bin/sh\nLD_LIBRARY_PATH="{libraries}" exec "{root / binary.relative_to(made)}" "$@"\n', encoding="utf-8"
    )
    script.chmod(0o755)


def _run(argv: list[str], cwd: pathlib.Path) -> str:
    try:
        done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise errors.EnvironmentUnfit(f"this is no Debian: {argv[0]} is missing") from None
    if done.returncode != 0:
        raise errors.EnvironmentUnfit(f"`{' '.join(argv)}` ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return done.stdout
