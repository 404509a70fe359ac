"""The fleet as a service: creates its Nodes, follows their Pods, advertises for each, stops in order."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Mapping
from typing import Protocol

from carico_core.domain import errors
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import api_client
from carico_core.runtime.observe import health, logs, metrics
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import settings, tasks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_local.played_nodes import agents, nodes

PREFIX = "fleet"
PROGRAM = "carico-fleet"
# Each node advertises at least this often: an advertisement older than 2.5 s counts as ageing (wire.freshness).
REPEAT_S = 2.0
# ... but all nodes together at most this often, which costs a scheduler a tenth of a core.
MOST_MESSAGES_PER_S = 1000.0
# Changes of a node within this time share one message.
COALESCE_S = 0.02
API_AGAIN_S = 0.5
_log = logs.get("fleet")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlayedNodesSettings:
    """Flags, or CARICO_FLEET_... in the environment."""

    kubeconfig: str = settings.setting(help="path of a kubeconfig that may create Nodes and list Pods")
    nodes: int = settings.setting(
        1000, help="number of nodes, named node-1, node-2, ...", minimum=1, maximum=10_000
    )  # fmt: skip
    cores: int = settings.setting(4, help="cores of each", minimum=1, maximum=256)
    pods: int = settings.setting(110, help="maximum number of Pods of each", minimum=1, why="Kubernetes' default")
    pods_per_core: float = settings.setting(
        1.0,
        help="capacity that each node advertises: nothing is measured here",
        unit="Pods per core",
        minimum=0.1,
        maximum=16.0,
    )
    http: settings.HttpSettings = dataclasses.field(default_factory=settings.HttpSettings)
    log: settings.LogSettings = dataclasses.field(default_factory=settings.LogSettings)
    bus: buses.BusSettings = dataclasses.field(default_factory=buses.BusSettings)


class Bus(Protocol):
    """What is needed from the bus."""

    async def publish(self, subject: str, payload: bytes) -> None: ...


class Api(Protocol):
    """What is needed from the Kubernetes API."""

    def mirror(
        self, path: str, *, params: Mapping[str, str] | None = None
    ) -> AsyncIterator[api_client.MirrorEvent]: ...


class PlayedAgents:
    """Publishes what the agents of all nodes would report."""

    def __init__(self, kept: agents.Agents, bus: Bus, *, clock: clocks.Clock, boot: str) -> None:
        self._kept = kept
        self._bus = bus
        self._clock = clock
        self._boot = boot
        self._seq = 0
        self._due: set[str] = set()
        self._woken = asyncio.Event()

    async def follow(self, api: Api) -> None:
        """Follow the Pods of every node until cancelled."""
        async for event in api.mirror("/api/v1/pods", params={"fieldSelector": "spec.nodeName!="}):
            now_s = self._clock.monotonic_s()
            match event:
                case api_client.Listed(objects=objects):
                    self._wake(*self._kept.on_list(objects, now_s))
                case api_client.Changed(type="DELETED", object=pod):
                    self._wake(self._kept.on_removed(pod, now_s))
                case api_client.Changed(object=pod):
                    self._wake(self._kept.on_pod(pod, now_s))
                case api_client.Away(error=error):
                    _log.warning("api_away", why=str(error))

    async def publish_changes(self) -> None:
        """Publish for each node whose Pods change, until cancelled."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            due, self._due = self._due, set()
            for node in due:
                await self._publish(node)
            await asyncio.sleep(COALESCE_S)

    async def publish_all(self) -> None:
        """Publish for every node in turn, spread evenly over the period, until cancelled."""
        known = self._kept.nodes
        period_s = max(REPEAT_S, len(known) / MOST_MESSAGES_PER_S)
        steps = max(1, min(len(known), round(period_s / COALESCE_S)))
        while True:
            began_s = self._clock.monotonic_s()
            for step in range(steps):
                for node in known[step::steps]:
                    await self._publish(node)
                ahead_s = began_s + (step + 1) * period_s / steps - self._clock.monotonic_s()
                await asyncio.sleep(max(0.0, ahead_s))

    def _wake(self, *changed: str | None) -> None:
        self._due |= {node for node in changed if node is not None}
        if self._due:
            self._woken.set()

    async def _publish(self, node: str) -> None:
        self._seq += 1
        now_s, now_ns = self._clock.monotonic_s(), self._clock.wall_ns()
        stamp = agents.Stamp(boot=self._boot, seq=self._seq, ts_ns=now_ns, now_s=now_s)
        payload = wire.encode_advertisement(self._kept.advertisement(node, stamp))
        try:
            await self._bus.publish(subjects.capacity(node), payload)
        except errors.BusError as error:
            _log.warning("not_published", node=node, why=str(error))


async def serve(chosen: PlayedNodesSettings, stop: tasks.Stop, *, clock: clocks.Clock) -> None:
    """Play the nodes until `stop`; the Node objects stay, as they would if the agents of a cluster stopped."""
    ready: list[bool] = []
    checks = {"nodes": lambda: None if ready else "Nodes are being created"}
    server = await health.serve(
        health.Health(checks), metrics.Metrics("fleet"), host=chosen.http.host, port=chosen.http.port
    )
    try:
        await tasks.until(stop, fleet=_run(chosen, clock, ready))
    finally:
        await server.close()


async def _run(chosen: PlayedNodesSettings, clock: clocks.Clock, ready: list[bool]) -> None:
    client = await api_client.connect(
        api_client.KubeSettings(kubeconfig=chosen.kubeconfig), clock=clock, user_agent=PROGRAM
    )
    try:
        await _create(client, chosen)
        bus = await nats_bus.connect(chosen.bus, name=PROGRAM, clock=clock, owns_streams=False)
        try:
            kept = agents.Agents(nodes.names(chosen.nodes), capacity=chosen.cores * chosen.pods_per_core)
            played = PlayedAgents(kept, bus, clock=clock, boot=clocks.boot_id(clock))
            ready.append(True)
            async with asyncio.TaskGroup() as group:
                for name, work in {
                    "follow": played.follow(client), "changes": played.publish_changes(), "all": played.publish_all(),
                }.items():  # fmt: skip
                    group.create_task(tasks.forever(name, work), name=name)
        finally:
            await bus.close()
    finally:
        await client.close()


async def _create(client: api_client.KubeClient, chosen: PlayedNodesSettings) -> None:
    created: int | None = None
    while created is None:
        try:
            created = await tasks.apart(nodes.create(client, chosen.nodes, cores=chosen.cores, pods=chosen.pods))
        except* errors.ApiUnavailable as failed:
            _log.info("waiting_for_api", why=str(failed.exceptions[0]))
            await asyncio.sleep(API_AGAIN_S)
    _log.info("nodes", created=created, wanted=chosen.nodes)
