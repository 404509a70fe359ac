"""Whether this replica leads: by election, or because it is the only one."""

import asyncio
import contextlib
import dataclasses
import math
import socket
from collections.abc import Awaitable

from carico_core.domain import names
from carico_core.runtime.kube import api_actions, cluster_access
from carico_core.runtime.leadership import candidate, elector, leader_settings
from carico_core.runtime.process import clock as clocks

# Outside a Pod: where kube-scheduler keeps its own Lease.
NAMESPACE = "kube-system"


class Leadership:
    """Who leads, and since which term."""

    def __init__(
        self, wanted: leader_settings.LeaderSettings, *, boot: str, api: api_actions.Api, clock: clocks.Clock,
        duties: elector.Duties, program: str, replica: str = "",
    ) -> None:  # fmt: skip
        """`boot` distinguishes this start from earlier ones; the Lease of a `program` is named after it.

        `replica`: the name of this replica; empty: that of the host.
        """
        # With a fixed name a restarted process would continue the term of a process that may still run; instead it
        # waits out that Lease.
        self.start = names.start_of(replica or _host_name(), boot)
        self._on_change = duties.on_change
        self._changed = asyncio.Event()
        duties = dataclasses.replace(duties, on_change=self._change)
        self._elector = (
            elector_of(wanted, start=self.start, api=api, clock=clock, duties=duties, program=program)
            if wanted.election
            else None
        )

    def leads(self) -> bool:
        """Return True while this replica may work, by the clock at this very moment."""
        return self._elector is None or self._elector.is_leading

    def term(self) -> int | None:
        """Return the number of the term in which this replica leads, None while it does not; 0 without election."""
        return 0 if self._elector is None else self._elector.term

    def leader(self) -> str:
        """Return who leads, in words."""
        if self._elector is None:
            return "this replica, without election"
        return f"{self._elector.holder or 'none'}{' (this replica)' if self._elector.is_leading else ''}"

    @property
    def identity(self) -> str:
        """This replica's name in the Lease; empty without election."""
        return "" if self._elector is None else self._elector.identity

    @property
    def holder(self) -> str:
        """Who holds the Lease; empty if none does, or without election."""
        return "" if self._elector is None else self._elector.holder

    def trouble(self) -> str | None:
        """Return why this replica could not take over; None if it could, or leads."""
        return None if self._elector is None or self._elector.is_leading else self._elector.trouble

    @property
    def heard_s(self) -> float:
        """When the API last answered about the Lease, on the monotonic clock; -inf if never, or without an election."""
        return -math.inf if self._elector is None else self._elector.heard_s

    def works(self) -> dict[str, Awaitable[object]]:
        """Return what must run for as long as the service does."""
        if self._elector is None:
            self._change(True)
            return {}
        return {"campaign": self._elector.campaign_forever(), "terms": self._elector.follow_terms_forever()}

    async def until(self, *, leads: bool) -> None:
        """Wait until this replica leads, or until it does not."""
        while self.leads() is not leads:
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(elector.CHECK_EVERY_S):
                    await self._changed.wait()

    def stand_down(self) -> None:
        """Stop leading; the Lease stays held, so that no other replica leads yet."""
        if self._elector is not None:
            self._elector.stand_down()

    async def release(self) -> None:
        """Release the Lease so that a standby takes over at once. No write of this term may be under way."""
        if self._elector is not None:
            await self._elector.release()

    def _change(self, leads: bool) -> None:
        self._changed.set()
        self._on_change(leads)


def _host_name() -> str:
    """Return the host's name, in a Pod the Pod's, as it may stand in a subject of the bus."""
    # What differs between Pods of a Deployment is at the end.
    name = socket.gethostname().lower()[-names.REPLICA_MAX :].lstrip("-.")
    return name if names.is_subdomain(name) else "unnamed"


def elector_of(
    wanted: leader_settings.LeaderSettings,
    *,
    start: str,
    api: api_actions.Api,
    clock: clocks.Clock,
    duties: elector.Duties,
    program: str,
) -> elector.Elector:
    """Return an elector that runs for the Lease of these settings."""
    namespace = wanted.namespace or cluster_access.own_namespace() or NAMESPACE
    # Two tries within a term, as in kube-scheduler.
    leases = elector.ApiLeases(api, namespace=namespace, name=wanted.name or program, timeout_s=wanted.renew_s / 2.0)
    running = candidate.LeaseCandidate(
        identity=wanted.identity or start, namespace=namespace, name=wanted.name or program, times=wanted.times
    )
    return elector.Elector(running, leases, clock=clock, duties=duties)
