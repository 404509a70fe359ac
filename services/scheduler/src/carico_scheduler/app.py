"""One scheduler over an API and a bus: runs until it is asked to stop, and stops in order."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from carico_core.domain import amounts, errors
from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import api_actions
from carico_core.runtime.observe import client_metrics, health, logs, metrics
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import tasks
from carico_core.wire import subjects
from carico_scheduler import engine
from carico_scheduler import settings as setting
from carico_scheduler.answers import known, queries
from carico_scheduler.bind import binder as binders
from carico_scheduler.decide import cycle
from carico_scheduler.extender import service
from carico_scheduler.intake import api_probe
from carico_scheduler.leadership import elector, handover, status
from carico_scheduler.report import decisions, events, instruments, traces

if TYPE_CHECKING:
    from carico_scheduler.extender import unit

# The decision loop beats every second; a loop that is silent for this long is stuck, and is restarted.
STUCK_AFTER_S = 30.0
INSIST_EVERY_S = 0.5


class Bus(decisions.Publisher, Protocol):
    """What is needed of the bus."""

    @property
    def connected(self) -> bool:
        """True while the server can be reached."""

    @property
    def traffic(self) -> buses.Traffic:
        """What has gone over the connection so far."""

    async def subscribe(self, subject: str, handler: Callable[[str, bytes], None]) -> object:
        """Calls `handler` with every message of `subject`."""

    async def latest_capacities(self) -> list[tuple[str, bytes]]:
        """The newest advertisement of each node that the bus has kept."""

    async def serve(self, service: buses.ServiceSpec) -> buses.ServiceHandle:
        """Answers queries."""

    async def wait_closed(self) -> None:
        """Wait until the bus is closed for good."""


class Scheduler:
    """One scheduler over an API (`lease_api`: a way of its own for the Lease) and, once it is there, a bus."""

    def __init__(
        self, settings: setting.SchedulerSettings, *, api: engine.Kube, clock: clocks.Clock,
        lease_api: api_actions.Api | None = None, tracer: traces.Tracer | None = None,
        series: metrics.Metrics | None = None,
    ) -> None:  # fmt: skip
        self._settings = settings
        self._bus: Bus | None = None
        self._clock = clock
        self.metrics = metrics.Metrics("scheduler") if series is None else series
        self._bus_metrics = client_metrics.BusMetrics(self.metrics)
        counted = instruments.Instruments(self.metrics)
        self._boot = boot = clocks.boot_id(clock)
        seed = clock.wall_ns()
        self._log = decisions.Log(
            boot=boot,
            threshold=settings.threshold,
            clock=clock,
            on_record=counted.count_rejections,
            on_drop=counted.lost_records.inc,
        )
        recorder = api_actions.EventRecorder(
            api, clock=clock, controller=setting.PROGRAM, instance=f"{setting.PROGRAM}-{boot}"
        )
        self._events = events.Writer(
            recorder,
            pace=tasks.Pace(settings.events_per_s, clock=clock),
            on_drop=lambda why: counted.lost_events.labels(why).inc(),
        )
        self._api = api
        # Waits for no turn behind binds.
        self._lease_api = lease_api or api
        self._counted = counted
        duties = elector.Duties(is_fit=lambda: not self.engine.away, prepare=self._catch_up, on_change=self._on_change)
        self.office = status.Leadership(settings.leader, boot=boot, api=self._lease_api, clock=clock, duties=duties)
        parts = engine.Parts(
            policy=settings.rules(), kube=api, clock=clock, rng=random.Random(seed), log=self._log,
            events=self._events, metrics=counted, binds_in_flight=settings.binds_in_flight,
            bind_timeout_s=settings.bind_timeout_s, event_after_s=settings.event_after_s,
            term=lambda: self.office.term() if settings.own_pods else None,
            traces=None if tracer is None else traces.PodTraces(tracer, clock=clock),
        )  # fmt: skip
        self.engine = engine.Engine(parts)
        self.extender = self._make_extender(parts) if settings.extender.enabled else None
        self.answers = self._make_answers(settings)

    @property
    def health(self) -> health.Health:
        """Ready: Pods and Nodes are in and the bus is connected, leading or not. Alive: the decision loop turns."""
        return health.Health(
            {
                "kubernetes": lambda: "; ".join(self.engine.away.values()) or None,
                "bus": lambda: None if self._bus is not None and self._bus.connected else "not connected to NATS",
                "binds": lambda: _stalled(self.engine.binder),
                "leadership": self.office.trouble,
                "extender": self._why_no_extender,
            },
            alive={"decisions": self._stuck},
            notes={"leader": self.office.leader},
        )

    async def run(self, bus: Bus, stop: tasks.Stop) -> None:
        """Runs until `stop`; then lets binds under way end, and publishes the records that are left."""
        self._bus = bus
        self._bus_metrics.watch(bus)
        self.engine.beat_s = self._clock.monotonic_s()
        works: dict[str, Awaitable[object]] = {
            **self.engine.mirrors.works(),
            "advertisements": self._listen(bus),
            "decisions": self.engine.decide_forever(),
            "reports": self.engine.report_forever(),
            "records": self._log.publish_forever(bus),
            "events": self._events.write_forever(),
            "bus": bus.wait_closed(),
        }
        works |= self.office.works()
        if self._settings.own_pods:
            # Who leaves the Pods to others knows neither their queue nor the decisions: those others are asked.
            works["queries"] = self._answer(bus)
        if self.extender is not None:
            works["extender"] = self.extender.serve_forever()
        try:
            await tasks.until(stop, **works)
        finally:
            left = await self._leave_office()
            published = await self._log.publish_some(bus)
            logs.get("scheduler").info("stopped", binds_in_doubt=left, records_published=published)

    async def _listen(self, bus: Bus) -> None:
        """Subscribe to advertisements as soon as the bus allows it; runs until cancelled."""
        # What is stored comes last: the store may be away while messages flow, and what is published meanwhile is not
        # missed. Of a node that was heard already it says nothing newer, and is passed over.
        await _insist("advertisements", lambda: bus.subscribe(subjects.CAPACITY_ALL, self.engine.on_advertisement))
        await _insist("stored advertisements", lambda: self._recall(bus))
        await asyncio.Event().wait()

    async def _answer(self, bus: Bus) -> None:
        """Answer queries while this one leads, until cancelled: a standby knows of no decision."""
        while True:
            await self.office.until(leads=True)
            handles: list[buses.ServiceHandle] = []

            async def serve(into: list[buses.ServiceHandle] = handles) -> None:
                into.append(await bus.serve(self._service()))

            await _insist("queries", serve)
            await self.office.until(leads=False)
            await handles[0].close()

    async def _leave_office(self) -> int:
        """How many binds are in doubt; where none is, the Lease is given up, so that another takes over at once."""
        self.office.stand_down()
        left = await self.engine.binder.drain(self._settings.stop_timeout_s)
        if self.extender is not None:
            left += await self.extender.binder.drain(self._settings.stop_timeout_s)
        if not left:
            await self.office.give_up()
        return left

    def _make_extender(self, parts: engine.Parts) -> "unit.Unit":
        """What answers kube-scheduler; our own decisions leave alone what it holds."""
        # Its server is aiohttp's: 2.3 MB, which a scheduler that serves no kube-scheduler does without.
        from carico_scheduler.extender import unit

        made = unit.Unit(
            self._settings.extender,
            service.Parts(
                state=self.engine.state, kube=parts.kube, clock=parts.clock, rng=parts.rng,
                log=parts.log, metrics=parts.metrics, bind_timeout_s=parts.bind_timeout_s,
                term=lambda: self.office.term() if self.engine.mirrors.is_current else None, wake=self.engine.wake,
            ),
        )  # fmt: skip
        self.engine.held = made.extender.held
        return made

    def _make_answers(self, settings: setting.SchedulerSettings) -> queries.Answers:
        return queries.Answers(
            known=known.Known(
                state=self.engine.state, log=self._log, cycle=cycle.Cycle(settings.rules()),
                lease_s=settings.bus.lease_s,
            ),
            clock=self._clock,
            silent_s=api_probe.ApiProbe(
                api=self._lease_api, heard_s=lambda: max(self.engine.mirrors.heard_s, self.office.heard_s),
                clock=self._clock,
            ).seconds,
            led_by=lambda: None if self.office.leads() else self.office.leader(),
            away=self._lacking,
        )  # fmt: skip

    def _lacking(self) -> dict[str, str]:
        stalled = _stalled(self.engine.binder)
        return self.engine.away | ({} if stalled is None else {"binds": f"{stalled}; no Pod is placed before it does"})

    def _why_no_extender(self) -> str | None:
        # A Service sends kube-scheduler to who is ready: that must be the one that knows all reservations.
        if self.extender is None or self.office.leads():
            return None
        return f"stands by: {self.office.leader()} leads, and answers kube-scheduler"

    async def _catch_up(self) -> None:
        self._counted.waited_for.inc(await handover.catch_up(self._api, self.engine.state))

    def _on_change(self, leads: bool) -> None:
        self._counted.leading.set(leads)
        if leads:
            self._counted.terms.inc()
            self.engine.wake()

    async def _recall(self, bus: Bus) -> None:
        self.engine.recall(await bus.latest_capacities())

    def _service(self) -> buses.ServiceSpec:
        return buses.ServiceSpec(
            name=setting.PROGRAM,
            description="Decisions, reservations and capacities of the CARICO scheduler",
            endpoints=self.answers.endpoints(),
            # One that is frozen while it leads is still there for the bus, and would get half of its successor's.
            queue=self._boot,
        )

    def _stuck(self) -> str | None:
        if self._bus is None:
            return None
        silent_s = self._clock.monotonic_s() - self.engine.beat_s
        return f"the decision loop is silent for {silent_s:.0f} s" if silent_s > STUCK_AFTER_S else None


async def _insist(what: str, attempt: Callable[[], Awaitable[object]]) -> None:
    """Repeat `attempt` until it succeeds; the bus may go away at any moment."""
    while True:
        try:
            await attempt()
        except errors.BusUnavailable as error:
            logs.get("scheduler").warning("bus away", wanted=what, error=str(error))
            await asyncio.sleep(INSIST_EVERY_S)
        else:
            return


def _stalled(binder: binders.Binder) -> str | None:
    """Return why no bind can begin; None where one can."""
    return f"the API does not answer {amounts.plural(binder.doubtful_count, 'bind')}" if binder.is_stalled else None
