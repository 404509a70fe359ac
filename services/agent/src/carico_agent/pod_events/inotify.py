"""Changes of files and folders, reported by the kernel: inotify(7), through the C library."""

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
    """One inotify descriptor; `fileno` is readable when something changed. Raises `OSError` if it is not available."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = int(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "inotify is not available")

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._fd

    def add(self, path: pathlib.Path, mask: int) -> int:
        """Return the watch's number. Raises `OSError` if the path is gone or no watch is left."""
        found = int(self._libc.inotify_add_watch(self._fd, os.fsencode(path), mask))
        if found < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(path))
        return found

    def remove(self, watch: int) -> None:
        """Remove the watch; ignore one that the kernel has already removed."""
        self._libc.inotify_rm_watch(self._fd, watch)

    def read(self) -> Iterator[tuple[int, int, str]]:
        """Yield (watch, mask, name) of each change."""
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
        """End all watches."""
        os.close(self._fd)


class Watches:
    """The watches of one descriptor, by path.

    Watches of cgroup files and folders stay after these are removed, and kernfs does not report it (measured on Linux
    6.18: 2 watches per Pod). They count against fs.inotify.max_user_watches, which root shares with the kubelet, until
    they are removed here.
    """

    def __init__(self, notify: Inotify) -> None:
        self._notify = notify
        self._paths: dict[int, pathlib.Path] = {}
        self._numbers: dict[pathlib.Path, int] = {}

    def __len__(self) -> int:
        return len(self._paths)

    def path(self, watch: int) -> pathlib.Path | None:
        """Return the path of the watch; None if it has ended."""
        return self._paths.get(watch)

    def add(self, path: pathlib.Path, mask: int) -> None:
        """Watch the path. Raises `OSError` if it is gone, or no watch is left."""
        try:
            watch = self._notify.add(path, mask)
        except FileNotFoundError:
            self.drop(path)
            raise
        if self._numbers.get(path) != watch:
            # Another file with this name was watched before.
            self.drop(path)
        self._numbers[path], self._paths[watch] = watch, path

    def drop(self, path: pathlib.Path) -> None:
        """Stop watching the path."""
        watch = self._numbers.pop(path, None)
        if watch is not None:
            del self._paths[watch]
            self._notify.remove(watch)

    def drop_below(self, folder: pathlib.Path) -> None:
        """Stop watching the folder and everything in it."""
        for path in [path for path in self._numbers if path.is_relative_to(folder)]:
            self.drop(path)

    def keep(self, wanted: set[pathlib.Path]) -> None:
        """Stop watching all other paths."""
        for path in self._numbers.keys() - wanted:
            self.drop(path)

    def ended(self, watch: int) -> pathlib.Path | None:
        """Forget a watch that the kernel has removed, and return its path."""
        path = self._paths.pop(watch, None)
        if path is not None:
            del self._numbers[path]
        return path
