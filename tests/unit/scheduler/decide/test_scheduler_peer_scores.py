"""Scores follow each placement within a cycle, by single nodes where that is enough, as if computed from nothing."""

import collections
import random
import zlib

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from carico_core.domain import cluster
from carico_scheduler.decide import cycle
from carico_scheduler.decide import scores as scoring
from carico_scheduler.nodes import fleet
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import queue, reservations
from carico_scheduler.rules import policy, preferences
from tests.unit.scheduler import objects

NOW_S = 1000.0
WANTED = cluster.Images(("web:1",), 1)


def taint(key: str) -> cluster.Taint:
    return cluster.Taint(key=key, value="", effect="PreferNoSchedule")


def make_fleet(rng: random.Random, count: int) -> fleet.Fleet:
    nodes = fleet.Fleet(policy.Policy())
    for index in range(count):
        name = f"node-{index}"
        taints = tuple(taint(key) for key in ("a", "b") if rng.random() < 0.3)
        images = (cluster.NodeImage(("web:1",), 500 * 2**20),) if rng.random() < 0.3 else ()
        nodes.put_node(objects.make_node(name, taints=taints, images=images), reservations.Load())
        nodes.put_advertisement(objects.make_advertisement(name, rng.choice([0.5, 1.5, 2.0, 3.7])), NOW_S)
    return nodes


def make_queue(rng: random.Random, count: int) -> queue.Queue:
    source = queue.Queue(random.Random(0))
    for index in range(count):
        tolerations = (cluster.Toleration(key="a", operator="Exists", value="", effect=""),)
        pod = objects.make_pod(
            f"pod-{index}", request_cores=rng.choice([0.0, 0.7]), images=rng.choice([None, WANTED]),
            tolerations=rng.choice([(), tolerations]),
        )  # fmt: skip
        source.offer(pod, NOW_S)
    return source


@hypothesis.settings(max_examples=100, deadline=None)
@hypothesis.given(seed=st.integers(0, 2**32))
def test_each_pod_goes_where_scores_computed_again_send_it(seed: int) -> None:
    rng = random.Random(seed)
    nodes = make_fleet(rng, rng.randint(1, 9))
    view, source, cycles = nodes.snapshot(NOW_S), make_queue(rng, 25), cycle.Cycle(nodes.policy)
    found = cycles.run(view, source, most=25).placed
    placed = [(each.row.slot, each.waiting.pod, each.waiting.demand) for each in found]
    for number, each in enumerate(found):
        fresh = cycles.explain(view, each.waiting.demand, placed=placed[:number])
        assert each.row.slot == fresh.best(each.waiting.pod.uid)
        assert each.score == fresh.values[each.row.slot]
        assert each.refused == fresh.refused
        assert each.others.scores == fresh.seen().scores


@hypothesis.settings(max_examples=30, deadline=None)
@hypothesis.given(seed=st.integers(0, 2**32), kinds=st.sampled_from([1, 3, 1000]))
def test_each_pod_gets_the_best_of_many_nodes(seed: int, kinds: int) -> None:
    rng = random.Random(seed)
    nodes = fleet.Fleet(policy.Policy())
    for index in range(rng.choice([scoring.SHORTLIST, 2 * scoring.SHORTLIST])):
        nodes.put_node(objects.make_node(f"node-{index}"), reservations.Load())
        room = 1.0 + rng.randrange(kinds) / kinds
        nodes.put_advertisement(objects.make_advertisement(f"node-{index}", room), NOW_S)
    view, source, cycles = nodes.snapshot(NOW_S), queue.Queue(random.Random(0)), cycle.Cycle(nodes.policy)
    for index in range(3 * scoring.SHORTLIST):
        source.offer(objects.make_pod(f"pod-{index}"), NOW_S)
    found = cycles.run(view, source, most=3 * scoring.SHORTLIST).placed
    assert len(found) == view.count
    placed = [(each.row.slot, each.waiting.pod, each.waiting.demand) for each in found]
    for number, each in enumerate(found):
        values = cycles.explain(view, each.waiting.demand, placed=placed[:number]).values
        equals = np.flatnonzero(values == values.max())
        assert each.row.slot == equals[zlib.crc32(each.waiting.pod.uid.encode()) % len(equals)]


def test_a_preference_over_nodes_is_computed_once_for_all_pods_of_a_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[int] = []
    lean = preferences.Preferences.lean

    def counted(self: preferences.Preferences, *scores: np.ndarray) -> np.ndarray:
        computed.append(1)
        return lean(self, *scores)

    monkeypatch.setattr(preferences.Preferences, "lean", counted)
    nodes = fleet.Fleet(policy.Policy())
    for index in range(20):
        taints = (taint("a"),) if index < 3 else ()
        nodes.put_node(objects.make_node(f"node-{index}", taints=taints), reservations.Load())
        nodes.put_advertisement(objects.make_advertisement(f"node-{index}", 2.0), NOW_S)
    source = queue.Queue(random.Random(0))
    for index in range(30):
        source.offer(objects.make_pod(f"pod-{index}"), NOW_S)
    placed = cycle.Cycle(nodes.policy).run(nodes.snapshot(NOW_S), source, most=30).placed
    assert collections.Counter(each.row.slot for each in placed).most_common(1)[0][1] == 2, "nodes fill up meanwhile"
    assert len(computed) == 1


def test_a_taint_costs_no_second_set_of_scores() -> None:
    """With one such node each placement brought two scores up to date, for all Pods that do not tolerate it."""
    nodes = fleet.Fleet(policy.Policy())
    for index in range(20):
        taints = (taint("a"),) if index in (3, 7) else ()
        nodes.put_node(objects.make_node(f"node-{index}", taints=taints), reservations.Load())
        nodes.put_advertisement(objects.make_advertisement(f"node-{index}", 2.0), NOW_S)
    found = cycle.Cycle(nodes.policy).explain(nodes.snapshot(NOW_S), demands.Demand())
    assert isinstance(found, scoring.Scores)
    assert found.values[3] == found.values[7] == 0.5 * found.values[0]


@hypothesis.settings(max_examples=100, deadline=None)
@hypothesis.given(
    seed=st.integers(0, 2**32), count=st.integers(1, 3000), share=st.sampled_from([0.001, 0.05, 0.5, 1.0])
)
def test_the_nodes_in_a_record_are_the_best(seed: int, count: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    values = np.where(
        rng.random(count) < share, rng.choice([rng.random(count), np.round(rng.random(count), 1)]), -np.inf
    )
    found = scoring.not_low(values)
    assert set(found.tolist()) <= set(np.flatnonzero(values > -np.inf).tolist())
    best = np.sort(values[values > -np.inf])[::-1][: scoring.SHORTLIST]
    assert np.sort(values[found])[::-1][: scoring.SHORTLIST].tolist() == best.tolist()
