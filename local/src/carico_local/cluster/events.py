"""The events that a supervisor reports to the command that started it, one JSON line each."""

import dataclasses
import enum
from collections.abc import Callable

import orjson

from carico_local.cluster import state


class Kind(enum.StrEnum):
    """What happened."""

    STARTED = "started"
    READY = "ready"
    NOTE = "note"
    CRASHED = "crashed"
    RESTARTED = "restarted"
    # All is ready: the last event of a successful start.
    UP = "up"
    # The start was given up; `text` is the reason.
    FAILED = "failed"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event. `service` is empty for an event of the whole cluster."""

    kind: Kind
    service: str = ""
    text: str = ""
    after_s: float = 0.0
    crash: state.Crash | None = None


Report = Callable[[Event], None]


def encode(event: Event) -> bytes:
    """Return one line of JSON."""
    return orjson.dumps(event) + b"\n"


def decode(line: bytes) -> Event:
    """Return the event of a line that `encode` made. Raises `ValueError` for any other line."""
    try:
        fields = orjson.loads(line)
        crash = fields.get("crash")
        if crash is not None:
            crash = state.Crash(**{**crash, "last_lines": tuple(crash["last_lines"])})
        return Event(**{**fields, "kind": Kind(fields["kind"]), "crash": crash})
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"got {line[:80]!r}, expected an event ({error!r})") from error
