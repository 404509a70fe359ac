"""Makes a plan of what the service knows now, and has the scheduler check it."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable

from carico_core.domain import errors
from carico_core.numerics.rescheduling import carico
from carico_core.runtime.kube import api_actions
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_rescheduler import asked_plans, instruments
from carico_rescheduler import settings as setting
from carico_rescheduler.adapter import informers, lifetimes, scheduler, telemetry
from carico_rescheduler.context import cluster as clusters
from carico_rescheduler.context import movable
from carico_rescheduler.context import problem as contexts
from carico_rescheduler.moves import executor
from carico_rescheduler.moves import record as records
from carico_rescheduler.plan import decision, planning

HOUR_S = 3600.0
# How long Pods are left alone after a move of their controller's Pods failed.
FAILED_REST_S = 600.0

Search = Callable[[contexts.Context, planning.Request], Awaitable[decision.Plan]]


async def search_in_a_thread(context: contexts.Context, asked: planning.Request) -> decision.Plan:
    """Plan in a thread: a search is a second of arithmetic, in which renewals of the Lease and queries go on."""
    return await asyncio.to_thread(planning.make, context, asked)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a planner works with."""

    settings: setting.ReschedulerSettings
    api: api_actions.BindApi
    known: clusters.Cluster
    informers: informers.Informers
    telemetry: telemetry.Telemetry
    executor: executor.Executor
    clock: clocks.Clock
    metrics: instruments.Instruments


class Planner:
    """Makes one plan after the other, each with a seed of its own; `bus` is set once it is connected."""

    def __init__(self, parts: Parts, *, search: Search) -> None:
        self._parts = parts
        self.search = search
        self.bus: scheduler.Bus | None = None
        self._line = logs.get("rescheduler")
        self._odd_line = logs.RateLimited(self._line, clock=parts.clock)
        self._seed = 0

    async def plan(self, asked: planning.Question) -> decision.Plan:
        """Return a plan for the cluster as it is now. Raises `NotReady`."""
        parts = self._parts
        self.check_known()
        if not parts.known.advertisements:
            raise asked_plans.NotReady("no advertisement of any node has arrived")
        too_large = contexts.too_large(parts.known)
        if too_large:
            raise asked_plans.NotReady(too_large)
        began_s = parts.clock.monotonic_s()
        await self._learn_lifetimes()
        parts.telemetry.join()
        context = contexts.build(self._judge(), parts.settings.ceilings())
        self._seed += 1
        request = planning.Request(
            algorithm=asked.algorithm,
            effort=carico.Effort(budget_s=parts.settings.search_s, now_s=parts.clock.monotonic_s), seed=self._seed,
            rule=parts.settings.rule(), budget=self._budget(asked.most), at_ns=parts.clock.wall_ns(),
        )  # fmt: skip
        plan = await self.search(context, request)
        plan = await self._checked(context, plan)
        self._show(plan, parts.clock.monotonic_s() - began_s)
        return plan

    async def _learn_lifetimes(self) -> None:
        assert self.bus is not None
        why_not = await lifetimes.ask(self.bus, self._parts.known)
        if why_not:
            self._odd_line.warning("lifetimes", "lifetimes of Pods are as before", why=why_not)

    def check_known(self) -> None:
        """Raise `NotReady` unless the cluster is known as it is now."""
        away = self._parts.informers.away()
        if away:
            raise asked_plans.NotReady("; ".join(f"{kind}: {why}" for kind, why in away.items()))

    def gone(self, move: decision.Move) -> str:
        """Return why a planned move has no ground any more; empty if it has."""
        pod = self._parts.known.pods.found.get((move.pod.pod.namespace, move.pod.pod.name))
        if pod is None or pod.uid != move.pod.uid or not pod.is_active or pod.pod.node_name != move.source:
            return f"{move.pod.pod.key} is gone"
        skipped = self._judge().why_not(pod)
        return "" if skipped is None else f"{pod.pod.key}: {skipped.detail}"

    async def _checked(self, context: contexts.Context, plan: decision.Plan) -> decision.Plan:
        """Return the plan without the moves that the scheduler would not carry out."""
        assert self.bus is not None
        asker = scheduler.Asker(bus=self.bus, api=self._parts.api, known=self._parts.known)
        kept, left = [], []
        for move in plan.moves:
            try:
                why = await asker.why_not(move)
            except errors.BusUnavailable as error:
                raise asked_plans.NotReady(f"no scheduler answers: {error}") from error
            except (errors.ApiError, errors.ApiUnavailable) as error:
                raise asked_plans.NotReady(f"the API does not answer: {error}") from error
            if why:
                left.append(decision.left_out(move, decision.Left.SCHEDULER, why))
            else:
                kept.append(move)
        if not left:
            return plan
        return planning.without_others(context, plan, kept, rule=self._parts.settings.rule(), refused=left)

    def _judge(self) -> movable.Judge:
        parts = self._parts
        return movable.Judge(
            parts.known, parts.settings.policy(), now_s=parts.clock.wall_ns() / 1e9,
            failed=parts.executor.failed(FAILED_REST_S),
        )  # fmt: skip

    def _budget(self, most: int | None) -> int:
        """Return how many of at most so many moves this hour has left; moves of earlier processes count as well."""
        parts = self._parts
        now_s, wall_s = parts.clock.monotonic_s(), parts.clock.wall_ns() / 1e9
        mine = sum(
            each.state is records.State.MOVED and now_s - each.began_s < HOUR_S for each in parts.executor.ended
        )  # fmt: skip
        shown = sum(
            (moved_s := each.moved_at_s) is not None and wall_s - moved_s < HOUR_S
            for each in parts.known.pods.found.values()
        )
        left = parts.settings.moves_per_hour - max(mine, shown)
        return left if most is None else min(left, most)

    def _show(self, plan: decision.Plan, took_s: float) -> None:
        metrics = self._parts.metrics
        metrics.plans.labels("moves" if plan.moves else "none").inc()
        metrics.plan_s.observe(took_s)
        metrics.planned.set(len(plan.moves))
        metrics.traffic.set(plan.traffic_bytes[0])
        metrics.excess.set(plan.excess_tasks[0])
        counts = planning.count_skipped(plan)
        for reason in movable.Stays:
            metrics.skipped.labels(reason.value).set(counts.get(reason.value, 0))
        self._line.info(
            "plan", moves=len(plan.moves), gain=round(plan.gain, 4), left_out=len(plan.left_out),
            traffic_bytes=round(plan.traffic_bytes[0]), overload_tasks=round(plan.excess_tasks[0], 3),
            verdict=plan.verdict, took_s=round(took_s, 3),
        )  # fmt: skip
