"""What a member needs of the rest of its scheduler, of the bus and of the Lease."""

import dataclasses
from collections.abc import Callable
from typing import Protocol

from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import api_actions
from carico_core.runtime.process import clock as clocks
from carico_scheduler.report import instruments
from carico_scheduler.state import state as states


class Bus(Protocol):
    """The part of the bus that a member uses."""

    @property
    def connected(self) -> bool:
        """True while the client is connected to NATS."""

    @property
    def claims(self) -> buses.Claims:
        """The stream of claims."""

    async def publish(self, subject: str, payload: bytes) -> None:
        """Send to current subscribers."""

    async def subscribe(self, subject: str, handler: Callable[[str, bytes], None]) -> object:
        """Call `handler` with every message of `subject`."""

    def on_reconnect(self, callback: Callable[[], None]) -> None:
        """Call `callback` each time the bus is back."""


class Lease(Protocol):
    """What a member needs of the Lease."""

    @property
    def identity(self) -> str:
        """This scheduler's name in it."""

    @property
    def holder(self) -> str:
        """Who holds it; empty if none does."""

    @property
    def heard_s(self) -> float:
        """When it was last read or written, on the monotonic clock; -inf if never."""

    def term(self) -> int | None:
        """Return the term in which this scheduler holds it; None while it does not."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MemberParts:
    """The parts of a member.

    `bind_within_s`: how long after its claim a bind may be sent; it then times out after as long. `lease_s`: how long a
    Lease lasts; `lease_read_s`: how old it may be as last read. `why_not_fit`: why this scheduler could not decide, or
    None. `view_age_s`: the age of its view of the API, or None before its first lists. `wake`: tries every waiting Pod
    again; `on_idle`: only those that can go. `takes_share`: False if it binds for kube-scheduler alone.
    """

    replica: str
    boot: str
    state: states.State
    api: api_actions.Api
    clock: clocks.Clock
    lease: Lease
    metrics: instruments.Instruments
    bind_within_s: float
    lease_s: float
    lease_read_s: float
    why_not_fit: Callable[[], str | None]
    view_age_s: Callable[[], float | None]
    wake: Callable[[], None]
    on_idle: Callable[[], None]
    new_epoch: Callable[[], str]
    takes_share: bool = True
