"""Which Pods may move, and the reason for each that may not."""

from collections.abc import Callable
from typing import Any

import pytest

from carico_core.domain import cluster as kubernetes
from carico_core.domain import constraints, gangs, selectors
from carico_rescheduler.context import cluster as clusters
from carico_rescheduler.context import movable, objects
from tests.unit.rescheduler import cluster_objects as world
from tests.unit.scheduler import objects as parts

Change = Callable[[clusters.Cluster, objects.KnownPod], objects.KnownPod]
ALL: selectors.Selector = ()


def of_pod(**changes: Any) -> Change:
    """Change the Pod."""
    return lambda known, found: world.put(known, found.pod._replace(**changes))


def of_known(**changes: Any) -> Change:
    """Change what is known of the Pod."""
    return lambda known, found: world.put(known, found.pod, **changes)


def owned_by(kind: str) -> Change:
    """Give the Pod another controller."""
    return of_pod(owner=kubernetes.Owner(kind=kind, name="x", uid="uid-x"))


def constrained(**changes: Any) -> Change:
    """Give the Pod constraints."""
    return of_pod(constraints=constraints.Constraints(**changes))


def deployment(**changes: Any) -> Change:
    """Change the Pod's Deployment."""

    def change(known: clusters.Cluster, found: objects.KnownPod) -> objects.KnownPod:
        before = known.deployments.found["default", "web"]
        values = {
            name: getattr(before, name) for name in ("namespace", "name", "uid", "replicas", "unsettled", "pinned")
        }
        known.deployments.put(("default", "web"), objects.Deployment(**(values | changes)))
        return found

    return change


def budget(known: clusters.Cluster, found: objects.KnownPod) -> objects.KnownPod:
    """Add a PodDisruptionBudget that allows nothing."""
    known.budgets.put(
        ("default", "web"), kubernetes.DisruptionBudget(namespace="default", name="web", selector=ALL, allowed=0)
    )
    return found


def sibling(known: clusters.Cluster, found: objects.KnownPod) -> objects.KnownPod:
    """Let another replica be not ready."""
    other = known.pods.found["default", "web-1"]
    world.put(known, other.pod, ready_at_s=None)
    return found


NEAR = constraints.PodTerm(topology_key=movable.HOSTNAME, selector=ALL, namespaces=("default",))
CASES: dict[str, tuple[Change, movable.Stays]] = {
    "system": (of_pod(namespace="kube-system"), movable.Stays.BASELINE),
    "daemon-set": (owned_by("DaemonSet"), movable.Stays.BASELINE),
    "static": (of_pod(is_mirror=True), movable.Stays.BASELINE),
    "other-scheduler": (of_pod(scheduler_name="default-scheduler"), movable.Stays.OTHER_SCHEDULER),
    "annotated": (of_known(annotations={objects.CHOICE: "false"}), movable.Stays.ANNOTATION),
    "bare": (of_pod(owner=None), movable.Stays.NO_CONTROLLER),
    "job": (owned_by("Job"), movable.Stays.JOB),
    "stateful-set": (owned_by("StatefulSet"), movable.Stays.CONTROLLER),
    "custom": (owned_by("Rollout"), movable.Stays.CONTROLLER),
    "unknown-replica-set": (owned_by("ReplicaSet"), movable.Stays.CONTROLLER),
    "not-ready": (of_known(ready_at_s=None), movable.Stays.NOT_READY),
    "deleting": (of_pod(deleting=True), movable.Stays.NOT_READY),
    "young": (of_pod(created_at_s=world.NOW_S - 599.0), movable.Stays.YOUNG),
    "leaving": (of_known(annotations={objects.LEAVES_FOR: "x"}), movable.Stays.MOVING),
    "rollout": (deployment(unsettled="it is being rolled out"), movable.Stays.ROLLOUT),
    "recreate": (deployment(recreates=True), movable.Stays.CONTROLLER),
    "sibling": (sibling, movable.Stays.ROLLOUT),
    "local-volume": (of_known(local_volume="cache"), movable.Stays.VOLUME),
    "claim": (
        constrained(volume_claims=(constraints.VolumeClaimUse(namespace="default", name="data"),)),
        movable.Stays.VOLUME,
    ),
    "affinity": (constrained(affinity=(NEAR,)), movable.Stays.PEERS),
    "spread": (
        constrained(
            spreads=(
                constraints.Spread(namespace="default", topology_key=movable.HOSTNAME, selector=ALL, max_skew=1),
            )
        ),
        movable.Stays.PEERS,
    ),
    "zone": (
        constrained(
            anti_affinity=(constraints.PodTerm(topology_key="zone", selector=ALL, namespaces=("default",)),)
        ),
        movable.Stays.PEERS,
    ),
    "gang": (
        of_pod(
            labels={"app": "web", "pod-template-hash": "x", "scheduling.x-k8s.io/pod-group": "g"},
            gang=gangs.PodGang(gangs.Key("default", "g"), None),
        ),
        movable.Stays.PEERS,
    ),
    "native-gang": (of_pod(gang=gangs.PodGang(gangs.Key("default", "g", True), None)), movable.Stays.PEERS),
    "budget": (budget, movable.Stays.BUDGET),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_pod_stays_for_a_reason(name: str) -> None:
    change, why = CASES[name]
    known = world.make({"node-a": 4.0})
    pod, _ = world.deploy(known, "web", ["node-a", "node-a"])
    assert world.judge(known).why_not(pod) is None
    changed = change(known, pod)
    found = world.judge(known).why_not(changed)
    assert found is not None and found.why is why and found.detail


@pytest.mark.parametrize("name", ["stateful-set", "recreate"])
def test_a_reason_names_the_setting_that_would_let_the_pod_move(name: str) -> None:
    known = world.make({"node-a": 4.0})
    pod, _ = world.deploy(known, "web", ["node-a", "node-a"])
    found = world.judge(known).why_not(CASES[name][0](known, pod))
    assert found is not None and ": CARICO_RESCHEDULER_MODE=evict would end the old" in found.detail


def test_every_reason_has_a_case() -> None:
    others = {movable.Stays.EXCLUDED, movable.Stays.FAILED, movable.Stays.AUTOSCALER}
    assert {why for _, why in CASES.values()} == set(movable.Stays) - others


def test_two_pods_of_a_deployment_that_recreates_never_run_at_once() -> None:
    known = world.make({"node-a": 4.0})
    (pod,) = world.deploy(known, "web", ["node-a"])
    deployment(recreates=True)(known, pod)
    found = {mode: world.judge(known, mode=mode).why_not(pod) for mode in movable.Mode}
    assert [mode for mode, why in found.items() if why is not None] == [movable.Mode.SURGE]


def test_a_pod_whose_move_has_failed_rests() -> None:
    known = world.make({"node-a": 4.0})
    (pod,) = world.deploy(known, "web", ["node-a"])
    judge = movable.Judge(known, world.policy(), now_s=world.NOW_S, failed={pod.controller: "web-0: no room"})
    assert judge.why_not(pod) == movable.Skipped(
        why=movable.Stays.FAILED, detail="a move of its controller's Pods failed: web-0: no room"
    )


def test_only_chosen_namespaces_move() -> None:
    known = world.make({"node-a": 4.0})
    (pod,) = world.deploy(known, "web", ["node-a"])
    found = world.judge(known, namespaces=frozenset({"shop"})).why_not(pod)
    assert found is not None and found.why is movable.Stays.EXCLUDED


def test_an_annotation_gives_up_a_local_volume() -> None:
    known = world.make({"node-a": 4.0})
    (pod,) = world.deploy(known, "web", ["node-a"])
    pod = world.put(known, pod.pod, local_volume="cache", annotations={objects.CHOICE: "true"})
    assert world.judge(known).why_not(pod) is None


def test_a_moved_pod_rests_as_long_as_a_new_one() -> None:
    known = world.make({"node-a": 4.0})
    (pod,) = world.deploy(known, "web", ["node-a"], created_at_s=world.NOW_S - 610.0)
    assert world.judge(known).why_not(pod) is None
    # It took ten minutes to be ready.
    moved = world.put(known, pod.pod, annotations={objects.MOVED_AT: "1970-01-12T13:46:30Z", objects.REPLACES: "x"})
    found = world.judge(known).why_not(moved)
    assert found == movable.Skipped(
        why=movable.Stays.YOUNG, detail="it was moved 10 s ago: it may move after 600 s"
    )  # fmt: skip


@pytest.mark.parametrize(("replicas", "moves"), [(1, True), (2, False)])
def test_a_node_selector_pins_a_single_replica_only(replicas: int, moves: bool) -> None:
    known = world.make({"node-a": 4.0})
    pod, *_ = world.deploy(known, "web", ["node-a"] * replicas)
    found = world.judge(known, mode=movable.Mode.NODE_SELECTOR).why_not(pod)
    assert (found is None) is moves


def test_a_node_selector_pins_nothing_that_an_autoscaler_owns_or_may_own() -> None:
    known = world.make({"node-a": 4.0})
    (pod,) = world.deploy(known, "web", ["node-a"])

    def why() -> movable.Skipped | None:
        return world.judge(known, mode=movable.Mode.NODE_SELECTOR).why_not(pod)

    for name, deployment, namespace in (("a", "other", "default"), ("b", "", "default"), ("c", "web", "shop")):
        known.autoscalers.put(
            (namespace, name), objects.Autoscaler(namespace=namespace, name=name, deployment=deployment)
        )
    assert why() is None
    known.autoscalers.put(("default", "busy"), objects.Autoscaler(namespace="default", name="busy", deployment="web"))
    found = why()
    assert found is not None and found.why is movable.Stays.AUTOSCALER and "busy" in found.detail
    assert world.judge(known).why_not(pod) is None
    known.autoscalers.lacking = "the API does not answer: forbidden"
    found = why()
    assert found is not None and found.why is movable.Stays.AUTOSCALER and "forbidden" in found.detail


def test_stateful_pods_move_by_eviction() -> None:
    known = world.make({"node-a": 4.0})
    owner = kubernetes.Owner(kind="StatefulSet", name="db", uid="uid-db")
    pod = world.put(known, parts.make_pod("db-0", node_name="node-a", phase="Running", owner=owner))
    assert world.judge(known, mode=movable.Mode.EVICT).why_not(pod) is None
    # One that starts again after an eviction: a second one would be too many.
    world.put(known, parts.make_pod("db-1", node_name="node-a", phase="Running", owner=owner), ready_at_s=None)
    assert world.judge(known, mode=movable.Mode.EVICT).why_not(pod) == movable.Skipped(
        why=movable.Stays.ROLLOUT, detail="StatefulSet db: 1 of 2 replicas are ready"
    )
