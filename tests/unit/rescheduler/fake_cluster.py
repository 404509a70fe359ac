"""A model of what acts on a cluster besides the rescheduler: ReplicaSet controller, scheduler, kubelets.

The ReplicaSet controller follows Kubernetes' (pkg/controller/replicaset, controller_utils.go): it adopts Pods without
controller that its selector matches, creates what is missing, and of too many deletes those without a node, then those
that are not ready, then those of lowest deletion cost, then the newest.
"""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

from carico_core.domain import errors
from carico_core.runtime.process import clock as clocks
from carico_core.wire.kubernetes import api_objects, instants
from tests.tools.memory import memory_kube, memory_objects

Object = dict[str, Any]
HASH = "5d9c7b8f6d"
EVERYTHING = memory_objects.parse_selector("", {})
_COST = "controller.kubernetes.io/pod-deletion-cost"


class FakeCluster:
    """Objects in memory, and one turn of every controller at a time."""

    def __init__(self, clock: clocks.Clock) -> None:
        self.clock = clock
        self.api = memory_kube.MemoryKube(clock=clock)
        # Nodes with room; a Pod that demands another waits. And whether new Pods become ready.
        self.open: set[str] = set()
        self.gets_ready: Callable[[Object], bool] = lambda pod: True
        # The fewest and most Pods that count as replicas of the application, at any turn.
        self.fewest_ready, self.most_active = 10**9, 0
        # Time between two turns.
        self.every_s = 0.1
        self._number = itertools.count(1)

    # Objects.

    def add_node(self, name: str, *, cores: int = 4) -> None:
        """A ready node with room."""
        self.open.add(name)
        self.api.objects.create(
            "nodes",
            {
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "spec": {},
                "status": {
                    "allocatable": {"cpu": str(cores), "memory": "8Gi", "pods": "110"},
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            },
            "test",
        )  # fmt: skip

    def add_deployment(self, name: str, nodes: list[str], **spec: Any) -> None:
        """A Deployment at rest, with a ready replica on each of the nodes."""
        labels = {"app": name}
        template = {
            "metadata": {"labels": {**labels, "pod-template-hash": HASH}},
            "spec": {"schedulerName": "carico", "containers": [{"name": "main", "image": name}], **spec},
        }
        count = len(nodes)
        deployment = self.api.objects.create(
            "deployments",
            {
                "metadata": {"name": name, "namespace": "default", "generation": 1},
                "spec": {"replicas": count, "template": {"metadata": {"labels": labels}, "spec": template["spec"]}},
                "status": {
                    "observedGeneration": 1, "replicas": count, "updatedReplicas": count, "availableReplicas": count,
                },
            },
            "test",
        )  # fmt: skip
        owner = {"kind": "Deployment", "name": name, "uid": deployment["metadata"]["uid"], "controller": True}
        self.api.objects.create(
            "replicasets",
            {
                "metadata": {"name": f"{name}-{HASH}", "namespace": "default", "ownerReferences": [owner]},
                "spec": {
                    "replicas": count, "template": template,
                    "selector": {"matchLabels": {**labels, "pod-template-hash": HASH}},
                },
            },
            "test",
        )  # fmt: skip
        for node in nodes:
            pod = self._create_pod(self.replica_set(name))
            pod["spec"]["nodeName"] = node
            pod["metadata"]["creationTimestamp"] = "2001-01-01T00:00:00Z"
            self._set_ready(pod)

    def replica_set(self, name: str) -> Object:
        """The ReplicaSet of a Deployment."""
        return self.api.objects.get("replicasets", ("default", f"{name}-{HASH}"), "test")

    def make_unready(self, pod: Object, *, is_deleted: bool = False) -> None:
        """A Pod as on a node that does not answer; `is_deleted`: it ends once the node answers again."""
        pod["status"] = {"phase": "Running"}
        if is_deleted:
            pod["metadata"]["deletionTimestamp"] = instants.format_time(self.clock.wall_ns())
        self._put(pod)

    def scale(self, name: str, replicas: int) -> None:
        """Change the wanted replicas, as an autoscaler does by way of the Deployment."""
        found = self.replica_set(name)
        found["spec"]["replicas"] = replicas
        self.api.objects.update("replicasets", ("default", f"{name}-{HASH}"), found, "test")

    def pods(self, name: str = "") -> list[Object]:
        """All Pods, or those of an application."""
        found = self.api.objects.all("pods", EVERYTHING)
        return [each for each in found if not name or each["metadata"]["labels"].get("app") == name]

    def nodes_of(self, name: str) -> list[str]:
        """Where the Pods of an application are."""
        return sorted(each["spec"].get("nodeName", "") for each in self.pods(name))

    def marks(self) -> list[Object]:
        """Pods with anything of a move that has not ended."""
        names = ("carico.dev/leaves-for", "carico.dev/deletion-cost-before", _COST)
        return [
            each
            for each in self.pods()
            if "carico.dev/surge-template-hash" in each["metadata"]["labels"]
            or any(name in (each["metadata"].get("annotations") or {}) for name in names)
        ]

    # What acts on them.

    async def act_forever(self) -> None:
        """Turn until cancelled."""
        while True:
            self.turn()
            await asyncio.sleep(self.every_s)

    def turn(self) -> None:
        """One turn of every controller, and a look at the number of replicas."""
        for pod in self.pods():
            if not pod["spec"].get("nodeName"):
                self._place(pod)
            elif not _is_ready(pod) and self.gets_ready(pod):
                self._set_ready(pod)
        for found in self.api.objects.all("replicasets", EVERYTHING):
            self._reconcile(found)
        ready = [each for each in self.pods() if _is_ready(each)]
        self.fewest_ready = min(self.fewest_ready, len(ready))
        self.most_active = max(self.most_active, len(self.pods()))

    def _place(self, pod: Object) -> None:
        parsed = api_objects.parse_pod(pod)
        terms = None if parsed.constraints is None else parsed.constraints.node_terms
        fitting = [name for name in sorted(self.open) if terms is None or any(each.matches(name, {}) for each in terms)]
        if fitting:
            pod["spec"]["nodeName"] = fitting[0]
            self._put(pod)

    def _reconcile(self, replica_set: Object) -> None:
        uid, selector = replica_set["metadata"]["uid"], replica_set["spec"]["selector"]["matchLabels"]
        mine = []
        for pod in self.pods():
            if "deletionTimestamp" in pod["metadata"]:
                continue
            matches = selector.items() <= pod["metadata"]["labels"].items()
            controller = _controller(pod)
            if controller is None and matches:
                self._adopt(pod, replica_set)
                mine.append(pod)
            elif controller == uid:
                mine.append(pod)
        excess = len(mine) - replica_set["spec"]["replicas"]
        for pod in sorted(mine, key=_rank)[: max(excess, 0)]:
            self.api.objects.delete("pods", _key(pod), {}, "test")
        for _ in range(-excess):
            self._create_pod(replica_set)

    def _create_pod(self, replica_set: Object) -> Object:
        metadata, template = replica_set["metadata"], replica_set["spec"]["template"]
        owner = {"kind": "ReplicaSet", "name": metadata["name"], "uid": metadata["uid"], "controller": True}
        body = {
            "metadata": {
                "namespace": "default", "name": f"{metadata['name']}-{next(self._number):05d}",
                "labels": dict(template["metadata"]["labels"]), "ownerReferences": [owner],
            },
            "spec": dict(template["spec"]), "status": {"phase": "Pending"},
        }  # fmt: skip
        return self.api.objects.create("pods", body, "test")

    def _adopt(self, pod: Object, replica_set: Object) -> None:
        name, uid = replica_set["metadata"]["name"], replica_set["metadata"]["uid"]
        others = [each for each in pod["metadata"].get("ownerReferences") or [] if each["uid"] != uid]
        mine = {"kind": "ReplicaSet", "name": name, "uid": uid, "controller": True}
        pod["metadata"]["ownerReferences"] = [*others, mine]
        self._put(pod)

    def _set_ready(self, pod: Object) -> None:
        since = instants.format_time(self.clock.wall_ns())
        pod["status"] = {
            "phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}],
        }  # fmt: skip
        self._put(pod)

    def _put(self, pod: Object) -> None:
        found = dict(pod)
        found["metadata"] = {key: value for key, value in pod["metadata"].items() if key != "resourceVersion"}
        try:
            pod["metadata"] = self.api.objects.update("pods", _key(pod), found, "test")["metadata"]
        except errors.NotFound:
            return


def _key(pod: Object) -> tuple[str, str]:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _controller(pod: Object) -> str | None:
    owners = pod["metadata"].get("ownerReferences") or []
    return next((each["uid"] for each in owners if each.get("controller")), None)


def _rank(pod: Object) -> tuple[bool, bool, int, int]:
    """What goes first of too many Pods."""
    annotations = pod["metadata"].get("annotations") or {}
    newest = -int(pod["metadata"]["resourceVersion"])
    return bool(pod["spec"].get("nodeName")), _is_ready(pod), int(annotations.get(_COST, "0")), newest
