"""Checks how near the bus is to its limits: the streams' and those of its disk and memory.

https://docs.nats.io/reference/reference-protocols/nats_api_reference
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import orjson

from carico_cli.doctor import findings, places
from carico_core.domain import errors
from carico_core.wire import streams

NEAR = 0.8
ANSWER_MOST_S = 2.0
_INFO = "$JS.API.INFO"
_STREAM = "$JS.API.STREAM.INFO."
# Their oldest messages give way as intended: a full stream loses nothing that is needed.
_FULL_AS_INTENDED = frozenset({streams.DECISIONS, streams.HISTORY})


class Bus(Protocol):
    """The bus."""

    async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes:
        """Return the answer."""
        ...


async def check(bus: Bus, place: places.Place) -> list[findings.Finding]:
    """Return what is near its limit; nothing for a role that may not look, as `reader`."""
    server = await _ask(bus, _INFO)
    if server is None:
        return []
    near = list(_of_server(server))
    for name in streams.ALL:
        if name not in _FULL_AS_INTENDED:
            near += _of_stream(name, await _ask(bus, _STREAM + name) or {})
    if not near:
        return [findings.ok("limits", f"what NATS keeps is below {NEAR:.0%} of its limits")]
    do = f"beyond it NATS refuses or drops messages: {place.log('nats')}; raise the limit of JetStream, or remove nodes"
    return [findings.warn("limits", ", ".join(near), do)]


async def _ask(bus: Bus, subject: str) -> Mapping[str, Any] | None:
    with contextlib.suppress(errors.BusError, orjson.JSONDecodeError):
        answer = orjson.loads(await bus.request(subject, b"", timeout_s=ANSWER_MOST_S))
        if isinstance(answer, dict) and "error" not in answer:
            return answer
    return None


def _of_server(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield what JetStream uses of the account's limits; -1: there is none."""
    limits = found.get("limits") or {}
    for used, most, what in (("storage", "max_storage", "disk"), ("memory", "max_memory", "memory")):
        yield from _near(f"JetStream's {what}", found.get(used), limits.get(most))
    yield from _near("JetStream's streams", found.get("streams"), limits.get("max_streams"))


def _of_stream(name: str, found: Mapping[str, Any]) -> Iterator[str]:
    yield from _near(name, (found.get("state") or {}).get("bytes"), (found.get("config") or {}).get("max_bytes"))


def _near(what: str, used: object, most: object) -> Iterator[str]:
    if isinstance(used, int) and isinstance(most, int) and most > 0 and used >= NEAR * most:
        yield f"{what} at {used / most:.0%} of its limit"
