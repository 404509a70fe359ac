"""The agent as a service: find the node, sample with or without a bus, and use the bus whenever it is connected."""

import asyncio
import contextlib
import dataclasses
import functools
import importlib
import math
import pathlib
import random
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

import orjson

from carico_agent import app, ports, recording, sampler, settings
from carico_agent.learning import pipeline
from carico_agent.pod_events import adapter, none, rosters
from carico_agent.reporting import publishers, traffic_reports
from carico_agent.telemetry import panel, port, sources
from carico_agent.telemetry.cgroups import hierarchy, own_node
from carico_agent.traffic import sources as traffic_sources
from carico_core.domain import errors
from carico_core.runtime.bus import nats_bus, serving
from carico_core.runtime.bus import port as buses
from carico_core.runtime.observe import client_metrics, health, logs
from carico_core.runtime.observe import metrics as metric
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import memory_use, tasks
from carico_core.wire import codec, subjects
from carico_core.wire import messages as wire

SERVICE = "carico-agent"
DESCRIPTION = "one node's telemetry, model and capacity"
# Interval of looking for a node that does not exist yet.
FIND_EVERY_S = 0.5
# Interval of retries after the bus disconnects right after it connected.
RETRY_S = 1.0
# Answers have up to 64 KiB, and who sends 64 MiB a second is disconnected: readers must not have an agent do so.
ANSWERS_A_SECOND = 500.0
# The first sample waits for the bus, at most this long. It passes the filter unchanged and is advertised for a second,
# and on a node of half a CPU, an agent that connects uses all of it.
SETTLE_MOST_S = 1.0


class Bus(ports.Publisher, Protocol):
    """The part of the bus that an agent uses."""

    @property
    def connected(self) -> bool: ...

    async def subscribe(self, subject: str, handler: buses.Handler) -> object: ...

    async def serve(self, service: buses.ServiceSpec) -> object: ...

    def on_reconnect(self, callback: Callable[[], None]) -> None: ...

    async def wait_closed(self) -> NoReturn: ...

    async def close(self) -> None: ...


class Service:
    """One agent with its health endpoint; the bus may connect and disconnect at any time."""

    def __init__(self, chosen: settings.AgentSettings, *, clock: clocks.Clock) -> None:
        self._chosen = chosen
        self._clock = clock
        self._boot = clocks.boot_id(clock)
        self._metrics = metric.Metrics("agent")
        self._bus_metrics = client_metrics.BusMetrics(self._metrics)
        self._log = logs.get("service", node=chosen.node)
        self._agent: app.Agent | None = None
        self._settled = asyncio.Event()

    async def run(self, stop: tasks.Stop) -> None:
        """Run until asked to stop. Raises `EnvironmentUnfit` if this machine cannot be measured."""
        checks = health.Health({"samples": self._not_sampling, "bus": self._bus_metrics.why_not})
        server = await health.serve(checks, self._metrics, host=self._chosen.http.host, port=self._chosen.http.port)
        self._log.info("started", http_port=server.port, boot=self._boot, scope=self._chosen.scope.value)
        try:
            self._chosen = own_node.resolved(self._chosen)
            found = await self._find_node(stop)
            if found is not None:
                await self._work(found, stop)
        finally:
            await server.close()
            self._log.info("stopped")

    async def _work(self, found: panel.Panel, stop: tasks.Stop) -> None:
        pods = open_pods(self._chosen, clock=self._clock)
        listed = self._open_rosters()
        classes = listed or open_classes(self._chosen, clock=self._clock, metrics=self._metrics)
        recorder = recording.open_recorder(self._chosen, found.facts, pods) if self._chosen.record else None
        opened = open_traces(self._chosen, clock=self._clock)
        counters = traffic_reports.Counters(self._metrics)
        traffic = traffic_sources.open_traffic(self._chosen, clock=self._clock, skipped=counters.skip)
        reports = traffic_reports.TrafficReports(
            node=self._chosen.node, boot=self._boot, network=traffic_sources.network_name(), clock=self._clock,
            counters=counters,
        )  # fmt: skip
        agent = self._agent = self._make_agent(found, pods, classes, recorder, opened)
        samples = sampler.Sampler(
            agent.tick,
            period_s=pipeline.SAMPLE_S,
            clock=self._clock,
            rng=random.Random(self._boot),
        )
        memory_use.settle()
        try:
            named = {} if classes is None else {"classes": classes.run()}
            named["bus"] = self._use_bus(agent, listed, None if traffic is None else reports)
            if traffic is not None:
                named["traffic"] = traffic.run(reports.add)
            await tasks.until(stop, sampler=self._sample(samples, listed), pods=pods.run(), **named)
        finally:
            if recorder is not None:
                recorder.close()
            if opened is not None:
                await asyncio.to_thread(opened.close)

    def _make_agent(
        self, found: panel.Panel, pods: ports.PodEvents, classes: ports.PodClasses | None,
        recorder: recording.Recorder | None, opened: "OpenTraces | None",
    ) -> app.Agent:  # fmt: skip
        return app.Agent(
            app.Parts(
                settings=self._chosen,
                panel=found,
                pods=pods if classes is None else adapter.Workloads(pods=pods, classes=classes),
                classes=classes,
                ledger=None if classes is None else sources.open_ledger(self._chosen.wanted(), clock=self._clock),
                clock=self._clock,
                metrics=self._metrics,
                boot=self._boot,
                witness=None if recorder is None else recorder.sample,
                traces=None if opened is None else opened.traces,
            )
        )

    async def _sample(self, samples: sampler.Sampler, listed: rosters.RosterClasses | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_MOST_S):
                await self._settled.wait()
        if listed is not None:
            await listed.wait_for_first()
        await samples.run()

    def _open_rosters(self) -> rosters.RosterClasses | None:
        if self._chosen.pod_classes != "roster" or self._chosen.pod_events == "none":
            return None
        return rosters.RosterClasses(clock=self._clock, metrics=self._metrics)

    async def _use_bus(
        self, agent: app.Agent, listed: rosters.RosterClasses | None,
        traffic: traffic_reports.TrafficReports | None,
    ) -> None:  # fmt: skip
        # Connecting waits for the server without limit; meanwhile the agent samples and learns.
        name = f"{SERVICE}-{self._chosen.node}"
        bus = await nats_bus.connect(
            self._chosen.bus, name=name, clock=self._clock, owns_streams=False, on_trouble=self._bus_metrics.trouble
        )  # fmt: skip
        self._settled.set()
        self._bus_metrics.watch(bus)
        try:
            await use_bus(
                agent, bus, node=self._chosen.node, clock=self._clock,
                on_roster=None if listed is None else listed.take, traffic=traffic,
            )  # fmt: skip
        finally:
            await bus.close()

    async def _find_node(self, stop: tasks.Stop) -> panel.Panel | None:
        is_logged = False
        while not stop.is_set:
            try:
                return sources.open_panel(self._chosen.wanted(), clock=self._clock)
            except port.Absent as error:
                if not _may_appear(self._chosen):
                    raise errors.EnvironmentUnfit(
                        f"this machine cannot be measured as scope {self._chosen.scope.value}: {error}; "
                        "give another --scope, or --root-pid for process accounting"
                    ) from error
                if not is_logged:
                    self._log.warning("waiting for the node", why=str(error))
                    is_logged = True
            await stop.sleep(FIND_EVERY_S)
        return None

    def _not_sampling(self) -> str | None:
        return "the node does not exist yet" if self._agent is None else self._agent.not_sampling()


async def use_bus(
    agent: app.Agent, bus: Bus, *, node: str, clock: clocks.Clock, on_roster: buses.Handler | None = None,
    traffic: traffic_reports.TrafficReports | None = None,
) -> None:  # fmt: skip
    """Publish, follow the cluster's model and answer queries. Raises `BusError` once the bus is closed.

    `on_roster` receives the rosters of the node's Pods; `traffic` is reported at intervals.
    """
    sender = publishers.Publishers(agent, bus, node=node)
    bus.on_reconnect(sender.refresh)
    sender.refresh()
    until_taken = functools.partial(
        serving.until_taken, every_s=RETRY_S, on_away=lambda error: agent.not_taken("listen", error)
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(sender.send_capacities(), name="capacity")
        group.create_task(sender.send_subspaces(), name="subspace")
        group.create_task(sender.send_usages(), name="usage")
        group.create_task(sender.send_loads(), name="pods")
        group.create_task(until_taken(lambda: bus.subscribe(subjects.MODEL, agent.on_model)), name="model")
        if traffic is not None:
            group.create_task(sender.send_traffic(traffic), name="traffic")
        if on_roster is not None:
            subject = subjects.roster(node)
            group.create_task(until_taken(lambda: bus.subscribe(subject, on_roster)), name="roster")
        group.create_task(until_taken(lambda: bus.serve(_queries(agent, node, clock))), name="queries")
        await bus.wait_closed()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OpenTraces:
    """The tracer of Pods, and how to close it."""

    traces: ports.PodTraces
    close: Callable[[], None]


def open_traces(chosen: settings.AgentSettings, *, clock: clocks.Clock) -> OpenTraces | None:
    """Return a tracer of Pods if the settings name a collector.

    Raises `EnvironmentUnfit` without OpenTelemetry's packages.
    """
    if not chosen.traces:
        return None
    tracing: Any = importlib.import_module("carico_core.runtime.observe.tracing")
    traces: Any = importlib.import_module("carico_agent.reporting.traces")
    tracer = tracing.open_tracer(
        chosen.traces, service=SERVICE, attributes={"k8s.node.name": chosen.node}, clock=clock,
        share=chosen.traces_share,
    )  # fmt: skip
    return OpenTraces(traces=traces.TracedPods(tracer, node=chosen.node, clock=clock), close=tracer.close)


def open_classes(
    chosen: settings.AgentSettings, *, clock: clocks.Clock, metrics: metric.Metrics
) -> ports.PodClasses | None:  # fmt: skip
    """Return the classes from the Kubernetes API, if the settings name it: only then is its client imported."""
    if chosen.pod_classes != "kubernetes" or chosen.pod_events == "none":
        return None
    module: Any = importlib.import_module("carico_agent.pod_events.api_classes")
    classes: ports.PodClasses = module.open_classes(chosen, clock=clock, metrics=metrics)
    return classes


def open_pods(chosen: settings.AgentSettings, *, clock: clocks.Clock) -> ports.PodEvents:
    """Return the source of starts and ends of Pods.

    Only the selected adapter is imported, so that a small agent stays small.
    """
    if chosen.pod_events == "none":
        return none.NoPods()
    module: Any = importlib.import_module(f"carico_agent.pod_events.{chosen.pod_events}")
    pods: ports.PodEvents = module.open_pods(chosen, clock=clock)
    return pods


def _queries(agent: app.Agent, node: str, clock: clocks.Clock) -> buses.ServiceSpec:
    # One for all that is asked.
    pace = tasks.Pace(ANSWERS_A_SECOND, clock=clock)

    def state() -> bytes:
        found = orjson.dumps(agent.view(), option=orjson.OPT_SERIALIZE_NUMPY)
        if len(found) > codec.PAYLOAD_MAX_BYTES:
            # NATS would close the connection of an agent that sends more.
            raise errors.BusError(f"the state has {len(found)} bytes, more than {codec.PAYLOAD_MAX_BYTES}")
        return found

    def loads() -> bytes:
        if agent.usage_reports is None:
            raise errors.BusError("what single Pods use is not measured: CARICO_AGENT_POD_CLASSES is none")
        return wire.encode_loads(agent.usage_reports.known_loads())

    endpoints = {"state.get": _answering(agent, pace, state), "loads.get": _answering(agent, pace, loads)}
    return buses.ServiceSpec(name=SERVICE, description=DESCRIPTION, endpoints=endpoints, node=node)


def _answering(agent: app.Agent, pace: tasks.Pace, encode: Callable[[], bytes]) -> buses.Endpoint:
    """Return an endpoint that answers at this pace, and encodes an answer once for each state and second."""
    encoded, encoded_of, encoded_s = b"", agent.state, -math.inf

    async def answer(_: bytes) -> bytes:
        nonlocal encoded, encoded_of, encoded_s
        await pace.wait()
        now_s = asyncio.get_running_loop().time()
        if agent.state is not encoded_of or now_s - encoded_s >= 1.0:
            encoded = encode()
            encoded_of, encoded_s = agent.state, now_s
        return encoded

    return answer


def _may_appear(chosen: settings.AgentSettings) -> bool:
    """Return whether what is missing may still be created: a cgroup in an existing tree, or a process."""
    if chosen.scope is sources.Scope.HOST:
        return False
    if chosen.scope is sources.Scope.PROCESS:
        return True
    try:
        hierarchy.discover(pathlib.Path(chosen.proc) / "mounts", below=chosen.cgroup_root)
    except port.Absent:
        return False
    return True
