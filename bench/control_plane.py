"""CARICO's scheduler beside the real kube-scheduler: one API server, the same Nodes, one backlog after another.

`python -m bench control_plane`. A real kube-apiserver and etcd (without fsync), no kubelets: Nodes and Pods are
objects. Each scheduler in turn meets a backlog that is already there, and is timed from the first Pod bound to the
last, as the API's watch shows them; then Pods come at 50 a second, each timed from its creation. Limits on requests
are lifted for both; CARICO's Events and decision records are on, and every Node advertises once a second.
"""

import asyncio
import contextlib
import dataclasses
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np

from carico_core.domain import errors, messages
from carico_core.runtime import bus as buses
from carico_core.runtime import clock as clocks
from carico_core.runtime import kube, kube_watch, nats_bus
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_local import nats_server
from carico_local.binaries import tools
from carico_local.cluster import processes
from carico_local.control_plane import commands, standalone

Row = tuple[str, float, str, str]
CLOCK = clocks.SystemClock()
PODS_PATH = "/api/v1/namespaces/default/pods"
IN_FLIGHT = 32
CARICO, KUBE = "carico", "kube-scheduler"
SCHEDULER_NAMES = {CARICO: "carico", KUBE: "default-scheduler"}
# Requests a second allowed to kube-scheduler: more than the API server can answer, so that they bound nothing.
QPS = 5000
CAPACITY = 60.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A cluster and its backlog. `factor`: how much faster than kube-scheduler CARICO is to be."""

    nodes: int
    pods: int
    runs: int
    factor: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """How a backlog was worked off, from its first Pod bound to its last."""

    pods_per_s: float
    cpu_s: float


def run(quick: bool) -> list[Row]:
    """Pods bound a second by either, and how long a Pod waits at 50 a second."""
    rows = backlog_rows(Size(nodes=1000, pods=3000, runs=1 if quick else 3, factor=2.0))
    for name in (CARICO, KUBE):
        waits_ms = asyncio.run(_in_a_folder(_stream, name, quick))
        target = "at most 100" if name == CARICO else ""
        rows.append((f"created to bound at 50 Pods/s, p50: {name}", float(np.percentile(waits_ms, 50)), "ms", ""))
        rows.append((f"created to bound at 50 Pods/s, p99: {name}", float(np.percentile(waits_ms, 99)), "ms", target))
    return rows


def backlog_rows(size: Size) -> list[Row]:
    """Pods bound a second by either, by turns, and the CPU that the scheduler took for one."""
    found: dict[str, list[Backlog]] = {CARICO: [], KUBE: []}
    for _ in range(size.runs):
        for name in found:
            found[name].append(asyncio.run(_in_a_folder(_backlog, name, size)))
    rates = {name: statistics.median(each.pods_per_s for each in runs) for name, runs in found.items()}
    what = f"{size.pods:,} Pods on {size.nodes:,} Nodes"
    rows = [(f"{what}: {name}", rates[name], "Pods/s", "") for name in found]
    rows.append((f"{what}: ratio", rates[CARICO] / rates[KUBE], "", f"at least {size.factor:g}"))
    for name, runs in found.items():
        cpu_s = statistics.median(each.cpu_s for each in runs)
        rows.append((f"{what}: CPU of the scheduler a Pod, start apart: {name}", cpu_s / size.pods * 1e6, "us", ""))
    return rows


def standing_rows(nodes: int, pods: int) -> list[Row]:
    """CARICO's memory beside so many Pods, and how long after its start it binds one more."""
    return asyncio.run(_in_a_folder(_standing, nodes, pods))


async def _in_a_folder(work: Any, *arguments: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return await work(pathlib.Path(folder), *arguments)


async def _backlog(folder: pathlib.Path, name: str, size: Size) -> Backlog:
    """From the first to the last Pod bound of a backlog."""
    async with _cluster(folder, size.nodes) as cluster:
        await cluster.create_pods(size.pods, SCHEDULER_NAMES[name])
        with cluster.scheduler(name) as process:
            await cluster.until_bound(1)
            began_s = _cpu_s(process.pid)
            await cluster.until_bound(size.pods)
            cpu_s = _cpu_s(process.pid) - began_s
        bound_s = sorted(cluster.bound_s.values())
        return Backlog(pods_per_s=(size.pods - 1) / (bound_s[-1] - bound_s[0]), cpu_s=cpu_s)


async def _stream(folder: pathlib.Path, name: str, quick: bool) -> list[float]:
    """Milliseconds from a Pod's creation to its bind, of Pods that come at 50 a second."""
    async with _cluster(folder, 1000) as cluster:
        with cluster.scheduler(name):
            await cluster.create_pods(1, SCHEDULER_NAMES[name], prefix="first")
            await cluster.until_bound(1)
            pods = 250 if quick else 1500
            created_s: dict[str, float] = {}
            began_s = time.monotonic()
            async with asyncio.TaskGroup() as group:
                for index in range(pods):
                    await asyncio.sleep(max(0.0, began_s + index / 50 - time.monotonic()))
                    pod = _pod(f"stream-{index}", SCHEDULER_NAMES[name])
                    created_s[pod["metadata"]["name"]] = time.monotonic()
                    group.create_task(cluster.api.request("POST", PODS_PATH, body=pod))
            await cluster.until_bound(pods + 1)
        return [(cluster.bound_s[each] - at_s) * 1e3 for each, at_s in created_s.items()]


async def _standing(folder: pathlib.Path, nodes: int, pods: int) -> list[Row]:
    """CARICO's memory beside `pods` Pods that run already, and how long after its start it binds one more."""
    async with _cluster(folder, nodes) as cluster:
        await cluster.create_pods(pods, SCHEDULER_NAMES[CARICO], prefix="running", spread_over=nodes)
        await cluster.create_pods(1, SCHEDULER_NAMES[CARICO], prefix="waiting")
        began_s = time.monotonic()
        with cluster.scheduler(CARICO) as process:
            await cluster.until_bound(pods + 1)
            first_s = cluster.bound_s["waiting-0"] - began_s
            await asyncio.sleep(15)
            rss_bytes, peak_bytes = _memory_bytes(process.pid, "VmRSS"), _memory_bytes(process.pid, "VmHWM")
    where = f"at {nodes:,} Nodes and {pods:,} Pods"
    return [
        (f"memory of the scheduler {where}", rss_bytes / 1e6, "MB", "at most 300"),
        (f"the most it was {where}", peak_bytes / 1e6, "MB", "at most 300"),
        (f"start to first bind {where}", first_s, "s", "at most 10"),
    ]


class _Cluster:
    """A control plane without kubelets, a bus on which all its Nodes advertise, and a watch of its Pods."""

    def __init__(self, folder: pathlib.Path, plane: standalone.Standalone, nats: nats_server.NatsServer) -> None:
        self._folder = folder
        self._plane = plane
        self._nats = nats
        self.api: kube.KubeClient
        self.bus: nats_bus.NatsBus
        # When the watch first showed each Pod bound (monotonic), and its UID by node.
        self.bound_s: dict[str, float] = {}
        self._covers: dict[str, set[str]] = {}
        self._changed = asyncio.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._log = folder

    async def create_nodes(self, count: int) -> None:
        for index in range(count):
            self._covers[f"node-{index}"] = set()

        async def create(name: str) -> None:
            await self.api.request("POST", "/api/v1/nodes", body=_node(name))
            # Admission taints every new Node until a controller has seen it ready.
            untaint = {"spec": {"taints": None}}
            kind = "application/merge-patch+json"
            await self.api.request("PATCH", f"/api/v1/nodes/{name}", body=untaint, content_type=kind)

        await _all(create(name) for name in self._covers)

    async def create_pods(self, count: int, scheduler: str, *, prefix: str = "pod", spread_over: int = 0) -> None:
        """Creates Pods that wait for `scheduler`, or that are bound already, evenly over so many nodes."""
        await _all(
            self.api.request(
                "POST",
                PODS_PATH,
                body=_pod(f"{prefix}-{index}", scheduler, f"node-{index % spread_over}" if spread_over else None),
            )
            for index in range(count)
        )

    async def follow(self) -> None:
        async with contextlib.aclosing(self.api.mirror(PODS_PATH)) as mirror:
            async for event in mirror:
                match event:
                    case kube_watch.Listed():
                        for pod in event.objects:
                            self._take(pod)
                    case kube_watch.Changed():
                        self._take(event.object)

    def _take(self, pod: dict[str, Any]) -> None:
        node = pod["spec"].get("nodeName")
        if node is not None and pod["metadata"]["name"] not in self.bound_s:
            self.bound_s[pod["metadata"]["name"]] = time.monotonic()
            self._covers[node].add(pod["metadata"]["uid"])
            self._changed.set()

    async def advertise(self) -> None:
        """Every Node once a second, spread over it, as agents do."""
        boot = clocks.boot_id(CLOCK)
        seq = 0
        while True:
            seq += 1
            began_s = time.monotonic()
            for index, (node, covers) in enumerate(self._covers.items()):
                if index % 50 == 0:
                    await asyncio.sleep(max(0.0, began_s + index / len(self._covers) - time.monotonic()))
                await self.bus.publish(subjects.capacity(node), _advertisement(node, boot, seq, frozenset(covers)))
            await asyncio.sleep(max(0.0, began_s + 1.0 - time.monotonic()))

    async def until_bound(self, count: int) -> None:
        """Once so many Pods are bound. Raises `EnvironmentUnfit` where the scheduler has ended."""
        while len(self.bound_s) < count:
            if self._process is not None and self._process.poll() is not None:
                raise errors.EnvironmentUnfit(
                    f"the scheduler ended with {self._process.returncode}: {processes.last_lines(self._log, 3)}"
                )
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), 1.0)

    @contextlib.contextmanager
    def scheduler(self, name: str) -> Iterator[subprocess.Popen[bytes]]:
        """The scheduler, running."""
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
            process = self._process = subprocess.Popen(argv, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(20)


@contextlib.asynccontextmanager
async def _cluster(folder: pathlib.Path, nodes: int) -> AsyncIterator[_Cluster]:
    parts = (commands.ETCD, commands.API, commands.SCHEDULER)
    found = tools.obtain(
        parts, environ=dict(os.environ), clock=CLOCK, tell=lambda told: print(told.text, file=sys.stderr)
    )
    plane = standalone.Standalone(
        folder / "plane", environ=dict(os.environ), clock=CLOCK, found=found, parts=(commands.ETCD, commands.API)
    )
    # The scheduler is started by the benchmark, once its backlog is there.
    plane.plane = dataclasses.replace(plane.plane, binaries={part: str(found[part].path) for part in parts})
    plane.start()
    nats = nats_server.NatsServer(folder / "nats").start()
    cluster = _Cluster(folder, plane, nats)
    wanted = kube.KubeSettings(kubeconfig=str(plane.kubeconfig), in_flight=IN_FLIGHT)
    cluster.api = await kube.connect(wanted, clock=CLOCK, user_agent="bench")
    cluster.bus = await nats_bus.connect(buses.BusSettings(url=nats.url), name="bench", clock=CLOCK)
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
        await cluster.bus.close()
        await cluster.api.close()
        nats.stop()
        plane.stop()


def _cpu_s(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory_bytes(pid: int, field: str) -> int:
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(field)) * 1024


async def _service_account(api: kube.KubeClient) -> None:
    """The account that admission gives to Pods; no controller makes it here."""
    body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    await api.request("POST", "/api/v1/namespaces/default/serviceaccounts", body=body)


async def _all(works: Any) -> None:
    waiting = iter(works)

    async def one() -> None:
        for work in waiting:
            await work

    await asyncio.gather(*(one() for _ in range(IN_FLIGHT)))


def _node(name: str) -> dict[str, Any]:
    amounts = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def _pod(name: str, scheduler: str, node: str | None = None) -> dict[str, Any]:
    # As scheduler_perf's default Pod asks for; CARICO needs no requests and is given the same.
    resources = {"requests": {"cpu": "100m", "memory": "500Mi"}}
    spec: dict[str, Any] = {
        "schedulerName": scheduler,
        "containers": [{"name": "pause", "image": "pause", "resources": resources}],
    }
    if node is not None:
        spec["nodeName"] = node
    metadata = {"name": name, "labels": {"app.kubernetes.io/name": "bench"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _advertisement(node: str, boot: str, seq: int, covers: frozenset[str]) -> bytes:
    """As an agent of the default mode makes it, of a node that takes CAPACITY Pods in all."""
    free = CAPACITY - len(covers) + random.Random(node).random()
    classes = {messages.ANY_CLASS: messages.ClassCapacity(cost_plus={"cpu": 0.1, "memory": 6e7}, pods=len(covers))}
    cost = {"cpu": messages.Estimate(mean=0.1, sd=0.01), "memory": messages.Estimate(mean=5e7, sd=1e7)}
    now_ns = CLOCK.wall_ns()
    return wire.encode_advertisement(
        messages.Advertisement(
            node=node, boot=boot, seq=seq, ts_ns=now_ns, sampled_at_ns=now_ns - 10**7, capacity=free, capacity_sd=0.5,
            bottleneck="cpu", signal=1.0, baseline=cost, cost=cost, pods=len(covers), covers=covers,
            mode=messages.Mode.MEASURED, usage={"cpu": 0.4, "memory": 0.2}, parts={}, direction={"cpu": 1.0},
            headroom={"cpu": 0.1 * free, "memory": 3e10},
            classes=classes, limit=110,
        )
    )  # fmt: skip
