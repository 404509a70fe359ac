"""Whether a node admits a Pod that was bound to it, decided as in a kubelet: resources and node selector. Pure.

Source: kubernetes/pkg/kubelet/lifecycle/predicate.go.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from carico_core.wire.kubernetes.pods import pod_requests
from carico_local.node.spec import pod as podspec


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The capacity of a node in emulated units."""

    cores: float
    memory_bytes: float
    pods: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """Why a node rejects a Pod, as in its status. `by_labels`: because of the node's own labels."""

    reason: str
    message: str
    by_labels: bool = False


def rejection(
    pod: Mapping[str, Any],
    spec: podspec.PodSpec,
    *,
    room: Room,
    labels: Mapping[str, str],
    others: Iterable[Mapping[str, Any]],
) -> Rejection | None:
    """Return why the node rejects the Pod next to the `others` that it runs; None: it admits the Pod."""
    running = list(others)
    if len(running) >= room.pods:
        return _out_of("pods", 1, len(running), room.pods)
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        why = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
        return Rejection(reason="NodeAffinity", message=f"Pod was rejected: {why}", by_labels=True)
    asked = pod_requests.pod_requests(pod)
    totals = [pod_requests.pod_requests(other) for other in running]
    for name, unit, has in (("cpu", 1000, room.cores), ("memory", 1, room.memory_bytes)):
        wanted, used = asked.get(name, 0.0), sum(total.get(name, 0.0) for total in totals)
        # Half a millicore of slack, for sums of floats.
        if wanted > 0 and wanted + used > has + 0.5 / unit:
            return _out_of(name, round(wanted * unit), round(used * unit), round(has * unit))
    return None


def _out_of(name: str, requested: int, used: int, capacity: int) -> Rejection:
    why = f"Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {capacity}"
    return Rejection(reason=f"OutOf{name}", message=f"Pod was rejected: {why}")
