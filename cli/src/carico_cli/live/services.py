"""Statistics of services, from NATS's services framework; whether the rescheduler is paused."""

from collections.abc import Mapping
from typing import Protocol

from carico_cli.live import picture as pictures
from carico_core.domain import errors
from carico_core.wire import codec, fields, subjects

SCHEDULER = "carico-scheduler"
# Services with few instances. A thousand agents are not asked one by one: their advertisements show that they run.
ASKED = (SCHEDULER, "carico-aggregator")
_TEXT_MAX = 4096
_ENDPOINTS_MAX = 64
# Counts of answers, and their time in ns, since the service's start.
_COUNT_MAX = fields.INT64_MAX
# The largest message of the bus (max_payload).
_MOVES_MAX_BYTES = 2 * 1024 * 1024


class Bus(Protocol):
    """The bus."""

    async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes: ...


async def moves_paused(bus: Bus, *, timeout_s: float) -> str | None:
    """Return `paused since TIME` of the rescheduler's moves, empty if they are not; None where no rescheduler answers.

    A pause outlives every restart.
    """
    try:
        answer = await bus.request(subjects.query("rescheduler", "moves.list"), b"", timeout_s=timeout_s)
        said = codec.parse_json(answer, maximum_bytes=_MOVES_MAX_BYTES)
        return said.text("paused", maximum=fields.NAME_MAX, free=True)
    except (errors.BusError, errors.MessageError):
        return None


def parse(answered_s: float, payload: bytes) -> pictures.Service:
    """Return one instance's statistics. Raises `MessageError` where they are not as nats.micro writes them."""
    message = codec.parse_json(payload)
    endpoints = message.objects("endpoints", count=_ENDPOINTS_MAX)
    requests = sum(each.integer("num_requests", maximum=_COUNT_MAX) for each in endpoints)
    took_ns = sum(
        each.integer("processing_time", maximum=_COUNT_MAX) for each in endpoints if each.has("processing_time")
    )
    said = [_optional_text(each, "last_error") for each in endpoints]
    return pictures.Service(
        name=message.text("name", maximum=_TEXT_MAX),
        instance=message.text("id", maximum=_TEXT_MAX),
        version=_optional_text(message, "version"),
        answered_s=answered_s,
        requests=requests,
        errors=sum(each.integer("num_errors", maximum=_COUNT_MAX) for each in endpoints),
        last_error=next((text for text in said if text), ""),
        processing_s=took_ns / requests / 1e9 if requests else None,
    )


def parse_all(answers: Mapping[str, list[tuple[float, bytes]]]) -> list[pictures.Service]:
    """Return the statistics of each instance by the name that was asked for, ordered by name and instance.

    What cannot be decoded is left out, and so is a service that answers under another's name.
    """
    found = []
    for name, each in answers.items():
        for answered_s, payload in each:
            try:
                service = parse(answered_s, payload)
            except errors.MessageError:
                continue  # another program's service of this name
            if service.name == name:
                found.append(service)
    return sorted(found, key=lambda each: (each.name, each.instance))


def _optional_text(message: fields.Fields, name: str) -> str:
    return message.text(name, maximum=_TEXT_MAX, free=True) if message.has(name) and message.raw[name] else ""
