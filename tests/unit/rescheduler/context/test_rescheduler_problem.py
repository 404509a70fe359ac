"""From what is known of a cluster to the problem of placing its Pods."""

from collections.abc import Iterable, Mapping

import numpy as np
import pytest

from carico_core.domain import cluster as kubernetes
from carico_core.domain import constraints, selectors
from carico_core.numerics.rescheduling.containers import gains, model
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
    assert loads_of(context) == pytest.approx([2.8 / 4.0, 1.0 / 4.0])
    assert context.saturations == pytest.approx([1.5, 1.5])
    assert context.nodes == ("node-a", "node-b") and len(context.pods) == 3
    # What belongs to a node never moves.
    assert context.problem.movable.tolist() == [True, True, True, False, False]


def test_each_node_is_overloaded_above_the_ceiling_that_its_agent_advertises() -> None:
    known = world.make({"node-a": 4.0, "node-b": 4.0, "node-c": 4.0})
    world.deploy(known, "web", ["node-a"] * 7 + ["node-b"] * 7 + ["node-c"] * 7, tasks=1.0)
    for node, ceiling in (("node-a", {"cpu": 0.95, "memory": 0.5}), ("node-b", {"cpu": 0.0})):
        known.advertisements[node] = known.advertisements[node]._replace(ceiling=ceiling)
    context = contexts.build(world.judge(known), contexts.Ceilings())
    # The lowest that an agent may have; without one, the default.
    assert context.saturations == pytest.approx([1.9, 0.1, 1.54])
    assert context.loads(context.problem.present) == pytest.approx([1.75] * 3)
    assert context.problem.capacity[:, 1] / known.nodes.found["", "node-a"].allocatable_bytes == pytest.approx(
        [0.5, 0.95, 0.95]
    )
    assert gains.excess_tasks(context.problem, context.problem.present) == pytest.approx(6.6 + 0.84)
    # A node whose agent is silent may have any.
    del known.advertisements["node-b"]
    assert contexts.build(world.judge(known), contexts.Ceilings()).saturations == pytest.approx([1.9, 2.0, 1.54])
    # Those that are stated take their place.
    wanted = contexts.build(world.judge(known), contexts.Ceilings(cpu=0.5))
    assert wanted.saturations == pytest.approx([1.0] * 3)
    assert gains.excess_tasks(wanted.problem, wanted.problem.present) == pytest.approx(9.0)


def loads_of(context: contexts.Context) -> list[float]:
    """The load of each node now, in tasks per core."""
    found: list[float] = context.loads(context.problem.present).tolist()
    return found


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


def test_a_pod_that_belongs_to_its_node_is_in_the_nodes_baseline_alone() -> None:
    known = world.make({"node-a": 4.0})
    world.deploy(known, "web", ["node-a"], tasks=1.0)
    daemon = kubernetes.Owner(kind="DaemonSet", name="log", uid="uid-log")
    world.put(known, parts.make_pod("log", node_name="node-a", phase="Running", owner=daemon))
    world.put(known, parts.make_pod("dns", node_name="node-a", phase="Running", namespace="kube-system"))
    # Agents report neither: without their own load, each would cost what a Pod of the node costs.
    world.measured(known, "node-a", {"*": {"cpu": 2.0}}, baseline=0.8)
    assert loads_of(world_context(known)) == pytest.approx([1.8 / 4.0])
    # An agent that does not know what is a workload reports all Pods.
    known.loads["node-a", known.pods.found["default", "log"].uid] = clusters.Load(0.2, 0.0)
    assert loads_of(world_context(known)) == pytest.approx([2.0 / 4.0])


def test_ports_of_the_node_keep_pods_apart() -> None:
    known = world.make({"node-a": 4.0, "node-b": 4.0})
    for name, address, port in (("a", "0.0.0.0", 80), ("b", "10.0.0.1", 80), ("c", "10.0.0.1", 81)):
        limits = constraints.Constraints(host_ports=(constraints.HostPort(address=address, protocol="TCP", port=port),))
        world.deploy(known, name, ["node-a" if name == "a" else "node-b"], constraints=limits)
    assert world_context(known).problem.apart.tolist() == [[0, 1]]


def test_pods_with_ports_of_their_own_are_not_compared_with_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 3,000 such Pods, as of game servers, all pairs took seconds for each plan."""
    known = world.make({"node-a": 4.0, "node-b": 4.0})
    for number in range(20):
        limits = constraints.Constraints(
            host_ports=(constraints.HostPort(address=constraints.ANY_ADDRESS, protocol="TCP", port=7000 + number),)
        )
        world.deploy(known, f"game-{number}", ["node-a"], constraints=limits)
    compared: list[constraints.Occupied] = []
    conflicts = constraints.Occupied.conflicts

    def counted(self: constraints.Occupied, ports: Iterable[constraints.HostPort] = ()) -> bool:
        compared.append(self)
        return conflicts(self, ports)

    monkeypatch.setattr(constraints.Occupied, "conflicts", counted)
    assert world_context(known).problem.apart.tolist() == []
    # Each with its own replicas.
    assert len(compared) == 20


def test_terms_are_compared_once_for_all_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    known = world.make({f"node-{number}": 4.0 for number in range(10)})
    for name in ("web", "db", "cache"):
        term = constraints.PodTerm(
            topology_key=movable.HOSTNAME,
            selector=(selectors.Requirement(key="app", operator="In", values=(name,)),), namespaces=("default",),
        )  # fmt: skip
        limits = constraints.Constraints(anti_affinity=(term,))
        world.deploy(known, name, [f"node-{number}" for number in range(10)], constraints=limits)
    compared: list[selectors.Selector] = []
    matches = selectors.matches

    def counted(selector: selectors.Selector, labels: Mapping[str, str]) -> bool:
        compared.append(selector)
        return matches(selector, labels)

    monkeypatch.setattr(selectors, "matches", counted)
    context = world_context(known)
    # Each pair of replicas of one Deployment, and three terms with three sets of labels.
    assert len(context.problem.apart) == 3 * 45
    assert len(compared) == 9
