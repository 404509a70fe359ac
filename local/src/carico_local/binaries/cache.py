"""Where builds are kept (in the user's cache), the lock of each, and how progress is reported meanwhile."""

import contextlib
import dataclasses
import fcntl
import pathlib
from collections.abc import Callable, Iterator, Mapping


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One line. `passing`: a terminal may overwrite it with the next one."""

    text: str
    passing: bool = False


Report = Callable[[Progress], None]


def directory(environ: Mapping[str, str]) -> pathlib.Path:
    """Return $XDG_CACHE_HOME/carico/tools, by default ~/.cache/carico/tools (XDG)."""
    base = environ.get("XDG_CACHE_HOME", "")
    # By the XDG specification, relative paths are invalid and ignored.
    root = pathlib.Path(base) if base.startswith("/") else pathlib.Path(environ.get("HOME", "/root")) / ".cache"
    return root / "carico" / "tools"


@contextlib.contextmanager
def locked(target: pathlib.Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock of `target`, which need not exist; call `waiting` before waiting for another process.

    The kernel releases the lock when its process ends.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(f"{target.name}.lock").open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
