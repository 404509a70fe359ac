"""Which process an id stands for: the kernel uses ids again, so the start time counts, too.

The standard library only: the zygote of each emulated node imports this.
"""

import pathlib
from collections.abc import Mapping
from typing import Any


def stat(pid: int) -> list[str] | None:
    """Return the fields of proc_pid_stat(5) after the name: state, field 3, is the first, and starttime, 22, is 19."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name in parentheses may contain blanks and parentheses: what counts is after the last one.
    return text.rpartition(")")[2].split()


def start_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None for no process, or a zombie."""
    fields = stat(pid)
    return None if fields is None or fields[0] in "ZX" else int(fields[19])


def is_alive(recorded: Mapping[str, Any]) -> bool:
    """Return whether the process with this `pid` and these `start_ticks` runs."""
    ticks = start_ticks(recorded["pid"])
    return ticks is not None and ticks == recorded["start_ticks"]
