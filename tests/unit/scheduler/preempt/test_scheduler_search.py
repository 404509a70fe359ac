"""Which node a search chooses, and what it would lose, where other Pods are evicted or must be near."""

import asyncio
import random
from typing import Any

import pytest

from carico_core.domain import cluster, selectors
from carico_core.runtime.process import clock as clocks
from carico_core.wire.kubernetes import api_objects
from carico_scheduler.decide import cycle, turns
from carico_scheduler.pods import demand as demands
from carico_scheduler.preempt import nominations, search, victims
from carico_scheduler.rules import policy
from carico_scheduler.state import state
from tests.unit.scheduler import objects

HOST = "kubernetes.io/hostname"
GROUP = {"matchLabels": {"app": "a"}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class Site:
    """Nodes of four cores, the Pods on them, and searches; requests decide, since no node advertises."""

    def __init__(self, *nodes: str) -> None:
        self.state = state.State(policy.Policy(fallback=policy.Fallback.REQUESTS), random.Random(0))
        self.clock = clocks.FakeClock(monotonic_s=1000.0)
        for name in nodes:
            self.state.put_node(objects.make_node(name, labels={HOST: name}))
        self.turns = turns.Turns(self.state.fleet, self.state.queue)
        # Room that other schedulers have claimed.
        self.of_others: list[cycle.Held] = []

    def run(self, name: str, node: str, cores: float = 1.0, **more: Any) -> cluster.Pod:
        """A Pod on a node."""
        pod = objects.make_pod(name, node_name=node, phase="Running", request_cores=cores, **more)
        self.state.put_pod(pod, 0.0)
        return pod

    def wait(self, name: str, cores: str = "1", priority: int = 10, **spec: Any) -> cluster.Pod:
        """A Pod of the group that waits."""
        obj = objects.pod_object(name, priority=priority, **spec)
        obj["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cores}}
        obj["metadata"] |= {"uid": f"uid-{name}", "labels": {"app": "a"}}
        pod = api_objects.parse_pod(obj)
        self.state.put_pod(pod, 0.0)
        return pod

    def evict(self, node: str, *gone: cluster.Pod) -> None:
        """These Pods are being evicted for another Pod, and the API does not show it yet."""
        pod = self.wait("other", cores="0", priority=1)
        self.state.nominations.add(
            nominations.Nomination(pod=pod, demand=self.state.demand_of(pod), node=node, victims=gone, since_s=0.0)
        )

    def search(self, pod: cluster.Pod, seed: int = 0) -> victims.Choice | None:
        """What a search finds for a Pod that waits."""
        waiting = self.state.queue.find(pod.uid)
        assert waiting is not None
        found = search.Search(
            self.state, clock=self.clock, rng=random.Random(seed), turns=self.turns, others=lambda: self.of_others
        )
        return asyncio.run(found.choose(waiting, search.AlikePods(waiting.demand, pod.priority)))


def names(choice: victims.Choice | None) -> list[str]:
    """Who has to go."""
    return [] if choice is None else [pod.name for pod in choice.victims]


def test_no_budget_is_violated_if_any_node_can_give_way_without_that() -> None:
    nodes = [f"n-{index}" for index in range(search.CANDIDATES_MAX + 20)]
    site = Site(*nodes)
    for name in nodes:
        is_free = name == "n-7"
        site.run(f"on-{name}", name, 4.0, priority=2 if is_free else 1, labels={} if is_free else {"app": "b"})
    selector = (selectors.Requirement(key="app", operator=selectors.IN, values=("b",)),)
    site.state.budgets.put(cluster.DisruptionBudget(namespace="default", name="b", selector=selector, allowed=0))
    pod = site.wait("high")
    # Each search begins at another node.
    assert {(found := site.search(pod, seed)) and found.node for seed in range(20)} == {"n-7"}


@pytest.mark.parametrize(("priority", "gone"), [(9, ["low"]), (10, ["low"]), (11, [])])
def test_a_node_is_held_against_pods_of_the_same_demand_by_one_of_higher_priority(
    priority: int, gone: list[str]
) -> None:
    site = Site("n")
    site.run("low", "n", 4.0, priority=0)
    first = site.wait("first", cores="4", priority=priority)
    waiting = site.state.queue.find(first.uid)
    assert waiting is not None
    site.turns._turns[first.uid] = turns.Turn(
        uid=first.uid, key=waiting.key, demand=waiting.demand, node="n", since_s=0.0
    )
    assert names(site.search(site.wait("high", cores="4"))) == gone


def test_a_pod_that_is_evicted_for_another_counts_no_longer_for_the_spread() -> None:
    site = Site("n", "full")
    site.run("top", "full", 4.0, priority=100)
    group: dict[str, Any] = {"priority": 0, "labels": {"app": "a"}}
    going, _ = site.run("going", "n", **group), site.run("staying", "n", **group)
    spread = {"maxSkew": 2, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": GROUP}
    pod = site.wait("high", topologySpreadConstraints=[spread])
    assert names(site.search(pod)) == ["staying"], "of two one is too many"
    site.evict("n", going)
    found = site.search(pod)
    assert found is not None
    assert (names(found), [(each.name, each.deleting) for each in found.awaited]) == ([], [("going", True)])


def test_a_pod_that_is_evicted_for_no_other_is_waited_for_and_counts_for_its_budget() -> None:
    site = Site("n", "m", "k")
    for node in ("m", "k"):
        site.run(f"top-{node}", node, 2.0, priority=100)
    guarded: dict[str, Any] = {"priority": 0, "labels": {"app": "b"}}
    going, _ = site.run("going", "n", 4.0, **guarded), site.run("guarded", "m", 2.0, **guarded)
    site.run("dear", "k", 2.0, priority=5)
    selector = (selectors.Requirement(key="app", operator=selectors.IN, values=("b",)),)
    site.state.budgets.put(cluster.DisruptionBudget(namespace="default", name="b", selector=selector, allowed=1))
    small, large = site.wait("small", cores="2"), site.wait("large", cores="4")
    assert (names(site.search(small)), names(site.search(large))) == (["guarded"], ["going"])
    site.state.nominations.note_evicted(going)
    found = site.search(large)
    assert found is not None
    assert (found.node, found.victims, [each.name for each in found.awaited]) == ("n", (), ["going"])
    elsewhere = site.wait("elsewhere", cores="2", nodeSelector={"zone": "z"})
    for node in ("m", "k"):
        site.state.put_node(objects.make_node(node, labels={HOST: node, "zone": "z"}))
    assert names(site.search(elsewhere)) == ["dear"], "the budget allows no second one to go"


def test_what_other_schedulers_have_claimed_is_not_free() -> None:
    site = Site("n")
    for index in range(3):
        site.run(f"low-{index}", "n", priority=index)
    high = site.wait("high", cores="2")
    assert names(site.search(high)) == ["low-0"]
    site.of_others = [(0, demands.Demand(request_cores=1.0), None)]
    assert names(site.search(high)) == ["low-1", "low-0"]


def near(*labels: dict[str, str]) -> dict[str, Any]:
    """Pods that match all of these labels are near."""
    terms = [{"topologyKey": HOST, "labelSelector": {"matchLabels": each}} for each in labels]
    return {"podAffinity": {REQUIRED: terms}}


def test_a_pod_that_one_term_selects_and_the_other_does_not_is_no_peer_and_may_go() -> None:
    site = Site("n")
    site.run("peer", "n", priority=0, labels={"app": "a", "tier": "x"})
    site.run("half", "n", 3.0, priority=1, labels={"app": "a"})
    pod = site.wait("high", affinity=near({"app": "a"}, {"tier": "x"}))
    assert names(site.search(pod)) == ["half"]


def test_a_peer_that_is_selected_by_a_namespace_without_labels_does_not_go() -> None:
    site = Site("n")
    site.state.demands.put_namespaces({"default": {"team": "red"}}, 0.0)
    site.state.demands.note_namespaces(None, 0.0)
    site.run("peer", "n", 4.0, priority=0, labels={"app": "b"})
    term = {
        "topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "b"}},
        "namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
    }  # fmt: skip
    pod = site.wait("high", affinity={"podAffinity": {REQUIRED: [term]}})
    assert site.search(pod) is None, "it selects all namespaces, as kube-scheduler has it"


@pytest.mark.parametrize("has_other", [False, True])
def test_a_peer_that_leaves_is_not_waited_for_unless_another_one_stays(*, has_other: bool) -> None:
    site = Site("n")
    site.run("leaving", "n", 3.0, priority=20, labels={"app": "b"}, deleting=True, ends_at_s=site.clock.wall_ns() / 1e9)
    site.run("other", "n", priority=20, labels={"app": "b"} if has_other else {})
    found = site.search(site.wait("high", affinity=near({"app": "b"})))
    assert [each.name for each in (() if found is None else found.awaited)] == (["leaving"] if has_other else [])
