"""A control plane without kubelets whose Nodes all advertise, and the schedulers that are measured on it."""

import asyncio
import contextlib
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from bench import _process
from bench.cluster import _objects
from carico_core.domain import errors
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import api_client, list_watch
from carico_core.runtime.process import clock as clocks
from carico_core.wire import subjects
from carico_local.binaries import tools
from carico_local.cluster import processes
from carico_local.control_plane import commands, standalone
from tests.tools.sites import nats_site

CLOCK = clocks.SystemClock()
IN_FLIGHT = 32
CARICO, KUBE = "carico", "kube-scheduler"
# The process that is measured, in `Cluster.cpu_s`.
SCHEDULER = "the scheduler"
# Advertisements in a row. Agents are processes of their own: fifty in a row would stop this one, which times Pods, and
# keep the scheduler busy, for milliseconds.
AT_ONCE = 5
# Requests a second allowed to kube-scheduler: more than the API server can answer, so that they bound nothing.
QPS = 5000


class Cluster:
    """A control plane without kubelets, a bus on which all its Nodes advertise, and a watch of its Pods."""

    def __init__(self, folder: pathlib.Path, plane: standalone.Standalone, nats: nats_site.NatsServer) -> None:
        self._folder = folder
        self._plane = plane
        self._nats = nats
        self.api: api_client.KubeClient
        self.bus: nats_bus.NatsBus
        # When the watch first showed each Pod bound (monotonic), and its UID by node.
        self.bound_s: dict[str, float] = {}
        # Advertisements that were published.
        self.advertised = 0
        self._covers: dict[str, set[str]] = {}
        self._changed = asyncio.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._log = folder

    async def create_nodes(self, count: int) -> None:
        """Create this many Nodes, ready and without taints."""
        for index in range(count):
            self._covers[f"node-{index}"] = set()

        async def create(name: str) -> None:
            await self.api.request("POST", "/api/v1/nodes", body=_objects.node(name))
            # Admission taints every new Node until a controller has seen it ready.
            untaint = {"spec": {"taints": None}}
            kind = "application/merge-patch+json"
            await self.api.request("PATCH", f"/api/v1/nodes/{name}", body=untaint, content_type=kind)

        await _all(create(name) for name in self._covers)

    async def create_pods(self, count: int, scheduler: str, *, prefix: str = "pod", spread_over: int = 0) -> None:
        """Create Pods that wait for `scheduler`, or that are bound already, spread evenly over nodes."""
        await _all(
            self.api.request(
                "POST",
                _objects.PODS_PATH,
                body=_objects.pod(
                    f"{prefix}-{index}", scheduler, f"node-{index % spread_over}" if spread_over else None
                ),
            )
            for index in range(count)
        )

    @property
    def on_nodes(self) -> list[int]:
        """How many Pods are bound to each Node."""
        return [len(covers) for covers in self._covers.values()]

    async def follow(self) -> None:
        """Record each Pod when the watch shows it bound, until cancelled."""
        async with contextlib.aclosing(self.api.mirror(_objects.PODS_PATH)) as mirror:
            async for event in mirror:
                match event:
                    case list_watch.Listed():
                        for pod in event.objects:
                            self._take(pod)
                    case list_watch.Changed():
                        self._take(event.object)

    def _take(self, pod: dict[str, Any]) -> None:
        node = pod["spec"].get("nodeName")
        if node is not None and pod["metadata"]["name"] not in self.bound_s:
            self.bound_s[pod["metadata"]["name"]] = time.monotonic()
            self._covers[node].add(pod["metadata"]["uid"])
            self._changed.set()

    async def advertise(self) -> None:
        """Publish an advertisement per Node and second, spread over it as by agents, until cancelled."""
        boot = clocks.boot_id(CLOCK)
        seq = 0
        while True:
            seq += 1
            began_s = time.monotonic()
            for index, (node, covers) in enumerate(self._covers.items()):
                if index % AT_ONCE == 0:
                    await asyncio.sleep(max(0.0, began_s + index / len(self._covers) - time.monotonic()))
                await self.bus.publish(
                    subjects.capacity(node), _objects.advertisement(node, boot, seq, frozenset(covers))
                )
                self.advertised += 1
            await asyncio.sleep(max(0.0, began_s + 1.0 - time.monotonic()))

    async def until_bound(self, count: int) -> None:
        """Return once this many Pods are bound. Raises `EnvironmentUnfit` if the scheduler has ended."""
        while len(self.bound_s) < count:
            self.check()
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), 1.0)

    def cpu_s(self) -> dict[str, float]:
        """Return the CPU seconds of every process of the cluster so far, this one (Nodes and the watch) included."""
        found = {
            "the API server": self._plane.pid(commands.API), "etcd": self._plane.pid(commands.ETCD),
            "NATS": self._nats.pid, "the benchmark": os.getpid(),
        }  # fmt: skip
        if self._process is not None:
            found[SCHEDULER] = self._process.pid
        return {name: _process.cpu_s(pid) for name, pid in found.items()}

    def check(self) -> None:
        """Raise `EnvironmentUnfit` if the scheduler has ended."""
        if self._process is not None and self._process.poll() is not None:
            raise errors.EnvironmentUnfit(
                f"the scheduler ended with {self._process.returncode}: {processes.last_lines(self._log, 3)}"
            )

    @contextlib.contextmanager
    def scheduler(self, name: str, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run a scheduler (CARICO's, or KUBE) with these flags too, for as long as the block."""
        if name == KUBE:
            config = self._folder / "plane" / "kube-scheduler.json"
            wanted = json.loads(config.read_text())
            wanted["clientConnection"] |= {"qps": QPS, "burst": QPS}
            config.write_text(json.dumps(wanted))
            argv = list(self._plane.plane.scheduler())
        else:
            argv = [sys.executable, "-m", "carico_scheduler", "--bus-url", self._nats.url, "--http-port", "-1"]
            argv += ["--kubeconfig", str(self._plane.kubeconfig)]
        self._log = self._folder / f"{name}.log"
        with self._log.open("wb") as log:
            process = self._process = subprocess.Popen([*argv, *flags], stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(20)


@contextlib.asynccontextmanager
async def running(folder: pathlib.Path, nodes: int) -> AsyncIterator[Cluster]:
    """Run a cluster of advertising Nodes, with its files in `folder`, for as long as the block."""
    async with empty(folder) as cluster:
        tasks: list[asyncio.Task[None]] = []
        try:
            await _service_account(cluster.api)
            await cluster.create_nodes(nodes)
            tasks = [asyncio.create_task(cluster.follow()), asyncio.create_task(cluster.advertise())]
            yield cluster
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def empty(folder: pathlib.Path, *api_flags: str) -> AsyncIterator[Cluster]:
    """Run a cluster without Nodes, with these flags of its API server too, for as long as the block."""
    parts = (commands.ETCD, commands.API, commands.SCHEDULER)
    found = tools.obtain(
        parts, environ=dict(os.environ), clock=CLOCK, report=lambda line: print(line.text, file=sys.stderr)
    )
    plane = standalone.Standalone(
        folder / "plane", environ=dict(os.environ), clock=CLOCK, found=found, parts=(commands.ETCD, commands.API)
    )
    # The scheduler is started by the benchmark, once its backlog is there.
    binaries = {part: str(found[part].path) for part in parts}
    plane.plane = dataclasses.replace(plane.plane, binaries=binaries, api_flags=api_flags)
    plane.start()
    nats = nats_site.NatsServer(folder / "nats").start()
    cluster = Cluster(folder, plane, nats)
    wanted = api_client.KubeSettings(kubeconfig=str(plane.kubeconfig), in_flight=IN_FLIGHT)
    cluster.api = await api_client.connect(wanted, clock=CLOCK, user_agent="bench")
    cluster.bus = await nats_bus.connect(buses.BusSettings(url=nats.url), name="bench", clock=CLOCK)
    try:
        yield cluster
    finally:
        await cluster.bus.close()
        await cluster.api.close()
        nats.stop()
        plane.stop()


async def _service_account(api: api_client.KubeClient) -> None:
    """Create the account that admission gives to Pods, which no controller creates here."""
    body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    await api.request("POST", "/api/v1/namespaces/default/serviceaccounts", body=body)


async def _all(works: Any) -> None:
    waiting = iter(works)

    async def one() -> None:
        for work in waiting:
            await work

    await asyncio.gather(*(one() for _ in range(IN_FLIGHT)))
