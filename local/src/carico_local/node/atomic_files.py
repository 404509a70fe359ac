"""Files of a folder that change all at once, since they stand behind one link, which is renamed.

    FOLDER/app.conf -> ..data/app.conf      what a container names
    FOLDER/..data   -> ..2026_01_01_12      the one link that changes
    FOLDER/..2026_01_01_12/app.conf         one version of all files

Source: kubernetes/pkg/volume/util/atomic_writer.go.
"""

import contextlib
import dataclasses
import os
import pathlib
import shutil
from collections.abc import Iterable, Mapping

DATA = "..data"
_NEW_DATA = "..data_tmp"
_NAME_MOST, _PATH_MOST = 255, 4096


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """What a file holds, and its permissions."""

    data: bytes
    mode: int


def write(folder: pathlib.Path, files: Mapping[str, File], *, stamp: str) -> bool:
    """True where the folder changed; `files` by their paths in it, `stamp` as no version before. Raises `OSError`, and
    `ValueError` for a path that leaves the folder.
    """
    wanted = {os.path.normpath(_checked(path)): file for path, file in files.items()}
    before = _version(folder)
    gone = set() if before is None else _present(before) - _with_folders(wanted)
    if before is not None and not gone and all(_is_same(before / path, file) for path, file in wanted.items()):
        _show(folder, wanted)
        return False
    _switch(folder, _written(folder, wanted, stamp))
    _show(folder, wanted)
    for path in gone:
        if "/" not in path:
            with contextlib.suppress(FileNotFoundError):
                (folder / path).unlink()
    if before is not None:
        shutil.rmtree(before)
    return True


def _checked(path: str) -> str:
    """The path, which stays below its folder and names no version."""
    steps = path.split("/")
    if not path or path.startswith("/") or len(path) > _PATH_MOST:
        raise ValueError(f"invalid path: must be relative, and of 1 to {_PATH_MOST} characters: {path}")
    if ".." in steps:
        raise ValueError(f"invalid path: must not contain '..': {path}")
    if steps[0].startswith(".."):
        raise ValueError(f"invalid path: must not start with '..': {path}")
    if any(len(step) > _NAME_MOST for step in steps):
        raise ValueError(f"invalid path: filenames must be less than or equal to {_NAME_MOST} characters")
    return path


def _version(folder: pathlib.Path) -> pathlib.Path | None:
    """Where the present files are; None where there are none yet."""
    with contextlib.suppress(FileNotFoundError):
        found = folder / os.readlink(folder / DATA)
        return found if found.is_dir() else None
    return None


def _present(version: pathlib.Path) -> set[str]:
    return {str(path.relative_to(version)) for path in version.rglob("*")}


def _with_folders(paths: Iterable[str]) -> set[str]:
    """The paths, and the folders on their way."""
    found: set[str] = set()
    for path in paths:
        while path:
            found.add(path)
            path = os.path.dirname(path)
    return found


def _is_same(path: pathlib.Path, file: File) -> bool:
    try:
        return path.read_bytes() == file.data
    except OSError:
        return False


def _written(folder: pathlib.Path, files: Mapping[str, File], stamp: str) -> pathlib.Path:
    """A new version, which nothing points to yet."""
    version = folder / f"..{stamp}"
    version.mkdir()
    try:
        version.chmod(0o755)
        for path, file in files.items():
            target = version / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(target, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as out:
                out.write(file.data)
            # By name and not by umask.
            target.chmod(file.mode)
    except BaseException:
        shutil.rmtree(version, ignore_errors=True)
        raise
    return version


def _switch(folder: pathlib.Path, version: pathlib.Path) -> None:
    """Nothing; whoever opens a file now gets the version's."""
    link = folder / _NEW_DATA
    # Of one that was killed here.
    link.unlink(missing_ok=True)
    link.symlink_to(version.name)
    link.replace(folder / DATA)


def _show(folder: pathlib.Path, files: Iterable[str]) -> None:
    """Nothing; each first step of a path is a link into the data."""
    for name in {path.split("/", 1)[0] for path in files}:
        if not os.path.lexists(folder / name):
            (folder / name).symlink_to(f"{DATA}/{name}")
