"""The folder that a command's report goes to: tried before the work begins, since an hour of it must not end there."""

import contextlib
import pathlib
import tempfile
from collections.abc import Iterator, Mapping

from carico_core.domain import errors

# More than any report: a demo's has half a megabyte.
TRIED_BYTES = 4 * 2**20


def check(folder: pathlib.Path, *, flag: str = "--out") -> None:
    """Nothing; the folder is there and takes a report. Raises `EnvironmentUnfit` with what to do."""
    with _in_words(folder, flag):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(TRIED_BYTES))


def write(folder: pathlib.Path, files: Mapping[str, bytes], *, flag: str = "--out") -> None:
    """Nothing; the files are in the folder. Raises `EnvironmentUnfit` as `check` does."""
    with _in_words(folder, flag):
        for name, content in files.items():
            (folder / name).write_bytes(content)


@contextlib.contextmanager
def _in_words(folder: pathlib.Path, flag: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise errors.EnvironmentUnfit(
            f"{flag}: nothing can be written to {folder} ({error.strerror}): give another place"
        ) from error
