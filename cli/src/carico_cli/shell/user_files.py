"""Files that a user names, read with a limit."""

import os
import pathlib

from carico_core.domain import errors

# The result of a comparison of a thousand Pods and ten contenders takes a fiftieth of this, a scenario a kilobyte.
MAX_BYTES = 2**24


def read(path: pathlib.Path, flag: str, *, expected: str, most: int = MAX_BYTES) -> bytes:
    """Return the content. Raises `SettingsError` where it cannot be read or has more than `most` bytes."""
    try:
        with path.open("rb") as file:
            is_larger = os.fstat(file.fileno()).st_size > most
            # A device or a pipe has no size, and maybe no end.
            content = b"" if is_larger else file.read(most + 1)
    except OSError as error:
        raise errors.SettingsError(f"{flag} {path}: cannot be read ({error.strerror}), expected {expected}") from error
    if is_larger or len(content) > most:
        raise errors.SettingsError(f"{flag} {path}: got more than {most >> 20} MiB, expected {expected}")
    return content
