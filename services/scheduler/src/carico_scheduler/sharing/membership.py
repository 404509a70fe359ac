"""One member among the others: whether it may commit, who is alive, and which Pods are its own."""

import asyncio
import contextlib
import math
from collections.abc import Callable, Mapping, Set

from carico_core.domain import cluster, errors, messages
from carico_core.wire import subjects
from carico_scheduler.sharing import corrections, heartbeats, shares
from carico_scheduler.sharing import parts as member_parts
from carico_scheduler.sharing.claims import stream

CHECK_EVERY_S = heartbeats.EVERY_S / 2.0
# How often Pods are shared out again because the rules of other Pods have changed: it looks at every Pod.
SHARE_EVERY_S = 1.0


class Readiness:
    """The readiness of one member. `bus` is None until it has one; set `is_leaving` once it stops."""

    def __init__(
        self, parts: member_parts.MemberParts, beats: heartbeats.Heartbeats, following: stream.Stream
    ) -> None:  # fmt: skip
        self._parts = parts
        self._heartbeats = beats
        self._stream = following
        self.bus: member_parts.Bus | None = None
        self.is_leaving = False

    def why_not(self) -> str | None:
        """Return why this member may not commit now; None if it may."""
        if self.is_leaving:
            return "stopping"
        if self.bus is None or not self.bus.connected:
            return "not connected to NATS"
        if self._heartbeats.stood_still:
            return "it stood still, and the others have taken its share"
        if self._parts.clock.monotonic_s() - self._parts.lease.heard_s > self._parts.lease_read_s:
            return "the Lease cannot be read: a scheduler that does not share may hold it"
        intruder = self.intruder()
        if intruder:
            # This member may have started after that one was killed: until its Lease ends, it cannot know.
            return f"{intruder} holds the Lease and is no member: it has just ended, or does not share"
        return self._parts.why_not_fit() or self._stream.why_not_ready()

    def intruder(self) -> str:
        """Return who holds the Lease and does not share; empty if there is none."""
        holder = self._parts.lease.holder
        return "" if self._heartbeats.knows(holder) else holder

    def term(self) -> int | None:
        """Return the number of the stream's epoch in which this member may decide and bind now; None if it must not."""
        return self._stream.number if self.why_not() is None else None


class Membership:
    """The membership of one scheduler.

    `changed` is set when other members have come or gone, or there is something to announce. Members are not reviewed
    at once: the bus survives what its handlers raise, but after an error there the Pods would not be shared out until
    the next change.
    """

    def __init__(
        self, parts: member_parts.MemberParts, ready: Readiness, *, beats: heartbeats.Heartbeats,
        corrected: corrections.HandOvers, report: Callable[[], messages.MemberReport], changed: asyncio.Event,
    ) -> None:  # fmt: skip
        self._parts = parts
        self._state = parts.state
        self._ready = ready
        self._heartbeats = beats
        self._corrections = corrected
        self._report = report
        self._changed = changed
        self.homes = shares.Homes(parts.replica)
        # The members and the Lease by which Pods are shared out now.
        self.members: tuple[str, ...] = ()
        self._has_lease = False
        # Which schedulerNames each member serves, and which members serve a name, once asked for.
        self._names: dict[str, Set[str]] = {}
        self._serving: dict[str, tuple[str, ...]] = {}
        self._shared_out_s = -math.inf
        # As last announced: what changes is announced at once.
        self._announced: tuple[set[str], Mapping[str, str]] = (set(), {})

    @property
    def has_lease(self) -> bool:
        """True if this member holds the Lease by which Pods are shared out."""
        return self._has_lease and self._parts.lease.term() is not None

    def is_mine(self, pod: cluster.Pod) -> bool:
        """Return whether this member decides on a Pod."""
        if not self.members or not self._parts.takes_share:
            return self._parts.takes_share
        if self._has_lease and self._corrections.is_taken(pod.uid):
            return True
        return self._is_of_share(pod) and not self._corrections.is_handed(pod.uid)

    def _is_of_share(self, pod: cluster.Pod) -> bool:
        name = pod.scheduler_name
        serving = self._serving.get(name)
        if serving is None:
            serving = self._serving[name] = tuple(each for each in self.members if name in self._names[each])
        is_owner = shares.owner(pod.uid, serving) == self._parts.replica
        # Most Pods are of others, and are not looked at further.
        return (is_owner or self._has_lease) and (is_owner if self._state.demands.is_alone(pod) else self._has_lease)

    def review(self) -> None:
        """Share Pods out again if the members, the holder of the Lease or the rules of other Pods have changed."""
        self._heartbeats.note_turn()
        self._parts.metrics.other_mode.set(bool(self._ready.intruder()))
        is_ready = self._ready.why_not() is None
        has_share = is_ready and self._parts.takes_share
        own = self._state.fleet.policy.names
        # One without a report is of an older version.
        names: dict[str, Set[str]] = {
            each.beat.replica: own if each.beat.report is None else frozenset(each.beat.report.names)
            for each in self._heartbeats.newest()
        }
        if has_share:
            names[self._parts.replica] = own
        members = tuple(sorted(names))
        has_lease = self._parts.lease.term() is not None
        now_s = self._parts.clock.monotonic_s()
        is_changed = (names, has_lease) != (self._names, self._has_lease)
        if is_changed:
            self.members, self._names, self._serving, self._has_lease = members, names, {}, has_lease
        is_corrected = self._corrections.review(
            now_s, has_lease=has_lease, has_share=has_share, is_own=self._is_of_share
        )  # fmt: skip
        is_due = self._state.is_share_stale and now_s - self._shared_out_s >= SHARE_EVERY_S
        if is_changed or is_due:
            self._parts.metrics.members.set(len(members))
            self.homes.set_members(members)
            self._shared_out_s = now_s
            self._state.share_out(now_s)
        if is_changed:
            self._parts.wake()
        elif is_due or is_corrected:
            self._parts.on_idle()

    async def announce_forever(self, bus: member_parts.Bus) -> None:
        """Send heartbeats, follow those of others, and share Pods out, until cancelled."""
        is_listening = False
        announced_s = -heartbeats.EVERY_S
        while True:
            try:
                if not is_listening:
                    await bus.subscribe(subjects.MEMBER_ALL, self._heartbeats.take)
                    is_listening = True
            except errors.BusError:
                # Tried again with the next heartbeat.
                pass
            self.review()
            now_s = self._parts.clock.monotonic_s()
            passed = self._corrections.passed(now_s, has_lease=self.has_lease)
            news = (set(passed.handed), passed.held)
            if now_s - announced_s >= heartbeats.EVERY_S or news != self._announced:
                announced_s, self._announced = now_s, news
                has_share = self._ready.why_not() is None and self._parts.takes_share
                await self._publish(is_leaving=not has_share, passed=passed)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_EVERY_S):
                    await self._changed.wait()
            self._changed.clear()

    async def leave(self) -> None:
        """Let the others take over the share at once."""
        await self._publish(is_leaving=True, passed=messages.Corrections(handed={}, held={}))

    async def _publish(self, *, is_leaving: bool, passed: messages.Corrections) -> None:
        bus = self._ready.bus
        if bus is None:
            return
        subject, payload = self._heartbeats.next(is_leaving=is_leaving, report=self._report(), corrections=passed)
        try:
            await bus.publish(subject, payload)
        except errors.BusError:
            # The others take the share; it is given back with the next heartbeat that arrives.
            return
