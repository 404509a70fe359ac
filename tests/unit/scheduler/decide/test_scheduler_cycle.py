"""What a cycle decides: never over a node's room, the best node first, the same again on a replay."""

import collections
import random

import hypothesis
import pytest
from hypothesis import strategies as st

from carico_core.domain import cluster, constraints, decision, messages, selectors
from carico_scheduler.decide import cycle, cycle_scores, masks
from carico_scheduler.decide import scores as scoring
from carico_scheduler.nodes import fleet
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import queue, reservations
from carico_scheduler.report import explain
from carico_scheduler.rules import policy
from tests.unit.scheduler import objects

NOW_S = 1000.0


def make_fleet(rooms: dict[str, float], rules: policy.Policy | None = None, age_s: float = 0.1) -> fleet.Fleet:
    nodes = fleet.Fleet(rules or policy.Policy())
    for name, room in rooms.items():
        nodes.put_node(objects.make_node(name), reservations.Load())
        nodes.put_advertisement(objects.make_advertisement(name, room), NOW_S - age_s)
    return nodes


def make_mixed_queue(count: int, rng: random.Random) -> queue.Queue:
    source = queue.Queue(random.Random(0))
    for index in range(count):
        cores = rng.choice([0.0, 0.0, 0.1, 0.2])
        source.offer(objects.make_pod(f"pod-{index}", priority=rng.randint(0, 2), request_cores=cores), NOW_S)
    return source


def make_queue(count: int, **pod: object) -> queue.Queue:
    source = queue.Queue(random.Random(0))
    for index in range(count):
        source.offer(objects.make_pod(f"pod-{index}", created_at_s=float(index), **pod), NOW_S)
    return source


def run(nodes: fleet.Fleet, source: queue.Queue, most: int = 1000) -> cycle.CycleResult:
    return cycle.Cycle(nodes.policy).run(nodes.snapshot(NOW_S), source, most=most)


def test_the_decisions_of_one_cycle_see_each_other() -> None:
    source = make_queue(10)
    outcome = run(make_fleet({"a": 3.2, "b": 2.0, "c": 0.9}), source)
    assert [(each.row.node.name, each.free) for each in outcome.placed] == [
        ("a", 3.2), ("a", 2.2), ("b", 2.0), ("a", 3.2 - 2), ("b", 1.0),
    ]  # fmt: skip
    assert [each.row.reserved for each in outcome.placed] == [0, 1, 0, 2, 1]
    assert len(outcome.unplaced) == 1, "one Pod shows that its demand fits nowhere; the others are not tried"
    assert len(source) == 5


def test_pods_of_different_demands_see_each_other_too() -> None:
    source = queue.Queue(random.Random(0))
    for index in range(6):
        cores = (0.0, 0.1, 0.2)[index % 3]
        source.offer(objects.make_pod(f"pod-{index}", created_at_s=float(index), request_cores=cores), NOW_S)
    outcome = run(make_fleet({"a": 2.0, "b": 1.5}), source)
    assert [(each.row.node.name, each.free) for each in outcome.placed] == [("a", 2.0), ("b", 1.5), ("a", 1.0)]
    assert len(outcome.unplaced) == 3


def test_what_one_demand_may_have_another_may_not() -> None:
    source = queue.Queue(random.Random(0))
    for index, cores in enumerate((1.0, 5.0, 0.0, 2.0)):
        source.offer(objects.make_pod(f"pod-{index}", created_at_s=float(index), request_cores=cores), NOW_S)
    # The second node is one that nothing was placed on before.
    outcome = run(make_fleet({"a": 9.0, "b": 2.0}), source)
    assert [each.waiting.pod.name for each in outcome.placed] == ["pod-0", "pod-2", "pod-3"]
    assert [each.pod.name for each in outcome.unplaced] == ["pod-1"]


def test_most_is_kept_and_the_rest_wait_in_the_queue() -> None:
    source = make_queue(10)
    assert len(run(make_fleet({"a": 100.0}), source, most=3).placed) == 3
    assert len(source) == 7


def test_equal_nodes_are_chosen_by_the_pods_uid() -> None:
    nodes = make_fleet({f"node-{index}": 2.0 for index in range(8)})
    chosen = [run(nodes, make_queue(1, uid=f"uid-{index}")).placed[0].row.node.name for index in range(64)]
    again = [run(nodes, make_queue(1, uid=f"uid-{index}")).placed[0].row.node.name for index in range(64)]
    assert chosen == again
    assert len(set(chosen)) == 8


def test_refused_counts_every_node_once_by_its_first_reason() -> None:
    nodes = make_fleet({"full": 0.4, "roomy": 3.0})
    nodes.put_node(objects.make_node("down", ready=False), reservations.Load())
    nodes.put_node(objects.make_node("silent"), reservations.Load())
    outcome = run(nodes, make_queue(1))
    assert outcome.placed[0].refused == {"not_ready": 1, "no_advertisement": 1, "capacity": 1}


def test_a_node_that_fills_up_within_the_cycle_is_counted_as_refused_from_then_on() -> None:
    outcome = run(make_fleet({"a": 1.0, "b": 1.5}), make_queue(2))
    assert [each.refused for each in outcome.placed] == [{}, {"capacity": 1}]


def test_requests_of_pods_placed_in_the_same_cycle_count() -> None:
    outcome = run(make_fleet({"a": 9.0}), make_queue(5, request_cores=1.5))
    assert len(outcome.placed) == 2


def test_with_all_stale_pods_wait_or_go_by_requests() -> None:
    waits = run(make_fleet({"a": 9.0, "b": 9.0}, age_s=6.0), make_queue(1))
    assert not waits.placed
    rules = policy.Policy(fallback=policy.Fallback.REQUESTS)
    nodes = make_fleet({"a": 9.0, "b": 9.0}, rules, age_s=6.0)
    nodes.put_load("a", reservations.Load(placed=3, workloads=3))
    placed = run(nodes, make_queue(4)).placed
    assert [each.row.node.name for each in placed][:3] == ["b", "b", "b"]
    assert placed[0].free is None
    one_speaks = make_fleet({"a": 9.0}, rules)
    one_speaks.put_node(objects.make_node("b"), reservations.Load())
    assert {each.row.node.name for each in run(one_speaks, make_queue(4)).placed} == {"a"}


def test_an_empty_cluster_places_nothing() -> None:
    outcome = run(fleet.Fleet(policy.Policy()), make_queue(2))
    assert len(outcome.unplaced) == 1


def test_kept_masks_follow_the_nodes() -> None:
    nodes = make_fleet({"a": 3.0, "b": 2.0})
    kept = cycle.Cycle(nodes.policy)

    def where(**pod: object) -> list[str]:
        outcome = kept.run(nodes.snapshot(NOW_S), make_queue(1, **pod), most=1)
        return [each.row.node.name for each in outcome.placed]

    selector = {"node_selector": {"disk": "ssd"}}
    assert (where(), where(**selector)) == (["a"], [])
    nodes.put_node(objects.make_node("b", labels={"disk": "ssd"}), reservations.Load())
    assert (where(), where(**selector)) == (["a"], ["b"])
    nodes.put_node(objects.make_node("a", ready=False), reservations.Load())
    assert where() == ["b"]
    nodes.remove_node("b")
    assert where() == []
    nodes.put_node(objects.make_node("c"), reservations.Load())
    nodes.put_advertisement(objects.make_advertisement("c", 5.0), NOW_S)
    assert (where(), where(**selector)) == (["c"], [])


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(seed=st.integers(0, 2**32))
def test_updated_masks_equal_new_masks_after_any_changes(seed: int) -> None:
    rng = random.Random(seed)
    nodes = make_fleet({f"node-{index}": rng.uniform(0.5, 3.0) for index in range(6)})
    kept = cycle.Cycle(nodes.policy)
    demand = demands.Demand(node_selector=(("disk", "ssd"),) if rng.random() < 0.5 else ())
    for _ in range(12):
        name = f"node-{rng.randrange(70)}"
        if rng.random() < 0.3:
            nodes.remove_node(name)
        else:
            labels = rng.choice([{}, {"disk": "ssd"}])
            nodes.put_node(objects.make_node(name, labels=labels, ready=rng.random() < 0.7), reservations.Load())
            nodes.put_advertisement(objects.make_advertisement(name, rng.uniform(0, 3)), NOW_S)
        view = nodes.snapshot(NOW_S)
        updated, computed = kept.explain(view, demand), cycle.Cycle(nodes.policy).explain(view, demand)
        assert updated.values.tolist() == computed.values.tolist()
        assert updated.refused == computed.refused
        assert sum(computed.refused.values()) + int((computed.values > float("-inf")).sum()) == view.count


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(seed=st.integers(0, 2**32), pods=st.integers(0, 60), threshold=st.sampled_from([0.5, 1.0, 2.0]))
def test_no_node_is_ever_given_more_than_it_said(seed: int, pods: int, threshold: float) -> None:
    rng = random.Random(seed)
    rules = policy.Policy(threshold=threshold, score=rng.choice(list(policy.ScoreMode)))
    rooms = {f"node-{index}": rng.uniform(0, 9) for index in range(rng.randint(1, 9))}
    outcome = run(make_fleet(rooms, rules), make_mixed_queue(pods, rng))
    given = collections.Counter(each.row.node.name for each in outcome.placed)
    for each in outcome.placed:
        assert each.free is not None
        assert each.free >= threshold
    for name, count in given.items():
        assert rooms[name] - (count - 1) >= threshold
    if outcome.unplaced:
        assert all(room - given[name] < threshold for name, room in rooms.items())
    else:
        assert len(outcome.placed) == pods


def test_a_record_names_the_chosen_node_first_and_the_best_of_the_rest() -> None:
    nodes = make_fleet({f"node-{index:03d}": 1.0 + index / 100 for index in range(200)})
    nodes.put_node(objects.make_node("down", ready=False), reservations.Load())
    for placement in run(nodes, make_queue(150)).placed:
        found = explain.candidates_of(placement.scores, placement.others, (placement.row, placement.score))
        assert found[0].node == placement.row.node.name
        assert found[0].capacity is not None
        assert found[0].capacity - found[0].reserved == pytest.approx(placement.free)
        assert len(found) == scoring.SEEN_MAX
        assert len({each.node for each in found}) == scoring.SEEN_MAX
        scores = [each.score for each in found if each.score is not None]
        assert scores == sorted(scores, reverse=True)
        assert len(scores) == scoring.SEEN_MAX, "with so many nodes free, none that is refused is shown"


def test_why_a_pod_fits_nowhere_is_one_line() -> None:
    nodes = make_fleet({"node-1": 0.4, "node-2": 0.2})
    nodes.put_node(objects.make_node("node-3", ready=False), reservations.Load())
    board = cycle.Cycle(nodes.policy).explain(nodes.snapshot(NOW_S), demands.Demand())
    candidates = explain.candidates_of(board, board.seen())
    assert explain.why_unplaced(board.refused, 3, candidates) == (
        "0/3 nodes fit: 2 at capacity (node-1: 0.4 free of threshold 1, 0 reserved), 1 not ready (node-3: not ready)"
    )
    assert [each.rejection.reason for each in candidates if each.rejection] == [
        decision.Reason.CAPACITY, decision.Reason.CAPACITY, decision.Reason.NOT_READY,
    ]  # fmt: skip


@pytest.mark.parametrize(("room", "chosen"), [(1.0, "named"), (0.9, "roomy")])
def test_the_node_that_a_pods_status_names_is_tried_first(room: float, chosen: str) -> None:
    nodes = make_fleet({"roomy": 9.0, "named": room})
    assert [each.row.node.name for each in run(nodes, make_queue(1, nominated_node="named")).placed] == [chosen]
    assert [each.row.node.name for each in run(nodes, make_queue(1, nominated_node="gone")).placed] == ["roomy"]


def test_room_that_is_held_for_a_nominee_goes_to_no_pod_that_comes_after_it() -> None:
    def placed(*pods: tuple[str, int], nominee: int, created_at_s: float = 0.0) -> list[str]:
        nodes, source = make_fleet({"a": 1.0}), queue.Queue(random.Random(0))
        for name, priority in pods:
            source.offer(objects.make_pod(name, priority=priority, image=name), NOW_S)
        wanted = demands.demand_of(objects.make_pod("nominee", image="nominee"))
        held = [cycle.Nominee("uid-nominee", (-nominee, created_at_s, "uid-nominee"), 0, wanted)]
        outcome = cycle.Cycle(nodes.policy).run(nodes.snapshot(NOW_S), source, most=10, nominees=held)
        return [each.waiting.pod.name for each in outcome.placed]

    assert placed(("low", 0), nominee=5) == []
    assert placed(("equal", 5), nominee=5, created_at_s=-1.0) == [], "else small Pods starve a large one"
    assert placed(("equal", 5), nominee=5, created_at_s=1.0) == ["equal"]
    assert placed(("low", 0), ("high", 9), nominee=5) == ["high"]
    assert placed(("low", 0), ("nominee", 5), nominee=5) == ["nominee"]


_PORT = constraints.HostPort(address="0.0.0.0", protocol="TCP", port=80)
_DISK = constraints.ExclusiveDisk(kind="gce", names=("disk",), read_only=False)


@pytest.mark.parametrize(
    "limits", [constraints.Constraints(host_ports=(_PORT,)), constraints.Constraints(disks=(_DISK,))]
)
def test_host_ports_and_disks_of_a_nominee_go_to_no_pod_that_comes_after_it(limits: constraints.Constraints) -> None:
    def placed(*pods: cluster.Pod) -> dict[str, str]:
        nodes, source = make_fleet({"a": 9.0, "b": 2.0}), queue.Queue(random.Random(0))
        for pod in pods:
            source.offer(pod, NOW_S)
        wanted = objects.make_pod("nominee", priority=5, image="nominee", constraints=limits)
        held = [cycle.Nominee(wanted.uid, queue.key_of(wanted), 0, demands.demand_of(wanted), wanted)]
        outcome = cycle.Cycle(nodes.policy).run(nodes.snapshot(NOW_S), source, most=10, nominees=held)
        return {each.waiting.pod.name: each.row.node.name for each in outcome.placed}

    low = [objects.make_pod(f"low-{index}", image="low", constraints=limits) for index in range(2)]
    assert placed(*low) == {"low-0": "b"}, "a replacement of what was evicted would take it again"
    assert placed(objects.make_pod("plain")) == {"plain": "a"}
    assert placed(low[0], objects.make_pod("high", priority=9, constraints=limits)) == {"high": "a", "low-0": "b"}


def test_a_nominee_counts_for_the_spread_of_pods_that_come_after_it_as_long_as_it_may_not_come() -> None:
    app = (selectors.Requirement(key="app", operator=selectors.IN, values=("web",)),)
    zones = constraints.Spread(namespace="default", topology_key="zone", selector=app, max_skew=1)
    nodes = fleet.Fleet(policy.Policy())
    for index in range(4):
        name = f"node-{index}"
        nodes.put_node(objects.make_node(name, labels={"zone": f"z{index % 2}"}), reservations.Load())
        nodes.put_advertisement(objects.make_advertisement(name, 9.0 - index), NOW_S)

    def placed(count: int, *nominee_slots: int) -> list[str]:
        limits = constraints.Constraints(spreads=(zones,))
        source, held = queue.Queue(random.Random(0)), []
        for index in range(count):
            source.offer(objects.make_pod(f"low-{index}", labels={"app": "web"}, constraints=limits), NOW_S)
        for slot in nominee_slots:
            wanted = objects.make_pod(f"nominee-{slot}", priority=5, labels={"app": "web"}, constraints=limits)
            held.append(cycle.Nominee(wanted.uid, queue.key_of(wanted), slot, demands.demand_of(wanted), wanted))
        outcome = cycle.Cycle(nodes.policy).run(nodes.snapshot(NOW_S), source, most=10, nominees=held)
        return [each.row.node.labels["zone"] for each in outcome.placed]

    assert placed(1) == ["z0"], "where most room is"
    assert placed(1, 2) == ["z1"], "the nominee fills z0, and would not fit there after this one"
    assert placed(3, 2) == ["z1", "z0", "z1"], "the emptier zone with the nominee and without it"
    assert placed(1, 2, 3) == ["z0"], "any zone fits, whether the two come or not"


def test_no_node_is_scored_for_each_of_many_demands_while_the_cluster_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    scored, real = [], masks.NodeMasks.of

    def counted(*args: object) -> masks.NodeMask:
        scored.append(args)
        return real(*args)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(masks.NodeMasks, "of", counted)
    source = queue.Queue(random.Random(0))
    for index in range(100):
        owner = cluster.Owner(kind="Job", name=f"job-{index}x", uid=f"u{index}")
        source.offer(objects.make_pod(f"pod-{index}", request_cores=0.1 + index / 1000.0, owner=owner), NOW_S)
    outcome = run(make_fleet({"a": 0.5, "b": 1.0}), source)
    assert (len(outcome.placed), len(outcome.unplaced)) == (1, 99)
    assert len(scored) == 2, "the one that was placed, and the first that was not"


def test_demands_that_fit_nowhere_cost_later_placements_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scores of each were kept to the end of the cycle, and brought up to date after each placement."""
    updated, real = [], scoring.Scores.update

    def counted(each: scoring.Scores, *args: object) -> bool:
        updated.append(each)
        return real(each, *args)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(scoring.Scores, "update", counted)
    source = queue.Queue(random.Random(0))
    for index in range(100):
        source.offer(objects.make_pod(f"vain-{index}", priority=1, node_selector={"no": f"{index}"}), NOW_S)
    for index in range(20):
        source.offer(objects.make_pod(f"pod-{index}"), NOW_S)
    outcome = run(make_fleet({"a": 50.0}), source)
    assert (len(outcome.placed), len(outcome.unplaced)) == (20, 100)
    assert len(updated) <= 20


def many_demands(rng: random.Random) -> queue.Queue:
    source = queue.Queue(random.Random(0))
    for index in range(rng.randrange(60)):
        owner = cluster.Owner(kind="Job", name=rng.choice("abcdefgh"), uid="u")
        source.offer(
            objects.make_pod(
                f"pod-{index}", priority=rng.randrange(3), owner=owner, request_cores=rng.choice([0.0, 0.5, 3.0]),
                node_selector=rng.choice([{}, {"disk": "ssd"}]),
            ),
            NOW_S,
        )  # fmt: skip
    return source


def some_full(rng: random.Random) -> fleet.Fleet:
    nodes = fleet.Fleet(policy.Policy())
    for index in range(rng.choice([1, 4, cycle_scores.ROOMY_MOST, 3 * cycle_scores.ROOMY_MOST])):
        name = f"node-{index}"
        labels = rng.choice([{}, {"disk": "ssd"}])
        nodes.put_node(objects.make_node(name, labels=labels, unschedulable=rng.random() < 0.2), reservations.Load())
        named = {
            f"Job/default/{key}": messages.ClassCapacity(cost_plus={"cpu": rng.choice([0.5, 1.0, 4.0])}, pods=1)
            for key in rng.sample("abc", rng.randrange(4))
        }
        general = {"*": messages.ClassCapacity(cost_plus={"cpu": 1.0}, pods=1)}
        said = objects.make_advertisement(name, headroom={"cpu": rng.choice([0.2, 0.9, 2.0])}, classes=named | general)
        nodes.put_advertisement(said, NOW_S - 0.1)
    return nodes


@pytest.mark.parametrize("seed", range(40))
def test_a_cycle_decides_the_same_with_scores_for_each_demand(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def decided() -> list[object]:
        rng = random.Random(seed)
        nodes, source = some_full(rng), many_demands(rng)
        held = [(slot, demands.Demand(pod_class="other"), None) for slot in range(len(nodes)) if rng.random() < 0.3]
        outcome = cycle.Cycle(nodes.policy).run(nodes.snapshot(NOW_S), source, most=1000, held=held)
        placed = ((each.waiting.pod.name, each.row.slot, each.free, each.refused) for each in outcome.placed)
        return [*placed, *(each.pod.name for each in outcome.unplaced)]

    found = decided()
    monkeypatch.setattr(cycle_scores.CycleScores, "may_have_room", lambda *_: True)
    monkeypatch.setattr(cycle_scores.CycleScores, "forget", lambda *_: None)
    assert found == decided()
