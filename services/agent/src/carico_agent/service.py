"""The agent as a service: finds its node, samples with or without a bus, and talks to it whenever there is one."""

import asyncio
import contextlib
import dataclasses
import importlib
import pathlib
import random
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

import orjson

from carico_agent import app, ports, recording, sampler, settings
from carico_agent.learning import pipeline
from carico_agent.pod_events import none, workloads
from carico_agent.reporting import publishers
from carico_agent.telemetry import cgroup_tree, own_node, panel, port, sources
from carico_core.domain import errors
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.bus import port as buses
from carico_core.runtime.observe import client_metrics, health, logs
from carico_core.runtime.observe import metrics as metric
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import memory_use, tasks
from carico_core.wire import roles, subjects

SERVICE = "carico-agent"
DESCRIPTION = "one node's telemetry, model and capacity"
# How often a node that does not exist yet is looked for.
LOOK_EVERY_S = 0.5
# A bus that goes away just after it came is asked again.
ASK_AGAIN_S = 1.0
# The first sample waits for the bus, and no longer than this. It is taken as it is, and the advertisement made of it
# stands for a second: of a node of half a CPU, what an agent does until it is connected takes all.
SETTLE_MOST_S = 1.0

T = TypeVar("T")


class Bus(ports.Publisher, Protocol):
    """What the agent needs of the bus."""

    @property
    def connected(self) -> bool: ...

    async def subscribe(self, subject: str, handler: buses.Handler) -> object: ...

    async def get_model(self) -> bytes | None: ...

    async def serve(self, service: buses.ServiceSpec) -> object: ...

    def on_reconnect(self, callback: Callable[[], None]) -> None: ...

    async def wait_closed(self) -> None: ...

    async def close(self) -> None: ...


class Service:
    """One agent with its health endpoint; the bus may come, go and come back."""

    def __init__(self, chosen: settings.AgentSettings, *, clock: clocks.Clock) -> None:
        self._chosen = chosen
        self._clock = clock
        self._boot = clocks.boot_id(clock)
        self._metrics = metric.Metrics("agent")
        self._bus_metrics = client_metrics.BusMetrics(self._metrics)
        self._log = logs.get("service", node=chosen.node)
        self._agent: app.Agent | None = None
        self._bus: Bus | None = None
        self._settled = asyncio.Event()

    async def run(self, stop: tasks.Stop) -> None:
        """Run until asked to stop. Raises `EnvironmentUnfit` where this machine cannot be measured."""
        checks = health.Health({"samples": self._not_sampling, "bus": self._not_connected})
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
        classes = open_classes(self._chosen, clock=self._clock, metrics=self._metrics)
        recorder = recording.open_recorder(self._chosen, found.facts, pods) if self._chosen.record else None
        opened = open_traces(self._chosen, clock=self._clock)
        agent = app.Agent(
            app.Parts(
                settings=self._chosen,
                panel=found,
                pods=pods if classes is None else workloads.Workloads(pods=pods, classes=classes),
                classes=classes,
                clock=self._clock,
                metrics=self._metrics,
                boot=self._boot,
                witness=None if recorder is None else recorder.sample,
                traces=None if opened is None else opened.traces,
            )
        )
        self._agent = agent
        samples = sampler.Sampler(
            agent.tick,
            period_s=pipeline.SAMPLE_S,
            clock=self._clock,
            rng=random.Random(self._boot),
        )
        memory_use.settle()
        try:
            named = {} if classes is None else {"classes": classes.run()}
            await tasks.until(stop, sampler=self._sample(samples), pods=pods.run(), bus=self._talk(agent), **named)
        finally:
            if recorder is not None:
                recorder.close()
            if opened is not None:
                await asyncio.to_thread(opened.close)

    async def _sample(self, samples: sampler.Sampler) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_MOST_S):
                await self._settled.wait()
        await samples.run()

    async def _talk(self, agent: app.Agent) -> None:
        # Connecting waits for the server for ever; sampling and learning go on meanwhile.
        name = f"{SERVICE}-{self._chosen.node}"
        inbox = roles.inbox(roles.Role.AGENT, self._chosen.node)
        bus = await nats_bus.connect(self._chosen.bus, name=name, clock=self._clock, owns_streams=False, inbox=inbox)
        self._bus = bus
        self._settled.set()
        self._bus_metrics.watch(bus)
        try:
            await talk(agent, bus, node=self._chosen.node)
        finally:
            await bus.close()

    async def _find_node(self, stop: tasks.Stop) -> panel.Panel | None:
        said = False
        while not stop.is_set:
            try:
                return sources.open_panel(self._chosen.wanted(), clock=self._clock)
            except port.Absent as error:
                if not _may_appear(self._chosen):
                    raise errors.EnvironmentUnfit(
                        f"this machine cannot be measured as scope {self._chosen.scope.value}: {error}; "
                        "give another --scope, or --root-pid for process accounting"
                    ) from error
                if not said:
                    self._log.warning("waiting for the node", why=str(error))
                    said = True
            await stop.sleep(LOOK_EVERY_S)
        return None

    def _not_sampling(self) -> str | None:
        return "the node is not there yet" if self._agent is None else self._agent.not_sampling()

    def _not_connected(self) -> str | None:
        return None if self._bus is not None and self._bus.connected else "not connected to NATS"


async def talk(agent: app.Agent, bus: Bus, *, node: str) -> None:
    """Publish, follow the cluster's model and answer questions. Raises `BusError` once the bus is closed."""
    outlet = publishers.Publishers(agent, bus, node=node)
    bus.on_reconnect(outlet.refresh)
    outlet.refresh()
    async with asyncio.TaskGroup() as group:
        group.create_task(outlet.send_capacities(), name="capacity")
        group.create_task(outlet.send_subspaces(), name="subspace")
        group.create_task(_follow_model(agent, bus), name="model")
        group.create_task(_until_done(lambda: bus.serve(_questions(agent, node)), agent), name="questions")
        await bus.wait_closed()
        raise errors.BusUnavailable("the connection to NATS is closed for good")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OpenTraces:
    """What follows Pods, and what ends it."""

    traces: ports.PodTraces
    close: Callable[[], None]


def open_traces(chosen: settings.AgentSettings, *, clock: clocks.Clock) -> OpenTraces | None:
    """Return what follows Pods, where a collector is named.

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
    return OpenTraces(traces=traces.PodTraces(tracer, node=chosen.node, clock=clock), close=tracer.close)


def open_classes(
    chosen: settings.AgentSettings, *, clock: clocks.Clock, metrics: metric.Metrics
) -> ports.PodClasses | None:  # fmt: skip
    """Return where the classes of Pods come from, if from anywhere."""
    if chosen.pod_classes == "none" or chosen.pod_events == "none":
        return None
    module: Any = importlib.import_module("carico_agent.pod_events.classes")
    classes: ports.PodClasses = module.open_classes(chosen, clock=clock, metrics=metrics)
    return classes


def open_pods(chosen: settings.AgentSettings, *, clock: clocks.Clock) -> ports.PodEvents:
    """Return where starts and ends of Pods come from.

    Only what is used is imported, so that a small agent stays small.
    """
    if chosen.pod_events == "none":
        return none.NoPods()
    module: Any = importlib.import_module(f"carico_agent.pod_events.{chosen.pod_events}")
    pods: ports.PodEvents = module.open_pods(chosen, clock=clock)
    return pods


async def _follow_model(agent: app.Agent, bus: Bus) -> None:
    """Subscribe to the cluster's model, which survives reconnects, and read the stored one.

    Soon, so that a node's first advertisement names the classes that its peers have measured.
    """
    await _until_done(lambda: bus.subscribe(subjects.MODEL, agent.on_model), agent)
    agent.on_stored_model(await _until_done(bus.get_model, agent))


async def _until_done(ask: Callable[[], Awaitable[T]], agent: app.Agent) -> T:
    while True:
        try:
            return await ask()
        except errors.BusUnavailable as error:
            agent.not_taken("listen", error)
            await asyncio.sleep(ASK_AGAIN_S)


def _questions(agent: app.Agent, node: str) -> buses.ServiceSpec:
    async def state(_: bytes) -> bytes:
        return orjson.dumps(agent.view(), option=orjson.OPT_SERIALIZE_NUMPY)

    return buses.ServiceSpec(name=SERVICE, description=DESCRIPTION, endpoints={"state.get": state}, node=node)


def _may_appear(chosen: settings.AgentSettings) -> bool:
    """Return whether what is missing is only not there yet: a cgroup in a tree that exists, or a process."""
    if chosen.scope is sources.Scope.HOST:
        return False
    if chosen.scope is sources.Scope.PROCESS:
        return True
    try:
        cgroup_tree.discover(pathlib.Path(chosen.proc) / "mounts", below=chosen.cgroup_root)
    except port.Absent:
        return False
    return True
