"""The scheduler as a service: connects to the bus and the API, runs until it is asked to stop, and stops in order."""

import random
from collections.abc import Awaitable, Callable
from typing import Protocol

from carico_core.domain import errors
from carico_core.runtime import bus as buses
from carico_core.runtime import clock as clocks
from carico_core.runtime import health, kube, kube_actions, logs, metrics, nats_bus, tasks
from carico_core.wire import subjects
from carico_scheduler import decisions, engine, events, instruments, queries
from carico_scheduler import settings as setting

NAME = "carico-scheduler"
# The decision loop beats every second; a loop that is silent for this long is stuck, and a restart mends it.
STUCK_AFTER_S = 30.0


class Bus(decisions.Publisher, Protocol):
    """What is needed of the bus."""

    @property
    def connected(self) -> bool:
        """True while the server can be reached."""

    async def subscribe(self, subject: str, handler: Callable[[str, bytes], None]) -> object:
        """Calls `handler` with every message of `subject`."""

    async def latest_capacities(self) -> list[tuple[str, bytes]]:
        """The newest advertisement of each node that the bus has kept."""

    async def serve(self, service: buses.ServiceSpec) -> object:
        """Answers queries."""

    async def wait_closed(self) -> None:
        """Returns when the bus is closed for good."""


class Scheduler:
    """One scheduler over a bus and an API, which it does not close."""

    def __init__(self, settings: setting.SchedulerSettings, *, bus: Bus, api: engine.Kube, clock: clocks.Clock) -> None:
        self._settings = settings
        self._bus = bus
        self._clock = clock
        self.metrics = metrics.Metrics("scheduler")
        counted = instruments.Instruments(self.metrics)
        boot = clocks.boot_id(clock)
        seed = settings.seed if settings.seed >= 0 else clock.wall_ns()
        self._log = decisions.Log(
            boot=boot, threshold=settings.threshold, clock=clock, on_drop=counted.lost_records.inc
        )
        recorder = kube_actions.EventRecorder(api, clock=clock, controller=NAME, instance=f"{NAME}-{boot}")
        self._events = events.Writer(
            recorder,
            pace=kube.Pace(settings.events_per_s, clock=clock),
            on_drop=lambda why: counted.lost_events.labels(why).inc(),
        )
        parts = engine.Parts(
            policy=settings.rules(), kube=api, clock=clock, rng=random.Random(seed), log=self._log,
            events=self._events, metrics=counted, binds_in_flight=settings.binds_in_flight,
            bind_timeout_s=settings.bind_timeout_s, event_after_s=settings.event_after_s,
        )  # fmt: skip
        self.engine = engine.Engine(parts)
        self.answers = queries.Answers(
            state=self.engine.state, log=self._log, clock=clock, lease_s=settings.bus.lease_s
        )

    @property
    def health(self) -> health.Health:
        """Ready: Pods and Nodes are in and the bus is connected. Alive: the decision loop turns."""
        return health.Health(
            {
                "kubernetes": lambda: "; ".join(self.engine.away.values()) or None,
                "bus": lambda: None if self._bus.connected else "not connected to NATS",
                "binds": lambda: _doubt(self.engine.binder.doubtful_count),
            },
            alive={"decisions": self._stuck},
        )

    async def run(self, stop: tasks.Stop) -> None:
        """Runs until `stop`; then lets binds under way end, and publishes the records that are left."""
        await self._recall()
        await self._bus.subscribe(subjects.CAPACITY_ALL, self.engine.on_advertisement)
        await self._bus.serve(self._service())
        works: dict[str, Awaitable[object]] = {
            "pods": self.engine.follow_pods(),
            "nodes": self.engine.follow_nodes(),
            "decisions": self.engine.decide_forever(),
            "reports": self.engine.report_forever(),
            "records": self._log.publish_forever(self._bus),
            "events": self._events.write_forever(),
            "bus": self._bus.wait_closed(),
        }
        try:
            await tasks.until(stop, **works)
        finally:
            left = await self.engine.binder.drain(self._settings.stop_timeout_s)
            published = await self._log.publish_some(self._bus)
            logs.get("scheduler").info("stopped", binds_in_doubt=left, records_published=published)

    async def _recall(self) -> None:
        try:
            self.engine.recall(await self._bus.latest_capacities())
        except errors.BusError as error:
            # They come again within a second each: to start without them costs that second.
            logs.get("scheduler").warning("stored advertisements not read", error=str(error))

    def _service(self) -> buses.ServiceSpec:
        return buses.ServiceSpec(
            name=NAME,
            version="0.1.0",
            description="Decisions, reservations and capacities of the CARICO scheduler",
            endpoints=self.answers.endpoints(),
            node=None,
        )

    def _stuck(self) -> str | None:
        silent_s = self._clock.monotonic_s() - self.engine.beat_s
        return f"the decision loop is silent for {silent_s:.0f} s" if silent_s > STUCK_AFTER_S else None


async def serve(settings: setting.SchedulerSettings, stop: tasks.Stop, clock: clocks.Clock) -> None:
    """Runs a scheduler of these settings, with its health server, until `stop`."""
    api = await kube.connect(settings.kube, clock=clock, user_agent=NAME)
    try:
        bus = await nats_bus.connect(settings.bus, name=NAME, clock=clock)
        try:
            scheduler = Scheduler(settings, bus=bus, api=api, clock=clock)
            server = await health.serve(
                scheduler.health, scheduler.metrics, host=settings.http_host, port=settings.http_port
            )
            logs.get("scheduler").info("started", http_port=server.port, threshold=settings.threshold)
            try:
                await scheduler.run(stop)
            finally:
                await server.close()
        finally:
            await bus.close()
    finally:
        await api.close()


def _doubt(count: int) -> str | None:
    return f"{count} binds without an answer from the API" if count else None
