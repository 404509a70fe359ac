"""Schedulers that share the work, by the heartbeats that each of them sends."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from carico_core.domain import errors, messages
from carico_core.runtime.bus import port as buses
from carico_core.wire import messages as wire
from carico_core.wire import subjects

# A member sends a heartbeat every .4 s.
LISTEN_S = 1.0
# One that is silent for so long is no longer shown; the others have taken its share before.
GONE_S = 3.0


class Bus(Protocol):
    """The bus."""

    async def subscribe(self, subject: str, handler: buses.Handler) -> buses.Subscription:
        """Call `handler` with every message of `subject`."""
        ...


class Members:
    """The newest heartbeat of each member that is alive."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        """`now_s`: the monotonic clock."""
        self._now_s = now_s
        self._newest: dict[str, tuple[float, messages.Heartbeat]] = {}

    def take(self, subject: str, payload: bytes) -> None:
        """Take in a heartbeat; what cannot be read is ignored, as members do."""
        try:
            found = wire.decode_heartbeat(payload, subject=subject)
        except errors.MessageError:
            return
        self._newest[found.replica] = (self._now_s(), found)

    def all(self) -> list[messages.Heartbeat]:
        """Return the newest heartbeat of each member, by name."""
        oldest_s = self._now_s() - GONE_S
        self._newest = {name: self._newest[name] for name in sorted(self._newest) if self._newest[name][0] > oldest_s}
        return [found for _, found in self._newest.values()]


async def listen(bus: Bus) -> list[messages.Heartbeat]:
    """Return the newest heartbeat of each member that sends one within a second; none where one scheduler leads.

    Raises `BusError`.
    """
    found = Members(asyncio.get_running_loop().time)
    subscription = await bus.subscribe(subjects.MEMBER_ALL, found.take)
    try:
        await asyncio.sleep(LISTEN_S)
    finally:
        await subscription.unsubscribe()
    return found.all()


def rows(found: Sequence[messages.Heartbeat]) -> list[dict[str, Any]]:
    """Return a row for each member, for tables and JSON. `share`: of the Pods; None: it does not report of itself."""
    taking = sum(not each.is_leaving for each in found)
    return [_row(each, 0.0 if each.is_leaving else 1.0 / taking) for each in found]


def _row(found: messages.Heartbeat, share: float) -> dict[str, Any]:
    report, passed = found.report, found.corrections
    return {
        "name": found.replica,
        "identity": found.identity,
        "share": share,
        "lease": None if report is None else report.has_lease,
        "committed": None if report is None else report.stored,
        "last_minute": None if report is None else report.recent,
        "conflicts": None if report is None else report.conflicts,
        "requeued": None if report is None else report.requeued,
        "view_age_s": None if report is None or report.view_age_s is None else round(report.view_age_s, 1),
        "to_correct": None if passed is None else len(passed.handed),
        "held": None if passed is None else len(passed.held),
        "why_not": None if report is None else report.why_not or None,
    }
