"""One scheduler of several that decide and bind at the same time; puts its parts together for the engine.

A member announces itself, and while it may commit it decides on the Pods of its share. Pods whose rules look at other
Pods or at volumes are decided on by the holder of the Lease alone (`Demand.is_alone`), and so are those that their
member has handed over (`corrections`).
"""

import asyncio
import contextlib
import functools
import math
from collections.abc import Coroutine, Iterator
from typing import Any

from carico_core.domain import cluster, errors, messages
from carico_core.runtime.bus import port as buses
from carico_scheduler.pods import demand as demands
from carico_scheduler.sharing import corrections, heartbeats, membership, own_claims, shares, tally
from carico_scheduler.sharing import parts as member_parts
from carico_scheduler.sharing.claims import commits, fits, janitor, rechecks, stream
from carico_scheduler.sharing.claims import ledger as ledgers

# Pods are listed without the claims after so long: JetStream may be away, while agents wait for rosters.
READ_WITHIN_S = 10.0
# A claim that is reported as an orphan should have been ended by the janitor three rounds ago.
ORPHAN_LATE_S = 3.0 * janitor.EVERY_S


class Member:
    """One member, over a state that it shares with the engine."""

    def __init__(self, parts: member_parts.MemberParts) -> None:
        self._parts = parts
        self._state = parts.state
        self._clock = parts.clock
        self._seq = 0
        self._tally = tally.Tally(parts.clock)
        self._changed = changed = asyncio.Event()
        # Set once the claims have been read for the first time.
        self._has_read = asyncio.Event()
        # Until when claims had been read when Pods were first listed; -inf if none had.
        self._read_s = -math.inf
        self.ledger = ledgers.Ledger(functools.partial(own_claims.fate_of, parts.state))
        self.ledger.on_room = self._on_room
        self._stream = stream.Stream(
            self.ledger, clock=parts.clock, new_epoch=parts.new_epoch, header=self._header, on_read=self._on_read,
            on_drop=self._on_drop, own=lambda node, payload: self._commits.own(node, payload),
        )  # fmt: skip
        beats = heartbeats.Heartbeats(
            parts.replica, boot=parts.boot, identity=lambda: parts.lease.identity, clock=parts.clock,
            lease_s=parts.lease_s, on_change=changed.set, on_drop=self._on_drop,
        )  # fmt: skip
        self._ready = membership.Readiness(parts, beats, self._stream)
        self.corrections = corrections.HandOvers(
            parts.state, beats, holder=lambda: parts.lease.holder, count_taken=parts.metrics.corrected.inc,
            on_room=parts.wake,
        )  # fmt: skip
        self.rechecks = rechecks.Rechecks(parts.state, self.ledger, clock=parts.clock, held_on=self.corrections.held_on)
        self._commits = commits.Commits(
            commits.Parts(
                claims=self._claims, ledger=self.ledger, clock=parts.clock,
                epoch=lambda: self._stream.epoch if self.term() is not None else None,
                on_doubt=self._stream.doubt, on_set_back=self._stream.note_set_back, fits=self.rechecks.fits,
                is_apart=self.rechecks.is_apart,
                on_replace=lambda uid: self.own_claims.keep(uid), header=self._header, count=self._count,
                on_drop=self._on_drop, on_idle=parts.on_idle,
            )
        )  # fmt: skip
        self.own_claims = own_claims.OwnClaims(
            parts, self.ledger, self._commits, corrected=self.corrections, counts=self._tally
        )  # fmt: skip
        self._janitor = janitor.Janitor(
            self.ledger, self._commits, api=parts.api, clock=parts.clock, find=self._state.pod,
            may_commit=lambda: self.term() is not None,
            is_on_duty=lambda: parts.lease.term() is not None and self.term() is not None,
            on_changed=self.own_claims.settle, count=parts.metrics.orphan_claims.inc,
        )  # fmt: skip
        self._membership = membership.Membership(
            parts, self._ready, beats=beats, corrected=self.corrections, report=self.report, changed=changed
        )  # fmt: skip
        self._state.is_mine = self._membership.is_mine

    @property
    def members(self) -> tuple[str, ...]:
        """The members by which Pods are shared out, sorted."""
        return self._membership.members

    @property
    def homes(self) -> shares.Homes:
        """Which nodes are at home here."""
        return self._membership.homes

    @property
    def has_lease(self) -> bool:
        """True if this member holds the Lease by which Pods are shared out."""
        return self._membership.has_lease

    @property
    def is_busy(self) -> bool:
        """True while claims are being committed."""
        return self._commits.is_busy

    def why_not_ready(self) -> str | None:
        """Return why this member may not commit now; None if it may."""
        return self._ready.why_not()

    def term(self) -> int | None:
        """Return the number of the stream's epoch in which this member may decide and bind now; None if it must not."""
        return self._ready.term()

    def report(self) -> messages.MemberReport:
        """Return what this member reports of itself to people."""
        now_s = self._clock.monotonic_s()
        why_not = self._ready.why_not()
        self._tally.note_ready(why_not is None)
        return messages.MemberReport(
            names=tuple(sorted(self._state.fleet.policy.names)), has_lease=self._parts.lease.term() is not None,
            why_not=why_not or "", intruder=self._ready.intruder(), ready_s=self._tally.ready_s,
            stored=self._tally.stored, conflicts=self._tally.conflicts, requeued=self._tally.requeued,
            recent=self._tally.recent, view_age_s=self._parts.view_age_s(),
            orphans=len(self.ledger.orphans(now_s - ORPHAN_LATE_S)),
        )  # fmt: skip

    def works(self, bus: member_parts.Bus) -> dict[str, Coroutine[Any, Any, None]]:
        """Return what must run for as long as the scheduler does."""
        self._ready.bus = bus
        bus.on_reconnect(self._stream.doubt)
        return {
            "claims": self._stream.follow_forever(bus.claims),
            "commits": self._commits.run_forever(),
            "members": self._membership.announce_forever(bus),
            "janitor": self._janitor.run_forever(),
        }

    def announce(self) -> None:
        """Send what has changed at once."""
        self._changed.set()

    async def leave(self) -> None:
        """Commit nothing more, and let the others take over the share at once."""
        self._ready.is_leaving = True
        await self._membership.leave()

    async def withdraw(self) -> None:
        """Withdraw the claims of binds that were not sent, once none is under way: others decide on their Pods now."""
        nodes = self.own_claims.end_unsent() | set(self.ledger.voided())
        if self._stream.epoch is not None and nodes:
            with contextlib.suppress(errors.BusError):
                # Else the janitor ends them.
                await self._commits.withdraw(sorted(nodes), self._stream.epoch)

    def held(self) -> Iterator[tuple[str, demands.Demand, cluster.Pod | None]]:
        """Yield (node, demand, Pod) of what others have claimed and this member's own state does not count yet.

        The Pod counts for anti-affinity: its own scheduler may not have known of the one that excludes it. A node on
        which no claim can be made has no room.
        """
        now_s = self._clock.monotonic_s()
        for node, claim in self.ledger.counted(now_s):
            yield node, fits.demand_of(claim), self._state.pod(claim.uid)
        for node in list(self.ledger.closed()):
            yield node, fits.WHOLE, None

    def held_on(self, node: str, pod: cluster.Pod) -> list[demands.Demand]:
        """Return what other members hold on a node against a Pod, by claims and as the holder of the Lease."""
        now_s = self._clock.monotonic_s()
        claimed = [fits.demand_of(each) for each in self.ledger.counted_on(node, now_s) if each.uid != pod.uid]
        whole = [fits.WHOLE] if node in self.ledger.closed() else []
        return [*claimed, *whole, *self.corrections.held_on(node, pod)]

    async def before_list(self) -> None:
        """Return when all Pods may be listed for the first time: once the claims have been read (`ledger`)."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(READ_WITHIN_S):
                await self._has_read.wait()
                self._read_s = self._clock.monotonic_s()

    def note_listed(self) -> None:
        """Note that a list of all Pods has been taken in."""
        self.ledger.listed_s = self._read_s

    def _on_read(self) -> None:
        self._has_read.set()
        self._parts.on_idle()

    def _claims(self) -> buses.Claims:
        assert self._ready.bus is not None, "claims are asked for before the bus is there"
        return self._ready.bus.claims

    def _header(self) -> tuple[str, int]:
        self._seq += 1
        return self._parts.boot, self._seq

    def _count(self, outcome: str) -> None:
        self._tally.conflicts += outcome == "conflict"
        self._parts.metrics.claims.labels(outcome).inc()

    def _on_room(self, node: str) -> None:
        self._state.queue.unpark_if(self._state.helped_by(node))
        self._parts.on_idle()

    def _on_drop(self, reason: str) -> None:
        self._parts.metrics.drops.labels(reason).inc()
