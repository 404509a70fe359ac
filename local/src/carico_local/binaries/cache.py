"""The folder of what was built, in the user's cache, and a lock for those who want to build the same."""

import contextlib
import fcntl
import pathlib
from collections.abc import Callable, Iterator, Mapping


def directory(environ: Mapping[str, str]) -> pathlib.Path:
    """$XDG_CACHE_HOME/carico/tools, by default ~/.cache/carico/tools (XDG)."""
    base = environ.get("XDG_CACHE_HOME", "")
    # The specification: relative paths are invalid and ignored.
    root = pathlib.Path(base) if base.startswith("/") else pathlib.Path(environ.get("HOME", "/root")) / ".cache"
    return root / "carico" / "tools"


@contextlib.contextmanager
def locked(target: pathlib.Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock of `target`, which need not exist; call `waiting` first where another process has it.

    The lock ends with its holder, however that ends.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(f"{target.name}.lock").open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
