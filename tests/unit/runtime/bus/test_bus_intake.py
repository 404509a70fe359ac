"""What comes for a sink is cut out of the stream wherever the network divides it; the rest goes nats-py's way."""

import asyncio

import pytest

from carico_core.runtime.bus import intake

HEADERS = b"NATS/1.0\r\nNats-Msg-Id: a-1\r\n\r\n"
STATUS = b"NATS/1.0 409 Consumer Deleted\r\nNats-Pending-Messages: 7\r\n\r\n"
OURS = [
    ("carico.v1.subspace.a", "$JS.ACK.1", HEADERS, b"one\r\nPING\r\n"),
    ("carico.v1.subspace.b", "$JS.ACK.2", b"", b""),
    ("_INBOX.x", "r", STATUS, b""),
    ("carico.v1.subspace.c", "$JS.ACK.3", HEADERS, b"\x00" * 70),
    # What is published and not asked for has no reply.
    ("carico.v1.capacity.a", "", b"", b"12"),
    ("carico.v1.capacity.b", "", HEADERS, b"34"),
]


class Client:
    """Notes what nats-py's parser hands on."""

    def __init__(self, sinks: dict[int, intake.Sink]) -> None:
        self.sinks = sinks
        self.pings = 0
        self.others: list[bytes] = []
        self.stats = {"in_msgs": 0, "in_bytes": 0}

    async def _process_ping(self) -> None:
        self.pings += 1

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes | None) -> None:
        self.stats["in_msgs"] += 1
        self.stats["in_bytes"] += len(data)
        if sid in self.sinks:
            self.sinks[sid](subject.decode(), reply.decode(), headers or b"", data)
        else:
            self.others.append(data)


def stream() -> bytes:
    """Messages of ours between a message of somebody else and PINGs."""
    one, two, three, four, *rest = (line(*message) for message in OURS)
    return one + b"PING\r\n" + two + three + b"MSG other 9 5\r\nhello\r\n" + four + b"PING\r\n" + b"".join(rest)


def line(subject: str, reply: str, headers: bytes, payload: bytes) -> bytes:
    total = len(headers) + len(payload)
    to = f"{subject} 4 {reply}" if reply else f"{subject} 4"
    start = f"HMSG {to} {len(headers)} {total}" if headers else f"MSG {to} {total}"
    return start.encode() + b"\r\n" + headers + payload + b"\r\n"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 31, 64, 1000])
def test_everything_comes_once_and_in_order_wherever_it_is_divided(size: int) -> None:
    found: list[tuple[str, str, bytes, bytes]] = []
    sinks: dict[int, intake.Sink] = {4: lambda *message: found.append(message)}
    client = Client(sinks)
    parser = intake.Parser(client)
    parser.sinks = sinks
    text = stream() * 3

    async def feed() -> None:
        for start in range(0, len(text), size):
            await parser.parse(text[start : start + size])

    asyncio.run(feed())
    assert found == OURS * 3
    assert (client.pings, client.others) == (6, [b"hello"] * 3)
    sizes = [len(payload) for *_, payload in OURS]
    assert client.stats == {"in_msgs": 3 * (len(OURS) + 1), "in_bytes": 3 * (sum(sizes) + len(b"hello"))}


def test_a_status_is_told_from_a_message() -> None:
    assert intake.status_of(STATUS) == ("409", "Consumer Deleted")
    assert intake.status_of(HEADERS) is None
    assert intake.header_of(STATUS, "Nats-Pending-Messages") == "7"
    assert intake.header_of(HEADERS, "Nats-Pending-Messages") is None
