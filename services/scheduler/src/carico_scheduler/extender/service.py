"""The three verbs of the extender, over the scheduler's own state: both reserve in the same place."""

import asyncio
import dataclasses
import random
from collections.abc import Callable, Iterator

from carico_core.domain import cluster, decision, errors
from carico_core.runtime.kube import api_actions
from carico_core.runtime.process import clock as clocks
from carico_core.wire.kubernetes import api_objects
from carico_scheduler.bind import binder as binders
from carico_scheduler.decide import turns as queue_turns
from carico_scheduler.extender import binding, extender_settings, judge, messages
from carico_scheduler.extender import holds as holding
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import queue as queues
from carico_scheduler.report import decisions, explain, instruments
from carico_scheduler.sharing import member as members
from carico_scheduler.state import state as states

# How often a filter checks whether the binds of earlier Pods have arrived.
CHECK_EVERY_S = 0.003
# The watch shows a Pod within milliseconds of its bind; after this time the API is asked for the Pod.
UNSHOWN_S = 10.0


class NotServing(errors.CaricoError):
    """Another scheduler leads, or this one does not have the API's lists."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderParts:
    """The parts of an extender; `wake` makes our own queue try its Pods again.

    `member`: this scheduler as one of several that decide at the same time; None: it decides alone.
    """

    state: states.State
    kube: api_actions.BindApi
    clock: clocks.Clock
    rng: random.Random
    log: decisions.Log
    metrics: instruments.Instruments
    bind_timeout_s: float
    # Returns the term in which this scheduler leads; None if it must not answer.
    term: Callable[[], int | None]
    wake: Callable[[], None]
    member: members.Member | None = None
    # For which of our own Pods that have waited for long a node is held; None: for none.
    turns: queue_turns.Turns | None = None


class Extender:
    """Answers filter, prioritize and bind."""

    def __init__(
        self, wanted: extender_settings.ExtenderSettings, parts: ExtenderParts, binder: binders.Binder
    ) -> None:
        self._wanted = wanted
        self._state = parts.state
        self._api = parts.kube
        self._clock = parts.clock
        self._term = parts.term
        self._wake = parts.wake
        self.holds = holding.Holds(hold_s=wanted.hold_s)
        self.waits = holding.AskedSince()
        self.binds = binding.Binds(
            parts.state, binder, clock=parts.clock, log=parts.log,
            on_end=lambda fate: parts.metrics.extender_binds.labels(fate).inc(), member=parts.member,
        )  # fmt: skip
        self._turns = parts.turns
        self._nominated_on = parts.state.nominated_on if parts.member is None else parts.member.held_on
        self._judge = judge.Judge(parts.state.fleet, self.holds, self._held_on)

    async def filter(self, payload: bytes) -> bytes:
        """Return an ExtenderFilterResult, and hold room for the Pod on every node that passes."""
        self._check_term()
        asked = messages.decode_args(payload)
        pod = asked.pod
        if self._state.baseline.includes(pod):
            return messages.encode_verdict(messages.FilterResult(passed=asked.names, refused={}, lasting={}), asked)
        settled = self._why_settled(pod.uid)
        if settled is not None:
            return messages.encode_filter_error(settled)
        demand = demands.demand_of(pod)
        self.waits.note(pod.uid, self._clock.monotonic_s())
        found = await self._judged(asked, demand)
        self._check_term()
        self.holds.put(pod, demand, found.verdict.passed, self._clock.monotonic_s())
        return messages.encode_verdict(found.verdict, asked)

    async def prioritize(self, payload: bytes) -> bytes:
        """Return a HostPriorityList."""
        self._check_term()
        asked = messages.decode_args(payload)
        if self._state.baseline.includes(asked.pod):
            return messages.encode_scores(asked.names, [0] * len(asked.names))
        demand = demands.demand_of(asked.pod)
        scores = self._judge.rank(asked.names, demand, pod=asked.pod, now_s=self._clock.monotonic_s())
        return messages.encode_scores(asked.names, scores)

    async def bind(self, payload: bytes) -> bytes:
        """Return an ExtenderBindingResult, once the outcome is known."""
        term = self._check_term()
        asked = messages.decode_bind_args(payload)
        if self._state.is_bound_to(asked.uid, asked.node):
            # A repeated request: the first answer was lost.
            return messages.encode_bind_result("")
        settled = self._why_settled(asked.uid)
        if settled is not None:
            return messages.encode_bind_result(settled)
        pod = self._known_pod(asked.uid)
        if pod is None:
            try:
                pod = await self._read_pod(asked)
            except (errors.ApiError, errors.ApiUnavailable, ValueError) as error:
                return messages.encode_bind_result(f"the Pod cannot be read: {error}")
            # Meanwhile the watch may have shown it, it may have been asked for twice, or another scheduler may lead.
            settled = self._why_settled(asked.uid)
            if settled is not None:
                return messages.encode_bind_result(settled)
            if self._term() != term:
                raise NotServing("another scheduler may lead by now: ask the leader, or try again")
        return messages.encode_bind_result(await self._bind(pod, asked.node, term))

    async def verify_unshown(self) -> None:
        """Ask the API for Pods that were bound here and that the watch has not shown: they may be gone.

        A list does not show that: it may be older than such a Pod.
        """
        for record in self._state.records.unshown():
            booking, pod = record.booking, record.pod
            now_s = self._clock.monotonic_s()
            if not record.is_bound or booking is None or pod is None or now_s - booking.since_s < UNSHOWN_S:
                continue
            path = api_actions.pod_path(pod.namespace, pod.name)
            try:
                found = api_objects.parse_pod(await self._api.request("GET", path))
            except errors.NotFound:
                self._state.forget_pod(pod.uid)
            except (errors.ApiError, errors.ApiUnavailable, ValueError):
                continue
            else:
                if found.uid != pod.uid:
                    self._state.forget_pod(pod.uid)
                else:
                    self._state.see_pod(found, self._clock.monotonic_s())

    def tidy(self) -> None:
        """End holds whose Pods are bound or gone, or that have lasted too long."""
        dropped = self.holds.drop_old(self._clock.monotonic_s())
        for hold in self.holds:
            uid = hold.pod.uid
            record = self._state.records.find(uid)
            if self._state.records.is_gone(uid) or (record is not None and record.is_placed):
                dropped += self.holds.drop(uid)
        if dropped:
            self._wake()

    def forget(self) -> None:
        """Forget the waiting times of Pods that are bound or gone."""
        self.waits.drop_ended(self._waits, before_s=self._clock.monotonic_s() - self._wanted.hold_s)

    def held(self) -> Iterator[tuple[str, demands.Demand, None]]:
        """Yield (node, demand, None) of everything held, for our own decisions: on each node only room."""
        for hold in self.holds:
            for node in hold.nodes:
                yield node, hold.demand, None

    def _held_on(self, node: str, pod: cluster.Pod) -> list[demands.Demand]:
        """Return for which Pods of our own, or of other schedulers, room is held on a node against a Pod."""
        turns = () if self._turns is None else self._turns.on(node)
        return [*self._nominated_on(node, pod), *(each.demand for each in turns if each.key < queues.key_of(pod))]

    async def _bind(self, pod: cluster.Pod, node: str, term: int) -> str:
        demand = demands.demand_of(pod)
        now_s = self._clock.monotonic_s()
        self.tidy()
        is_exempt = self._state.baseline.includes(pod)
        why_not = None if is_exempt else self._judge.why_not(node, demand, pod=pod, now_s=now_s)
        self.holds.drop(pod.uid)
        self._wake()
        if why_not is not None:
            return f"{node} no longer has room: {why_not}"
        # Nothing else runs from here until it is booked, so there is no moment in which the Pod does not count.
        since_s = self.waits.since_s(pod.uid, now_s)
        return await self.binds.bind(
            binding.Asked(pod=pod, node=node, facts=self._facts(node, demand, now_s), since_s=since_s, term=term)
        )

    async def _judged(self, asked: messages.Args, demand: demands.Demand) -> judge.Judged:
        """Return the verdict; if only holds of other Pods refuse a node, first give their binds time to arrive."""
        uid = asked.pod.uid
        while True:
            self.tidy()
            now_s = self._clock.monotonic_s()
            found = self._judge.judge(asked.names, demand, pod=asked.pod, now_s=now_s)
            youngest_s = self.holds.youngest_s(but=uid)
            if not found.is_held_up or youngest_s is None or now_s - youngest_s >= self._wanted.wait_s:
                return found
            await asyncio.sleep(CHECK_EVERY_S)

    def _known_pod(self, uid: str) -> cluster.Pod | None:
        """Return the Pod as the watch shows it, or as it was in the filter's request."""
        hold = self.holds.find(uid)
        return self._state.pod(uid) or (None if hold is None else hold.pod)

    async def _read_pod(self, asked: messages.BindArgs) -> cluster.Pod:
        """Return the Pod as the API shows it. Raises `ValueError` if another Pod has its name now."""
        path = api_actions.pod_path(asked.namespace, asked.name)
        found = api_objects.parse_pod(await self._api.request("GET", path))
        if found.uid != asked.uid:
            raise ValueError(f"{found.key} is another Pod now, with UID {found.uid}")
        return found

    def _facts(self, node: str, demand: demands.Demand, now_s: float) -> decisions.Facts:
        slot = self._state.fleet.slot_of(node)
        view = self._state.fleet.snapshot(now_s)
        row = None if slot is None else view.row(slot)
        free = None if row is None or not row.is_advertised else row.free(demand.pod_class, demand.ceiling_offset)
        return decisions.Facts(
            outcome=decision.Outcome.BOUND,
            node=node,
            free=free,
            candidates=() if row is None else (explain.record_of(row, demand),),
            refused={},
            message=f"{node} chosen by kube-scheduler" + ("" if free is None else f", with room for {free:.1f} Pods"),
        )

    def _why_settled(self, uid: str) -> str | None:
        """Return why there is nothing left to decide about a Pod; None if there is."""
        record = self._state.records.find(uid)
        if record is None:
            return "the Pod is gone" if self._state.records.is_gone(uid) else None
        if record.booking is None:
            return None
        node = record.booking.node
        return f"bound to {node} already" if record.is_bound else f"a bind to {node} is under way"

    def _waits(self, uid: str) -> bool:
        record = self._state.records.find(uid)
        return record is not None and not record.is_placed

    def _check_term(self) -> int:
        """Return the term of leadership. Raises `NotServing`."""
        term = self._term()
        if term is None:
            raise NotServing("this scheduler is a standby, or the API does not answer it: ask the leader, or try again")
        return term
