"""Whether this scheduler leads: by an election, or because it is the only one."""

import asyncio
import contextlib
import dataclasses
import math
import socket
from collections.abc import Awaitable

from carico_core.runtime.kube import api_actions, cluster_access
from carico_core.runtime.process import clock as clocks
from carico_scheduler.leadership import candidate, elector, leases
from carico_scheduler.leadership import settings as setting

# Outside of a Pod; where kube-scheduler keeps its own.
NAMESPACE = "kube-system"


class Leadership:
    """The one place that says who leads."""

    def __init__(
        self, wanted: setting.LeaderSettings, *, boot: str, api: api_actions.Api, clock: clocks.Clock,
        duties: elector.Duties,
    ) -> None:  # fmt: skip
        """`boot` sets this start apart from earlier ones."""
        self._on_change = duties.on_change
        self._changed = asyncio.Event()
        duties = dataclasses.replace(duties, on_change=self._change)
        self._elector = elector_of(wanted, boot=boot, api=api, clock=clock, duties=duties) if wanted.election else None

    def leads(self) -> bool:
        """True while this one may bind, as at this very moment."""
        return self._elector is None or self._elector.is_leading

    def term(self) -> int | None:
        """Return the number of the term in which this one leads, None while it does not; 0 without an election."""
        return 0 if self._elector is None else self._elector.term

    def leader(self) -> str:
        """Who leads, in words."""
        if self._elector is None:
            return "this one, without election"
        return f"{self._elector.holder or 'nobody'}{' (this one)' if self._elector.is_leading else ''}"

    def trouble(self) -> str | None:
        """Why this one could not take over, were it asked to; None where it could, or leads."""
        return None if self._elector is None or self._elector.is_leading else self._elector.trouble

    @property
    def heard_s(self) -> float:
        """When the API last answered about the Lease, on the monotonic clock; -inf: never, or without an election."""
        return -math.inf if self._elector is None else self._elector.heard_s

    def works(self) -> dict[str, Awaitable[object]]:
        """What runs for as long as the service does."""
        if self._elector is None:
            self._change(True)
            return {}
        return {"campaign": self._elector.campaign_forever(), "office": self._elector.take_office_forever()}

    async def until(self, *, leads: bool) -> None:
        """Wait until this one leads, or does not."""
        while self.leads() is not leads:
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(elector.LOOK_EVERY_S):
                    await self._changed.wait()

    def stand_down(self) -> None:
        """Stop leading; no other scheduler can lead yet."""
        if self._elector is not None:
            self._elector.stand_down()

    async def give_up(self) -> None:
        """Give up the Lease, so that another may lead at once. No bind may be under way any more."""
        if self._elector is not None:
            await self._elector.release()

    def _change(self, leads: bool) -> None:
        self._changed.set()
        self._on_change(leads)


def elector_of(
    wanted: setting.LeaderSettings, *, boot: str, api: api_actions.Api, clock: clocks.Clock, duties: elector.Duties
) -> elector.Elector:
    """An elector that runs for the Lease of these settings."""
    namespace = wanted.namespace or cluster_access.own_namespace() or NAMESPACE
    # As client-go's users name themselves. A fixed name would let a restart go on with the term of a process that may
    # still run; waiting out its Lease is the price.
    identity = wanted.identity or f"{socket.gethostname()}_{boot}"
    # Two tries within a term, as kube-scheduler has it.
    where = leases.ApiLeases(api, namespace=namespace, name=wanted.name, timeout_s=wanted.renew_s / 2.0)
    running = candidate.Candidate(identity=identity, namespace=namespace, name=wanted.name, terms=wanted.terms)
    return elector.Elector(running, where, clock=clock, duties=duties)
