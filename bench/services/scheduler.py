"""Benchmarks of the scheduler: one decision at 10,000 nodes, as many waiting Jobs, and taking in advertisements.

`python -m bench scheduler`. Times are CPU time, which other work on the machine changes little.
"""

import dataclasses
import random
import statistics
import time
from collections.abc import Callable

from carico_core.domain import cluster, constraints, messages, selectors
from carico_core.runtime.process import memory_use
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_scheduler.decide import cycle
from carico_scheduler.intake import advertisements
from carico_scheduler.nodes import fleet
from carico_scheduler.pods import queue, reservations
from carico_scheduler.rules import default_spread, policy
from carico_scheduler.state import state

# (what, value, unit, target in words or empty): see bench/__main__.py.
Row = tuple[str, float, str, str]
NODES = 10_000
NOW_S = 1000.0
BATCH = 32
_IS_WEB = (selectors.Requirement(key="app", operator=selectors.IN, values=("web",)),)


def run(quick: bool = False) -> list[Row]:
    """The table of this module. `quick` takes fewer repetitions, at the same size."""
    repetitions = 20 if quick else 200
    with memory_use.rare_collections():  # as the service runs
        return [*_decisions(repetitions), *_jobs(rounds=3 if quick else 7), *_intake(rounds=3 if quick else 7)]


def _decisions(repetitions: int) -> list[Row]:
    """Decision times over a fleet of NODES nodes with advertisements of our own mode."""
    rng = random.Random(1)
    nodes = fleet.Fleet(policy.Policy())
    for index in range(NODES):
        node = _node(index)
        nodes.put_node(node, reservations.Load())
        nodes.put_advertisement(_advertisement(node.name, 1, rng), NOW_S)
    cycles = cycle.Cycle(nodes.policy)
    alone_us, together_us = _cycle_us(cycles, nodes, _pod, repetitions)
    spread_us = _spread_us(cycles, nodes, repetitions)
    by_default_us, _ = _cycle_us(cycles, nodes, _replica, max(repetitions // 5, 1))
    soft = cluster.Taint(key="soft", value="", effect="PreferNoSchedule")
    nodes.put_node(dataclasses.replace(_node(1), taints=(soft,)), reservations.Load())
    soft_alone_us, soft_together_us = _cycle_us(cycles, nodes, _pod, repetitions)
    return [
        (f"one decision at {NODES} nodes, in cycles of {BATCH} Pods", together_us, "us", "at most 50"),
        (f"one cycle of a single Pod at {NODES} nodes", alone_us, "us", "at most 60"),
        ("... if one node has a PreferNoSchedule taint", soft_alone_us, "us", ""),
        (f"... in cycles of {BATCH} Pods, a decision", soft_together_us, "us", ""),
        ("... if the Pod is spread by default", by_default_us, "us", ""),
        (f"one decision at {NODES} nodes on a Pod with a zone spread and a host port", spread_us, "us", ""),
    ]


def _cycle_us(
    cycles: cycle.Cycle, nodes: fleet.Fleet, pod: Callable[[int], cluster.Pod], repetitions: int
) -> tuple[float, float]:
    """One cycle of a single Pod, and one decision in cycles of BATCH."""
    source = queue.Queue(random.Random(1))
    for index in range(repetitions * (BATCH + 1) + BATCH):
        source.offer(pod(index), NOW_S)

    def decide(most: int) -> None:
        placed = cycles.run(nodes.snapshot(NOW_S + 0.5), source, most=most).placed
        assert len(placed) == most

    decide(BATCH)
    together_us = _median_us(lambda: decide(BATCH), repetitions) / BATCH
    return _median_us(lambda: decide(1), repetitions), together_us


def _spread_us(cycles: cycle.Cycle, nodes: fleet.Fleet, repetitions: int) -> float:
    """One decision on Pods that bear on each other, in cycles of BATCH."""
    zones = constraints.Spread(namespace="default", topology_key="zone", selector=_IS_WEB, max_skew=1)
    port = constraints.HostPort(address="0.0.0.0", protocol="TCP", port=80)
    limits = constraints.Constraints(spreads=(zones,), host_ports=(port,))
    source = queue.Queue(random.Random(3))
    rounds = max(repetitions // 5, 1)
    for index in range(BATCH * (rounds + 1)):
        pod = _pod(10**6 + index)._replace(labels={"app": "web"}, node_selector={}, constraints=limits)
        source.offer(pod, NOW_S)

    def decide() -> None:
        assert len(cycles.run(nodes.snapshot(NOW_S + 0.5), source, most=BATCH).placed) == BATCH

    decide()
    return _median_us(decide, rounds) / BATCH


def _jobs(rounds: int) -> list[Row]:
    """One cycle over as many Jobs of one Pod as there are nodes, each a class of its own; all nodes are full."""
    rng = random.Random(4)
    nodes = fleet.Fleet(policy.Policy())
    for index in range(NODES):
        nodes.put_node(_node(index), reservations.Load())
        full = {"cpu": 0.1, "memory": 6e9}
        nodes.put_advertisement(_advertisement(f"node-{index}", 1, rng, 1)._replace(headroom=full), NOW_S)
    source, cycles = queue.Queue(rng), cycle.Cycle(nodes.policy)
    for index in range(NODES):
        owner = cluster.Owner(kind="Job", name=f"job-{index}", uid=f"job-{index}")
        source.offer(_pod(index)._replace(owner=owner, node_selector={}), NOW_S)

    def decide() -> None:
        source.unpark()
        assert len(cycles.run(nodes.snapshot(NOW_S + 0.5), source, most=BATCH).unplaced) == NODES

    decide()
    took_ms = _median_us(decide, rounds) / 1e3
    return [(f"one cycle over {NODES} Jobs of one Pod at {NODES} full nodes", took_ms, "ms", "")]


def _intake(rounds: int) -> list[Row]:
    """Advertisements a second from bytes to the settled state, on one core, each covering 10 Pods."""
    rng = random.Random(2)
    known = state.State(policy.Policy(), rng)
    known.put_nodes([_node(index) for index in range(NODES)])
    for index in range(NODES):
        for number in range(10):
            known.put_pod(_pod(index * 10 + number, node_name=f"node-{index}", phase="Running"), NOW_S)
    taken = advertisements.Advertisements(lease_s=1e6, on_drop=_fail)
    rates = []
    for turn in range(1, rounds + 1):
        arrivals = [_message(index, turn, rng) for index in range(NODES)]
        began_s = time.process_time()
        for subject, payload in arrivals:
            taken.store(subject, payload, NOW_S + turn)
        while heard := taken.drain():
            for each in heard:
                known.put_advertisement(each, NOW_S + turn)
        rates.append(NODES / (time.process_time() - began_s))
    return [("advertisements taken in on one core, bytes to state", statistics.median(rates), "1/s", "at least 10000")]


def _message(index: int, seq: int, rng: random.Random) -> tuple[str, bytes]:
    node = f"node-{index}"
    return subjects.capacity(node), wire.encode_advertisement(_advertisement(node, seq, rng, 10))


def _median_us(work: Callable[[], None], repetitions: int) -> float:
    times = []
    for _ in range(repetitions):
        began_ns = time.process_time_ns()
        work()
        times.append((time.process_time_ns() - began_ns) / 1e3)
    return statistics.median(times)


def _fail(subject: str, reason: str, detail: str) -> None:
    raise AssertionError(f"{subject} dropped as {reason}: {detail}")


def _node(index: int) -> cluster.Node:
    return cluster.Node(
        name=f"node-{index}", uid=f"node-uid-{index}", taints=(),
        labels={
            "zone": f"z{index % 3}", "topology.kubernetes.io/zone": f"z{index % 3}",
            "kubernetes.io/hostname": f"node-{index}",
        },
        unschedulable=False, ready=True, deleting=False, allocatable_cores=4.0, allocatable_bytes=8e9, pod_limit=110,
    )  # fmt: skip


def _replica(index: int) -> cluster.Pod:
    """A Pod of a ReplicaSet, with the spread that such Pods have by default."""
    owner = cluster.Owner(kind="ReplicaSet", name="web", uid="web")
    pod = _pod(10**7 + index)._replace(labels={"app": "web"}, node_selector={}, owner=owner)
    return pod._replace(constraints=default_spread.DefaultSpread(is_on=True).constraints_of(pod))


def _pod(index: int, *, node_name: str | None = None, phase: str = "Pending") -> cluster.Pod:
    return cluster.Pod(
        namespace="default", name=f"pod-{index}", uid=f"0e7f3c1a-0000-4000-8000-{index:012d}", resource_version="1",
        scheduler_name="carico", node_name=node_name, phase=phase, priority=0, created_at_s=float(index),
        deleting=False, labels={}, node_selector={"zone": "z1"}, tolerations=(), owner=None, image="pi",
        is_mirror=False, request_cores=0.0, request_bytes=0.0, unsupported=(),
    )  # fmt: skip


def _advertisement(node: str, seq: int, rng: random.Random, pods: int = 0) -> messages.Advertisement:
    """An advertisement as an agent makes it, covering that many Pods."""
    index = int(node.removeprefix("node-"))
    covers = frozenset(f"0e7f3c1a-0000-4000-8000-{index * 10 + number:012d}" for number in range(pods))
    cost = {"cpu": messages.Estimate(mean=1.0, sd=0.1), "memory": messages.Estimate(mean=5e7, sd=1e7)}
    return messages.Advertisement(
        node=node, boot="17979cfe362a0001", seq=seq, ts_ns=10**18, sampled_at_ns=10**18 - 10**8,
        capacity=rng.uniform(0.0, 7.0), capacity_sd=0.5, bottleneck="cpu", signal=3.1, baseline=cost, cost=cost,
        pods=pods, covers=covers, mode=messages.Mode.MEASURED, usage={"cpu": 0.4, "memory": 0.2},
        parts={"cpu.utilisation": 0.8, "cpu.pressure": 0.01}, direction={"cpu": 0.9, "memory": 0.3},
        headroom={"cpu": rng.uniform(0.0, 7.0), "memory": 6e9},
        classes={"*": messages.ClassCapacity(cost_plus={"cpu": 1.1, "memory": 6e7}, pods=pods)}, limit=40,
    )  # fmt: skip
