"""Log files of containers in the CRI format: each line with its time, its stream, and whether it is complete."""

import dataclasses
import datetime
import errno
import os
import pathlib
import stat
from collections.abc import Iterator
from typing import BinaryIO

# kubelet's containerLogMaxSize; one older file is kept.
ROTATE_BYTES = 10 * 2**20
# containerd cuts lines at 16 KiB: https://github.com/kubernetes/design-proposals-archive/blob/main/node/kubelet-cri-logging.md
LINE_BYTES = 16 * 2**10
_READ_BYTES = 65536


def format_time(wall_ns: int) -> str:
    """Return Unix nanoseconds as RFC 3339 with nanoseconds.

    >>> format_time(1_700_000_000_000_000_001)
    '2023-11-14T22:13:20.000000001Z'
    """
    seconds, nanoseconds = divmod(wall_ns, 10**9)
    base = datetime.datetime.fromtimestamp(seconds, tz=datetime.UTC)
    return f"{base:%Y-%m-%dT%H:%M:%S}.{nanoseconds:09d}Z"


class LogFile:
    """An append-only log that is renamed to `<path>.1` when it reaches `rotate_bytes`."""

    def __init__(self, path: pathlib.Path, *, rotate_bytes: int = ROTATE_BYTES) -> None:
        self._path = path
        self._rotate_bytes = rotate_bytes
        self._fd = self._open()
        self._rest = b""

    def write(self, data: bytes, *, wall_ns: int) -> None:
        """Write complete lines; keep a partial one until its end arrives or it is too long."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        entries = [entry for line in whole for entry in _cut(line)]
        while len(self._rest) >= LINE_BYTES:
            entries.append((self._rest[:LINE_BYTES], b"P"))
            self._rest = self._rest[LINE_BYTES:]
        self._append(entries, wall_ns)

    def close(self, *, wall_ns: int) -> None:
        """Write the remaining partial line, and close."""
        if self._rest:
            self._append([(self._rest, b"F")], wall_ns)
            self._rest = b""
        os.close(self._fd)

    def _append(self, entries: list[tuple[bytes, bytes]], wall_ns: int) -> None:
        if not entries:
            return
        stamp = format_time(wall_ns).encode()
        os.write(self._fd, b"".join(stamp + b" stdout " + tag + b" " + line + b"\n" for line, tag in entries))
        if os.fstat(self._fd).st_size >= self._rotate_bytes:
            self._path.replace(self._path.with_name(self._path.name + ".1"))
            # Opened before the old one is closed: on a full disk opening fails, and the old one must stay usable.
            old_fd, self._fd = self._fd, self._open()
            os.close(old_fd)

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)


def _cut(line: bytes) -> Iterator[tuple[bytes, bytes]]:
    while len(line) > LINE_BYTES:
        yield line[:LINE_BYTES], b"P"
        line = line[LINE_BYTES:]
    yield line, b"F"


def open_file(path: pathlib.Path) -> BinaryIO:
    """Open a file of a container to read it. Raises OSError.

    Where Pods run as the node's user, they can put a link in its place, to what the node alone may read, or a pipe.
    """
    file_fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(file_fd).st_mode):
        os.close(file_fd)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(file_fd, "rb")


def tail(path: pathlib.Path, *, limit_bytes: int) -> str:
    """Return the last text of a log without times, at most `limit_bytes`. Raises OSError."""
    with open_file(path) as log:
        log.seek(max(0, os.fstat(log.fileno()).st_size - 2 * limit_bytes))
        lines = log.read().removesuffix(b"\n").split(b"\n")
    text = b"\n".join(line.split(b" ", 3)[-1] for line in lines)
    return text[-limit_bytes:].decode(errors="replace")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a log file. `whole` False: the line continues in the next entry."""

    stamp: str
    text: bytes
    whole: bool

    @property
    def wall_ns(self) -> int:
        """When it was read from the container, in Unix nanoseconds."""
        seconds, _, rest = self.stamp.removesuffix("Z").partition(".")
        base = datetime.datetime.fromisoformat(seconds + "+00:00")
        return int(base.timestamp()) * 10**9 + int(rest or 0)

    def render(self, *, timestamps: bool) -> bytes:
        """Return the entry as `kubectl logs` shows it."""
        start = self.stamp.encode() + b" " if timestamps else b""
        return start + self.text + (b"\n" if self.whole else b"")


def parse(data: bytes) -> list[Entry]:
    """Return the entries of complete lines of a log file; malformed lines are skipped."""
    entries = []
    # A line may contain carriage returns, as of a progress bar.
    for line in data.split(b"\n"):
        parts = line.split(b" ", 3)
        if len(parts) == 4:
            entries.append(Entry(stamp=parts[0].decode("ascii"), text=parts[3], whole=parts[2] == b"F"))
    return entries


def last_lines(entries: list[Entry], count: int) -> list[Entry]:
    """Return the entries of the last `count` lines."""
    if count <= 0:
        return []
    starts = [index for index in range(len(entries)) if index == 0 or entries[index - 1].whole]
    return entries[starts[-count] :] if len(starts) > count else entries


class LogReader:
    """Read a log file in complete lines, continuing after the last read; an absent file is empty."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._open()

    def _open(self) -> None:
        # The runtime writes neither links nor pipes.
        is_there = self._path.is_file() and not self._path.is_symlink()
        self._file = open_file(self._path) if is_there else None
        self._rest = b""

    def read(self, limit_bytes: int = -1) -> bytes:
        """Return the complete lines that were not read yet."""
        if self._file is None:
            return b""
        data = self._rest + self._file.read(limit_bytes)
        end = data.rfind(b"\n") + 1
        self._rest = data[end:]
        return data[:end]

    def follow(self) -> Iterator[bytes]:
        """Yield all complete lines written since the last read, those after a rotation too."""
        # Checked first: by then, the runtime writes no more to the old file.
        is_rotated = self._is_rotated()
        while data := self.read(_READ_BYTES):
            yield data
        if is_rotated:
            self.close()
            self._open()
            yield from self.follow()

    def _is_rotated(self) -> bool:
        """Return True where the path is a new file now."""
        try:
            now = self._path.lstat()
        except FileNotFoundError:
            return False
        return stat.S_ISREG(now.st_mode) and (self._file is None or os.fstat(self._file.fileno()).st_ino != now.st_ino)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
