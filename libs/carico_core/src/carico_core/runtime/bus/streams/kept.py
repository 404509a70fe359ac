"""What streams keep, for readers, who have no JetStream: aggregators answer, readers ask.

NATS answers direct gets into a queue without a limit, so that a reader who asks and does not read fills its memory. A
service drops the questions that it cannot keep up with, and its answers are bounded.
"""

import math
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol

import orjson

from carico_core.domain import errors
from carico_core.runtime.bus import port as buses
from carico_core.runtime.process import tasks
from carico_core.wire import codec, fields, subjects

MODEL = subjects.query("aggregator", "kept.model")
CAPACITIES = subjects.query("aggregator", "kept.capacities")
DECISIONS = subjects.query("aggregator", "kept.decisions")
SUMMARIES = subjects.query("aggregator", "kept.summaries")
ANSWER_S = 5.0
DECISIONS_MOST = 200
# Of the messages in an answer; their form as JSON adds to it.
_ANSWER_BYTES = 512 << 10
_TEXT_MAX = 512
# As a multiple of the time that a read took: questions take half of a process at most.
REST = 1.0

Ask = Callable[[str, bytes], Awaitable[bytes]]


class Streams(Protocol):
    """What answering needs of the bus."""

    async def capacities_page(self, first_seq: int, most_bytes: int) -> buses.StoredPage: ...

    async def recent_decisions(self, namespace: str | None, pod: str | None, limit: int) -> list[tuple[str, bytes]]: ...

    async def get_model(self) -> bytes | None: ...

    async def recent_summaries(self) -> list[bytes]: ...


def endpoints(bus: Streams) -> dict[str, buses.Endpoint]:
    """Return the queries by verb, for the aggregator's service."""
    turns = tasks.OneAtATime(rest=REST)

    async def model(_: bytes) -> bytes:
        return await turns.take(bus.get_model) or b""

    async def capacities(question: bytes) -> bytes:
        asked = codec.parse_json(question or b"{}")
        first_seq = asked.integer("from", minimum=1, maximum=fields.INT64_MAX) if asked.has("from") else 1
        page = await turns.take(lambda: bus.capacities_page(first_seq, _ANSWER_BYTES))
        return _encode(page.messages, following=page.following_seq, left=page.left)

    async def decisions(question: bytes) -> bytes:
        asked = codec.parse_json(question or b"{}")
        namespace, pod = (
            asked.text(name, maximum=_TEXT_MAX, free=True) if asked.has(name) else None for name in ("namespace", "pod")
        )
        limit = asked.integer("limit", minimum=1, maximum=DECISIONS_MOST) if asked.has("limit") else DECISIONS_MOST
        found = await turns.take(lambda: bus.recent_decisions(namespace, pod, limit))
        return _encode(reversed(that_fit(reversed(found))))

    async def summaries(_: bytes) -> bytes:
        found = await turns.take(bus.recent_summaries)
        return _encode(reversed(that_fit((subjects.SUMMARY, payload) for payload in reversed(found))))

    return {
        "kept.model": model, "kept.capacities": capacities, "kept.decisions": decisions, "kept.summaries": summaries,
    }  # fmt: skip


async def ask_model(ask: Ask) -> bytes | None:
    """Return the model kept last, if any."""
    return await ask(MODEL, b"") or None


async def ask_capacities(ask: Ask) -> list[tuple[str, bytes]]:
    """(subject, payload) of each node's newest advertisement, by as many questions as needed.

    It ends with as many nodes as there were at first. Those that advertise meanwhile come again at the end, without end
    where they advertise faster than they are read: it ends after twice as many messages, too.
    """
    found: dict[str, bytes] = {}
    question: dict[str, int] = {}
    nodes, read, left = math.inf, 0, 1
    while left > 0 and len(found) < nodes and read < 2 * nodes:
        answer = _parse(await ask(CAPACITIES, orjson.dumps(question)))
        page = _messages(answer)
        if not page:
            break
        found |= dict(page)
        try:
            left, question = int(answer["left"]), {"from": int(answer["following"])}
        except (KeyError, TypeError, ValueError) as error:
            raise _unreadable(error) from None
        read += len(page)
        nodes = min(nodes, read + left)
    return list(found.items())


async def ask_decisions(ask: Ask, namespace: str | None, pod: str | None, limit: int) -> list[tuple[str, bytes]]:
    """(subject, payload) as `Bus.recent_decisions`; of as many as an answer holds."""
    named = {name: value for name, value in (("namespace", namespace), ("pod", pod)) if value is not None}
    return _decode(await ask(DECISIONS, orjson.dumps({**named, "limit": min(limit, DECISIONS_MOST)})))


async def ask_summaries(ask: Ask) -> list[bytes]:
    """Return the newest summaries of the cluster, as many as an answer holds, oldest first."""
    return [payload for _, payload in _decode(await ask(SUMMARIES, b""))]


def that_fit(messages: Iterable[tuple[str, bytes]], most_bytes: int = _ANSWER_BYTES) -> list[tuple[str, bytes]]:
    """Return as many messages as an answer holds, and one at least."""
    taken: list[tuple[str, bytes]] = []
    size = 0
    for subject, payload in messages:
        size += len(subject) + len(payload)
        if taken and size > most_bytes:
            break
        taken.append((subject, payload))
    return taken


def _encode(messages: Iterable[tuple[str, bytes]], **more: int) -> bytes:
    # An agent may have stored any bytes; readers refuse what is not a message.
    kept = [[subject, payload.decode(errors="replace")] for subject, payload in messages]
    return orjson.dumps({"kept": kept, **more})


def _decode(answer: bytes) -> list[tuple[str, bytes]]:
    return _messages(_parse(answer))


def _parse(answer: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(answer)
    except ValueError as error:
        raise _unreadable(error) from None
    return found if isinstance(found, dict) else {}


def _messages(answer: dict[str, Any]) -> list[tuple[str, bytes]]:
    try:
        return [(str(subject), str(text).encode()) for subject, text in answer["kept"]]
    except (ValueError, KeyError, TypeError) as error:
        raise _unreadable(error) from None


def _unreadable(error: Exception) -> errors.BusError:
    return errors.BusError(f"what is kept cannot be read: {error!r}")
