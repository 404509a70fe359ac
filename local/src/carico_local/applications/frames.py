"""A message between Pods: a JSON object, and a body that is only as long as real data would be.

On the wire: two big-endian 32-bit lengths, the object, the body.
"""

import asyncio
import dataclasses
import struct
from collections.abc import Mapping
from typing import Any

import orjson

_LENGTHS = struct.Struct("!II")
MOST_BYTES = 64 * 2**20


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A request or an answer."""

    head: Mapping[str, Any]
    body: bytes = b""


def encode(message: Message) -> bytes:
    """Return the bytes of a message."""
    head = orjson.dumps(message.head)
    return _LENGTHS.pack(len(head), len(message.body)) + head + message.body


async def read(reader: asyncio.StreamReader) -> Message | None:
    """Return the next message; None at the end. Raises `ConnectionError` for what is no message."""
    try:
        head_bytes, body_bytes = _LENGTHS.unpack(await reader.readexactly(_LENGTHS.size))
        if head_bytes + body_bytes > MOST_BYTES:
            raise ConnectionError(f"got a message of {head_bytes + body_bytes} bytes, expected at most {MOST_BYTES}")
        head = orjson.loads(await reader.readexactly(head_bytes))
        if not isinstance(head, dict):
            raise ConnectionError(f"got no JSON object: {str(head)[:80]}")
        return Message(head=head, body=await reader.readexactly(body_bytes))
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise ConnectionError("the connection ended within a message") from None
        return None
    except orjson.JSONDecodeError as error:
        raise ConnectionError(f"got no JSON object: {error}") from None


def size(message: Message) -> int:
    """Return about how many bytes a message is on the wire: its body, and a small object."""
    return len(message.body) + _LENGTHS.size + len(orjson.dumps(message.head))
