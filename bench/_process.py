"""CPU time and memory of a measured process, from /proc."""

import os
import pathlib


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of all its threads so far."""
    # https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html: utime and stime are fields 14 and 15.
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_bytes(pid: int, field: str) -> int:
    """Return a field of its status: VmRSS (resident), VmHWM (peak)."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(field)) * 1024
