"""The three verbs of the extender over the scheduler's own state: what both give away comes out of one ledger."""

import asyncio
import dataclasses
import random
from collections.abc import Callable, Iterator

from carico_core.domain import cluster, decision, errors
from carico_core.runtime.kube import api_actions
from carico_core.runtime.process import clock as clocks
from carico_core.wire.kubernetes import api_objects
from carico_scheduler import state as states
from carico_scheduler.extender import binding, judge, messages
from carico_scheduler.extender import holds as holding
from carico_scheduler.extender import settings as setting
from carico_scheduler.pods import demand as demands
from carico_scheduler.report import decisions, explain, instruments

# Between two looks at whether the binds of earlier Pods have come.
LOOK_EVERY_S = 0.003


class StandsBy(errors.CaricoError):
    """Another scheduler leads, or this one lacks the API's lists."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What an extender is made of; `leads` says whether it may answer, `wake` lets our own queue look again."""

    state: states.State
    kube: api_actions.BindApi
    clock: clocks.Clock
    rng: random.Random
    log: decisions.Log
    metrics: instruments.Instruments
    bind_timeout_s: float
    leads: Callable[[], bool]
    wake: Callable[[], None]


class Extender:
    """Answers filter, prioritize and bind."""

    def __init__(self, wanted: setting.ExtenderSettings, parts: Parts) -> None:
        self._wanted = wanted
        self._state = parts.state
        self._api = parts.kube
        self._clock = parts.clock
        self._leads = parts.leads
        self._wake = parts.wake
        self._exempt = frozenset(wanted.exempt)
        self.holds = holding.Holds(hold_s=wanted.hold_s)
        self.waits = holding.Waits()
        self.binds = binding.Binds(
            parts.state, clock=parts.clock, log=parts.log,
            on_end=lambda fate: parts.metrics.extender_binds.labels(fate).inc(),
        )  # fmt: skip
        self._judge = judge.Judge(parts.state.fleet, self.holds)

    async def filter(self, payload: bytes) -> bytes:
        """An ExtenderFilterResult; room is held for the Pod on every node that passes."""
        self._check_leads()
        asked = messages.decode_args(payload)
        pod = asked.pod
        if self._is_exempt(pod):
            return messages.encode_verdict(messages.Verdict(passed=asked.names, refused={}, lasting={}), asked)
        settled = self._why_settled(pod.uid)
        if settled is not None:
            return messages.encode_filter_error(settled)
        demand = demands.demand_of(pod)
        self.waits.note(pod.uid, self._clock.monotonic_s())
        found = await self._judged(asked, demand)
        self._check_leads()
        self.holds.put(pod, demand, found.verdict.passed, self._clock.monotonic_s())
        return messages.encode_verdict(found.verdict, asked)

    async def prioritize(self, payload: bytes) -> bytes:
        """A HostPriorityList."""
        self._check_leads()
        asked = messages.decode_args(payload)
        if self._is_exempt(asked.pod):
            return messages.encode_scores(asked.names, [0] * len(asked.names))
        demand = demands.demand_of(asked.pod)
        scores = self._judge.rank(asked.names, demand, uid=asked.pod.uid, now_s=self._clock.monotonic_s())
        return messages.encode_scores(asked.names, scores)

    async def bind(self, payload: bytes) -> bytes:
        """An ExtenderBindingResult, once the outcome is known."""
        self._check_leads()
        asked = messages.decode_bind_args(payload)
        claim = self._state.ledger.find(asked.uid)
        if claim is not None and not claim.is_assumed and claim.node == asked.node:
            # Asked again: the first answer was lost.
            return messages.encode_bind_result("")
        settled = self._why_settled(asked.uid)
        if settled is not None:
            return messages.encode_bind_result(settled)
        try:
            pod = await self._pod(asked)
        except (errors.ApiError, errors.ApiUnavailable, ValueError) as error:
            return messages.encode_bind_result(f"the Pod cannot be read: {error}")
        return messages.encode_bind_result(await self._bind(pod, asked.node))

    def tidy(self) -> None:
        """Nothing; holds have ended whose Pods are bound, gone, or were given up."""
        dropped = self.holds.drop_old(self._clock.monotonic_s())
        for hold in self.holds:
            uid = hold.pod.uid
            is_there = self._state.pod(uid) is not None
            if self._state.ledger.find(uid) is not None or (hold.is_known and not is_there):
                dropped += self.holds.drop(uid)
            hold.is_known = hold.is_known or is_there
        if dropped:
            self._wake()

    def forget(self) -> None:
        """Nothing; Pods that are bound or gone are not waited for any more."""
        self.waits.drop_ended(self._waits, before_s=self._clock.monotonic_s() - self._wanted.hold_s)

    def held(self) -> Iterator[tuple[str, demands.Demand]]:
        """(node, demand) of everything held, for our own decisions."""
        for hold in self.holds:
            for node in hold.nodes:
                yield node, hold.demand

    async def _bind(self, pod: cluster.Pod, node: str) -> str:
        demand = demands.demand_of(pod)
        now_s = self._clock.monotonic_s()
        self.tidy()
        is_exempt = self._is_exempt(pod)
        why_not = None if is_exempt else self._judge.why_not(node, demand, uid=pod.uid, now_s=now_s)
        self.holds.drop(pod.uid)
        self._wake()
        if why_not is not None:
            return f"{node} has no room any more: {why_not}"
        # From here to the claim nothing else runs: there is no moment in which the Pod does not count.
        # As with our own: a Pod whose bind was refused is tried again without what was written on it.
        is_bare = is_exempt or self.waits.was_refused(pod.uid)
        placed_by = None if is_bare else self._state.placed_by(node, now_s)
        since_s = self.waits.since_s(pod.uid, now_s)
        error = await self.binds.bind(
            pod, node, self._facts(node, demand, now_s), since_s=since_s, placed_by=placed_by
        )  # fmt: skip
        if error:
            self.waits.refuse(pod.uid)
        return error

    async def _judged(self, asked: messages.Args, demand: demands.Demand) -> judge.Judged:
        """The verdict; where only other Pods' holds stand in the way, once their binds have had time to come."""
        uid = asked.pod.uid
        while True:
            self.tidy()
            now_s = self._clock.monotonic_s()
            found = self._judge.judge(asked.names, demand, uid=uid, now_s=now_s)
            youngest_s = self.holds.youngest_s(but=uid)
            if not found.is_held_up or youngest_s is None or now_s - youngest_s >= self._wanted.wait_s:
                return found
            await asyncio.sleep(LOOK_EVERY_S)

    async def _pod(self, asked: messages.BindArgs) -> cluster.Pod:
        """The Pod to bind: as the watch has it, as the filter was given it, or as the API tells."""
        hold = self.holds.find(asked.uid)
        known = self._state.pod(asked.uid) or (None if hold is None else hold.pod)
        if known is not None:
            return known
        path = api_actions.pod_path(asked.namespace, asked.name)
        found = api_objects.parse_pod(await self._api.request("GET", path))
        if found.uid != asked.uid:
            raise ValueError(f"{found.key} is another Pod now, of UID {found.uid}")
        return found

    def _facts(self, node: str, demand: demands.Demand, now_s: float) -> decisions.Facts:
        slot = self._state.fleet.slot_of(node)
        view = self._state.fleet.snapshot(now_s)
        row = None if slot is None else view.row(slot)
        free = None if row is None or not row.is_advertised else row.free_for(demand.pod_class)
        return decisions.Facts(
            outcome=decision.Outcome.BOUND,
            node=node,
            free=free,
            candidates=() if row is None else (explain.record_of(row, demand.pod_class, now_s),),
            refused={},
            message=f"{node} chosen by kube-scheduler" + ("" if free is None else f", with room for {free:.1f} Pods"),
        )

    def _why_settled(self, uid: str) -> str | None:
        """Why there is nothing to decide about a Pod; None where there is."""
        claim = self._state.ledger.find(uid)
        if claim is None:
            return None
        return f"a bind to {claim.node} is under way" if claim.is_assumed else f"bound to {claim.node} already"

    def _waits(self, uid: str) -> bool:
        return self._state.pod(uid) is not None and self._state.ledger.find(uid) is None

    def _is_exempt(self, pod: cluster.Pod) -> bool:
        """True for Pods that pass everywhere: DaemonSets' and static ones, and those that CARICO itself needs."""
        return pod.is_baseline or pod.namespace in self._exempt

    def _check_leads(self) -> None:
        if not self._leads():
            raise StandsBy("this scheduler stands by, or the API does not answer it: ask the one that leads, or again")
