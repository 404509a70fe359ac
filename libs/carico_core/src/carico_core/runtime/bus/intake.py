"""The short way of messages through nats-py: from its read buffer to a sink, without a task or a record each.

nats-py's way through `Parser.parse`, `_process_msg`, the headers, a queue and a task costs 12 us a message, a quarter
of what an aggregator has for one at 20,000 a second. Messages of subscriptions that have a sink are cut out of the
buffer in one loop; whatever else stands in it goes nats-py's own way.
"""

import re
from collections.abc import Callable
from typing import Any

from carico_core.runtime.process import memory_use

with memory_use.hidden_from_nats():
    from nats.protocol.parser import AWAITING_CONTROL_LINE
    from nats.protocol.parser import Parser as NatsParser

# Subject, reply and headers as they came (empty where there are none), payload. Called in the loop; must not raise.
Sink = Callable[[str, str, bytes, bytes], None]

# (H)MSG subject sid [reply] [header bytes] bytes.
_LINE = re.compile(rb"(?:HMSG (\S+) (\d+) (?:(\S+) )?(\d+) (\d+)|MSG (\S+) (\d+) (?:(\S+) )?(\d+))\r\n")
_STATUS = re.compile(rb"NATS/1\.0 (\d{3})(?: ([^\r]*))?\r\n")
_END_BYTES = 2


class Parser(NatsParser):
    """nats-py's parser, with a short way for the subscriptions named in `sinks` (by their number)."""

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self.sinks: dict[int, Sink] = {}

    async def parse(self, data: bytes = b"") -> None:
        """Hands on what is whole in the buffer."""
        if self.sinks and self.state == AWAITING_CONTROL_LINE:
            self.buf.extend(data)
            data = b""
            done, is_ours = self._cut()
            del self.buf[:done]
            if is_ours or not self.buf:
                return
        await super().parse(data)

    def _cut(self) -> tuple[int, bool]:
        """How many bytes are handed on, and whether what follows is a part of a message of ours that is to come."""
        text, position, available = bytes(self.buf), 0, len(self.buf)
        count = size_bytes = 0
        is_ours = False
        while (line := _LINE.match(text, position)) is not None:
            subject, sid, reply, header_bytes, total_bytes, *plain = line.groups()
            if subject is None:
                subject, sid, reply, total_bytes = plain
                header_bytes = b"0"
            sink = self.sinks.get(int(sid))
            if sink is None:
                break
            start = line.end()
            end = start + int(total_bytes)
            if end + _END_BYTES > available:
                is_ours = True
                break
            split = start + int(header_bytes)
            sink(text_of(subject), text_of(reply or b""), text[start:split], text[split:end])
            position = end + _END_BYTES
            count += 1
            size_bytes += end - split
        # nats-py's own way counts them one by one.
        self.nc.stats["in_msgs"] += count
        self.nc.stats["in_bytes"] += size_bytes
        return position, is_ours


def text_of(name: bytes) -> str:
    """A subject or a reply as text.

    The server takes any bytes for one. What is no UTF-8 matches no name of ours and is refused as such; raising here
    would end the reading of every subscription.
    """
    return name.decode(errors="replace")


def status_of(headers: bytes) -> tuple[str, str] | None:
    """Code and description of a status message of the server; None for any other.

    >>> status_of(b"NATS/1.0 408 Request Timeout\\r\\n\\r\\n")
    ('408', 'Request Timeout')
    """
    found = _STATUS.match(headers)
    return None if found is None else (found[1].decode(), (found[2] or b"").decode(errors="replace"))


def header_of(headers: bytes, name: str) -> str | None:
    """The value of one header; None where it is not there."""
    for line in headers.split(b"\r\n"):
        key, colon, value = line.partition(b":")
        if colon and key.strip().lower() == name.lower().encode():
            return value.strip().decode(errors="replace")
    return None
