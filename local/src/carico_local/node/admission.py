"""Whether a node takes a Pod that was bound to it, as a kubelet decides: room and node selector. Pure.

Source: kubernetes/pkg/kubelet/lifecycle/predicate.go.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from carico_core.wire import kubernetes_requests
from carico_local.node import podspec


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a node has: cores, bytes, Pods; in emulated figures."""

    cores: float
    memory_bytes: float
    pods: int


def rejection(
    pod: Mapping[str, Any],
    spec: podspec.PodSpec,
    *,
    room: Room,
    labels: Mapping[str, str],
    others: Iterable[Mapping[str, Any]],
) -> tuple[str, str] | None:
    """Reason and message with which a kubelet refuses the Pod beside the `others` it runs; None: it is taken."""
    running = list(others)
    if len(running) >= room.pods:
        return _out_of("pods", 1, len(running), room.pods)
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        why = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
        return "NodeAffinity", f"Pod was rejected: {why}"
    asked = kubernetes_requests.pod_requests(pod)
    totals = [kubernetes_requests.pod_requests(other) for other in running]
    for name, unit, has in (("cpu", 1000, room.cores), ("memory", 1, room.memory_bytes)):
        wanted, used = asked.get(name, 0.0), sum(total.get(name, 0.0) for total in totals)
        # Half a millicore of slack, for sums of floats.
        if wanted > 0 and wanted + used > has + 0.5 / unit:
            return _out_of(name, round(wanted * unit), round(used * unit), round(has * unit))
    return None


def _out_of(name: str, requested: int, used: int, capacity: int) -> tuple[str, str]:
    why = f"Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {capacity}"
    return f"OutOf{name}", f"Pod was rejected: {why}"
