"""Runs for a Lease for as long as the service runs: leads, is a standby, and leads again.

Users of client-go exit when they lose the Lease, since what they hold in memory is then in doubt. Ours stay:
all that a replica holds is kept in step with the API whether it leads or not, so that it is a warm standby at once.

A leader that no advertisement reaches offers the Lease: it stops leading and releases it, so that a standby that they
do reach takes over at once. Other candidates leave a free Lease to such a standby for some seconds before they take it,
since even then a leader is needed that reports why Pods wait. So if one replica is cut off from NATS, another takes
over; if all are, one of them leads, and offers the Lease ever less often.
"""

import asyncio
import contextlib
import dataclasses
import math
from collections.abc import Awaitable, Callable
from typing import Protocol

from carico_core.domain import errors
from carico_core.numerics import backoff
from carico_core.runtime.kube import api_actions
from carico_core.runtime.leadership import candidate as candidates
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.wire.kubernetes import lease as kubernetes_lease

# The end of a term is reported within this time; each bind asks the clock whether the term has ended.
CHECK_EVERY_S = 0.25
# How long a leader must have been out of reach before it offers the Lease: NATS clients reconnect in less.
OFFER_AFTER_S = 3.0
# Time to the next offer, doubling up to the maximum: each offer leaves the cluster without a leader for some seconds.
OFFER_AGAIN_S = 30.0
OFFER_AGAIN_MAX_S = 600.0
# How long a candidate out of reach leaves a free Lease to others, in multiples of `retry_s`: they read it three times.
YIELD_RETRIES = 1.5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Duties:
    """What an elector calls: `is_fit` before it runs, `prepare` before a term, `on_change` at its start and end.

    is_reached: False while no advertisements reach this replica. is_idle: False while a write is under way, which must
    not arrive in another replica's term.
    """

    is_fit: Callable[[], bool]
    prepare: Callable[[], Awaitable[object]]
    on_change: Callable[[bool], None]
    is_reached: Callable[[], bool] = lambda: True
    is_idle: Callable[[], bool] = lambda: True


class Leases(Protocol):
    """Where the Lease is kept. Both methods raise `ApiError` or `ApiUnavailable`."""

    async def read(self) -> kubernetes_lease.Lease | None:
        """Return the Lease; None if there is none."""

    async def write(self, lease: kubernetes_lease.Lease) -> kubernetes_lease.Lease:
        """Create the Lease if it has no `resource_version`, else replace that version; return it as written."""


class ApiLeases:
    """A Lease of coordination.k8s.io."""

    def __init__(self, api: api_actions.Api, *, namespace: str, name: str, timeout_s: float) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name
        self._timeout_s = timeout_s

    async def read(self) -> kubernetes_lease.Lease | None:
        """Return the current Lease: a read of one object without a resourceVersion is never answered from a cache."""
        return await api_actions.get_lease(
            self._api, namespace=self._namespace, name=self._name, timeout_s=self._timeout_s
        )

    async def write(self, lease: kubernetes_lease.Lease) -> kubernetes_lease.Lease:
        """See `Leases`."""
        if lease.resource_version:
            return await api_actions.update_lease(self._api, lease, timeout_s=self._timeout_s)
        return await api_actions.create_lease(self._api, lease, timeout_s=self._timeout_s)


class Elector:
    """One candidate at work: `campaign_forever` and `follow_terms_forever` run at the same time."""

    def __init__(
        self, candidate: candidates.LeaseCandidate, leases: Leases, *, clock: clocks.Clock, duties: Duties
    ) -> None:
        self._candidate = candidate
        self._leases = leases
        self._clock = clock
        self._duties = duties
        self._line = logs.get("leadership", identity=candidate.identity)
        self._odd_line = logs.RateLimited(self._line, clock=clock)
        # The term for which `prepare` has completed.
        self._prepared: int | None = None
        self._was_leading = False
        self._seen_holder = ""
        self._has_resigned = False
        # Since when the Lease could be taken, and when this replica was last reached by advertisements.
        self._free_since_s: float | None = None
        self._reached_s = clock.monotonic_s()
        self._next_offer_s = -math.inf
        # Since it was last reached.
        self._offers = 0
        self._writing = asyncio.Lock()
        self._moved = asyncio.Event()
        # Why the last read or write of the Lease failed.
        self.trouble: str | None = "the Lease has not been read yet"
        # When it was last read or written, on the monotonic clock.
        self.heard_s = -math.inf

    @property
    def identity(self) -> str:
        """The name of this candidate in the Lease."""
        return self._candidate.identity

    @property
    def holder(self) -> str:
        """The holder of the Lease as last seen; empty if it has none."""
        return self._candidate.holder

    @property
    def is_leading(self) -> bool:
        """True while this replica may work, by the clock at this very moment."""
        return self._prepared is not None and self._prepared == self._candidate.term and self._holds

    @property
    def term(self) -> int | None:
        """The number of the term in which this replica leads; None while it does not lead."""
        return self._prepared if self.is_leading else None

    @property
    def _holds(self) -> bool:
        return not self._has_resigned and self._candidate.leads(self._clock.monotonic_s())

    async def campaign_forever(self) -> None:
        """Renew the Lease while it is held and take it over when it ends, until cancelled."""
        while True:
            await self._round()
            self._moved.set()
            now_s = self._clock.monotonic_s()
            await asyncio.sleep(max(self._candidate.next_s(now_s) - now_s, 0.0))

    async def follow_terms_forever(self) -> None:
        """Prepare each term, and report when this replica starts and stops leading, until cancelled."""
        while True:
            if self._holds and not self.is_leading:
                await self._prepare_term()
            self._note_changes()
            self._note_reach()
            if self._should_offer():
                await self._offer()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_EVERY_S):
                    await self._moved.wait()
            self._moved.clear()

    def stand_down(self) -> None:
        """Stop leading now. The Lease stays held: binds under way may still arrive at the API."""
        self._has_resigned = True
        self._note_changes()

    async def release(self) -> bool:
        """Release the Lease so that a standby takes over at once; return True if it was. No bind may be under way."""
        self.stand_down()
        return await self._release()

    async def _release(self) -> bool:
        async with self._writing:
            try:
                if self._candidate.must_read:
                    self._candidate.see(await self._leases.read(), self._clock.monotonic_s())
                released = self._candidate.resignation(self._clock.wall_ns())
                if released is None:
                    return False
                written = await self._leases.write(released)
            except (errors.ApiError, errors.ApiUnavailable) as error:
                self._candidate.doubt()
                self._line.warning("the Lease could not be released: standbys wait for its end", error=str(error))
                return False
            self._candidate.see(written, self._clock.monotonic_s())
        self._line.info("released the Lease")
        return True

    def _note_reach(self) -> None:
        if self._duties.is_reached():
            self._reached_s = self._clock.monotonic_s()
            self._next_offer_s, self._offers = -math.inf, 0

    def _should_offer(self) -> bool:
        now_s = self._clock.monotonic_s()
        is_due = now_s >= max(self._reached_s + OFFER_AFTER_S, self._next_offer_s)
        return is_due and self.is_leading and self._duties.is_idle()

    async def _offer(self) -> None:
        """Stop leading and release the Lease, so that a standby that advertisements reach takes over."""
        # No await before this: no bind can start any more.
        self._prepared = None
        self._note_changes()
        self._line.warning("no advertisements reach this replica: offering the Lease to standbys")
        self._delay_next_offer()
        await self._release()

    def _delay_next_offer(self) -> None:
        again_s = backoff.doubled_s(self._offers, first_s=OFFER_AGAIN_S, most_s=OFFER_AGAIN_MAX_S)
        self._next_offer_s = self._clock.monotonic_s() + again_s
        self._offers += 1

    async def _round(self) -> None:
        """Read the Lease if its version is not known, and write it if that is due."""
        async with self._writing:
            if self._has_resigned:
                return
            try:
                if self._candidate.must_read:
                    self._candidate.see(await self._leases.read(), self._clock.monotonic_s())
                    self.heard_s = self._clock.monotonic_s()
                await self._run()
            except errors.Conflict:
                # Another candidate was faster, or an earlier write of ours was accepted and its answer was lost.
                self.trouble = None
            except (errors.ApiError, errors.ApiUnavailable) as error:
                self.trouble = f"the Lease cannot be read or written: {error}"
                self._odd_line.warning(type(error).__name__, "no answer about the Lease", error=str(error))
            else:
                self.trouble = None

    async def _run(self) -> None:
        """Write the Lease if it is ours or free."""
        sent_s = self._clock.monotonic_s()
        wanted = self._candidate.proposal(sent_s, self._clock.wall_ns())
        # Read it before the next try, unless this one is accepted.
        self._candidate.doubt()
        if wanted is None:
            self._free_since_s = None
            return
        is_ours = self.holder == self.identity
        if not is_ours and not self._may_take(sent_s):
            return
        written = await self._leases.write(wanted)
        self.heard_s = self._clock.monotonic_s()
        self._candidate.accept(written, sent_s=sent_s, now_s=self.heard_s)
        self._free_since_s = None
        if not is_ours and not self._duties.is_reached():
            self._delay_next_offer()

    def _may_take(self, now_s: float) -> bool:
        """Return True if this replica may take a free Lease now: at once if it is reached, else after others."""
        if not self._duties.is_fit():
            return False
        if self._free_since_s is None:
            self._free_since_s = now_s
        yield_s = YIELD_RETRIES * self._candidate.times.retry_s
        return self._duties.is_reached() or now_s - self._free_since_s >= yield_s

    async def _prepare_term(self) -> None:
        term = self._candidate.term
        try:
            await self._duties.prepare()
        except (errors.ApiError, errors.ApiUnavailable) as error:
            self._odd_line.warning("prepare", "a term cannot start yet", term=term, error=str(error))
        else:
            self._prepared = term

    def _note_changes(self) -> None:
        if self.holder != self._seen_holder:
            self._seen_holder = self.holder
            self._line.info("the Lease has a new holder", holder=self.holder or "none")
        if self.holder != self.identity:
            self._prepared = None
        if self.is_leading != self._was_leading:
            self._was_leading = not self._was_leading
            self._line.info("started leading" if self._was_leading else "stopped leading", term=self._candidate.term)
            self._duties.on_change(self._was_leading)
