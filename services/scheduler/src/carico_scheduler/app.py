"""One scheduler over an API and a bus: runs until it is stopped, and stops in order."""

import asyncio
import itertools
import random
from collections.abc import Awaitable
from typing import TYPE_CHECKING, NoReturn, Protocol

from carico_core.domain import amounts
from carico_core.runtime.bus import listening, serving
from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import api_actions
from carico_core.runtime.leadership import elector, status
from carico_core.runtime.observe import client_metrics, health, logs, metrics
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import tasks
from carico_scheduler import settings as setting
from carico_scheduler.answers import history, known, queries
from carico_scheduler.bind import binder as binders
from carico_scheduler.decide import cycle
from carico_scheduler.engine import engine
from carico_scheduler.engine import parts as engine_parts
from carico_scheduler.extender import service
from carico_scheduler.intake import handover, informers
from carico_scheduler.report import decisions, events, instruments, rosters, summaries, traces
from carico_scheduler.rules import policy as policies
from carico_scheduler.sharing import fence, heartbeats, member
from carico_scheduler.sharing import parts as member_parts

if TYPE_CHECKING:
    from carico_scheduler.extender import server

# The decision loop turns every second; if it has not turned for this long it is stuck, and the Pod is restarted.
STUCK_AFTER_S = 30.0


class Bus(listening.Bus, member_parts.Bus, serving.Answering, client_metrics.Bus, Protocol):
    """The part of the bus that a scheduler uses."""

    async def latest_capacities(self) -> list[tuple[str, bytes]]:
        """Return the newest advertisement of each node that the bus has stored."""

    async def wait_closed(self) -> NoReturn:
        """Raise `BusUnavailable` once the bus is closed for good."""


class Scheduler:
    """One scheduler over an API (`lease_api`: a client of its own for the Lease) and, once connected, a bus."""

    def __init__(
        self, settings: setting.SchedulerSettings, *, api: engine_parts.Kube, clock: clocks.Clock,
        lease_api: api_actions.Api | None = None, tracer: traces.Tracer | None = None,
        series: metrics.Metrics | None = None,
    ) -> None:  # fmt: skip
        self._settings = settings
        self._is_shared = settings.sharing is setting.Sharing.SHARED
        self._bus: Bus | None = None
        self._clock = clock
        self.metrics = metrics.Metrics("scheduler") if series is None else series
        self.bus_metrics = client_metrics.BusMetrics(self.metrics)
        counted = instruments.Instruments(self.metrics)
        self._boot = boot = clocks.boot_id(clock)
        recorder = api_actions.EventRecorder(
            api, clock=clock, controller=setting.PROGRAM, instance=f"{setting.PROGRAM}-{boot}"
        )
        self._events = events.Writer(
            recorder,
            pace=tasks.Pace(settings.events_per_s, clock=clock),
            on_drop=lambda why: counted.lost_events.labels(why).inc(),
        )
        self._api = api
        # Never queues behind binds.
        self._lease_api = lease_api or api
        self._counted = counted
        duties = elector.Duties(
            is_fit=self._is_fit, prepare=self._catch_up, on_change=self._on_change,
            is_reached=lambda: self._why_not_reached() is None, is_idle=self._is_idle,
        )  # fmt: skip
        self.leadership = status.Leadership(
            settings.leader, boot=boot, api=self._lease_api, clock=clock, duties=duties, program=setting.PROGRAM,
            replica=settings.replica,
        )  # fmt: skip
        self._log = decisions.Log(
            boot=boot, scheduler=self.leadership.start, threshold=settings.threshold, clock=clock,
            on_record=counted.count_rejections, on_drop=counted.lost_records.inc,
        )  # fmt: skip
        parts = self._make_parts(settings, counted, tracer)
        self.engine = engine.Engine(parts, share=self._make_member if self._is_shared else None)
        beats = heartbeats.Heartbeats(
            self.leadership.start, boot=boot, identity=lambda: self.leadership.identity, clock=clock,
            lease_s=settings.leader.lease_s, on_change=lambda: None,
            on_drop=lambda why: counted.drops.labels(why).inc(),
        )  # fmt: skip
        self._fence = fence.Fence(beats, clock=clock, metrics=counted, wake=self.engine.wake)
        self._rosters = rosters.Rosters(
            self.engine.state, boot=boot, clock=clock, on_drop=counted.lost_rosters.inc,
            is_writer=lambda: self.leadership.leads() and self.engine.informers.is_current,
        )  # fmt: skip
        self._summaries = summaries.Summaries(
            self.engine.state, boot=boot, clock=clock, on_drop=counted.lost_summaries.inc, is_shared=self._is_shared,
            leader=lambda: self.leadership.identity or self.leadership.start,
            # An extender without Pods of its own runs next to the scheduler that writes them and answers questions. Its
            # rosters are those of kube-scheduler alone, where no other scheduler runs: agents need one writer at least.
            is_writer=lambda: settings.own_pods and self.leadership.leads() and self.engine.informers.is_current,
        )  # fmt: skip
        self._events.on_preempted = self._summaries.evicted
        self.extender = self._make_extender(parts) if settings.extender.enabled else None
        self._history = history.History(self.engine.state.heard, lease_s=settings.bus.lease_s, clock=clock)
        self.answers = self._make_answers(settings)

    def _make_parts(
        self, settings: setting.SchedulerSettings, counted: instruments.Instruments, tracer: traces.Tracer | None
    ) -> engine_parts.EngineParts:
        return engine_parts.EngineParts(
            policy=settings.rules(), kube=self._api, clock=self._clock, rng=random.Random(self._clock.wall_ns()),
            log=self._log, events=self._events, metrics=counted, binds_in_flight=settings.binds_in_flight,
            # A claim must be bound within the time of a bind: half of it until it is sent.
            bind_timeout_s=settings.bind_timeout_s / (2.0 if self._is_shared else 1.0),
            event_after_s=settings.event_after_s, gang_timeout_s=settings.gang_timeout_s,
            conditions_per_s=settings.conditions_per_s, opportunistic=settings.opportunistic,
            term=self._term, traces=None if tracer is None else traces.PodTraces(tracer, clock=self._clock),
        )  # fmt: skip

    @property
    def health(self) -> health.Health:
        """Ready: this scheduler can place Pods, or could as the leader. Alive: the decision loop turns."""
        return health.Health(
            {
                "kubernetes": lambda: "; ".join(self.engine.away.values()) or None,
                "bus": self.bus_metrics.why_not,
                "advertisements": self._why_silent,
                "binds": lambda: _stalled(self.engine.binder),
                "leadership": self.leadership.trouble,
                "sharing": self._why_not_sharing,
                "extender": self._why_not_serving,
            },
            alive={"decisions": self._stuck},
            notes={"leader": self.leadership.leader},
        )

    async def run(self, bus: Bus, stop: tasks.Stop) -> None:
        """Run until `stop`; then wait for the binds under way, and publish the remaining records."""
        self._bus = bus
        self.bus_metrics.watch(bus)
        self.engine.beat_s = self._clock.monotonic_s()
        works: dict[str, Awaitable[object]] = {
            **self.engine.informers.works(),
            "advertisements": self._listen(bus),
            "decisions": self.engine.decide_forever(),
            "reports": self.engine.report_forever(),
            "records": self._log.publish_forever(bus),
            "rosters": self._rosters.publish_forever(bus),
            "summaries": self._summaries.publish_forever(bus),
            "history": self._history.note_forever(),
            "events": self._events.write_forever(),
            "conditions": self.engine.conditions.write_forever(),
            "gangs": self.engine.gangs.work_forever(),
            "bus": bus.wait_closed(),
        }
        if self._settings.preemption:
            works["preemption"] = self.engine.preemptor.work_forever()
        if self._settings.opportunistic:
            works["opportunistic"] = self.engine.opportunistic.work_forever()
        works |= self.leadership.works()
        if self.engine.member is not None:
            works |= self.engine.member.works(bus)
        else:
            works["members"] = self._fence.follow_forever(bus)
        if self._settings.own_pods:
            # Without Pods of its own, and on standby, it knows no decisions: another scheduler answers.
            works["queries"] = serving.answer_while_leading(bus, self._service, self.leadership, log="scheduler")
        if self.extender is not None:
            works["extender"] = self.extender.serve_forever()
        try:
            await tasks.until(stop, **works)
        finally:
            left = await self._hand_over()
            published = await self._log.publish_some(bus)
            logs.get("scheduler").info("stopped", binds_in_doubt=left, records_published=published)

    async def _listen(self, bus: Bus) -> None:
        """Subscribe to advertisements as soon as the bus allows it, and run until cancelled."""
        await serving.until_taken_with_warnings(
            "advertisements", lambda: self.engine.listening.arrange(bus), log="scheduler"
        )
        # Stored advertisements come last: JetStream may be down while messages flow, and nothing published meanwhile is
        # missed. A stored one is ignored if a newer one of its node has arrived. They do not come before the end of a
        # flood, so floods are looked for meanwhile.
        async with asyncio.TaskGroup() as group:
            group.create_task(self.engine.listening.run_forever(bus))
            await serving.until_taken_with_warnings("stored advertisements", lambda: self._recall(bus), log="scheduler")

    async def _hand_over(self) -> int:
        """Stop leading and finish the binds under way; release the Lease if none is in doubt. Return how many are."""
        self.leadership.stand_down()
        if self.engine.member is not None:
            await self.engine.member.leave()
        left = await self.engine.binder.drain(self._settings.stop_timeout_s)
        if self.extender is not None:
            left += await self.extender.binder.drain(self._settings.stop_timeout_s)
        if not left:
            await self.leadership.release()
        if self.engine.member is not None:
            await self.engine.member.withdraw()
        return left

    def _make_member(self, one: engine.Engine) -> member.Member:
        """Return this scheduler as one of several that decide at the same time."""
        return member.Member(
            member_parts.MemberParts(
                replica=self.leadership.start, boot=self._boot, state=one.state, api=self._api, clock=self._clock,
                lease=self.leadership, metrics=self._counted, bind_within_s=self._settings.bind_timeout_s / 2.0,
                lease_s=self._settings.leader.lease_s, lease_read_s=self._settings.leader.renew_s,
                # Asked several times a Pod: the reasons are only put together if there are any.
                why_not_fit=lambda: (
                    self._why_not_reached() if one.informers.is_current else "; ".join(one.away.values())
                ),
                view_age_s=lambda: one.informers.age_s, wake=one.wake, on_idle=one.turn,
                new_epoch=lambda: clocks.boot_id(self._clock), takes_share=self._settings.own_pods,
            )
        )  # fmt: skip

    def _term(self) -> int | None:
        """Return the term in which this scheduler may decide and bind; None while it must not."""
        return self._term_to_bind() if self.engine.member is not None or self._settings.own_pods else None

    def _term_to_bind(self) -> int | None:
        """Return the term in which this scheduler may bind: as one that shares the work, or leads next to no such."""
        if self.engine.member is not None:
            return self.engine.member.term()
        term = self.leadership.term()
        # Both only grow, so that each change gives another number.
        return None if term is None or self._fence.why_closed() is not None else term + self._fence.number

    def _make_extender(self, parts: engine_parts.EngineParts) -> "server.ServedExtender":
        """Return the extender for kube-scheduler; our own decisions respect its holds."""
        # Imports aiohttp's server, 2.3 MB that a scheduler without an extender saves.
        from carico_scheduler.extender import server

        made = server.ServedExtender(
            self._settings.extender,
            service.ExtenderParts(
                state=self.engine.state, kube=parts.kube, clock=parts.clock, rng=parts.rng,
                log=parts.log, metrics=parts.metrics, bind_timeout_s=parts.bind_timeout_s,
                term=self._extender_term, wake=self.engine.wake, member=self.engine.member, turns=self.engine.turns,
            ),
        )  # fmt: skip
        held = self.engine.held.for_others
        self.engine.held.for_others = lambda: itertools.chain(held(), made.extender.held())
        return made

    def _extender_term(self) -> int | None:
        """Return the term in which this scheduler may answer kube-scheduler; None while it must not."""
        return self._term_to_bind() if self.engine.informers.is_current else None

    def _make_answers(self, settings: setting.SchedulerSettings) -> queries.Answers:
        return queries.Answers(
            known=known.Known(
                state=self.engine.state, log=self._log, cycle=cycle.Cycle(settings.rules()),
                lease_s=settings.bus.lease_s, turns=self.engine.turns, history=self._history,
                is_shared=self._is_shared,
            ),
            clock=self._clock,
            silent_s=informers.ApiProbe(
                api=self._lease_api, heard_s=lambda: max(self.engine.informers.heard_s, self.leadership.heard_s),
                clock=self._clock,
            ).silent_s,
            led_by=lambda: None if self.leadership.leads() else self.leadership.leader(),
            away=self._lacking,
        )  # fmt: skip

    def _lacking(self) -> dict[str, str]:
        stalled = _stalled(self.engine.binder)
        return self.engine.away | ({} if stalled is None else {"binds": f"{stalled}; no Pod is placed until it does"})

    def _why_silent(self) -> str | None:
        # A connection can look alive while nothing arrives: NATS clients notice a cut only after minutes.
        silent_s = self.engine.silent_s
        return None if silent_s is None else f"no advertisement of any node has arrived for {silent_s:.0f} s"

    def _why_not_reached(self) -> str | None:
        """Return why agents cannot reach this scheduler; None if they can, or if Pods can be placed without them.

        Schedulers that share the work place none without the bus.
        """
        if self._settings.fallback is not policies.Fallback.WAIT and not self._is_shared:
            return None
        return self.bus_metrics.why_not() or self._why_silent()

    def _why_not_sharing(self) -> str | None:
        if self.engine.member is not None:
            return self.engine.member.why_not_ready()
        # A standby is ready: the next rollout of Pods would wait for it, and it for those that it replaces.
        return None if self.leadership.term() is None else self._fence.why_closed()

    def _is_fit(self) -> bool:
        # Of those that share the work, one that takes no Pods itself cannot have the duties of the Lease's holder.
        return not self.engine.away and (self._settings.own_pods or not self._is_shared)

    def _is_idle(self) -> bool:
        return self.engine.binder.is_idle and (self.extender is None or self.extender.binder.is_idle)

    def _why_not_serving(self) -> str | None:
        # A Service sends kube-scheduler to a ready Pod, which must be the leader: only it knows all reservations. Those
        # that share the work know each other's claims.
        if self.extender is None or self._is_shared or self.leadership.leads():
            return None
        return f"standby: {self.leadership.leader()} leads and answers kube-scheduler"

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
            # Not a shared queue: a frozen leader stays subscribed and would get half of its successor's queries.
            queue=self._boot,
        )

    def _stuck(self) -> str | None:
        if self._bus is None:
            return None
        silent_s = self._clock.monotonic_s() - self.engine.beat_s
        return f"the decision loop has not turned for {silent_s:.0f} s" if silent_s > STUCK_AFTER_S else None


def _stalled(binder: binders.Binder) -> str | None:
    """Return why no bind can start; None if one can."""
    return f"the API does not answer {amounts.plural(binder.doubtful_count, 'bind')}" if binder.is_stalled else None
