"""From what is known of a cluster to the problem of placing its Pods."""

import numpy as np
import pytest

from carico_core.domain import cluster as kubernetes
from carico_core.domain import constraints, selectors
from carico_core.numerics.rescheduling import model
from carico_rescheduler.context import cluster as clusters
from carico_rescheduler.context import movable, objects
from carico_rescheduler.context import problem as contexts
from tests.unit.rescheduler import cluster_objects as world
from tests.unit.scheduler import objects as parts


def test_loads_are_those_of_pods_and_of_what_belongs_to_the_node() -> None:
    known = world.make({"node-a": 4.0, "node-b": 4.0})
    world.deploy(known, "web", ["node-a", "node-a", "node-b"], tasks=1.0)
    world.measured(known, "node-a", {}, baseline=0.8)
    context = world_context(known)
    assert context.loads().tolist() == pytest.approx([2.8 / 4.0, 1.0 / 4.0])
    assert context.problem.saturation == pytest.approx(1.5)
    assert context.nodes == ("node-a", "node-b") and len(context.pods) == 3
    # What belongs to a node never moves.
    assert context.problem.movable.tolist() == [True, True, True, False, False]


def world_context(known: clusters.Cluster) -> contexts.Context:
    """The problem by the usual policy."""
    return contexts.build(world.judge(known), world.CEILINGS)


def test_a_pod_that_is_not_measured_costs_what_its_class_costs() -> None:
    known = world.make({"node-a": 4.0})
    (pod,) = world.deploy(known, "web", ["node-a"])
    known.loads.clear()
    assert contexts.load_of(known, pod.pod).tasks == 0.0
    world.measured(known, "node-a", {"*": {"cpu": 2.0}}, baseline=0.0)
    assert contexts.load_of(known, pod.pod).tasks == 2.0
    world.measured(
        known, "node-a", {"*": {"cpu": 2.0}, "ReplicaSet/default/web": {"cpu": 0.25, "memory": 7.0}}, baseline=0.0
    )  # fmt: skip
    found = contexts.load_of(known, pod.pod)
    assert (found.tasks, found.memory_bytes) == (0.25, 7.0)


def test_pods_go_where_nodes_accept_them() -> None:
    known = world.make({"node-a": 4.0, "node-b": 4.0, "node-c": 4.0, "node-d": 4.0, "node-e": 4.0})
    taint = kubernetes.Taint(key="gpu", value="", effect="NoSchedule")
    known.nodes.put(("", "node-b"), parts.make_node("node-b", taints=(taint,)))
    known.nodes.put(("", "node-c"), parts.make_node("node-c", unschedulable=True))
    known.nodes.put(("", "node-d"), parts.make_node("node-d", ready=False))
    del known.advertisements["node-e"]
    world.deploy(known, "web", ["node-a"])
    assert world_context(known).problem.allowed[0].tolist() == [True, False, False, False, False]


def test_a_moved_pod_may_leave_the_node_that_its_move_chose() -> None:
    known = world.make({"node-a": 4.0, "node-b": 4.0})
    term = selectors.NodeTerm(
        fields=(selectors.Requirement(key=selectors.NAME_FIELD, operator="In", values=("node-a",)),)
    )
    limits = constraints.Constraints(node_terms=(term,))
    (pod,) = world.deploy(known, "web", ["node-a"], constraints=limits)
    assert world_context(known).problem.allowed[0].tolist() == [True, False]
    world.put(known, pod.pod, annotations={objects.REPLACES: "x"})
    assert world_context(known).problem.allowed[0].tolist() == [True, True]


def test_pods_that_repel_each_other_are_apart() -> None:
    known = world.make({"node-a": 4.0, "node-b": 4.0})
    term = constraints.PodTerm(
        topology_key=movable.HOSTNAME, selector=(selectors.Requirement(key="app", operator="In", values=("web",)),),
        namespaces=("default",),
    )  # fmt: skip
    world.deploy(known, "db", ["node-a"])
    world.deploy(known, "web", ["node-a", "node-b"], constraints=constraints.Constraints(anti_affinity=(term,)))
    # In the order of names: db-0, web-0, web-1.
    assert world_context(known).problem.apart.tolist() == [[1, 2]]


def test_the_present_placement_never_violates_a_constraint() -> None:
    known = world.make({"node-a": 4.0, "node-b": 4.0})
    world.deploy(known, "fat", ["node-a"] * 3, memory_bytes=5 * 2.0**30, request_cores=3.0)
    context = world_context(known)
    model.check_present(context.problem)
    assert list(model.violations(context.problem, context.problem.present)) == []
    # The node is too full to take one more, and what is on it stays.
    assert not context.problem.allowed[:3, 0].any() and not context.problem.movable[:3].any()


def test_traffic_of_pods_that_are_gone_is_left_out() -> None:
    known = world.make({"node-a": 4.0, "node-b": 4.0})
    one, other = world.deploy(known, "web", ["node-a", "node-b"])
    world.talk(known, one, other, 5.0)
    world.talk(known, one, world.deploy(known, "db", ["node-b"])[0], 7.0)
    known.pods.remove(("default", "db-0"))
    context = world_context(known)
    assert context.problem.traffic.tolist() == [5.0]
    assert model.cntc(context.problem, context.problem.present) == 5.0


def test_a_cluster_without_pods_has_a_problem_too() -> None:
    context = world_context(world.make({"node-a": 4.0}))
    assert context.pods == () and np.array_equal(context.problem.present, [0])
