"""A worker fails and recovers, as in the hybrid shared-state paper (sections 3 and 4, figure 3).

`python -m bench worker_failure`. Three workers of 8 cores and 32 GB, 50 services with 78 Pods; worker 1 is lost, its
Pods are created again, it comes back, and then three services get three more replicas each. On a real API server,
without kubelets: the benchmark does what controllers do, and advertises as agents that measure half of the requested
CPU and 60 % of the memory limits as used. Each scheduler in turn gets the same Pods in the same order.

The paper's cluster (kube-scheduler 1.12): worker 1 began at 84.45 % of its memory limits; without it worker 2 rose to
97.6 % of memory limits and 80.75 % CPU, worker 3 to 99 % of CPU requests; worker 1 stayed empty when it was back.
"""

import asyncio
import contextlib
import dataclasses
import itertools
import pathlib
import random
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from bench.cluster import _cluster, _objects
from carico_core.domain import errors, messages
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_core.wire import subjects

Row = tuple[str, float, str, str]
WORKERS = ("worker-1", "worker-2", "worker-3")
LOST = WORKERS[0]
CORES, GIB = 8.0, 32.0
SERVICES, MORE, SCALED = 50, 3, 3
# Of what is requested, and of what is the limit.
CPU_USED, MEMORY_USED = 0.5, 0.6
# Of agents by default: a node with two tasks a core is full.
CPU_CEILING, MEMORY_CEILING, TASKS_PER_CORE = 0.77, 0.95, 2.0
# Nothing is bound for so long: what waits has no room.
SETTLED_S = 6.0
ADMISSION = "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,Priority"
# The program, the name by which Pods choose it, its flags, and whether services ask to be spread (maxSkew 1).
CONTENDERS: Mapping[str, tuple[str, str, tuple[str, ...], bool]] = {
    _cluster.CARICO: (_cluster.CARICO, "carico", (), False),
    "carico, no default spread": (_cluster.CARICO, "carico", ("--no-default-spread",), False),
    "carico, services ask to be spread": (_cluster.CARICO, "carico", (), True),
    _cluster.KUBE: (_cluster.KUBE, "default-scheduler", (), False),
    "kube-scheduler, services ask to be spread": (_cluster.KUBE, "default-scheduler", (), True),
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A Pod of the workload."""

    name: str
    service: str
    cores: float
    limit_gib: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Shares of a worker: CPU requests, and memory limits; and its Pods."""

    cpu: float
    memory: float
    pods: int


def workload(rng: random.Random) -> list[Pod]:
    """Return the Pods: 1.8 workers' cores as requests, 1.8 workers' memory as limits."""
    replicas = [3] * SCALED + [2] * 22 + [1] * (SERVICES - SCALED - 22)
    found = []
    for index, count in enumerate(replicas):
        cores, limit_gib = rng.choice((0.1, 0.2, 0.25)), rng.choice((0.5, 0.75, 1.0))
        found += [
            Pod(name=f"service-{index}-{number}", service=f"service-{index}", cores=cores, limit_gib=limit_gib)
            for number in range(count)
        ]
    wanted = 1.8
    cores = wanted * CORES / sum(pod.cores for pod in found)
    memory = wanted * GIB / sum(pod.limit_gib for pod in found)
    rng.shuffle(found)
    return [
        dataclasses.replace(pod, cores=round(pod.cores * cores, 3), limit_gib=round(pod.limit_gib * memory, 3))
        for pod in found
    ]


def run(quick: bool) -> list[Row]:
    """Shares of the workers before, without, and with worker 1 again; and where new replicas go."""
    del quick
    rows: list[Row] = []
    for name in CONTENDERS:
        with tempfile.TemporaryDirectory() as folder:
            rows += asyncio.run(_measure(pathlib.Path(folder), name))
    return rows


async def _measure(folder: pathlib.Path, name: str) -> list[Row]:
    program, scheduler, flags, spreads = CONTENDERS[name]
    async with _cluster.empty(folder, ADMISSION) as cluster:
        scene = Scene(cluster, scheduler, spreads=spreads)
        await scene.prepare()
        living = asyncio.create_task(scene.advertise())
        try:
            with cluster.scheduler(program, *flags):
                return await _play(scene, name)
        finally:
            living.cancel()
            await asyncio.gather(living, return_exceptions=True)


async def _play(scene: "Scene", name: str) -> list[Row]:
    pods = workload(random.Random(1))
    await scene.create(pods)
    rows = _rows(f"{name}, at first", await scene.settled())
    lost = [pod for pod in pods if scene.node_of.get(pod.name) == LOST]
    await scene.lose(LOST)
    again = [dataclasses.replace(pod, name=f"{pod.name}-again") for pod in lost]
    await scene.create(again)
    rows += _rows(f"{name}, worker 1 lost", await scene.settled())
    rows.append((f"{name}, worker 1 lost: Pods without room", float(scene.waiting), "Pods", ""))
    await scene.recover(LOST)
    rows += _rows(f"{name}, worker 1 back", await scene.settled())
    new = [
        dataclasses.replace(
            next(pod for pod in pods if pod.service == f"service-{index}"), name=f"new-{index}-{number}"
        )
        for index, number in itertools.product(range(SCALED), range(MORE))
    ]
    await scene.create(new)
    await scene.settled()
    counts = [
        sum(scene.node_of.get(f"new-{index}-{number}") == LOST for number in range(MORE)) for index in range(SCALED)
    ]
    rows.append((f"{name}: new replicas of one service on worker 1, most of {MORE}", float(max(counts)), "Pods", ""))
    rows.append((f"{name}: new replicas on worker 1, of {MORE * SCALED}", float(sum(counts)), "Pods", ""))
    return rows


def _rows(what: str, loads: Mapping[str, Load]) -> list[Row]:
    return [
        *((f"{what}: CPU requests of {node}", 100.0 * loads[node].cpu, "%", "") for node in WORKERS),
        *((f"{what}: memory limits of {node}", 100.0 * loads[node].memory, "%", "") for node in WORKERS),
    ]


class Scene:
    """The workers, and the Pods on them, by a list of the API."""

    def __init__(self, cluster: _cluster.Cluster, scheduler: str, *, spreads: bool) -> None:
        """`spreads`: each Pod asks for an even spread of its service over workers."""
        self._spreads = spreads
        self._cluster = cluster
        self._scheduler = scheduler
        self._pods: dict[str, Pod] = {}
        self._uids: dict[str, str] = {}
        self._boot = clocks.boot_id(_cluster.CLOCK)
        self._seq = 0
        self._away: set[str] = set()
        self.node_of: dict[str, str] = {}

    @property
    def waiting(self) -> int:
        """Pods without a node."""
        return len(self._pods) - len(self.node_of)

    async def prepare(self) -> None:
        """Create the workers, and the services by which both schedulers spread."""
        request = self._cluster.api.request
        amounts = {"cpu": f"{CORES:g}", "memory": f"{GIB:g}Gi", "pods": "110"}
        for name in WORKERS:
            body = _objects.node(name)
            body["status"] |= {"capacity": amounts, "allocatable": amounts}
            await request("POST", "/api/v1/nodes", body=body)
            await self.recover(name)
        for index in range(SERVICES):
            name = f"service-{index}"
            body = {
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
                "spec": {"selector": {"app.kubernetes.io/name": name}, "ports": [{"port": 80}]},
            }  # fmt: skip
            await request("POST", "/api/v1/namespaces/default/services", body=body)

    async def create(self, pods: Sequence[Pod]) -> None:
        """Create Pods, in this order."""
        for pod in pods:
            body = _objects.pod(pod.name, self._scheduler)
            body["metadata"]["labels"] = {"app.kubernetes.io/name": pod.service}
            amounts = {"cpu": f"{pod.cores * 1000:.0f}m", "memory": f"{pod.limit_gib * 1024:.0f}Mi"}
            # Requests of memory are half of the limits, as they often are.
            half = amounts | {"memory": f"{pod.limit_gib * 512:.0f}Mi"}
            body["spec"]["containers"][0]["resources"] = {"requests": half, "limits": {"memory": amounts["memory"]}}
            if self._spreads:
                body["spec"]["topologySpreadConstraints"] = [_spread(pod.service)]
            await self._cluster.api.request("POST", _objects.PODS_PATH, body=body)
            self._pods[pod.name] = pod

    async def settled(self) -> dict[str, Load]:
        """Return the loads once nothing more is bound."""
        last_s = _cluster.CLOCK.monotonic_s()
        count = -1
        while _cluster.CLOCK.monotonic_s() - last_s < (SETTLED_S if count else 10 * SETTLED_S):
            self._cluster.check()
            await asyncio.sleep(0.2)
            if len(self.node_of) != count:
                count, last_s = len(self.node_of), _cluster.CLOCK.monotonic_s()
            if not self.waiting:
                break
        return {node: self._load(node) for node in WORKERS}

    def _load(self, node: str) -> Load:
        own = [self._pods[name] for name, where in self.node_of.items() if where == node]
        return Load(
            cpu=sum(pod.cores for pod in own) / CORES, memory=sum(pod.limit_gib for pod in own) / GIB, pods=len(own)
        )

    async def lose(self, node: str) -> None:
        """Let a worker fall silent; its Pods end, as by the node-lifecycle controller and the garbage collector."""
        self._away.add(node)
        taints = [{"key": "node.kubernetes.io/unreachable", "effect": each} for each in ("NoSchedule", "NoExecute")]
        await self._set_ready(node, "Unknown", taints)
        for name in [name for name, where in self.node_of.items() if where == node]:
            with contextlib.suppress(errors.NotFound):
                await self._cluster.api.request(
                    "DELETE", f"{_objects.PODS_PATH}/{name}", params={"gracePeriodSeconds": "0"}
                )
            del self._pods[name]
            del self.node_of[name]

    async def recover(self, node: str) -> None:
        """Let it report again."""
        self._away.discard(node)
        await self._set_ready(node, "True", None)

    async def _set_ready(self, node: str, status: str, taints: Any) -> None:
        kind, path = "application/merge-patch+json", f"/api/v1/nodes/{node}"
        request = self._cluster.api.request
        await request("PATCH", path, body={"spec": {"taints": taints}}, content_type=kind)
        ready = [{"type": "Ready", "status": status, "reason": "bench"}]
        await request("PATCH", f"{path}/status", body={"status": {"conditions": ready}}, content_type=kind)

    async def advertise(self) -> None:
        """List the Pods, and publish what agents would, four times a second, until cancelled."""
        while True:
            found = await self._cluster.api.request("GET", _objects.PODS_PATH)
            for pod in found["items"]:
                name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
                if node and name in self._pods:
                    self.node_of[name] = node
                    self._uids[name] = pod["metadata"]["uid"]
            for node in WORKERS:
                if node not in self._away:
                    self._seq += 1
                    await self._cluster.bus.publish(subjects.capacity(node), self._advertisement(node))
            await asyncio.sleep(0.25)

    def _advertisement(self, node: str) -> bytes:
        own = [name for name, where in self.node_of.items() if where == node]
        pods = [self._pods[name] for name in own]
        everything = list(self._pods.values())
        count = max(len(everything), 1)
        cost = {
            "cpu": CPU_USED * sum(pod.cores for pod in everything) / count or 0.1,
            "memory": MEMORY_USED * 2**30 * sum(pod.limit_gib for pod in everything) / count or 1e8,
        }
        room = {
            "cpu": CPU_CEILING * TASKS_PER_CORE * CORES - CPU_USED * sum(pod.cores for pod in pods),
            "memory": 2**30 * (MEMORY_CEILING * GIB - MEMORY_USED * sum(pod.limit_gib for pod in pods)),
        }
        tight = min(room, key=lambda dim: room[dim] / cost[dim])
        now_ns = _cluster.CLOCK.wall_ns()
        used = {"cpu": 1.0 - room["cpu"] / (TASKS_PER_CORE * CORES), "memory": 1.0 - room["memory"] / (GIB * 2**30)}
        estimates = {dim: messages.Estimate(mean=value, sd=0.1 * value) for dim, value in cost.items()}
        return wire.encode_advertisement(
            messages.Advertisement(
                node=node, boot=self._boot, seq=self._seq, ts_ns=now_ns, sampled_at_ns=now_ns,
                capacity=max(0.0, room[tight] / cost[tight]), capacity_sd=0.5, bottleneck=tight, signal=1.0,
                baseline={}, cost=estimates, pods=len(own), covers=frozenset(self._uids[name] for name in own),
                mode=messages.Mode.MEASURED, usage={dim: min(1.0, max(0.0, share)) for dim, share in used.items()},
                parts={}, direction={}, headroom=room,
                classes={messages.ANY_CLASS: messages.ClassCapacity(cost_plus=cost, pods=len(own))},
            )
        )  # fmt: skip


def _spread(service: str) -> dict[str, Any]:
    # A worker that is lost must not count as one without Pods.
    return {
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "nodeTaintsPolicy": "Honor", "labelSelector": {"matchLabels": {"app.kubernetes.io/name": service}},
    }  # fmt: skip
