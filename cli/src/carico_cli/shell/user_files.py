"""Files that a user names, read with a limit."""

import os
import pathlib
from typing import Any

import click

from carico_core.domain import errors

# The result of a comparison of a thousand Pods and ten contenders takes a fiftieth of this, a scenario a kilobyte.
MAX_BYTES = 2**24


class _Path(click.Path):
    """A path; an empty one, as of a shell's variable that is not set, is refused: it would mean this folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if value == "":
            self.fail("got an empty value, expected a path", param, ctx)
        return super().convert(value, param, ctx)


# What an option or an argument with a path has as its type.
PATH = _Path(path_type=pathlib.Path)


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
