"""HTTP/1.1 answers from the bytes of a connection, parsed by llhttp, the parser of Node.js."""

import dataclasses

import httptools

HEAD_LIMIT_BYTES = 64 * 1024


class BadAnswer(OSError):
    """The bytes are not an HTTP/1.1 answer."""


class TooLong(OSError):
    """The answer is longer than allowed."""


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """Status and whole body."""

    status: int
    body: bytes


class Reader:
    """The answers of one connection, one at a time: `feed` until it returns one. Unusable after an exception."""

    def __init__(self, limit_bytes: int) -> None:
        """`limit_bytes`: maximum size of a body."""
        self._limit_bytes = limit_bytes
        self._parser = httptools.HttpResponseParser(self)
        self.keeps = True
        self._start_over()

    def _start_over(self) -> None:
        self._answer: Answer | None = None
        self._chunks: list[bytes] = []
        self._got_bytes = self._head_bytes = 0
        self._is_in_head = self._lasts_to_the_end = True

    @property
    def is_untouched(self) -> bool:
        """Whether nothing of the answer has arrived yet."""
        return not self._head_bytes

    def feed(self, data: bytes) -> Answer | None:
        """Return the answer once it is complete; then `keeps` shows whether another one may follow.

        Raises `BadAnswer` and `TooLong`.
        """
        if self._is_in_head:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.keeps = False
            if self._answer is None:
                raise _refusal(error) from error
        if self._is_in_head and self._head_bytes > HEAD_LIMIT_BYTES:
            raise BadAnswer("the head of the answer does not end")
        answer = self._answer
        if answer is not None:
            self._start_over()
        return answer

    def end(self) -> Answer | None:
        """Return the answer if the end of the connection ends it."""
        self.keeps = False
        if self._is_in_head or not self._lasts_to_the_end:
            return None
        return Answer(self._parser.get_status_code(), b"".join(self._chunks))

    # What follows is called by the parser.

    def on_message_begin(self) -> None:
        """Give up a connection with more bytes than the answer announced: they belong to no request."""
        if self._answer is not None:
            self.keeps = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note the length of the body. The parser has already validated the headers."""
        match name.lower():
            case b"content-length":
                self._lasts_to_the_end = False
                self._check(int(value))
            case b"transfer-encoding":
                self._lasts_to_the_end = False
                if value.strip().lower() != b"chunked":
                    raise BadAnswer(f"got transfer encoding {value[:40]!r}, which was not requested")

    def on_headers_complete(self) -> None:
        """Note that the body follows."""
        self._is_in_head = False

    def on_body(self, part: bytes) -> None:
        """Add a part of the body."""
        self._got_bytes += len(part)
        self._check(self._got_bytes)
        self._chunks.append(part)

    def on_message_complete(self) -> None:
        """Make the answer; a 1xx status, such as 100 Continue, only announces it."""
        status = self._parser.get_status_code()
        if status < 200:
            self._is_in_head = True
        elif self._answer is None:
            self._answer = Answer(status, b"".join(self._chunks))
            self.keeps = self._parser.should_keep_alive()

    def _check(self, total_bytes: int) -> None:
        if total_bytes > self._limit_bytes:
            raise TooLong(f"the answer is longer than {self._limit_bytes} bytes")


def _refusal(error: Exception) -> OSError:
    """Return why the parser gave up: an exception in a callback, or its own error."""
    cause = error.__context__
    return cause if isinstance(cause, OSError) else BadAnswer(f"not an HTTP/1.1 answer: {error}")
