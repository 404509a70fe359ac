"""Files that only their owner can read."""

import os
import pathlib


def write(path: pathlib.Path, content: bytes) -> None:
    """Replace a file atomically by one of mode 0600. Raises `OSError`."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    fresh.rename(path)
