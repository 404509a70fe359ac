"""Compare CARICO's scheduler with the real kube-scheduler: one API server, the same Nodes, one backlog after another.

`python -m bench control_plane`. A real kube-apiserver and etcd (without fsync), no kubelets: Nodes and Pods are
objects. Each scheduler in turn meets a backlog that is already there, and is timed from the first Pod bound to the
last, as the API's watch shows them; then Pods come at 50 a second, each timed from its creation, without and with 5
others a second that must preempt one. Limits on requests are lifted for both; CARICO's Events and decision records are
on, and every Node advertises once a second.
"""

import asyncio
import dataclasses
import os
import pathlib
import statistics
import tempfile
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from bench import _process
from bench.cluster import _cluster, _objects

Row = tuple[str, float, str, str]
CARICO, KUBE = _cluster.CARICO, _cluster.KUBE
SCHEDULER_NAMES = {CARICO: "carico", KUBE: "default-scheduler"}
PODS_PER_S = 50
# Of so many Pods that find room, one comes next to them that must preempt.
PREEMPTS_EACH = 10
_HIGH = "high"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A cluster and its backlog. `factor`: how much faster than kube-scheduler CARICO is to be."""

    nodes: int
    pods: int
    runs: int
    factor: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """How a backlog was worked off, from its first Pod bound to its last; CPU seconds by process."""

    pods_per_s: float
    cpu_s: Mapping[str, float]


def run(quick: bool) -> list[Row]:
    """Pods bound a second by either, and how long a Pod waits at 50 a second."""
    rows = backlog_rows(Size(nodes=1000, pods=3000, runs=1 if quick else 3, factor=2.0))
    pods = 250 if quick else 1500
    for name in (CARICO, KUBE):
        what, target = f"created to bound at {PODS_PER_S} Pods/s", "at most 100" if name == CARICO else ""
        p50_ms, p99_ms = np.percentile(asyncio.run(_in_a_folder(_stream, name, pods)), (50, 99))
        rows += [
            (f"{what}, p50: {name}", float(p50_ms), "ms", ""),
            (f"{what}, p99: {name}", float(p99_ms), "ms", target),
        ]
        _, next_to_ms = np.percentile(asyncio.run(_in_a_folder(_stream, name, pods, pods // PREEMPTS_EACH)), (50, 99))
        rows.append((f"{what}, p99 while others preempt: {name}", float(next_to_ms), "ms", ""))
        target = "at most 2" if name == CARICO else ""
        rows.append((f"... in relation to that without: {name}", float(next_to_ms / p99_ms), "", target))
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
        rows += _cpu_rows(f"{what}, {name}", runs, size.pods)
    return rows


def _cpu_rows(what: str, runs: list[Backlog], pods: int) -> list[Row]:
    """CPU time for one Pod by process, and the rate at which all but the scheduler would keep every core busy."""
    cpu_us = {
        process: statistics.median(each.cpu_s[process] for each in runs) / pods * 1e6 for process in runs[0].cpu_s
    }
    others_us = sum(cpu_us.values()) - cpu_us[_cluster.SCHEDULER]
    return [
        *((f"{what}: CPU of {process} a Pod", each_us, "us", "") for process, each_us in cpu_us.items()),
        (f"{what}: at most, if the scheduler took no CPU", (os.cpu_count() or 1) * 1e6 / others_us, "Pods/s", ""),
    ]


def standing_rows(nodes: int, pods: int) -> list[Row]:
    """CARICO's memory with that many Pods, and the time from its start to one more bind."""
    return asyncio.run(_in_a_folder(_standing, nodes, pods))


async def _in_a_folder(work: Any, *arguments: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return await work(pathlib.Path(folder), *arguments)


async def _backlog(folder: pathlib.Path, name: str, size: Size) -> Backlog:
    """From the first to the last Pod bound of a backlog."""
    async with _cluster.running(folder, size.nodes) as cluster:
        await cluster.create_pods(size.pods, SCHEDULER_NAMES[name])
        with cluster.scheduler(name):
            await cluster.until_bound(1)
            began_s = cluster.cpu_s()
            await cluster.until_bound(size.pods)
            cpu_s = {process: each_s - began_s[process] for process, each_s in cluster.cpu_s().items()}
        bound_s = sorted(cluster.bound_s.values())
        return Backlog(pods_per_s=(size.pods - 1) / (bound_s[-1] - bound_s[0]), cpu_s=cpu_s)


async def _stream(folder: pathlib.Path, name: str, pods: int, preempting: int = 0) -> list[float]:
    """Milliseconds from a Pod's creation to its bind, of Pods that come at 50 a second; those that preempt come too."""
    async with _cluster.running(folder, 1000) as cluster:
        await _fill(cluster, preempting, SCHEDULER_NAMES[name])
        with cluster.scheduler(name):
            await cluster.create_pods(1, SCHEDULER_NAMES[name], prefix="first")
            await cluster.until_bound(preempting + 1)
            created_s: dict[str, float] = {}
            began_s = time.monotonic()
            async with asyncio.TaskGroup() as group:
                for index in range(pods):
                    await asyncio.sleep(max(0.0, began_s + index / PODS_PER_S - time.monotonic()))
                    pod = _objects.pod(f"stream-{index}", SCHEDULER_NAMES[name])
                    created_s[pod["metadata"]["name"]] = time.monotonic()
                    group.create_task(cluster.api.request("POST", _objects.PODS_PATH, body=pod))
                    at, rest = divmod(index, PREEMPTS_EACH)
                    if at < preempting and not rest:
                        body = _large_pod(f"high-{at}", SCHEDULER_NAMES[name], {"kubernetes.io/hostname": f"node-{at}"})
                        body["spec"]["priorityClassName"] = _HIGH
                        group.create_task(cluster.api.request("POST", _objects.PODS_PATH, body=body))
            await cluster.until_bound(2 * preempting + pods + 1)
        return [(cluster.bound_s[each] - at_s) * 1e3 for each, at_s in created_s.items()]


async def _fill(cluster: _cluster.Cluster, nodes: int, scheduler: str) -> None:
    """Fill the first Nodes with a Pod each, which one of a higher priority can preempt."""
    body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": _HIGH}, "value": 1000}
    await cluster.api.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body=body)
    for index in range(nodes):
        pod = _large_pod(f"low-{index}", scheduler, {})
        pod["spec"]["nodeName"] = f"node-{index}"
        await cluster.api.request("POST", _objects.PODS_PATH, body=pod)


def _large_pod(name: str, scheduler: str, selector: Mapping[str, str]) -> dict[str, Any]:
    """Return a Pod that takes most of a Node; without a kubelet, only one without a grace period ends."""
    pod = _objects.pod(name, scheduler)
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "3800m"
    pod["spec"] |= {"nodeSelector": selector, "terminationGracePeriodSeconds": 0}
    return pod


async def _standing(folder: pathlib.Path, nodes: int, pods: int) -> list[Row]:
    """Measure CARICO's memory with `pods` running Pods, and the time from its start to one more bind."""
    async with _cluster.running(folder, nodes) as cluster:
        await cluster.create_pods(pods, SCHEDULER_NAMES[CARICO], prefix="running", spread_over=nodes)
        await cluster.create_pods(1, SCHEDULER_NAMES[CARICO], prefix="waiting")
        began_s = time.monotonic()
        with cluster.scheduler(CARICO) as process:
            await cluster.until_bound(pods + 1)
            first_s = cluster.bound_s["waiting-0"] - began_s
            await asyncio.sleep(15)
            rss_bytes = _process.memory_bytes(process.pid, "VmRSS")
            peak_bytes = _process.memory_bytes(process.pid, "VmHWM")
    where = f"at {nodes:,} Nodes and {pods:,} Pods"
    return [
        (f"memory of the scheduler {where}", rss_bytes / 1e6, "MB", "at most 300"),
        (f"the most it was {where}", peak_bytes / 1e6, "MB", "at most 300"),
        (f"start to first bind {where}", first_s, "s", "at most 10"),
    ]
