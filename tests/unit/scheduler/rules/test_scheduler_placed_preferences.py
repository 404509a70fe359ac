"""Preferred terms of placed Pods, and their required affinity, change where a new Pod goes: as in kube-scheduler."""

import copy
import random
import tracemalloc
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from carico_core.domain import cluster
from carico_core.wire.kubernetes import api_objects
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import pod_terms
from carico_scheduler.rules import policy, preferences
from carico_scheduler.state import state
from tests.unit.scheduler import objects
from tests.unit.scheduler.rules import inter_pod_scores as oracle

NOW_S = 1000.0
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
NAMESPACES = {"red": {"team": "red"}, "blue": {"team": "blue", "env": "test"}, "bare": {}}


class Drawer:
    """Random nodes and Pods with few values, so that terms often select."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.nodes = [self._node(index) for index in range(self.rng.randint(2, 6))]

    def chance(self, share: float) -> bool:
        """True in so many cases."""
        return self.rng.random() < share

    def _node(self, index: int) -> dict[str, Any]:
        made = objects.node_object(f"n{index}")
        if self.chance(0.8):
            made["metadata"]["labels"][ZONE] = self.rng.choice("ab")
        if self.chance(0.1):
            made["metadata"]["labels"] = {}
        return made

    def _requirements(self) -> list[dict[str, Any]]:
        key, operator = self.rng.choice(["app", "tier"]), self.rng.choice(["In", "NotIn", "Exists", "DoesNotExist"])
        values = (
            {"values": self.rng.sample(["web", "db", "x"], self.rng.randint(1, 2))} if operator[-2:] == "In" else {}
        )
        return [{"key": key, "operator": operator} | values]

    def _term(self) -> dict[str, Any]:
        made: dict[str, Any] = {"topologyKey": self.rng.choice([ZONE, HOST])}
        if self.chance(0.9):
            selectors = [{}, {"matchLabels": {"app": "web"}}, {"matchLabels": {"app": "db", "tier": "x"}}]
            made["labelSelector"] = self.rng.choice([*selectors, {"matchExpressions": self._requirements()}])
        if self.chance(0.3):
            made["namespaces"] = self.rng.sample(list(NAMESPACES), self.rng.randint(1, 2))
        if self.chance(0.3):
            absent = {"matchExpressions": [{"key": "env", "operator": "DoesNotExist"}]}
            made["namespaceSelector"] = self.rng.choice([{}, {"matchLabels": {"team": "red"}}, absent])
        return made

    def pod(self, name: str) -> dict[str, Any]:
        """A Pod with up to four terms of each kind."""
        made = objects.pod_object(name)
        labels = {"app": self.rng.choice(["web", "db"])} if self.chance(0.8) else {}
        if self.chance(0.5):
            labels["tier"] = self.rng.choice("xy")
        made["metadata"] |= {"uid": f"uid-{name}", "namespace": self.rng.choice(list(NAMESPACES)), "labels": labels}
        terms = [self._term() for _ in range(self.rng.randint(0, 4))]
        wishes = [{"weight": self.rng.choice([1, 2, 100]), "podAffinityTerm": each} for each in terms]
        cut = self.rng.randint(0, len(wishes))
        near, apart = {oracle.PREFERRED: wishes[:cut]}, {oracle.PREFERRED: wishes[cut:]}
        if self.chance(0.3):
            # Its own labels, so that it is never refused for it.
            near[oracle.REQUIRED] = [
                {"topologyKey": self.rng.choice([ZONE, HOST]), "labelSelector": {"matchLabels": labels}}
            ]
        if self.chance(0.7):
            made["spec"]["affinity"] = {"podAffinity": near, "podAntiAffinity": apart}
        return made


def parse(obj: dict[str, Any], node: str | None = None) -> cluster.Pod:
    made = copy.deepcopy(obj)
    if node is not None:
        made["spec"]["nodeName"] = node
    return api_objects.parse_pod(made)


def make_state(nodes: list[dict[str, Any]]) -> state.State:
    known = state.State(policy.Policy(default_spread=False, fallback=policy.Fallback.REQUESTS), random.Random(0))
    known.demands.put_namespaces(NAMESPACES, NOW_S)
    for each in nodes:
        known.put_node(api_objects.parse_node(each))
    known.is_share_stale = False
    return known


def met(known: state.State, pod: cluster.Pod) -> dict[str, float] | None:
    """How far each node meets what is preferred of Pods; None if that is the same for all."""
    view: snapshot.Snapshot = known.fleet.snapshot(NOW_S)
    found = preferences.preferences_of(view, known.demand_of(pod))
    values = np.ones(1) if found is None else found.parts(view.present).get("pods", np.ones(1))
    if (values == values[0]).all():
        return None
    return {view.row(slot).node.name: value for slot, value in enumerate(values.tolist())}


def check(known: state.State, asked: dict[str, Any], placed: dict[str, tuple[dict[str, Any], int]], nodes: Any) -> None:
    on_nodes = [(pod, nodes[index]) for pod, index in placed.values()]
    assert met(known, parse(asked)) == oracle.normalized(oracle.scores(asked, on_nodes, nodes, NAMESPACES))


@hypothesis.settings(max_examples=150, deadline=None)
@hypothesis.given(seed=st.integers(0, 2**32))
def test_scores_are_those_of_kube_scheduler_while_pods_come_change_and_go(seed: int) -> None:
    drawer = Drawer(seed)
    rng, known = drawer.rng, make_state(drawer.nodes)
    asked = [drawer.pod(f"asked-{index}") for index in range(4)]
    placed: dict[str, tuple[dict[str, Any], int]] = {}
    for each in asked:
        known.put_pod(parse(each), NOW_S)
    for step in range(12):
        name = rng.choice(list(placed)) if placed and rng.random() < 0.4 else f"placed-{step}"
        if name not in placed:
            placed[name] = (drawer.pod(name), rng.randrange(len(drawer.nodes)))
        elif rng.random() < 0.5:
            del placed[name]
            known.remove_pod(f"uid-{name}")
            continue
        else:
            placed[name][0]["metadata"]["labels"] = drawer.pod("other")["metadata"]["labels"]
        pod, index = placed[name]
        known.put_pod(parse(pod, f"n{index}"), NOW_S)
        for each in asked:
            check(known, each, placed, drawer.nodes)
    # What waits has seen all of it.
    for waiting in known.queue:
        assert set(known.demand_of(waiting.pod).preferred_by) <= set(waiting.demand.preferred_by)


def wish(app: str, weight: int = 1, key: str = HOST) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {oracle.PREFERRED: [{"weight": weight, "podAffinityTerm": term}]}


def labelled(name: str, app: str, node: str | None = None, **affinity: Any) -> cluster.Pod:
    made = objects.pod_object(name, affinity=affinity)
    made["metadata"] |= {"uid": f"uid-{name}", "namespace": "red", "labels": {"app": app}}
    return parse(made, node)


def test_a_placed_pod_attracts_or_repels_a_new_one_that_prefers_nothing() -> None:
    known = make_state([objects.node_object("n0"), objects.node_object("n1")])
    known.put_pod(labelled("cache", "cache", "n0", podAffinity=wish("web")), NOW_S)
    assert met(known, labelled("web", "web")) == {"n0": 1.0, "n1": 0.0}
    known.put_pod(labelled("batch", "batch", "n0", podAntiAffinity=wish("web", 2)), NOW_S)
    assert met(known, labelled("web", "web")) == {"n0": 0.0, "n1": 1.0}
    known.remove_pod("uid-batch")
    known.remove_pod("uid-cache")
    assert met(known, labelled("web", "web")) is None


def test_required_affinity_of_a_placed_pod_counts_one() -> None:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "web"}}}
    known = make_state([objects.node_object(f"n{index}") for index in range(3)])
    known.put_pod(labelled("needs", "web", "n0", podAffinity={oracle.REQUIRED: [term]}), NOW_S)
    known.put_pod(labelled("likes", "db", "n1", podAffinity=wish("web", 4)), NOW_S)
    assert met(known, labelled("web", "web")) == {"n0": 0.25, "n1": 1.0, "n2": 0.0}


def test_a_pod_that_no_term_selects_is_decided_on_with_those_without_labels() -> None:
    known = make_state([objects.node_object("n0")])
    known.put_pod(labelled("cache", "cache", "n0", podAffinity=wish("web")), NOW_S)
    demands = {known.demand_of(labelled("new", app)) for app in ("db", "job", "")}
    assert len(demands) == 1
    assert not demands.pop().preferred_by


def test_a_pod_that_waits_is_given_a_term_that_comes_later() -> None:
    known = make_state([objects.node_object("n0")])
    known.put_pod(labelled("web", "web"), NOW_S)
    known.put_pod(labelled("db", "db"), NOW_S)
    known.put_pod(labelled("cache", "cache", "n0", podAffinity=wish("web")), NOW_S)
    assert {each.pod.name: len(each.demand.preferred_by) for each in known.queue} == {"web": 1, "db": 0}
    # A preference does not decide who places the Pod.
    assert not known.is_share_stale


def test_pods_are_compared_only_with_terms_of_their_namespace_and_label(monkeypatch: pytest.MonkeyPatch) -> None:
    known = make_state([objects.node_object("n0")])
    for index in range(50):
        known.put_pod(labelled(f"app-{index}", f"app-{index}", "n0", podAntiAffinity=wish(f"app-{index}")), NOW_S)
    compared: list[Any] = []

    def selects(_: pod_terms.TermIndex[Any], terms: tuple[Any, ...], pod: cluster.Pod) -> bool:
        compared.append(terms)
        return True

    monkeypatch.setattr(pod_terms.TermIndex, "selects", selects)
    assert len(known.demand_of(labelled("new", "app-7")).preferred_by) == 1
    assert len(compared) == 1


def test_a_new_term_is_compared_only_with_waiting_pods_that_have_its_label(monkeypatch: pytest.MonkeyPatch) -> None:
    known = make_state([objects.node_object("n0")])
    for index in range(50):
        known.put_pod(labelled(f"app-{index}", f"app-{index}"), NOW_S)
    compared: list[str] = []
    before = pod_terms.TermIndex.selects

    def selects(index: pod_terms.TermIndex[Any], terms: Any, pod: cluster.Pod) -> bool:
        compared.append(pod.name)
        return before(index, terms, pod)

    monkeypatch.setattr(pod_terms.TermIndex, "selects", selects)
    known.put_pod(labelled("cache", "cache", "n0", podAffinity=wish("app-7")), NOW_S)
    assert set(compared) == {"app-7"}
    assert [each.pod.name for each in known.queue if each.demand.preferred_by] == ["app-7"]


def test_a_pod_is_alone_if_its_demand_is() -> None:
    known = make_state([objects.node_object("n0")])
    apart = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "web"}}}
    known.put_pod(labelled("loner", "x", "n0", podAntiAffinity={oracle.REQUIRED: [apart]}), NOW_S)
    known.put_pod(labelled("cache", "cache", "n0", podAffinity=wish("db")), NOW_S)
    made = [labelled("a", "web"), labelled("b", "db"), labelled("c", "x", podAffinity={oracle.REQUIRED: [apart]})]
    found = {pod.name: known.demands.is_alone(pod) for pod in made}
    assert found == {"a": False, "b": True, "c": False}
    assert found == {pod.name: known.demand_of(pod).is_alone for pod in made}


def test_a_term_of_many_namespaces_and_values_takes_little_memory() -> None:
    known = make_state([objects.node_object("n0")])
    named = {"key": "app", "operator": "In", "values": [f"app-{index}" for index in range(300)]}
    term = {
        "topologyKey": HOST, "labelSelector": {"matchExpressions": [named]},
        "namespaces": ["red", *(f"other-{index}" for index in range(300))],
    }  # fmt: skip
    wide = labelled("wide", "x", "n0", podAffinity={oracle.PREFERRED: [{"weight": 1, "podAffinityTerm": term}]})
    tracemalloc.start()
    try:
        known.put_pod(wide, NOW_S)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # With an entry for each of 90,000 pairs it was 30 MB.
    assert held < 5e6
    assert len(known.demand_of(labelled("new", "app-7")).preferred_by) == 1
    assert not known.demand_of(labelled("new", "app-300")).preferred_by
    assert not known.demand_of(labelled("new", "app-7")._replace(namespace="blue")).preferred_by
    known.remove_pod(wide.uid)
    assert not known.demand_of(labelled("new", "app-7")).preferred_by


def test_of_very_many_terms_that_select_a_pod_the_oldest_count() -> None:
    known, most = make_state([objects.node_object("n0")]), pod_terms.PREFERENCES_MOST
    wishes = [wish("web", key=f"key-{index}")[oracle.PREFERRED][0] for index in range(3 * most)]
    known.put_pod(labelled("web", "web"), NOW_S)
    # As many as each of three Pods may have.
    for first in range(0, len(wishes), most):
        preferred = {oracle.PREFERRED: wishes[first : first + most]}
        known.put_pod(labelled(f"wide-{first}", "x", "n0", podAffinity=preferred), NOW_S)
    (waiting,) = known.queue
    assert [each.topology_key for each in waiting.demand.preferred_by] == [f"key-{index}" for index in range(most)]
