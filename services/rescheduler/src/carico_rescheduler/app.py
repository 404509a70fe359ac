"""One rescheduler over an API and a bus: plans, moves and looks at what came of it while it leads.

Every replica follows the API and the bus, so that it knows the cluster the moment it leads. Each round finishes what an
earlier process left, makes a plan, and carries it out move by move; the next round plans with what it has changed.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Protocol

from carico_core.domain import errors
from carico_core.numerics.rescheduling import carico
from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import api_actions, cluster_access
from carico_core.runtime.leadership import elector, status
from carico_core.runtime.observe import client_metrics, health, logs, metrics
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import tasks
from carico_core.wire import subjects
from carico_rescheduler import answers, asked_plans, instruments, pausing, reflection
from carico_rescheduler import settings as setting
from carico_rescheduler.adapter import informers, scheduler, telemetry
from carico_rescheduler.context import cluster as clusters
from carico_rescheduler.context import movable
from carico_rescheduler.context import problem as contexts
from carico_rescheduler.moves import executor
from carico_rescheduler.moves import record as records
from carico_rescheduler.plan import decision, planning

RETRY_S = 0.5
HOUR_S = 3600.0
# How long Pods are left alone after a move of their controller's Pods failed.
FAILED_REST_S = 600.0
# How soon a round that could not plan is repeated.
SOON_S = 5.0

_FORGET_EVERY_S = 1.0


Search = Callable[[contexts.Context, planning.Request], Awaitable[decision.Plan]]


class Kube(informers.ListerWatcher, api_actions.BindApi, Protocol):
    """The part of the Kubernetes API that a rescheduler uses."""


class Bus(scheduler.Bus, Protocol):
    """The part of the bus that a rescheduler uses."""

    @property
    def connected(self) -> bool:
        """True while the client is connected to NATS."""

    @property
    def traffic(self) -> buses.Traffic:
        """The traffic of the connection so far."""

    async def subscribe(self, subject: str, handler: Callable[[str, bytes], None]) -> object:
        """Call `handler` with every message of `subject`."""

    async def latest_capacities(self) -> list[tuple[str, bytes]]:
        """Return the newest advertisement of each node that the bus has stored."""

    async def serve(self, service: buses.ServiceSpec) -> buses.ServiceHandle:
        """Answer queries."""

    async def wait_closed(self) -> None:
        """Wait until the bus is closed for good."""


async def _search_in_a_thread(context: contexts.Context, asked: planning.Request) -> decision.Plan:
    """Plan in a thread: a search is a second of arithmetic, in which renewals of the Lease and queries go on."""
    return await asyncio.to_thread(planning.make, context, asked)


class Rescheduler:
    """One rescheduler over an API (`lease_api`: a client of its own for the Lease) and, once connected, a bus."""

    def __init__(
        self, settings: setting.ReschedulerSettings, *, api: Kube, clock: clocks.Clock,
        lease_api: api_actions.Api | None = None, series: metrics.Metrics | None = None,
        search: Search = _search_in_a_thread,
    ) -> None:  # fmt: skip
        self._settings = settings
        self._search = search
        self._api = api
        self._clock = clock
        self._boot = clocks.boot_id(clock)
        self.metrics = metrics.Metrics("rescheduler") if series is None else series
        self.bus_metrics = client_metrics.BusMetrics(self.metrics)
        self._counted = instruments.Instruments(self.metrics)
        self._line = logs.get("rescheduler")
        self._odd_line = logs.RateLimited(self._line, clock=clock)
        self._bus: Bus | None = None
        self._wake = asyncio.Event()
        self._is_stopping = False
        self._seed = 0
        # Set by a query: the next round carries out this plan, automatic or not.
        self._asked: planning.Question | None = None
        self._asked_plans = asked_plans.AskedPlans(self.plan, now_s=clock.monotonic_s)
        # Rounds that have ended, and whether one is under way.
        self.rounds = 0
        self._is_turning = False
        self._recovered = False
        self.known = clusters.Cluster()
        self.informers = informers.Informers(api, into=self.known, clock=clock, metrics=self._counted)
        self.telemetry = telemetry.Telemetry(
            self.known, lease_s=settings.bus.lease_s, clock=clock, metrics=self._counted
        )
        duties = elector.Duties(
            is_fit=lambda: not self.informers.away(), prepare=_nothing, on_change=self._on_change,
            is_idle=lambda: self.executor.current is None,
        )  # fmt: skip
        self.leadership = status.Leadership(
            settings.leader, boot=self._boot, api=lease_api or api, clock=clock, duties=duties, program=setting.PROGRAM
        )
        namespace = settings.leader.namespace or cluster_access.own_namespace() or status.NAMESPACE
        self.pausing = pausing.Pausing(api=api, namespace=namespace, clock=clock, permit=self._permit)
        self.executor = executor.Executor(
            executor.Parts(
                api=api, known=self.known, clock=clock, metrics=self._counted, permit=self._permit,
                mode=settings.mode, limits=settings.limits(),
            )
        )  # fmt: skip
        self.reflection = reflection.Reflection()
        self.last: decision.Plan | None = None
        # Why the last round moved nothing.
        self.rests = "no plan has been made yet"

    @property
    def health(self) -> health.Health:
        """Ready: this rescheduler works, or could as the leader."""
        return health.Health(
            {
                "kubernetes": lambda: (
                    "; ".join(f"{kind}: {why}" for kind, why in self.informers.away().items()) or None
                ),
                "bus": self.bus_metrics.why_not,
                "leadership": self.leadership.trouble,
            },
            notes={"leader": self.leadership.leader},
        )

    async def run(self, bus: Bus, stop: tasks.Stop) -> None:
        """Run until `stop`; then end or undo the move under way, and release the Lease."""
        self._bus = bus
        self.bus_metrics.watch(bus)
        works: dict[str, Awaitable[object]] = {
            **self.informers.works(),
            "advertisements": self._listen(bus),
            "forgetting": self._forget_forever(),
            "queries": self._answer(bus),
            "work": self._work_forever(),
            "bus": bus.wait_closed(),
            **self.leadership.works(),
        }
        stopping = tasks.Stop()
        hand_over = asyncio.ensure_future(self._hand_over(stop, stopping))
        try:
            await tasks.until(stopping, **works)
        finally:
            hand_over.cancel()
            await asyncio.gather(hand_over, self._asked_plans.close(), return_exceptions=True)
            # Otherwise, the next leader waits until the Lease ends, and with it all writes of this term.
            if not self.executor.is_cut_off:
                self.leadership.stand_down()
                await self.leadership.release()
            self._line.info("stopped", cut_off=self.executor.is_cut_off)

    async def _hand_over(self, stop: tasks.Stop, stopping: tasks.Stop) -> None:
        """On `stop`, let the move under way end or be undone while everything else still runs; then stop the rest."""
        await stop.wait()
        self._is_stopping = True
        self.executor.stop()
        self._wake.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.stop_timeout_s):
                await self.executor.idle.wait()
        stopping.set()

    # Planning.

    async def plan_within(self, asked: planning.Question, within_s: float) -> decision.Plan | None:
        """Return a plan for a query: see `asked_plans.AskedPlans.within`."""
        return await self._asked_plans.within(asked, within_s)

    async def plan(self, asked: planning.Question) -> decision.Plan:
        """Return a plan for the cluster as it is now. Raises `NotReady`."""
        self._check_known()
        if not self.known.advertisements:
            raise asked_plans.NotReady("no advertisement of any node has arrived")
        too_large = contexts.too_large(self.known)
        if too_large:
            raise asked_plans.NotReady(too_large)
        began_s = self._clock.monotonic_s()
        self.telemetry.join()
        context = contexts.build(self._judge(), self._settings.ceilings())
        self._seed += 1
        request = planning.Request(
            algorithm=asked.algorithm,
            effort=carico.Effort(budget_s=self._settings.search_s, now_s=self._clock.monotonic_s), seed=self._seed,
            rule=self._settings.rule(), budget=self._budget(asked.most), at_ns=self._clock.wall_ns(),
        )  # fmt: skip
        plan = await self._search(context, request)
        plan = await self._checked(context, plan)
        self._show(plan, self._clock.monotonic_s() - began_s)
        return plan

    async def _checked(self, context: contexts.Context, plan: decision.Plan) -> decision.Plan:
        """Return the plan without the moves that the scheduler would not carry out."""
        assert self._bus is not None
        asker = scheduler.Asker(bus=self._bus, api=self._api, known=self.known)
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
        return planning.without_others(context, plan, kept, rule=self._settings.rule(), refused=left)

    def _check_known(self) -> None:
        """Raise `NotReady` unless the cluster is known as it is now."""
        away = self.informers.away()
        if away:
            raise asked_plans.NotReady("; ".join(f"{kind}: {why}" for kind, why in away.items()))

    def _judge(self) -> movable.Judge:
        return movable.Judge(
            self.known, self._settings.policy(), now_s=self._clock.wall_ns() / 1e9,
            failed=self.executor.failed(FAILED_REST_S),
        )  # fmt: skip

    def _budget(self, most: int | None) -> int:
        """Return how many of at most so many moves this hour has left; moves of earlier processes count as well."""
        now_s, wall_s = self._clock.monotonic_s(), self._clock.wall_ns() / 1e9
        mine = sum(
            each.state is records.State.MOVED and now_s - each.began_s < HOUR_S for each in self.executor.ended
        )  # fmt: skip
        shown = sum(
            (moved_s := each.moved_at_s) is not None and wall_s - moved_s < HOUR_S
            for each in self.known.pods.found.values()
        )
        left = self._settings.moves_per_hour - max(mine, shown)
        return left if most is None else min(left, most)

    # The loop.

    async def _work_forever(self) -> None:
        while True:
            await self.leadership.until(leads=True)
            self._recovered = False
            while self.leadership.leads() and not self._is_stopping:
                self._wake.clear()
                pause_s = await self._round()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await self._wake.wait()
            if self._is_stopping:
                await asyncio.Event().wait()

    async def _round(self) -> float:
        """Make one plan and carry it out; return the seconds until the next round."""
        asked, self._asked = self._asked, None
        self._is_turning, pause_s = True, self._settings.every_s
        try:
            self.rests = await self._turn(asked)
        except (asked_plans.NotReady, records.NotLeading) as error:
            self.rests = str(error)
            # At the start, agents and the scheduler are not there yet.
            pause_s = min(SOON_S if self._recovered else RETRY_S, pause_s)
        except (errors.ApiError, errors.ApiUnavailable) as error:
            self.rests = f"the API does not answer: {error}"
        finally:
            self._is_turning = False
        self.rounds += 1
        if self.rests:
            self._odd_line.warning(self.rests, "nothing is moved", why=self.rests)
        return pause_s

    async def _turn(self, asked: planning.Question | None) -> str:
        """Do what a round does; return why it moved nothing."""
        self._check_known()
        # Also while paused: nothing is left half done.
        await self.executor.recover()
        self._recovered = True
        paused = await self.pausing.why()
        self._counted.paused.set(bool(paused))
        plan = self.last = await self.plan(asked or planning.Question())
        self._reflect(plan)
        now_s = self._clock.monotonic_s()
        if paused:
            return paused
        if asked is None:
            if not self._settings.automatic:
                return "plans are carried out on request only"
            if self.reflection.is_settling():
                return "the effect of the last plan is still to be measured"
            if self.reflection.rests(now_s):
                return self.reflection.rests(now_s)
        return await self._carry_out(plan) if plan.moves else plan.verdict

    async def _carry_out(self, plan: decision.Plan) -> str:
        """Make the moves of a plan in order, until one fails: the rest was planned for another cluster."""
        gain, why = 0.0, ""
        try:
            for move in plan.moves:
                why = await self.pausing.why() or self._gone(move)
                if why or self._is_stopping:
                    break
                made = await self.executor.run(move)
                if made.state is not records.State.MOVED:
                    why = f"{made.pod}: {made.detail}"
                    break
                gain += move.gain
        finally:
            # Also if the API goes away in between: what was made takes effect, and is measured.
            self.reflection.made(plan, gain, plan.weights, self._clock.monotonic_s())
            self._counted.predicted.inc(max(gain, 0.0))
        return why

    def _gone(self, move: decision.Move) -> str:
        """Return why a planned move has no ground any more; empty if it has."""
        pod = self.known.pods.found.get((move.pod.pod.namespace, move.pod.pod.name))
        if pod is None or pod.uid != move.pod.uid or not pod.is_active or pod.pod.node_name != move.source:
            return f"{move.pod.pod.key} is gone"
        skipped = self._judge().why_not(pod)
        return "" if skipped is None else f"{pod.pod.key}: {skipped.detail}"

    def _reflect(self, plan: decision.Plan) -> None:
        found = self.reflection.measure(plan.traffic_bytes[0], plan.excess_tasks[0], self._clock.monotonic_s())
        if found is not None:
            predicted, measured = found
            self._counted.measured.inc(max(measured, 0.0))
            self._line.info("effect of the last plan", predicted=round(predicted, 4), measured=round(measured, 4))

    def _show(self, plan: decision.Plan, took_s: float) -> None:
        self._counted.plans.labels("moves" if plan.moves else "none").inc()
        self._counted.plan_s.observe(took_s)
        self._counted.planned.set(len(plan.moves))
        self._counted.traffic.set(plan.traffic_bytes[0])
        self._counted.excess.set(plan.excess_tasks[0])
        counts = planning.count_skipped(plan)
        for reason in movable.Stays:
            self._counted.skipped.labels(reason.value).set(counts.get(reason.value, 0))
        self._line.info(
            "plan", moves=len(plan.moves), gain=round(plan.gain, 4), left_out=len(plan.left_out),
            traffic_bytes=round(plan.traffic_bytes[0]), overload_tasks=round(plan.excess_tasks[0], 3),
            verdict=plan.verdict, took_s=round(took_s, 3),
        )  # fmt: skip

    # The bus.

    async def _listen(self, bus: Bus) -> None:
        await self._retry(
            "advertisements", lambda: bus.subscribe(subjects.CAPACITY_ALL, self.telemetry.on_advertisement)
        )
        await self._retry("loads", lambda: bus.subscribe(subjects.PODS_ALL, self.telemetry.on_loads))
        await self._retry("traffic", lambda: bus.subscribe(subjects.TRAFFIC_ALL, self.telemetry.on_traffic))
        await self._retry("stored advertisements", lambda: self._recall(bus))
        await asyncio.Event().wait()

    async def _recall(self, bus: Bus) -> None:
        for subject, payload in await bus.latest_capacities():
            self.telemetry.recall(subject, payload)

    async def _forget_forever(self) -> None:
        while True:
            self.telemetry.forget()
            await asyncio.sleep(_FORGET_EVERY_S)

    async def _answer(self, bus: Bus) -> None:
        """Answer queries while this replica leads, until cancelled."""
        while True:
            await self.leadership.until(leads=True)
            handles: list[buses.ServiceHandle] = []

            async def serve(into: list[buses.ServiceHandle] = handles) -> None:
                into.append(await bus.serve(self._service()))

            await self._retry("queries", serve)
            await self.leadership.until(leads=False)
            await handles[0].close()

    def _service(self) -> buses.ServiceSpec:
        return buses.ServiceSpec(
            name=setting.PROGRAM,
            description="Plans and moves of the CARICO rescheduler",
            endpoints=answers.Answers(source=self).endpoints(),
            queue=self._boot,
        )

    def apply(self, asked: planning.Question) -> int:
        """Have a round carry out a plan; return how many rounds have ended when it has."""
        self._asked = asked
        self._wake.set()
        return self.rounds + (2 if self._is_turning else 1)

    @property
    def mode(self) -> movable.Mode:
        """How Pods are moved."""
        return self._settings.mode

    @property
    def is_automatic(self) -> bool:
        """Whether plans are carried out without a request."""
        return self._settings.automatic

    def age_s(self, at_s: float) -> float:
        """Return the seconds since a time on the monotonic clock."""
        return self._clock.monotonic_s() - at_s

    def _permit(self) -> None:
        if not self.leadership.leads():
            raise records.NotLeading("this replica does not lead any more")

    def _on_change(self, leads: bool) -> None:
        self._counted.leading.set(leads)

    async def _retry(self, what: str, attempt: Callable[[], Awaitable[object]]) -> None:
        """Repeat `attempt` until it succeeds; the bus may become unavailable at any moment."""
        while True:
            try:
                await attempt()
            except errors.BusUnavailable as error:
                self._line.warning("bus unavailable", wanted=what, error=str(error))
                await asyncio.sleep(RETRY_S)
            else:
                return


async def _nothing() -> None:
    """Prepare a term: each round begins with what an earlier term has left."""
