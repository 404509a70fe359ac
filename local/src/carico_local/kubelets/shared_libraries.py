"""Which shared libraries programs of this machine need: as its loader says, by `ldd`."""

import os
import pathlib
import re
import subprocess
from collections.abc import Iterable

from carico_core.domain import errors

# Files named at once; the limit on a command's length is far beyond.
_FILES_AT_ONCE = 100
_LIBRARY = re.compile(r"^\t(?:\S+ => )?(/\S+) \(0x", re.MULTILINE)


def of(files: Iterable[pathlib.Path]) -> dict[str, pathlib.Path]:
    """The libraries, loader included, each by the path at which it is found. Raises `EnvironmentUnfit` without ldd."""
    wanted, found = [str(path) for path in files], {}
    for first in range(0, len(wanted), _FILES_AT_ONCE):
        try:
            said = subprocess.run(
                ["ldd", *wanted[first : first + _FILES_AT_ONCE]], capture_output=True, text=True, check=False
            ).stdout
        except OSError as error:
            raise errors.EnvironmentUnfit(f"ldd, which comes with the C library, does not run: {error}") from error
        for match in _LIBRARY.finditer(said):
            path = os.path.normpath(match[1])
            found[path] = pathlib.Path(path)
    return found
