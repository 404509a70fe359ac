"""What streams keep, for readers, who have no JetStream: aggregators answer, readers ask.

NATS answers direct gets into a queue without a limit, so that a reader who asks and does not read fills its memory. A
service drops the questions that it cannot keep up with, and its answers are bounded.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

import orjson

from carico_core.domain import errors
from carico_core.runtime.bus import port as buses
from carico_core.runtime.process import tasks
from carico_core.wire import codec, subjects

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

    async def latest_capacities(self) -> list[tuple[str, bytes]]: ...

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
        after = asked.text("after", maximum=_TEXT_MAX, free=True) if asked.has("after") else ""
        found = sorted(await turns.take(bus.latest_capacities))
        return _encode(_first(each for each in found if each[0] > after))

    async def decisions(question: bytes) -> bytes:
        asked = codec.parse_json(question or b"{}")
        namespace, pod = (
            asked.text(name, maximum=_TEXT_MAX, free=True) if asked.has(name) else None for name in ("namespace", "pod")
        )
        limit = asked.integer("limit", minimum=1, maximum=DECISIONS_MOST) if asked.has("limit") else DECISIONS_MOST
        found = await turns.take(lambda: bus.recent_decisions(namespace, pod, limit))
        return _encode(reversed(_first(reversed(found))))

    async def summaries(_: bytes) -> bytes:
        found = await turns.take(bus.recent_summaries)
        return _encode(reversed(_first((subjects.SUMMARY, payload) for payload in reversed(found))))

    return {
        "kept.model": model, "kept.capacities": capacities, "kept.decisions": decisions, "kept.summaries": summaries,
    }  # fmt: skip


async def ask_model(ask: Ask) -> bytes | None:
    """Return the model kept last, if any."""
    return await ask(MODEL, b"") or None


async def ask_capacities(ask: Ask) -> list[tuple[str, bytes]]:
    """(subject, payload) of each node's newest advertisement, by as many questions as needed."""
    found: list[tuple[str, bytes]] = []
    while True:
        page = _decode(await ask(CAPACITIES, orjson.dumps({"after": found[-1][0]} if found else {})))
        if not page or (found and page[0][0] <= found[-1][0]):
            return found
        found += page


async def ask_decisions(ask: Ask, namespace: str | None, pod: str | None, limit: int) -> list[tuple[str, bytes]]:
    """(subject, payload) as `Bus.recent_decisions`; of as many as an answer holds."""
    named = {name: value for name, value in (("namespace", namespace), ("pod", pod)) if value is not None}
    return _decode(await ask(DECISIONS, orjson.dumps({**named, "limit": min(limit, DECISIONS_MOST)})))


async def ask_summaries(ask: Ask) -> list[bytes]:
    """Return the newest summaries of the cluster, as many as an answer holds, oldest first."""
    return [payload for _, payload in _decode(await ask(SUMMARIES, b""))]


def _first(messages: Iterable[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """Return as many messages as an answer holds, and one at least."""
    taken: list[tuple[str, bytes]] = []
    size = 0
    for subject, payload in messages:
        size += len(subject) + len(payload)
        if taken and size > _ANSWER_BYTES:
            break
        taken.append((subject, payload))
    return taken


def _encode(messages: Iterable[tuple[str, bytes]]) -> bytes:
    # An agent may have stored any bytes; readers refuse what is not a message.
    return orjson.dumps({"kept": [[subject, payload.decode(errors="replace")] for subject, payload in messages]})


def _decode(answer: bytes) -> list[tuple[str, bytes]]:
    try:
        return [(str(subject), str(text).encode()) for subject, text in orjson.loads(answer)["kept"]]
    except (ValueError, KeyError, TypeError) as error:
        raise errors.BusError(f"what is kept cannot be read: {error!r}") from None
