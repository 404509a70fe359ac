"""Required anti-affinity of other Pods: which nodes it refuses, and that thousands of terms are one question."""

import random
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from carico_core.domain import cluster, constraints
from carico_core.wire.kubernetes import api_objects
from carico_scheduler.pods import pod_counts, pod_questions
from carico_scheduler.rules import policy
from carico_scheduler.rules.peers import pod_anti_affinity
from carico_scheduler.state import state
from tests.tools.api import feasibility_cases as cases
from tests.unit.scheduler import objects

NOW_S = 1000.0
KEYS = ["kubernetes.io/hostname", "zone", "no-node-has-it"]
TEAMS = {"red": {"team": "red"}, "blue": {"team": "blue"}, "bare": {}}


def pod(name: str, namespace: str, labels: dict[str, str], terms: list[dict[str, Any]], node: str = "") -> cluster.Pod:
    made = objects.pod_object(name, affinity={"podAntiAffinity": {cases.REQUIRED: terms}})
    made["metadata"] |= {"uid": f"uid-{name}", "namespace": namespace, "labels": labels}
    if node:
        made["spec"]["nodeName"] = node
    return api_objects.parse_pod(made)


def make_state(nodes: list[cluster.Node]) -> state.State:
    known = state.State(policy.Policy(fallback=policy.Fallback.REQUESTS), random.Random(0))
    known.fleet.pod_counts.lacking = None
    known.put_nodes(nodes)
    known.demands.put_namespaces(TEAMS, NOW_S)
    return known


def draw_node(rng: random.Random, name: str) -> cluster.Node:
    zone = {"zone": rng.choice("ab")} if rng.random() < 0.8 else {}
    return objects.make_node(name, labels={"kubernetes.io/hostname": name, **zone})


def draw_labels(rng: random.Random) -> dict[str, str]:
    return {key: rng.choice("xy") for key in ("app", "tier", "job") if rng.random() < 0.6}


def draw_term(rng: random.Random) -> dict[str, Any]:
    operator = rng.choice(["In", "NotIn", "Exists", "DoesNotExist"])
    values = {"values": rng.sample("xyz", rng.randint(1, 2))} if operator.endswith("In") else {}
    selector = {"matchExpressions": [{"key": rng.choice(["app", "tier", "job"]), "operator": operator, **values}]}
    made: dict[str, Any] = {"topologyKey": rng.choice(KEYS), "labelSelector": selector}
    if rng.random() < 0.5:
        made["namespaces"] = rng.sample(list(TEAMS), rng.randint(1, 2))
    if rng.random() < 0.3:
        made["namespaceSelector"] = rng.choice([{}, {"matchLabels": {"team": "red"}}])
    return made


def term_by_term(known: state.State, asks: cluster.Pod, placed: dict[str, cluster.Pod]) -> list[bool]:
    """Whether each node passes: each term of each placed Pod by itself, as it is defined."""
    view = known.fleet.snapshot(NOW_S)
    nodes = {view.row(slot).node.name: view.row(slot).node for slot in range(len(known.fleet))}
    passes = []
    for node in nodes.values():
        is_refused = False
        for other in placed.values():
            assert other.constraints is not None and other.node_name is not None
            for term in other.constraints.anti_affinity:
                value = node.labels.get(term.topology_key)
                is_near = value is not None and value == nodes[other.node_name].labels.get(term.topology_key)
                labels = known.fleet.pod_counts.namespace_labels(asks.namespace)
                is_refused |= is_near and term.matches(asks.namespace, labels, asks.labels)
        passes.append(not is_refused)
    return passes


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(seed=st.integers(0, 2**32))
def test_nodes_pass_as_each_term_by_itself_allows_while_pods_come_and_go(seed: int) -> None:
    rng = random.Random(seed)
    names = [f"n{index}" for index in range(4)]
    known = make_state([draw_node(rng, name) for name in names])
    placed: dict[str, cluster.Pod] = {}
    for turn in range(30):
        if placed and rng.random() < 0.4:
            known.remove_pod(placed.pop(rng.choice(list(placed))).uid)
        else:
            name = f"holds-{turn}"
            terms = [draw_term(rng) for _ in range(rng.randint(1, 4))]
            placed[name] = pod(name, rng.choice(list(TEAMS)), draw_labels(rng), terms, node=rng.choice(names))
            known.put_pod(placed[name], NOW_S)
        if rng.random() < 0.1:
            known.demands.put_namespace("bare", {"team": rng.choice(["red", "blue"])}, NOW_S)
        asks = pod(f"asks-{turn}", rng.choice(list(TEAMS)), draw_labels(rng), [])
        view = known.fleet.snapshot(NOW_S)
        peers = pod_anti_affinity.PodAntiAffinity().peers(view, known.demand_of(asks))
        passes = np.ones(len(names), dtype=np.bool_)
        for condition in [] if peers is None else peers.conditions():
            passes &= condition.passes
        assert passes.tolist() == term_by_term(known, asks, placed)


def many(name: str, node: str, count: int) -> cluster.Pod:
    """A Pod with so many terms of its own that select all Pods of app x, for three labels."""
    return pod(name, "red", {}, [
        {
            "topologyKey": KEYS[index % 3], "namespaceSelector": {},
            "labelSelector": {
                "matchLabels": {"app": "x"},
                "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": [f"{name}-{index}"]}],
            },
        }
        for index in range(count)
    ], node=node)  # fmt: skip


def test_thousands_of_terms_that_select_a_pod_are_one_question_a_label_and_compared_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = make_state([draw_node(random.Random(0), "n0"), draw_node(random.Random(1), "n1")])
    for index in range(40):
        known.put_pod(many(f"holds-{index}", "n0", 60), NOW_S)
    demand = known.demand_of(pod("asks", "blue", {"app": "x", "job": "1"}, []))
    assert len(demand.repelled_by) == 40 * 60
    asked: list[pod_questions.Question] = []
    per_slot = pod_counts.PodCounts.per_slot

    def note(self: pod_counts.PodCounts, question: pod_questions.Question, slots: int) -> Any:
        asked.append(question)
        return per_slot(self, question, slots)

    monkeypatch.setattr(pod_counts.PodCounts, "per_slot", note)
    found = pod_anti_affinity.PodAntiAffinity().peers(known.fleet.snapshot(NOW_S), demand)
    assert found is not None
    # No node has the third label.
    assert len(asked) == len(found.conditions()) == 2
    # Another Pod of the labels that terms ask about is compared with none of them, and shares the set.
    monkeypatch.setattr(constraints.PodTerm, "matches", None)
    assert known.demand_of(pod("next", "blue", {"app": "x", "job": "2"}, [])).repelled_by is demand.repelled_by
    monkeypatch.undo()
    # One of other labels is compared, and shares what is equal.
    assert known.demand_of(pod("last", "blue", {"app": "x", "tier": "y"}, [])).repelled_by is demand.repelled_by
    known.put_pod(many("more", "n1", 1), NOW_S)
    assert len(known.demand_of(pod("next", "blue", {"app": "x", "job": "2"}, [])).repelled_by) == 40 * 60 + 1
