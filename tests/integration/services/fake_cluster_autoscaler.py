"""A stand-in for Cluster Autoscaler: its rules for adding and removing nodes, on Nodes that kwok plays.

Both rules simulate by requests, never by usage. Source: kubernetes/autoscaler, cluster-autoscaler:

    adds nodes for     Pods with PodScheduled=False, reason Unschedulable (utils/kubernetes/listers.go) that fit on none
                       of the present nodes (core/podlistprocessor/filter_out_schedulable.go)
    as many as         first fit decreasing needs (estimator/binpacking_estimator.go)
    removes            a node whose larger share of requested CPU or memory is below one half (simulator/utilization,
                       --scale-down-utilization-threshold) if all of its Pods fit elsewhere (simulator/cluster.go)

Left out, as nothing here depends on it: taints, affinity and volumes in the simulation, delays, several groups.
Karpenter chooses and simulates alike: pkg/controllers/provisioning and disruption of kubernetes-sigs/karpenter.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from carico_core.domain import amounts
from carico_core.runtime.kube import api_client
from carico_core.wire.kubernetes.pods import pod_requests
from carico_local.played_nodes import nodes

THRESHOLD = 0.5
# utils/taints/taints.go: before the first eviction.
TAINT = {"key": "ToBeDeletedByClusterAutoscaler", "value": "1", "effect": "NoSchedule"}
_DIMS = ("cpu", "memory", "pods")

Object = Mapping[str, Any]


@dataclasses.dataclass(slots=True)
class Room:
    """What the requests of a node's Pods leave of it."""

    name: str
    allocatable: Mapping[str, float]
    free: dict[str, float]

    def take(self, wanted: Mapping[str, float]) -> bool:
        """Place a Pod here if it fits; return whether it did."""
        if any(self.free[dim] < wanted.get(dim, 0.0) for dim in _DIMS):
            return False
        for dim in _DIMS:
            self.free[dim] -= wanted.get(dim, 0.0)
        return True

    @property
    def utilisation(self) -> float:
        """The larger of the requested shares of CPU and memory."""
        return max(1.0 - self.free[dim] / self.allocatable[dim] for dim in ("cpu", "memory"))


class FakeClusterAutoscaler:
    """Looks at the cluster when asked to. `sizes`: Nodes that may be added; `least`: those that are kept."""

    def __init__(self, api: api_client.KubeClient, sizes: Iterable[Object], *, least: int) -> None:
        self._api = api
        self._sizes = {each["metadata"]["name"]: each for each in sizes}
        self._least = least

    async def add(self) -> list[str]:
        """Add the nodes that are needed; return their names."""
        rooms, pods = await self._cluster()
        unschedulable = [requests_of(pod) for pod in pods if is_unschedulable(pod)]
        waiting = [wanted for wanted in unschedulable if not _first_fit(rooms, wanted)]
        unused = [size for name, size in self._sizes.items() if name not in {room.name for room in rooms}]
        added = unused[: nodes_needed(waiting, _room(unused[0], [])) if unused else 0]
        for node in added:
            await self._api.request("POST", nodes.NODES_PATH, body=node)
        return [node["metadata"]["name"] for node in added]

    async def unneeded(self) -> list[str]:
        """Return the nodes that may be removed, each on its own."""
        rooms, pods = await self._cluster()
        found = []
        for room in rooms:
            moved = [requests_of(pod) for pod in pods if pod["spec"].get("nodeName") == room.name and is_live(pod)]
            others = [dataclasses.replace(each, free=dict(each.free)) for each in rooms if each is not room]
            if room.utilisation < THRESHOLD and all(_first_fit(others, wanted) for wanted in moved):
                found.append(room.name)
        return found

    async def remove(self) -> str | None:
        """Remove one node, an empty one first: taint it, evict its Pods and delete it; return its name."""
        rooms, pods = await self._cluster()
        if len(rooms) <= self._least:
            return None
        on = {name: [pod for pod in pods if pod["spec"].get("nodeName") == name] for name in await self.unneeded()}
        for name in sorted(on, key=lambda name: len(on[name])):
            await self._api.request(
                "PATCH", f"{nodes.NODES_PATH}/{name}", body={"spec": {"taints": [TAINT]}},
                content_type="application/merge-patch+json",
            )  # fmt: skip
            for pod in filter(is_live, on[name]):
                meta = pod["metadata"]
                path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/eviction"
                body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": meta["name"]}}
                await self._api.request("POST", path, body=body)
            await self._api.request("DELETE", f"{nodes.NODES_PATH}/{name}")
            return name
        return None

    async def _cluster(self) -> tuple[list[Room], list[Object]]:
        pods = (await self._api.request("GET", "/api/v1/pods"))["items"]
        found = (await self._api.request("GET", nodes.NODES_PATH))["items"]
        return [_room(node, pods) for node in found if node["metadata"]["name"] in self._sizes], pods


def nodes_needed(pods: Sequence[Mapping[str, float]], empty: Room) -> int:
    """Return how many new nodes first fit decreasing fills with Pods; those that fit on no new node do not count."""
    fitting = [each for each in pods if dataclasses.replace(empty, free=dict(empty.free)).take(each)]
    ordered = sorted(
        fitting, key=lambda wanted: -sum(wanted[dim] / empty.allocatable[dim] for dim in ("cpu", "memory"))
    )
    rooms: list[Room] = []
    for wanted in ordered:
        if not _first_fit(rooms, wanted):
            rooms.append(dataclasses.replace(empty, free=dict(empty.free)))
            rooms[-1].take(wanted)
    return len(rooms)


def requests_of(pod: Object) -> dict[str, float]:
    """Return what a Pod requests, and that it is one."""
    return {"cpu": 0.0, "memory": 0.0} | pod_requests.pod_requests(pod) | {"pods": 1.0}


def is_live(pod: Object) -> bool:
    """Return whether the Pod holds its node's room."""
    return pod["status"].get("phase") not in ("Succeeded", "Failed") and "deletionTimestamp" not in pod["metadata"]


def is_unschedulable(pod: Object) -> bool:
    """Return whether a Pod asks for a node."""
    conditions = pod["status"].get("conditions") or ()
    return (
        not pod["spec"].get("nodeName")
        and is_live(pod)
        and any(
            (each["type"], each["status"], each.get("reason")) == ("PodScheduled", "False", "Unschedulable")
            for each in conditions
        )
    )


def _room(node: Object, pods: Iterable[Object]) -> Room:
    name = node["metadata"]["name"]
    size = {dim: amounts.parse_quantity(node["status"]["allocatable"][dim]) for dim in _DIMS}
    held = [requests_of(pod) for pod in pods if pod["spec"].get("nodeName") == name and is_live(pod)]
    free = {dim: size[dim] - sum(each.get(dim, 0.0) for each in held) for dim in _DIMS}
    return Room(name=name, allocatable=size, free=free)


def _first_fit(rooms: Iterable[Room], wanted: Mapping[str, float]) -> bool:
    return any(room.take(wanted) for room in rooms)


def sizes(count: int, *, cores: int, pods: int) -> list[Object]:
    """Return the Nodes of a group."""
    return list(itertools.islice(nodes.manifests(count, cores=cores, pods=pods), count))
