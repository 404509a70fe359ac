"""Makes a plan of what the service knows now, and has the scheduler check it."""

import asyncio
import collections
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from carico_core.domain import errors
from carico_core.numerics.rescheduling.containers import carico
from carico_core.runtime.kube import api_actions
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_rescheduler import asked_plans, instruments, journal, reflection
from carico_rescheduler import settings as setting
from carico_rescheduler.adapter import informers, lifetimes, scheduler, telemetry
from carico_rescheduler.context import cluster as clusters
from carico_rescheduler.context import movable, objects
from carico_rescheduler.context import problem as contexts
from carico_rescheduler.moves import record as records
from carico_rescheduler.plan import decision, generator, planning

# How soon informers show that a move has ended, and how often that is looked at.
SEEN_S = 10.0
LOOK_EVERY_S = 1.0
# Why a planned move is not begun, besides `movable.Stays` and `decision.Left.SCHEDULER`.
GONE = "gone"

T = TypeVar("T")
Make = Callable[[contexts.Context, planning.PlanRequest], decision.Plan]


class Aside(Protocol):
    """Runs a calculation of seconds such that renewals of the Lease and queries go on."""

    async def __call__(self, calculate: Callable[[], T]) -> T: ...


async def in_a_thread(calculate: Callable[[], T]) -> T:
    """Run a calculation in a thread."""
    return await asyncio.to_thread(calculate)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawn:
    """Why a planned move is not begun: the reason as a label, and the detail for people."""

    reason: str
    detail: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a planner works with."""

    settings: setting.ReschedulerSettings
    api: api_actions.BindApi
    known: clusters.Cluster
    informers: informers.Informers
    telemetry: telemetry.Telemetry
    journal: journal.Journal
    clock: clocks.Clock
    metrics: instruments.Instruments


class Planner:
    """Makes one plan after the other, each with a seed of its own; `bus` is set once it is connected."""

    def __init__(self, parts: Parts, *, aside: Aside, make: Make) -> None:
        self._parts = parts
        self.aside = aside
        self._make = make
        self.bus: scheduler.Bus | None = None
        self.reflection = reflection.Reflection()
        self._line = logs.get("rescheduler")
        # Why the last question for lifetimes was not answered.
        self._no_lifetimes = ""
        self._seed = 0

    async def plan(self, asked: planning.Question) -> decision.Plan:
        """Return a plan for the cluster as it is now. Raises `NotReady`."""
        _, plan = await self.problem_and_plan(asked)
        return plan

    async def problem_and_plan(self, asked: planning.Question) -> tuple[contexts.Context, decision.Plan]:
        """Return the problem as it is now, and a plan for it. Raises `NotReady`."""
        parts = self._parts
        began_s = parts.clock.monotonic_s()
        await self._learn_lifetimes()
        self.check_known()
        incomplete = parts.telemetry.incomplete()
        if incomplete:
            raise asked_plans.NotReady(incomplete)
        too_large = contexts.too_large(parts.known, generator.PAIRS_MOST[asked.algorithm])
        if too_large:
            raise asked_plans.NotReady(too_large)
        context, gaps = await self.aside(self._building())
        parts.metrics.unresolved.set(gaps.unresolved_bytes)
        self._seed += 1
        request = planning.PlanRequest(
            algorithm=asked.algorithm,
            effort=carico.Effort(budget_s=parts.settings.search_s, now_s=parts.clock.monotonic_s), seed=self._seed,
            rule=self.rule(), budget=self._budget(asked.most), at_ns=parts.clock.wall_ns(),
            has_detours=parts.settings.mode is movable.Mode.SURGE,
        )  # fmt: skip
        plan = await self.aside(functools.partial(self._make, context, request))
        plan = dataclasses.replace(await self._checked(context, plan), gaps=gaps)
        self._show(plan, parts.clock.monotonic_s() - began_s)
        return context, plan

    def rule(self) -> decision.Rule:
        """Return when moves pay: where plans reached a part of what they predicted, the next must predict more."""
        rule, reached = self._parts.settings.rule(), self.reflection.reached(self._parts.clock.wall_ns() / 1e9)
        return dataclasses.replace(rule, least_bytes=rule.least_bytes / reached, least_tasks=rule.least_tasks / reached)

    def _building(self) -> Callable[[], tuple[contexts.Context, clusters.Gaps]]:
        """Return what calculates the problem as it is now, from a copy of what is known."""
        parts, snapshot = self._parts, self._parts.telemetry.snapshot()
        failed, now_s = parts.journal.rests(), parts.clock.wall_ns() / 1e9

        def build() -> tuple[contexts.Context, clusters.Gaps]:
            known = snapshot.resolve()
            judge = movable.Judge(known, parts.settings.policy(), now_s=now_s, failed=failed)
            return contexts.build(judge, parts.settings.ceilings()), known.gaps

        return build

    async def _learn_lifetimes(self) -> None:
        assert self.bus is not None
        why_not = await lifetimes.ask(self.bus, self._parts.known)
        if why_not and why_not != self._no_lifetimes:
            self._line.warning("no aggregator says how long Pods live", why=why_not)
        self._no_lifetimes = why_not

    def pod(self, namespace: str, name: str) -> objects.KnownPod | None:
        """Return a Pod of the cluster as it is now; None if there is no such Pod."""
        return self._parts.known.pods.found.get((namespace, name))

    def check_known(self) -> None:
        """Raise `NotReady` unless the cluster is known as it is now."""
        away = self._parts.informers.away()
        if away:
            raise asked_plans.NotReady("; ".join(f"{kind}: {why}" for kind, why in away.items()))

    async def current(self, move: decision.Move, made: Sequence[records.Record]) -> decision.Move | Withdrawn:
        """Return a planned move as it is to be made now, after the moves of the plan that were made; or why it is not.

        Raises `NotReady` if neither API nor scheduler can answer that.
        """
        before = [each for each in made if each.uid == move.pod.uid]
        pod = await self._followed(move, before[-1].successor if before else move.pod.pod.name)
        if pod is None:
            return Withdrawn(reason=GONE, detail=f"{move.pod.pod.key} is gone")
        is_after_another = any(each.owner == pod.controller for each in made)
        skipped = await self._why_not(pod, is_on_its_way=bool(before), within_s=SEEN_S if is_after_another else 0.0)
        if skipped is not None:
            return Withdrawn(reason=skipped.why.value, detail=f"{pod.pod.key}: {skipped.detail}")
        found = dataclasses.replace(move, pod=pod)
        is_to_have_room = any(each.source == move.target for each in made)
        refusal = await self._refusal(found, within_s=self._parts.settings.place_s if is_to_have_room else 0.0)
        if refusal is not None:
            detail = f"{pod.pod.key} to {move.target}: {refusal.detail}"
            return Withdrawn(reason=decision.Left.SCHEDULER.value, detail=detail)
        return found

    async def _followed(self, move: decision.Move, name: str) -> objects.KnownPod | None:
        """Return the Pod with this name where the move begins; None if it is not there, nor soon is.

        `name`: the Pod's own, or that of the Pod which has taken its place a moment ago.
        """
        namespace = move.pod.pod.namespace
        until_s = self._parts.clock.monotonic_s() + (SEEN_S if name != move.pod.pod.name else 0.0)
        while True:
            pod = self._parts.known.pods.found.get((namespace, name))
            is_here = pod is not None and pod.is_active and not pod.is_surge and pod.pod.node_name == move.source
            if pod is not None and is_here and (pod.uid == move.pod.uid or name != move.pod.pod.name):
                return pod
            if self._parts.clock.monotonic_s() >= until_s:
                return None
            await asyncio.sleep(LOOK_EVERY_S)

    async def _why_not(
        self, pod: objects.KnownPod, *, is_on_its_way: bool, within_s: float
    ) -> movable.Skipped | None:  # fmt: skip
        """Return why a Pod may not move now; within so many seconds, its controller's Pods may come to rest."""
        until_s = self._parts.clock.monotonic_s() + within_s
        while True:
            # One on its way to another node is as young as its last step.
            skipped = self._judge(is_on_its_way=is_on_its_way).why_not(pod)
            is_rolling = skipped is not None and skipped.why is movable.Stays.ROLLOUT
            if not is_rolling or self._parts.clock.monotonic_s() >= until_s:
                return skipped
            await asyncio.sleep(LOOK_EVERY_S)

    async def _refusal(self, move: decision.Move, *, within_s: float) -> scheduler.Refusal | None:
        """Return why the scheduler would not place the new Pod where it is to be, nor within so many seconds."""
        until_s = self._parts.clock.monotonic_s() + within_s
        while True:
            refusal = await self._ask(move)
            if refusal is None or refusal.lasts or self._parts.clock.monotonic_s() >= until_s:
                return refusal
            await asyncio.sleep(LOOK_EVERY_S)

    async def _checked(self, context: contexts.Context, plan: decision.Plan) -> decision.Plan:
        """Return the plan without the moves that the scheduler would not carry out.

        Where a node has no room before an earlier move of the plan has left it, the scheduler is asked again then.
        """
        kept: list[decision.Move] = []
        left: list[decision.LeftOut] = []
        for move in plan.moves:
            refusal = await self._ask(move)
            if refusal is None or (not refusal.lasts and any(each.source == move.target for each in kept)):
                kept.append(move)
            else:
                left.append(decision.left_out(move, decision.Left.SCHEDULER, refusal.detail))
        if not left:
            return plan
        return planning.without_others(context, plan, kept, rule=self.rule(), refused=left)

    async def _ask(self, move: decision.Move) -> scheduler.Refusal | None:
        assert self.bus is not None
        asker = scheduler.Asker(bus=self.bus, api=self._parts.api, known=self._parts.known)
        try:
            return await asker.why_not(move)
        except errors.BusUnavailable as error:
            raise asked_plans.NotReady(f"no scheduler answers: {error}") from error
        except (errors.ApiError, errors.ApiUnavailable) as error:
            raise asked_plans.NotReady(f"the API does not answer: {error}") from error

    def _judge(self, *, is_on_its_way: bool) -> movable.Judge:
        parts = self._parts
        policy = parts.settings.policy()
        return movable.Judge(
            parts.known, dataclasses.replace(policy, least_age_s=0.0) if is_on_its_way else policy,
            now_s=parts.clock.wall_ns() / 1e9, failed=parts.journal.rests(),
        )  # fmt: skip

    def _budget(self, most: int | None) -> int:
        """Return how many of at most so many moves this hour has left; moves of earlier processes count as well."""
        left = self._parts.settings.moves_per_hour - self._parts.journal.moves_of_the_hour()
        return left if most is None else min(left, most)

    def _show(self, plan: decision.Plan, took_s: float) -> None:
        metrics = self._parts.metrics
        metrics.plans.labels("moves" if plan.moves else "none").inc()
        metrics.plan_s.observe(took_s)
        metrics.planned.set(len(plan.moves))
        metrics.traffic.set(plan.traffic_bytes[0])
        metrics.excess.set(plan.excess_tasks[0])
        left = collections.Counter(each.why for each in plan.left_out)
        for each in decision.Left:
            metrics.left_out.labels(each.value).set(left[each])
        counts = planning.count_skipped(plan)
        for reason in movable.Stays:
            metrics.skipped.labels(reason.value).set(counts.get(reason.value, 0))
        self._line.info(
            "plan", moves=len(plan.moves), gain=round(plan.gain, 4), left_out=len(plan.left_out),
            traffic_bytes=round(plan.traffic_bytes[0]), overload_tasks=round(plan.excess_tasks[0], 3),
            verdict=plan.verdict, took_s=round(took_s, 3),
        )  # fmt: skip
