"""Schedulers that share the work, by the heartbeats that each of them sends."""

import asyncio
from typing import Any, Protocol

from carico_core.domain import errors, messages
from carico_core.runtime.bus import port as buses
from carico_core.wire import messages as wire
from carico_core.wire import subjects

# A member sends a heartbeat every .4 s.
LISTEN_S = 1.0


class Bus(Protocol):
    """The bus."""

    async def subscribe(self, subject: str, handler: buses.Handler) -> buses.Subscription:
        """Call `handler` with every message of `subject`."""
        ...


class Members:
    """The newest heartbeat of each member."""

    def __init__(self) -> None:
        self._newest: dict[str, messages.Heartbeat] = {}

    def take(self, subject: str, payload: bytes) -> None:
        """Take in a heartbeat; what cannot be read is ignored, as members do."""
        try:
            found = wire.decode_heartbeat(payload, subject=subject)
        except errors.MessageError:
            return
        self._newest[found.replica] = found

    def all(self) -> list[messages.Heartbeat]:
        """Return the newest heartbeat of each member, by name."""
        return [self._newest[name] for name in sorted(self._newest)]


async def listen(bus: Bus) -> list[messages.Heartbeat]:
    """Return the newest heartbeat of each member that sends one within a second; none where one scheduler leads.

    Raises `BusError`.
    """
    found = Members()
    subscription = await bus.subscribe(subjects.MEMBER_ALL, found.take)
    try:
        await asyncio.sleep(LISTEN_S)
    finally:
        await subscription.unsubscribe()
    return found.all()


def rows(found: list[messages.Heartbeat]) -> list[dict[str, Any]]:
    """Return a row for each member, for tables and JSON. `share`: of the Pods; None: it does not report of itself."""
    taking = sum(not each.is_leaving for each in found)
    return [_row(each, 0.0 if each.is_leaving else 1.0 / taking) for each in found]


def _row(found: messages.Heartbeat, share: float) -> dict[str, Any]:
    report = found.report
    return {
        "name": found.replica,
        "identity": found.identity,
        "share": share,
        "lease": None if report is None else report.has_lease,
        "committed": None if report is None else report.stored,
        "last_minute": None if report is None else report.recent,
        "conflicts": None if report is None else report.conflicts,
        "requeued": None if report is None else report.requeued,
        "view_age_s": None if report is None else report.view_age_s,
        "why_not": None if report is None else report.why_not or None,
    }
