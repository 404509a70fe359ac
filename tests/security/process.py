"""The memory of a process."""

import os
import pathlib

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def rss_bytes(pid: int) -> int:
    """Return how much of the process is in RAM."""
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
