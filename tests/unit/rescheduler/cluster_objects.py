"""Clusters as the rescheduler knows them: nodes, advertisements, Pods of Deployments."""

from typing import Any

from carico_core.domain import cluster as kubernetes
from carico_core.domain import messages
from carico_rescheduler.context import cluster as clusters
from carico_rescheduler.context import movable, objects
from carico_rescheduler.context import problem as contexts
from tests.unit.scheduler import objects as parts

NOW_S = 1_000_000.0
CEILINGS = contexts.Ceilings(cpu=0.75, memory=0.95)


def policy(**changes: Any) -> movable.Policy:
    """All that CARICO places may move."""
    values: dict[str, Any] = {
        "mode": movable.Mode.SURGE, "schedulers": frozenset({"carico"}), "namespaces": frozenset(),
        "baseline_namespaces": frozenset({"kube-system"}), "least_age_s": 600.0,
    }  # fmt: skip
    return movable.Policy(**(values | changes))


def judge(known: clusters.Cluster, **changes: Any) -> movable.Judge:
    """A judge of what may move now."""
    return movable.Judge(known, policy(**changes), now_s=NOW_S)


def make(nodes: dict[str, float]) -> clusters.Cluster:
    """A cluster of nodes of four cores that advertise so much capacity, and that is known completely."""
    known = clusters.Cluster()
    for table in (
        known.pods, known.nodes, known.replica_sets, known.deployments, known.budgets, known.autoscalers,
    ):  # fmt: skip
        table.put_all({})
    for name, capacity in nodes.items():
        labels = {movable.HOSTNAME: name}
        known.nodes.put(("", name), parts.make_node(name, labels=labels))
        known.advertisements[name] = parts.make_advertisement(name, capacity)
    return known


def deploy(
    known: clusters.Cluster, name: str, nodes: list[str], *, tasks: float = 0.5, memory_bytes: float = 2.0**28,
    **changes: Any,
) -> list[objects.KnownPod]:  # fmt: skip
    """Add a Deployment at rest with a Pod on each of the nodes; return the Pods."""
    replica_set = f"{name}-5d9c7b8f6d"
    known.deployments.put(
        ("default", name),
        objects.Deployment(
            namespace="default", name=name, uid=f"uid-{name}", replicas=len(nodes), unsettled="", pinned=""
        ),
    )
    known.replica_sets.put(
        ("default", replica_set),
        objects.ReplicaSet(
            namespace="default", name=replica_set, uid=f"uid-{replica_set}", deployment=name,
            deployment_uid=f"uid-{name}", owner="Deployment", replicas=len(nodes),
        ),
    )  # fmt: skip
    owner = kubernetes.Owner(kind="ReplicaSet", name=replica_set, uid=f"uid-{replica_set}")
    made = []
    for number, node in enumerate(nodes):
        pod = parts.make_pod(
            f"{name}-{number}", node_name=node, phase="Running", owner=owner,
            labels={"app": name, "pod-template-hash": "5d9c7b8f6d"}, **changes,
        )  # fmt: skip
        made.append(put(known, pod))
        known.loads[node, pod.uid] = clusters.Load(tasks, memory_bytes)
    return made


def put(known: clusters.Cluster, pod: kubernetes.Pod, **changes: Any) -> objects.KnownPod:
    """Add a Pod that has been ready for long."""
    values: dict[str, Any] = {
        "annotations": {}, "ready_at_s": 2.0, "started_at_s": 0.0, "addresses": (), "local_volume": "",
    }  # fmt: skip
    found = objects.KnownPod(pod=pod, **(values | changes))
    known.pods.put((pod.namespace, pod.name), found)
    return found


def talk(known: clusters.Cluster, one: objects.KnownPod, other: objects.KnownPod, bytes_per_s: float = 1e7) -> None:
    """Add traffic between two Pods."""
    flow = clusters.Flow(one=one.uid, other=other.uid, bytes_per_s=bytes_per_s)
    known.flows = (*known.flows, flow)


def measured(known: clusters.Cluster, node: str, classes: dict[str, dict[str, float]], *, baseline: float) -> None:
    """Let a node advertise costs of classes, and the tasks of what belongs to it."""
    made = parts.make_advertisement(node, 4.0, baseline={"cpu": messages.Estimate(baseline, 0.1)})
    capacities = {name: messages.ClassCapacity(cost_plus=cost, pods=1) for name, cost in classes.items()}
    known.advertisements[node] = made._replace(headroom={"cpu": 1.0}, classes=capacities)
