"""Nodes and Pods as objects of the API, and advertisements for Nodes without an agent."""

import functools
import random
from typing import Any

from carico_core.domain import messages
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire

PODS_PATH = "/api/v1/namespaces/default/pods"
CAPACITY = 60.0


def node(name: str) -> dict[str, Any]:
    """Return a ready Node of 4 cores."""
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


def pod(name: str, scheduler: str, node: str | None = None) -> dict[str, Any]:
    """Return a Pod that waits for `scheduler`, or that is bound already."""
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


def advertisement(
    node: str, boot: str, seq: int, covers: frozenset[str], *, capacity: float = CAPACITY, limit: int = 110
) -> bytes:
    """Return an advertisement of the default mode for a node that takes `capacity` Pods in all."""
    free = max(0.0, capacity - len(covers)) + _part_of_a_pod(node)
    classes = {messages.ANY_CLASS: messages.ClassCapacity(cost_plus={"cpu": 0.1, "memory": 6e7}, pods=len(covers))}
    cost = {"cpu": messages.Estimate(mean=0.1, sd=0.01), "memory": messages.Estimate(mean=5e7, sd=1e7)}
    now_ns = clocks.SystemClock().wall_ns()
    return wire.encode_advertisement(
        messages.Advertisement(
            node=node, boot=boot, seq=seq, ts_ns=now_ns, sampled_at_ns=now_ns - 10**7, capacity=free, capacity_sd=0.5,
            bottleneck="cpu", signal=1.0, baseline=cost, cost=cost, pods=len(covers), covers=covers,
            mode=messages.Mode.MEASURED, usage={"cpu": 0.4, "memory": 0.2}, parts={}, direction={"cpu": 1.0},
            headroom={"cpu": 0.1 * free, "memory": 3e10},
            classes=classes, limit=limit,
        )
    )  # fmt: skip


@functools.cache
def _part_of_a_pod(node: str) -> float:
    """Return by how much a node differs from others; the same each time."""
    return random.Random(node).random()
