"""Changes of files and folders as the kernel tells them: inotify(7), by the C library."""

import ctypes
import os
import pathlib
import struct
from collections.abc import Iterator

IN_MODIFY = 0x2
IN_CREATE = 0x100
IN_DELETE = 0x200
IN_IGNORED = 0x8000
IN_Q_OVERFLOW = 0x4000
_EVENT = struct.Struct("iIII")
_READ_BYTES = 65536


class Inotify:
    """One inotify descriptor; `fileno` is readable when something changed. Raises `OSError` where there is none."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = int(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "inotify is not available")

    def fileno(self) -> int:
        """The descriptor."""
        return self._fd

    def add(self, path: pathlib.Path, mask: int) -> int:
        """The watch's number. Raises `OSError` where the path is gone or no watch is left."""
        found = int(self._libc.inotify_add_watch(self._fd, os.fsencode(path), mask))
        if found < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(path))
        return found

    def read(self) -> Iterator[tuple[int, int, str]]:
        """(watch, mask, name) of what has changed."""
        while True:
            try:
                found = os.read(self._fd, _READ_BYTES)
            except BlockingIOError:
                return
            offset = 0
            while offset < len(found):
                watch, mask, _, length = _EVENT.unpack_from(found, offset)
                name = found[offset + _EVENT.size : offset + _EVENT.size + length].rstrip(b"\0")
                yield watch, mask, os.fsdecode(name)
                offset += _EVENT.size + length

    def close(self) -> None:
        """Ends all watches."""
        os.close(self._fd)
