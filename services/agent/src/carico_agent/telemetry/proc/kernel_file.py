"""Files of /proc and cgroups, kept open (at 10 Hz opening costs more than reading), and rates of the counters in them.

The kernel's counters only grow. One that goes backwards (a reset, a wrapped field, a node restored from a snapshot)
gives None: no sample, never a negative one.
"""

import contextlib
import errno
import os
import pathlib

from carico_agent.telemetry import port

# Of 2^64.
DIGITS_MOST = 20
# The kernel has the file but the feature is off, as PSI with psi=0.
_OFF = frozenset({errno.EOPNOTSUPP, errno.EINVAL})
# This process or the machine has no file descriptors or memory left: the file still exists.
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


class KernelFile:
    """Reads a small file from its start; it is opened again after it disappeared."""

    __slots__ = ("_fd", "_size", "path")

    def __init__(self, path: pathlib.Path, *, size: int = 4096) -> None:
        """Open the file. Raises `Absent` if that is not possible."""
        self.path = path
        self._size = size
        self._fd = self._open()

    def read(self) -> bytes:
        """Return the current content. Raises `Broken` if the file disappeared, `Absent` if its feature is off."""
        return self._read_at(0)

    def read_all(self) -> bytes:
        """Return a whole file of many lines, of which the kernel returns about a page per call.

        Raises the same as `read`.
        """
        parts = [self._read_at(0)]
        while parts[-1]:
            parts.append(self._read_at(sum(map(len, parts))))
        return b"".join(parts)

    def close(self) -> None:
        """Close the file until it is read again."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                os.close(self._fd)
        self._fd = -1

    def _read_at(self, offset: int) -> bytes:
        try:
            if self._fd < 0:
                self._fd = self._open()
            return os.pread(self._fd, self._size, offset)
        except port.Absent as error:
            raise port.Broken(str(self.path), error.why) from None
        except OSError as error:
            if error.errno in _OFF:
                raise port.Absent(str(self.path), error.strerror or "switched off") from None
            # ENODEV: the cgroup was removed. The next read opens a new one with that name.
            self.close()
            raise port.Broken(str(self.path), error.strerror or "cannot be read") from None

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            self.close()

    def _open(self) -> int:
        try:
            return os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise port.Absent(str(self.path), error.strerror or "cannot be opened") from None


def is_exhausted(error: OSError) -> bool:
    """Return whether the error is due to exhausted resources, and does not mean that the file is gone."""
    return error.errno in _EXHAUSTED


def keyed(data: bytes, key: bytes, *, what: str) -> int:
    """Return the number after `key` in a file of "key value" lines, such as cpu.stat.

    >>> keyed(b"usage_usec 15\\nuser_usec 9\\n", b"user_usec", what="cpu.stat")
    9

    Raises `Broken` if it is missing.
    """
    start = 0 if data.startswith(key + b" ") else data.find(b"\n" + key + b" ") + 1
    if start == 0 and not data.startswith(key + b" "):
        raise port.Broken(what, data)
    return whole(data[start + len(key) :].split(b"\n", 1)[0], what=what)


def whole(data: bytes, *, what: str) -> int:
    """Return the one whole number in `data`, as the kernel prints its 64-bit counters.

    Raises `Broken` if there is none.
    """
    digits = data.strip()
    if not digits.isdigit() or len(digits) > DIGITS_MOST:
        raise port.Broken(what, data)
    return int(digits)


def rate(before: float, after: float, elapsed_s: float) -> float | None:
    """Return units per second between two reads; None if the counter decreased or no time has passed.

    >>> rate(100, 150, 0.5)
    100.0
    >>> rate(150, 100, 0.5) is None
    True
    """
    if elapsed_s <= 0 or after < before:
        return None
    return (after - before) / elapsed_s


def ratio(before: float, after: float, elapsed: float) -> float | None:
    """Return the increase of the counter as a share of `elapsed`, 0 to 1; both in one unit (PSI: microseconds).

    Clipped to 1: the clock and the counter are read one after the other, so the increase may exceed the interval.

    >>> ratio(0, 25_000, 100_000)
    0.25
    """
    value = rate(before, after, elapsed)
    return None if value is None else min(1.0, value)


def share(part_before: float, part_after: float, whole_before: float, whole_after: float) -> float | None:
    """Return the part's share of the whole between two reads, 0 to 1; None if either decreased or nothing changed.

    >>> share(10, 15, 100, 120)
    0.25
    """
    if part_after < part_before:
        return None
    return ratio(part_before, part_after, whole_after - whole_before)
