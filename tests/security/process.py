"""What a process takes: memory, and the CPU time and files that an attacker is given."""

import contextlib
import os
import pathlib
import resource
import time
from collections.abc import Iterator

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def rss_bytes(pid: int) -> int:
    """Return how much of the process is in RAM."""
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES


class Confined:
    """Confines the thread that makes it to a share of a core, wherever it calls `rest`."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._began_s, self._used_s = time.monotonic(), time.thread_time()

    def rest(self) -> None:
        """Sleep for as long as the thread has had more than its share."""
        due_s = (time.thread_time() - self._used_s) / self._share
        time.sleep(max(due_s - (time.monotonic() - self._began_s), 0.0))


@contextlib.contextmanager
def open_files(count: int) -> Iterator[None]:
    """Let this process have so many files open. Raises `ValueError` where the machine does not allow it."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], count), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
