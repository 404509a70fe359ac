"""Keeps gangs moving, twice a second: tries those that wait again, and ends those that stay incomplete.

A gang is decided on in one step, so that it holds room for too few of its Pods only if a bind failed, a Pod went, or
the leader changed in the middle. If the rest does not find room in time, all its Pods are evicted: one gang at a time,
the least important first, so that of two gangs that each hold half of the room one gets the other half. One that has
been due for long comes before them: a tenant may have ever new gangs that are less important.
"""

import functools
import math
from collections.abc import Callable
from typing import Protocol

from carico_core.domain import cluster, gangs
from carico_core.numerics import backoff
from carico_core.runtime.kube import api_actions
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_scheduler.gangs import gang as gang_records
from carico_scheduler.pods import queue as queues
from carico_scheduler.preempt import evictor
from carico_scheduler.report import instruments
from carico_scheduler.state import state as states

# Waiting gangs tried again in one round, in turns: each may look at every node. What lets a gang fit is often no single
# change that would let one Pod fit, so that they are not woken by changes.
TRIED_A_ROUND = 32
# After the Pods of a gang have left, the next is given back after so long at the earliest: the first may have freed
# enough, which its nodes must measure first.
SETTLE_S = 10.0
# What has been due for so long goes first, of the namespace that had its last turn longest ago.
PATIENCE_S = 120.0
# How long that turn is remembered. One that is forgotten counts as the longest ago, which it was.
SERVED_KEPT_S = 3600.0
# How long the Pods of one gang are waited for: a Pod with a finalizer may stay for ever.
LEAVING_MOST_S = 90.0
# How long a gang that was given back is not tried; that time doubles each time up to the longest.
REST_S = 5.0
REST_MOST_S = 300.0
# An eviction that changed nothing is asked for again after so long.
ASK_AGAIN_S = 10.0
# How long no scheduler may have led when this one begins to: several times a Lease.
TAKEOVER_S = 60.0
_REASON = "GangIncomplete"


class Events(Protocol):
    """Where Events go."""

    def given_back(self, pod: cluster.Pod, text: str) -> None:
        """Queue an Event that a Pod is evicted since its gang stayed incomplete."""


class Keeper:
    """Looks after the gangs of one scheduler."""

    def __init__(
        self, state: states.State, *, kube: api_actions.BindApi, clock: clocks.Clock, events: Events,
        metrics: instruments.Instruments, timeout_s: float, term: Callable[[], int | None], wake: Callable[[], None],
    ) -> None:  # fmt: skip
        """`term`: the term in which this scheduler may evict, or None. `wake`: lets the decision loop turn."""
        self._state = state
        self._clock = clock
        self._metrics = metrics
        self._timeout_s = timeout_s
        self._term = term
        self._wake = wake
        self._evictor = evictor.Evictor(
            kube, clock=clock, write_event=events.given_back, term=term,
            count=lambda outcome: metrics.gang_evictions.labels(outcome).inc(), leaving=state.nominations,
        )  # fmt: skip
        # The term of the last round.
        self._round_term: int | None = None
        # Since when gangs are incomplete, by this scheduler's own terms (monotonic).
        self._since_s: dict[gangs.Key, float] = {}
        # When gangs that were given back may be tried again, and how often they were.
        self._rests: dict[gangs.Key, tuple[float, int]] = {}
        self._asked_s: dict[str, float] = {}
        # By namespace, when a gang of it was given back last.
        self._served_s: dict[str, float] = {}
        # The gang whose Pods are waited for, and since when; when the next may be given back.
        self._leaving: tuple[gangs.Key, float] | None = None
        self._next_s = 0.0
        self._line = logs.get("scheduler")
        state.gangs.on_step = self._on_step

    async def work_forever(self) -> None:
        """Look after gangs until cancelled."""
        await self._evictor.work_forever(self.round)

    async def round(self) -> None:
        """Try gangs again, end rests, and give back what is due."""
        term = self._term()
        if term != self._round_term:
            # Another scheduler decides or has decided: each gang has its whole time again.
            self._round_term = term
            self._since_s.clear()
            self._leaving = None
            self._state.gangs.end_giving_back()
        if term is None:
            return
        now_s = self._clock.monotonic_s()
        self._end_rests(now_s)
        found = list(self._state.gangs)
        self._since_s = {key: at_s for key, at_s in self._since_s.items() if self._state.gangs.find(key) is not None}
        for each in found:
            if each.state is gang_records.GIVEN_BACK:
                self._evict(each, term, now_s)
        self._give_back([each for each in found if self._is_overdue(each, now_s)], now_s)
        resting = self._state.gangs.resting
        self._try_again([each for each in found if each.waits and each.may_place and each.key not in resting], now_s)

    def _try_again(self, waiting: list[gang_records.Gang], now_s: float) -> None:
        turns = sorted(waiting, key=lambda each: each.tried_s)[:TRIED_A_ROUND]
        for each in turns:
            each.tried_s = now_s
        if turns:
            self._state.queue.unpark_gangs({each.key for each in turns})
            self._wake()

    def _is_overdue(self, gang: gang_records.Gang, now_s: float) -> bool:
        """Return True if a gang has held room for too few Pods for too long; note since when it does."""
        if gang.state is not gang_records.INCOMPLETE or not gang.held or self._may_be_complete(gang):
            # A gang whose binds fail again and again is PLACING in between: its time goes on.
            if gang.state is not gang_records.PLACING:
                self._since_s.pop(gang.key, None)
            return False
        timeout_s = self._timeout_of(gang)
        if gang.key not in self._since_s:
            if gang.is_found and self._is_old(gang, timeout_s):
                self._state.gangs.settle(gang)
                return False
            self._since_s[gang.key] = now_s
        return now_s - self._since_s[gang.key] >= timeout_s

    def _may_be_complete(self, gang: gang_records.Gang) -> bool:
        """Return True if it is not known how many Pods a gang needs, and it may have had as many once.

        One whose Pods were placed in this scheduler's time had not: its PodGroup has become invalid since, or is gone.
        """
        return gang.least is None and (gang.is_found or not self._state.gangs.knows_groups(gang.key))

    def _timeout_of(self, gang: gang_records.Gang) -> float:
        asked_s = None if gang.asks is None else gang.asks.timeout_s
        return self._timeout_s if asked_s is None else asked_s

    def _is_old(self, gang: gang_records.Gang, timeout_s: float) -> bool:
        """Return True if its newest Pod was bound so long ago that it must have been complete once.

        A scheduler that starts cannot know which of a gang's Pods have ended; it must not evict what runs.
        """
        bound = (self._state.pod(uid) for uid, role in gang.roles.items() if role is gang_records.Role.BOUND)
        newest_s = max((pod.gang.bound_at_s for pod in bound if pod is not None and pod.gang is not None), default=0.0)
        return newest_s < self._clock.wall_ns() / 1e9 - timeout_s - TAKEOVER_S

    def _give_back(self, overdue: list[gang_records.Gang], now_s: float) -> None:
        """Give back the least important of these gangs, unless another one is leaving."""
        if self._leaving is not None:
            key, since_s = self._leaving
            gang = self._state.gangs.find(key)
            if gang is not None and (gang.held or gang.leaving) and now_s - since_s < LEAVING_MOST_S:
                return
            self._leaving, self._next_s = None, now_s + SETTLE_S
        if not overdue or now_s < self._next_s:
            return
        least = self._next(overdue, now_s)
        asked = least.asks
        self._line.warning("gang given back", gang=str(least.key), placed=least.held, needed=asked and asked.min_member)
        self._leaving = (least.key, now_s)
        self._since_s.pop(least.key, None)
        self._served_s = {name: at_s for name, at_s in self._served_s.items() if now_s - at_s < SERVED_KEPT_S}
        self._served_s[least.key.namespace] = now_s
        _, times = self._rests.get(least.key, (0.0, 0))
        rest_s = backoff.doubled_s(times, first_s=REST_S, most_s=REST_MOST_S)
        self._rests[least.key] = (now_s + rest_s, times + 1)
        self._state.gangs.resting.add(least.key)
        self._state.gangs.give_back(least)

    def _next(self, overdue: list[gang_records.Gang], now_s: float) -> gang_records.Gang:
        """Return which of these gangs is given back first."""
        patient = [
            each for each in overdue if now_s - self._since_s[each.key] >= self._timeout_of(each) + PATIENCE_S
        ]  # fmt: skip
        if not patient:
            return max(overdue, key=self._importance)
        return min(
            patient, key=lambda each: (self._served_s.get(each.key.namespace, -math.inf), self._since_s[each.key])
        )

    def _importance(self, gang: gang_records.Gang) -> queues.Key:
        """Sorts the least important gang last: by its most important Pod."""
        pods = [pod for uid in gang.roles if (pod := self._state.pod(uid)) is not None]
        return min(map(queues.key_of, pods), default=(0, 0.0, ""))

    def _evict(self, gang: gang_records.Gang, term: int, now_s: float) -> None:
        """Evict those of its Pods that are bound now; others may be bound by binds that are under way."""
        least = gang.least
        text = f"gang {gang.key} stayed incomplete: fewer than the {least} Pods that it needs found room in time"
        if least is None:
            text = f"{self._state.gangs.why(gang.key)}; it stayed incomplete"
        cause = evictor.Cause(_REASON, text, text)
        for uid, role in list(gang.roles.items()):
            pod = self._state.pod(uid)
            is_due = now_s - self._asked_s.get(uid, -ASK_AGAIN_S) >= ASK_AGAIN_S
            if role is gang_records.Role.BOUND and pod is not None and is_due:
                self._asked_s[uid] = now_s
                self._evictor.evict(pod, cause, functools.partial(self._may_evict, gang, uid, term))

    def _may_evict(self, gang: gang_records.Gang, uid: str, term: int) -> bool:
        """Return True while a Pod is on a node that is to be evicted with its gang."""
        is_due = gang.state is gang_records.GIVEN_BACK and gang.roles.get(uid) is gang_records.Role.BOUND
        return is_due and self._term() == term

    def _end_rests(self, now_s: float) -> None:
        resting = self._state.gangs.resting
        for key, (until_s, _) in list(self._rests.items()):
            if now_s >= until_s:
                resting.discard(key)
            if now_s >= until_s + REST_MOST_S:
                del self._rests[key]
        self._asked_s = {uid: at_s for uid, at_s in self._asked_s.items() if now_s - at_s < ASK_AGAIN_S}

    def _on_step(self, gang: gang_records.Gang) -> None:
        # What a standby sees, or finds when it starts, is another's work.
        if gang.state in (gang_records.COMPLETE, gang_records.GIVEN_BACK) and self._term() is not None:
            self._metrics.gangs.labels(gang.state.value.replace(" ", "_")).inc()
