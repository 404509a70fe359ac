"""One rescheduler over an API and a bus: follows both, makes rounds while it leads, and answers queries.

Every replica follows the API and the bus, so that it knows the cluster the moment it leads.
"""

import asyncio
import contextlib
import functools
from collections.abc import Awaitable
from typing import NoReturn, Protocol

from carico_core.runtime.bus import listening, serving
from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import api_actions, cluster_access, informer
from carico_core.runtime.leadership import elector, status
from carico_core.runtime.observe import client_metrics, health, logs, metrics
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import tasks
from carico_rescheduler import answers, asked_plans, instruments, journal, planner, rounds
from carico_rescheduler import settings as setting
from carico_rescheduler.adapter import informers, scheduler, telemetry
from carico_rescheduler.context import cluster as clusters
from carico_rescheduler.context import movable
from carico_rescheduler.moves import executor
from carico_rescheduler.moves import record as records
from carico_rescheduler.plan import planning

_FORGET_EVERY_S = 1.0


class Kube(informer.ListerWatcher, api_actions.BindApi, Protocol):
    """The part of the Kubernetes API that a rescheduler uses."""


class Bus(listening.Bus, scheduler.Bus, serving.Answering, client_metrics.Bus, Protocol):
    """The part of the bus that a rescheduler uses."""

    async def wait_closed(self) -> NoReturn:
        """Raise `BusUnavailable` once the bus is closed for good."""


class Rescheduler:
    """One rescheduler over an API (`lease_api`: a client of its own for the Lease) and, once connected, a bus."""

    def __init__(
        self, settings: setting.ReschedulerSettings, *, api: Kube, clock: clocks.Clock,
        lease_api: api_actions.Api | None = None, series: metrics.Metrics | None = None,
        aside: planner.Aside = planner.in_a_thread, make: planner.Make = planning.make,
    ) -> None:  # fmt: skip
        self._settings = settings
        self._boot = clocks.boot_id(clock)
        self.metrics = metrics.Metrics("rescheduler") if series is None else series
        self.bus_metrics = client_metrics.BusMetrics(self.metrics)
        counted = self._counted = instruments.Instruments(self.metrics)
        self._line = logs.get("rescheduler")
        self.known = clusters.Cluster()
        self.informers = informers.Informers(
            api,
            into=self.known,
            clock=clock,
            metrics=counted,
            has_autoscalers=settings.mode is movable.Mode.NODE_SELECTOR,
        )
        self.telemetry = telemetry.Telemetry(self.known, lease_s=settings.bus.lease_s, clock=clock, metrics=counted)
        duties = elector.Duties(
            is_fit=lambda: not self.informers.away(), prepare=_nothing, on_change=self._on_change,
            is_reached=self._is_reached, is_idle=self._is_idle,
        )  # fmt: skip
        self.leadership = status.Leadership(
            settings.leader, boot=self._boot, api=lease_api or api, clock=clock, duties=duties, program=setting.PROGRAM
        )
        namespace = settings.leader.namespace or cluster_access.own_namespace() or status.NAMESPACE
        kept = journal.Journal(api=api, namespace=namespace, clock=clock, permit=self._permit)
        self.executor = executor.Executor(
            executor.Parts(
                api=api, known=self.known, clock=clock, metrics=counted, permit=self._permit,
                mode=settings.mode, limits=settings.limits(), journal=kept,
            )
        )  # fmt: skip
        self.planner = planner.Planner(
            planner.Parts(
                settings=settings, api=api, known=self.known, informers=self.informers, telemetry=self.telemetry,
                journal=kept, clock=clock, metrics=counted,
            ),
            aside=aside, make=make,
        )  # fmt: skip
        self.rounds = rounds.Rounds(
            rounds.Parts(
                settings=settings, boot=self._boot, planner=self.planner, executor=self.executor, journal=kept,
                leadership=self.leadership, clock=clock, metrics=counted,
            )
        )  # fmt: skip
        self._asked_plans = asked_plans.AskedPlans(self.planner.plan, now_s=clock.monotonic_s)

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
        self.planner.bus = bus
        self.bus_metrics.watch(bus)
        works: dict[str, Awaitable[object]] = {
            **self.informers.works(),
            "advertisements": self._listen(bus),
            "forgetting": self._forget_forever(),
            "queries": serving.answer_while_leading(bus, self._service, self.leadership, log="rescheduler"),
            "work": self.rounds.run_forever(),
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
        self.rounds.stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settings.stop_timeout_s):
                await self.executor.idle.wait()
        stopping.set()

    async def _listen(self, bus: Bus) -> None:
        """Hear what agents report, until cancelled."""
        # Until Nodes are known, any name may be one.
        await self.informers.nodes_listed.wait()
        for kind, each in self.telemetry.listening.items():
            await serving.until_taken_with_warnings(kind, functools.partial(each.arrange, bus), log="rescheduler")
        async with asyncio.TaskGroup() as group:
            for each in self.telemetry.listening.values():
                group.create_task(each.run_forever(bus))

    async def _forget_forever(self) -> None:
        while True:
            self.telemetry.forget()
            await asyncio.sleep(_FORGET_EVERY_S)

    def _service(self) -> buses.ServiceSpec:
        return buses.ServiceSpec(
            name=setting.PROGRAM,
            description="Plans and moves of the CARICO rescheduler",
            endpoints=answers.Answers(rounds=self.rounds, plans=self._asked_plans).endpoints(),
            queue=self._boot,
        )

    def _is_reached(self) -> bool:
        # A connection can look alive while nothing arrives: NATS clients notice a cut only after minutes.
        return self.bus_metrics.why_not() is None and bool(self.known.advertisements)

    def _is_idle(self) -> bool:
        # A write whose answer did not come may still take effect.
        return self.rounds.is_idle and not self.executor.is_cut_off

    def _permit(self) -> None:
        if not self.leadership.leads():
            raise records.NotLeading("this replica does not lead any more")

    def _on_change(self, leads: bool) -> None:
        self._counted.leading.set(leads)
        # The next term begins with what others have left, not after a pause of this one.
        self.rounds.wake()


async def _nothing() -> None:
    """Prepare a term: each round begins with what an earlier term has left."""
