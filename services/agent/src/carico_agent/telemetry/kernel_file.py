"""A file of /proc or a cgroup, kept open: at 10 Hz opening costs more than reading."""

import contextlib
import errno
import os
import pathlib

from carico_agent.telemetry import port

# 2^64 has 20.
DIGITS_MOST = 20
# The kernel has the file but the feature is switched off: PSI with psi=0 reads so.
_OFF = frozenset({errno.EOPNOTSUPP, errno.EINVAL})
# This process or the machine has no file or memory left: what was to be read is still there.
_SPENT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


class KernelFile:
    """Reads a small file from its start; it is opened again after it went away."""

    __slots__ = ("_fd", "_size", "path")

    def __init__(self, path: pathlib.Path, *, size: int = 4096) -> None:
        """Open it. Raises `Absent` where that is not possible."""
        self.path = path
        self._size = size
        self._fd = self._open()

    def read(self) -> bytes:
        """Return what is in it now. Raises `Broken` where it went away, `Absent` where its feature is switched off."""
        return self._read_at(0)

    def read_all(self) -> bytes:
        """Return the whole of a file of many lines, which the kernel hands out about a page a call.

        Raises as `read`.
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
            # ENODEV: the cgroup was removed. The next read looks for a new one of that name.
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


def is_spent(error: OSError) -> bool:
    """Return True where the error says nothing of what was to be read, which must not pass for gone then."""
    return error.errno in _SPENT


def keyed(data: bytes, key: bytes, *, what: str) -> int:
    """Return the number after `key` in a file of "key value" lines, such as cpu.stat.

    >>> keyed(b"usage_usec 15\\nuser_usec 9\\n", b"user_usec", what="cpu.stat")
    9

    Raises `Broken` where it is not there.
    """
    start = 0 if data.startswith(key + b" ") else data.find(b"\n" + key + b" ") + 1
    if start == 0 and not data.startswith(key + b" "):
        raise port.Broken(what, data)
    return whole(data[start + len(key) :].split(b"\n", 1)[0], what=what)


def whole(data: bytes, *, what: str) -> int:
    """Return the one whole number in `data`, as the kernel prints its 64-bit counters.

    Raises `Broken` where there is none.
    """
    digits = data.strip()
    if not digits.isdigit() or len(digits) > DIGITS_MOST:
        raise port.Broken(what, data)
    return int(digits)
