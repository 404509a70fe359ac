"""One HTTP/1.1 request and its response; pure but for reading from the stream.

As small as `carico_core.runtime.observe.health`, for the same reason, and with bodies and headers, which a page needs.
"""

import asyncio
import dataclasses
from collections.abc import Mapping

HEAD_LIMIT_BYTES = 16_384
BODY_LIMIT_BYTES = 1024

_REASONS = {
    200: "OK", 304: "Not Modified", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
    413: "Content Too Large", 415: "Unsupported Media Type", 421: "Misdirected Request", 503: "Service Unavailable",
}  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What was asked. `path` without query; names of headers in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What is answered."""

    status: int
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)


class BadRequest(Exception):
    """What came is no request; `status` answers it."""

    def __init__(self, status: int, why: str) -> None:
        self.status = status
        super().__init__(why)


async def read(reader: asyncio.StreamReader) -> Request:
    """The request that a connection brings. Raises `BadRequest`, and what a broken connection raises."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise BadRequest(413, f"expected a head of at most {HEAD_LIMIT_BYTES} bytes") from None
    request = parse_head(head)
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or "transfer-encoding" in request.headers:
        raise BadRequest(400, "expected Content-Length")
    if int(length) > BODY_LIMIT_BYTES:
        raise BadRequest(413, f"expected a body of at most {BODY_LIMIT_BYTES} bytes")
    return dataclasses.replace(request, body=await reader.readexactly(int(length)))


def parse_head(head: bytes) -> Request:
    """The request without its body. Raises `BadRequest`.

    >>> parse_head(b"GET /a?b HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n").path
    '/a'
    """
    first, *rest = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise BadRequest(400, "expected an HTTP/1.1 request")
    headers: dict[str, str] = {}
    for line in rest:
        name, separator, value = line.partition(":")
        if not separator or not name or name != name.strip():
            raise BadRequest(400, "expected headers of the form Name: value")
        headers[name.lower()] = value.strip()
    return Request(method=words[0], path=words[1].partition("?")[0], headers=headers)


def format_response(response: Response, *, with_body: bool = True) -> bytes:
    """The bytes of a response; the connection ends after it."""
    lines = [
        f"HTTP/1.1 {response.status} {_REASONS[response.status]}",
        f"Content-Type: {response.content_type}",
        f"Content-Length: {len(response.body)}",
        "Connection: close",
        *(f"{name}: {value}" for name, value in response.headers.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + (response.body if with_body else b"")
