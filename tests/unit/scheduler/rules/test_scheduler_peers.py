"""Pods that bear on each other: counts kept as Pods move, and decisions that see what a cycle has placed."""

import random
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from carico_core.domain import cluster
from carico_core.wire.kubernetes import api_objects, storage
from carico_scheduler.decide import cycle
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import pod_counts, pod_questions
from carico_scheduler.report import explain
from carico_scheduler.rules import policy
from carico_scheduler.state import node_state, state
from tests.tools.api import feasibility_cases as cases
from tests.unit.scheduler import objects

NOW_S = 1000.0
ZONE = "topology.kubernetes.io/zone"
REQUIRED = cases.REQUIRED
BY_REQUESTS = policy.Policy(fallback=policy.Fallback.REQUESTS)


def pod(name: str, *, labels: dict[str, str] | None = None, namespace: str = "default", **spec: Any) -> cluster.Pod:
    """A Pod as it is read from the API."""
    obj = objects.pod_object(name, **spec)
    obj["metadata"] |= {"uid": f"uid-{name}", "labels": labels or {}, "namespace": namespace}
    return api_objects.parse_pod(obj)


def node(name: str, **labels: str) -> cluster.Node:
    return objects.make_node(name, labels={"kubernetes.io/hostname": name, **labels})


def near(app: str, key: str = ZONE, kind: str = "podAffinity", **term: Any) -> dict[str, Any]:
    return {kind: {REQUIRED: [{"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}} | term]}}


def make_state(*nodes: cluster.Node) -> state.State:
    made = state.State(BY_REQUESTS, random.Random(0))
    made.put_nodes(nodes)
    return made


def decide(known: state.State, most: int = 100) -> dict[str, str]:
    """Runs one cycle and takes its placements in; node by Pod name."""
    outcome = cycle.Cycle(BY_REQUESTS).run(known.fleet.snapshot(NOW_S), known.queue, most=most)
    for each in outcome.placed:
        known.assume(each.waiting, each.row.node.name, NOW_S)
    return {each.waiting.pod.name: each.row.node.name for each in outcome.placed}


def refused(known: state.State, waiting: cluster.Pod) -> dict[str, int]:
    demand = known.demand_of(waiting)
    return dict(cycle.Cycle(BY_REQUESTS).explain(known.fleet.snapshot(NOW_S), demand).refused)


def without_api(seed: int) -> tuple[state.State, list[cluster.Pod]]:
    """A random cluster and Pods to place, without volumes: those are given out one cycle at a time."""
    case = cases.draw(seed, name="c", pods=25)
    known = state.State(BY_REQUESTS, random.Random(0))
    known.fleet.pod_counts.lacking = None
    labels = {}
    for path, obj in case.objects:
        if path == "/api/v1/namespaces":
            labels[obj["metadata"]["name"]] = obj["metadata"]["labels"]
        elif path == "/api/v1/nodes":
            known.put_node(api_objects.parse_node(obj))
        elif path.endswith("/pods"):
            known.put_pod(_read(obj), NOW_S)
    known.demands.put_namespaces(labels, NOW_S)
    return known, [_read(obj) for obj in case.pods]


def _read(obj: dict[str, Any]) -> cluster.Pod:
    metadata = obj["metadata"] | {"uid": f"uid-{obj['metadata']['name']}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    spec = {key: value for key, value in obj["spec"].items() if key != "volumes"} | {"schedulerName": "carico"}
    return api_objects.parse_pod({"metadata": metadata, "spec": spec})


@hypothesis.settings(max_examples=25, deadline=None, derandomize=True)
@hypothesis.given(seed=st.integers(0, 2**32))
def test_each_decision_of_a_cycle_is_what_a_cycle_of_its_own_would_decide(seed: int) -> None:
    known, pods = without_api(seed)
    for each in pods:
        known.put_pod(each, NOW_S)
    outcome = cycle.Cycle(BY_REQUESTS).run(known.fleet.snapshot(NOW_S), known.queue, most=100)
    # The same history, given to a state that computes everything again after each placement.
    fresh, _ = without_api(seed)
    for each in pods:
        fresh.put_pod(each, NOW_S)
    for placed in outcome.placed:
        uid, node = placed.waiting.pod.uid, placed.row.node.name
        view = fresh.fleet.snapshot(NOW_S)
        board = cycle.Cycle(BY_REQUESTS).explain(view, fresh.demand_of(placed.waiting.pod))
        assert view.row(board.best(uid)).node.name == node
        fresh.assume(placed.waiting, node, NOW_S)


@hypothesis.settings(max_examples=25, deadline=None, derandomize=True)
@hypothesis.given(seed=st.integers(0, 2**32))
def test_masks_and_reasons_agree(seed: int) -> None:
    known, pods = without_api(seed)
    cycles = cycle.Cycle(BY_REQUESTS)
    for each in pods:
        board = cycles.explain(known.fleet.snapshot(NOW_S), known.demand_of(each))
        for slot in range(len(known.fleet)):
            is_refused = not board.values[slot] > float("-inf")
            assert (board.rejection(board.view.row(slot)) is not None) is is_refused
        assert sum(board.refused.values()) == int((board.values == float("-inf")).sum())


@hypothesis.settings(max_examples=50, deadline=None)
@hypothesis.given(seed=st.integers(0, 2**32))
def test_counts_follow_pods_as_they_move(seed: int) -> None:
    rng = random.Random(seed)
    slots = {f"n{index}": index for index in range(4)}
    known = pod_counts.PodCounts(slots.get)
    term = pod("asks", affinity=near("web", namespaceSelector={"matchLabels": {"team": "red"}})).constraints
    assert term is not None
    questions: list[pod_questions.Question] = [
        pod_questions.Matching(terms=term.affinity),
        pod_questions.Repelling(topology_key=ZONE, terms=pod_questions.TermSet(term.affinity)),
        pod_questions.Spreading(namespace="default", selector=term.affinity[0].selector),
    ]  # fmt: skip
    placed: dict[str, tuple[cluster.Pod, str]] = {}
    for _ in range(60):
        name = f"pod-{rng.randrange(8)}"
        if rng.random() < 0.1:
            known.put_namespaces({"default": {"team": rng.choice(["red", "blue"])}})
        if rng.random() < 0.3:
            known.remove(f"uid-{name}")
            placed.pop(name, None)
        else:
            affinity = near("web", kind="podAntiAffinity", namespaceSelector={"matchLabels": {"team": "red"}})
            made = pod(name, labels={"app": rng.choice(["web", "db"])}, affinity=rng.choice([affinity, {}]))
            # A Pod keeps its affinity for as long as it is.
            made = made if name not in placed else pod_like(placed[name][0], made)
            placed[name] = (made, rng.choice([*slots, "unknown"]))
            known.put(*placed[name])
        fresh = pod_counts.PodCounts(slots.get)
        fresh.put_namespaces(known.namespaces)
        for each in placed.values():
            fresh.put(*each)
        for question in questions:
            np.testing.assert_array_equal(known.per_slot(question, 4), fresh.per_slot(question, 4))


def pod_like(old: cluster.Pod, new: cluster.Pod) -> cluster.Pod:
    """The Pod of `old` with the labels of `new`."""
    affinity = near("web", kind="podAntiAffinity", namespaceSelector={"matchLabels": {"team": "red"}})
    return pod(old.name, labels=dict(new.labels), affinity={} if old.constraints is None else affinity)


def test_the_first_of_a_group_goes_anywhere_and_the_others_follow() -> None:
    known = make_state(node("a", **{ZONE: "1"}), node("b", **{ZONE: "2"}), node("c"))
    for index in range(3):
        known.put_pod(pod(f"web-{index}", labels={"app": "web"}, affinity=near("web")), NOW_S)
    placed = decide(known)
    assert len(placed) == 3
    assert len(set(placed.values())) == 1
    assert "c" not in placed.values()


def test_a_pod_waits_for_its_peer_and_is_woken_by_it() -> None:
    known = make_state(node("a", **{ZONE: "1"}), node("b", **{ZONE: "2"}))
    known.put_pod(pod("follower", affinity=near("leader")), NOW_S)
    assert decide(known) == {}
    assert refused(known, pod("follower", affinity=near("leader"))) == {"pod_affinity": 2}
    assert known.queue.parked()
    known.put_pod(pod("leader", labels={"app": "leader"}, nodeName="b"), NOW_S)
    assert decide(known) == {"follower": "b"}


def test_pods_that_repel_each_other_are_apart_within_one_cycle_and_the_rule_holds_both_ways() -> None:
    known = make_state(node("a"), node("b"))
    apart = near("web", key="kubernetes.io/hostname", kind="podAntiAffinity")
    for index in range(3):
        known.put_pod(pod(f"web-{index}", labels={"app": "web"}, affinity=apart), NOW_S)
    assert sorted(decide(known).values()) == ["a", "b"]
    # This one repels no other, and is repelled by both.
    plain = pod("plain", labels={"app": "web"})
    assert refused(known, plain) == {"pod_anti_affinity": 2}
    assert refused(known, pod("other", labels={"app": "db"})) == {}


def test_pods_that_differ_in_labels_that_no_rule_reads_are_decided_on_together() -> None:
    known = make_state(node("a"))
    for index in range(3):
        known.put_pod(pod(f"index-{index}", labels={"job-index": str(index)}), NOW_S)
    assert len({waiting.demand for waiting in known.queue}) == 1
    known.put_pod(pod("hermit", nodeName="a", affinity=near("web", kind="podAntiAffinity")), NOW_S)
    known.put_pod(pod("web", labels={"app": "web"}), NOW_S)
    assert len({waiting.demand for waiting in known.queue}) == 2


def test_a_term_that_comes_later_is_seen_by_pods_that_wait_already() -> None:
    known = make_state(node("a"))
    known.put_pod(pod("web", labels={"app": "web"}), NOW_S)
    hermit = near("web", key="kubernetes.io/hostname", kind="podAntiAffinity")
    known.put_pod(pod("hermit", nodeName="a", affinity=hermit), NOW_S)
    assert decide(known) == {}
    known.remove_pod("uid-hermit")
    assert decide(known) == {"web": "a"}


def test_a_spread_fills_domains_evenly_within_one_cycle() -> None:
    known = make_state(*(node(f"n{index}", **{ZONE: str(index % 3)}) for index in range(6)))
    spread = [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
               "labelSelector": {"matchLabels": {"app": "web"}}}]  # fmt: skip
    for index in range(9):
        known.put_pod(pod(f"web-{index}", labels={"app": "web"}, topologySpreadConstraints=spread), NOW_S)
    zones = [int(name[1:]) % 3 for name in decide(known).values()]
    assert [zones.count(zone) for zone in range(3)] == [3, 3, 3]


def test_host_ports_are_given_once_within_one_cycle_and_the_refusal_is_said() -> None:
    known = make_state(node("a"), node("b"))
    for index in range(3):
        ports = [{"containerPort": 80, "hostPort": 80}]
        known.put_pod(pod(f"web-{index}", containers=[{"name": "c", "ports": ports}]), NOW_S)
    assert sorted(decide(known).values()) == ["a", "b"]
    (waiting,) = known.queue.parked()
    board = cycle.Cycle(BY_REQUESTS).explain(known.fleet.snapshot(NOW_S), waiting.demand)
    text = explain.why_unplaced(board.refused, 2, explain.candidates_of(board, board.seen()))
    assert text == "0/2 nodes fit: 2 with a host port taken (a: a Pod there holds one of its host ports 80/TCP)"


def test_namespaces_that_cannot_be_listed_keep_apart_rather_than_near() -> None:
    known = make_state(node("a", **{ZONE: "1"}))
    known.demands.note_namespaces("403 Forbidden", NOW_S)
    red = {"matchLabels": {"team": "red"}}
    assert refused(known, pod("near", affinity=near("web", namespaceSelector=red))) == {"pod_affinity": 1}
    hermit = pod("hermit", nodeName="a", affinity=near("web", kind="podAntiAffinity", namespaceSelector=red))
    known.put_pod(hermit, NOW_S)
    assert refused(known, pod("web", labels={"app": "web"})) == {"pod_anti_affinity": 1}
    known.demands.note_namespaces(None, NOW_S)
    assert refused(known, pod("web", labels={"app": "web"})) == {}


@pytest.mark.parametrize("is_first_known", [True, False])
def test_a_node_that_the_api_shows_after_its_pods_counts_them(is_first_known: bool) -> None:
    known = make_state(node("a", **{ZONE: "1"}))
    known.put_pod(pod("web", labels={"app": "web"}, nodeName="late"), NOW_S)
    asks = pod("asks", affinity=near("web"))
    if is_first_known:
        assert refused(known, asks) == {"pod_affinity": 1}
    known.put_node(node("late", **{ZONE: "1"}))
    assert refused(known, asks) == {}
    known.remove_node("late")
    assert refused(known, asks) == {"pod_affinity": 1}


def scores(known: state.State, waiting: cluster.Pod) -> dict[str, float]:
    """The score of each node that is feasible."""
    view: snapshot.Snapshot = known.fleet.snapshot(NOW_S)
    board = cycle.Cycle(policy.Policy()).explain(view, known.demand_of(waiting))
    found = enumerate(board.values.tolist())
    return {view.row(slot).node.name: score for slot, score in found if score > float("-inf")}


def advertised(**rooms: float) -> state.State:
    """Nodes of one zone each, with this much room."""
    known = state.State(policy.Policy(), random.Random(0))
    for name, room in rooms.items():
        known.put_node(node(name, **{ZONE: name}))
        known.put_advertisement(
            node_state.Heard(advertisement=objects.make_advertisement(name, room, pods=1), sampled_s=NOW_S), NOW_S
        )
    return known


def prefer(name: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [name]}]}
    return {"nodeAffinity": {cases.PREFERRED: [{"weight": 10, "preference": term}]}}


@pytest.mark.parametrize(("room", "chosen"), [(3.0, "wished"), (3.4, "wished"), (3.6, "roomy"), (40.0, "roomy")])
def test_a_wish_is_worth_a_factor_of_two_in_room_and_never_more(room: float, chosen: str) -> None:
    # Half of the new Pod is counted as there: 1.5 against room - .5.
    known = advertised(wished=2.0, roomy=room)
    found = scores(known, pod("picky", affinity=prefer("wished")))
    assert max(found, key=lambda name: found[name]) == chosen
    # Room alone decides for a Pod without wishes, and a wish makes no node feasible or infeasible.
    plain = scores(known, pod("plain"))
    assert plain == pytest.approx({"wished": 1.5 / 4, "roomy": (room - 0.5) / 4})
    assert found.keys() == plain.keys()


def test_soft_taints_preferred_pods_and_soft_spread_lean_the_score() -> None:
    known = advertised(a=2.5, b=2.5)
    # (2.5 - 1/2) / 4 cores, and what is left of it without any wish met.
    whole, half = 0.5, 0.25
    known.put_pod(pod("web", labels={"app": "web"}, nodeName="a", containers=[{"name": "c"}]), NOW_S)
    # What was reserved for it is covered: both nodes have the same room again.
    known.put_advertisement(
        node_state.Heard(
            advertisement=objects.make_advertisement("a", 2.5, seq=2, pods=1, covers=frozenset({"uid-web"})),
            sampled_s=NOW_S,
        ),
        NOW_S,
    )
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}
    wish = {cases.PREFERRED: [{"weight": 1, "podAffinityTerm": term}]}
    assert scores(known, pod("near", affinity={"podAffinity": wish})) == {"a": whole, "b": half}
    assert scores(known, pod("apart", affinity={"podAntiAffinity": wish})) == {"a": half, "b": whole}
    spread = [{"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"} | term]
    assert scores(known, pod("even", topologySpreadConstraints=spread)) == {"a": half, "b": whole}
    soft = cluster.Taint(key="slow", value="", effect="PreferNoSchedule")
    known.put_node(objects.make_node("b", labels=node("b", **{ZONE: "b"}).labels, taints=(soft,)))
    assert scores(known, pod("plain")) == {"a": whole, "b": half}
    tolerates = [{"key": "slow", "operator": "Exists"}]
    assert scores(known, pod("hardy", tolerations=tolerates)) == {"a": whole, "b": whole}


def claim(name: str, **changes: Any) -> dict[str, Any]:
    obj: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "1"},
        "spec": {"storageClassName": "later", "accessModes": ["ReadWriteOnce"]},
    }
    obj["spec"] |= changes
    return obj


def test_a_claim_of_one_pod_is_given_once_within_one_cycle() -> None:
    known = make_state(node("a"), node("b"))
    held = known.fleet.storage
    bound = claim("disk", volumeName="v", accessModes=["ReadWriteOncePod"])
    bound["metadata"]["annotations"] = {storage.BIND_COMPLETED: "yes"}
    held.volume_claims.put(("default", "disk"), storage.parse_volume_claim(bound))
    held.volumes.put(("", "v"), storage.parse_volume({"metadata": {"name": "v"}, "spec": {}}))
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "disk"}}]
    for index in range(2):
        known.put_pod(pod(f"user-{index}", volumes=volumes), NOW_S)
    assert len(decide(known)) == 1
    (waiting,) = known.queue.parked()
    assert refused(known, waiting.pod) == {"volume": 2}


def test_what_is_not_known_of_volumes_is_said() -> None:
    known = make_state(node("a"))
    uses = pod("user", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "disk"}}])
    board = cycle.Cycle(BY_REQUESTS).explain(known.fleet.snapshot(NOW_S), known.demand_of(uses))
    found = board.rejection(board.view.row(0))
    assert found is not None
    assert found.detail == "PersistentVolumeClaim disk not found"
    known.fleet.storage.note_lacking("persistentvolumes", "403 Forbidden")
    board = cycle.Cycle(BY_REQUESTS).explain(known.fleet.snapshot(NOW_S), known.demand_of(uses))
    found = board.rejection(board.view.row(0))
    assert found is not None
    assert found.detail == "persistentvolumes: 403 Forbidden"
