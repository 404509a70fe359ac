"""Files that are replaced atomically: a reader never finds half of one."""

import os
import pathlib


def write(path: pathlib.Path, content: bytes, *, mode: int = 0o600) -> None:
    """Replace a file atomically by one with these permissions, less the umask. Raises `OSError`."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    fresh.rename(path)
