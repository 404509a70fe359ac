"""One HTTP/1.1 answer out of the bytes of a connection (RFC 9112)."""

import dataclasses
import re

HEAD_LIMIT_BYTES = 64 * 1024
_STATUS = re.compile(rb"HTTP/1\.([01]) (\d{3})[ \r]")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)[ \t]*\r\n", re.IGNORECASE)
_ENCODING = re.compile(rb"\r\ntransfer-encoding:[ \t]*([^\r]*?)[ \t]*\r\n", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection:[ \t]*close[ \t]*\r\n", re.IGNORECASE)
_SIZE = re.compile(rb"[0-9a-fA-F]{1,16}(?=[ \t;]|$)")
_END = b"\r\n"


class BadAnswer(OSError):
    """What came is no HTTP/1.1 answer."""


class TooLong(OSError):
    """An answer longer than allowed."""


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """Status and whole body."""

    status: int
    body: bytes


class Reader:
    """One answer out of the bytes that arrive: `feed` until it gives one."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._buffer = bytearray()
        self._chunks: list[bytes] = []
        self._got_bytes = 0
        self._status = 0
        # Bytes of a body whose length was told; None: chunked, or it lasts until the connection ends.
        self._length: int | None = None
        self._is_chunked = False
        self._in_trailer = False
        self.keeps = True

    @property
    def is_untouched(self) -> bool:
        """True where nothing has come yet."""
        return not self._status and not self._buffer

    def feed(self, data: bytes) -> Answer | None:
        """The answer, once it is whole. Raises `BadAnswer` and `TooLong`."""
        self._buffer += data
        while not self._status:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buffer) > HEAD_LIMIT_BYTES:
                    raise BadAnswer("the head of the answer does not end")
                return None
            self._read_head(bytes(self._buffer[: end + 2]))
            del self._buffer[: end + 4]
        answer = self._read_chunks() if self._is_chunked else self._read_plain()
        if answer is not None and self._buffer:
            # More than was announced: nobody knows what it belongs to.
            self.keeps = False
        return answer

    def end(self) -> Answer | None:
        """The answer, where the end of the connection is its end."""
        if not self._status or self._is_chunked or self._length is not None:
            return None
        return self._whole()

    def _read_head(self, head: bytes) -> None:
        found = _STATUS.match(head)
        if found is None:
            raise BadAnswer(f"no HTTP/1.1 answer: {head[:40]!r}")
        status = int(found[2])
        if status < 200:
            # 100 Continue and its like announce the answer.
            return
        self._status = status
        self.keeps = found[1] == b"1" and _CLOSE.search(head) is None
        length, encoding = _LENGTH.search(head), _ENCODING.search(head)
        if status in (204, 304):
            self._length = 0
        elif encoding is not None:
            if encoding[1].lower() != b"chunked":
                raise BadAnswer(f"got transfer encoding {encoding[1][:40]!r}, which nobody asked for")
            self._is_chunked = True
        elif length is not None:
            self._length = int(length[1])
            self._check(self._length)
        else:
            self.keeps = False

    def _read_plain(self) -> Answer | None:
        if self._length is None:
            self._take(bytes(self._buffer))
            self._buffer.clear()
            return None
        if len(self._buffer) < self._length:
            return None
        self._take(bytes(self._buffer[: self._length]))
        del self._buffer[: self._length]
        return self._whole()

    def _read_chunks(self) -> Answer | None:
        """RFC 9112, 7.1: size in hex, the bytes, and so on until a size of 0; then lines until an empty one."""
        position, answer = 0, None
        while (end := self._buffer.find(_END, position)) >= 0:
            if self._in_trailer:
                if end == position:
                    answer = self._whole()
                    position = end + 2
                    break
                position = end + 2
                continue
            size = _chunk_size(bytes(self._buffer[position:end]))
            if size == 0:
                self._in_trailer = True
                position = end + 2
                continue
            self._check(self._got_bytes + size)
            if len(self._buffer) < end + 2 + size + 2:
                break
            self._take(bytes(self._buffer[end + 2 : end + 2 + size]))
            position = end + 2 + size + 2
        del self._buffer[:position]
        return answer

    def _take(self, part: bytes) -> None:
        self._got_bytes += len(part)
        self._check(self._got_bytes)
        self._chunks.append(part)

    def _check(self, total_bytes: int) -> None:
        if total_bytes > self._limit_bytes:
            raise TooLong(f"the answer is longer than {self._limit_bytes} bytes")

    def _whole(self) -> Answer:
        return Answer(self._status, self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks))


def _chunk_size(line: bytes) -> int:
    found = _SIZE.match(line)
    if found is None:
        raise BadAnswer(f"no size of a chunk: {line[:40]!r}")
    return int(found[0], 16)
