"""Many classes and demands at once: what is in use stays worked out, and what is kept is bounded."""

import dataclasses
import random
from collections.abc import Iterable, Iterator, Set
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from carico_core.domain import constraints, messages, selectors
from carico_scheduler.decide import masks
from carico_scheduler.nodes import fleet, headroom, lru
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import reservations
from carico_scheduler.rules import admission, policy, registry
from tests.unit.scheduler import objects

NOW_S = 1000.0


def make_fleet(nodes: int = 3) -> fleet.Fleet:
    made = fleet.Fleet(policy.Policy())
    for index in range(nodes):
        made.put_node(objects.make_node(f"node-{index}"), reservations.Load())
        made.put_advertisement(objects.make_advertisement(f"node-{index}", 2.0), NOW_S)
    return made


def test_the_one_used_longest_ago_gives_way_alone() -> None:
    kept: lru.Lru[str, int] = lru.Lru()
    for number, key in enumerate("abc"):
        kept.put(key, number, most=3)
    assert kept.get("a") == 0
    kept.put("d", 3, most=3)
    assert list(kept) == ["c", "a", "d"]
    assert kept.get("b") is None


def test_classes_in_use_stay_worked_out_when_more_come_than_are_kept() -> None:
    made, jobs = make_fleet(), [f"job-{index}" for index in range(2 * lru.KEPT_MOST)]
    costs = {key: messages.ClassCapacity(cost_plus={"cpu": 1.0}, pods=1) for key in ("in-use", *jobs)}
    made.put_advertisement(objects.make_advertisement("node-0", headroom={"cpu": 2.0}, classes=costs), NOW_S)
    in_use = made.free("in-use")
    for each in jobs:
        made.free(each)
        assert made.free("in-use") is in_use
    assert len(made._free) == lru.KEPT_MOST


def test_demands_in_use_keep_their_masks_when_more_come_than_are_kept() -> None:
    made = make_fleet()
    view, stages, kept = made.snapshot(NOW_S), registry.by_capacity(made.policy), masks.NodeMasks()
    in_use = kept.of(demands.Demand(), view, stages)
    for index in range(2 * lru.KEPT_MOST):
        kept.of(demands.Demand(pod_class=f"job-{index}"), view, stages)
        assert kept.of(demands.Demand(), view, stages) is in_use
    assert len(kept._cached) == lru.KEPT_MOST


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(seed=st.integers(0, 2**32))
def test_what_a_node_admits_is_what_its_rows_say_of_each_class(seed: int) -> None:
    rng = random.Random(seed)
    made = make_fleet(1)
    costs = {key: {"cpu": rng.uniform(0.1, 3.0)} for key in ("a", "b", messages.ANY_CLASS) if rng.random() < 0.7}
    classes = {key: messages.ClassCapacity(cost_plus=cost, pods=1) for key, cost in costs.items()}
    more = {"limit": rng.choice([None, 3, 6])} if rng.random() < 0.8 else {"headroom": None}
    advertisement = objects.make_advertisement(
        "node-0",
        rng.uniform(0.0, 4.0),
        **{"pods": rng.randrange(3), "headroom": {"cpu": 2.0}, "classes": classes, **more},
    )
    made.put_advertisement(advertisement, NOW_S)
    count = rng.randrange(3)
    made.put_load("node-0", reservations.Load(placed=count, workloads=count, reserved=count, classes={"a": count}))
    asked = frozenset(rng.sample(("a", "b", "c", "d"), rng.randrange(5)))
    row = made.row(0, NOW_S)
    admitted = admission.admits(row, asked)
    assert {key for key in asked if key in admitted} == {key for key in asked if row.free(key) >= 1.0}


@pytest.mark.parametrize(("age_s", "uncovered_s", "admits"), [(4.9, 29.0, True), (5.1, 0.0, False), (0.0, 31.0, False)])
def test_a_node_that_is_not_believed_admits_nothing(age_s: float, uncovered_s: float, admits: bool) -> None:
    made = make_fleet(1)
    made.put_advertisement(objects.make_advertisement(capacity=2.0), NOW_S - age_s)
    made.put_load("node-0", reservations.Load(uncovered_since_s=NOW_S - uncovered_s))
    assert ("a" in admission.admits(made.row(0, NOW_S), frozenset("a"))) is admits


class Counted(Set[str]):
    """A set that counts how many of its elements were looked at in turn."""

    def __init__(self, elements: Iterable[str]) -> None:
        self._elements = frozenset(elements)
        self.yielded = 0

    def __contains__(self, each: object) -> bool:
        return each in self._elements

    def __len__(self) -> int:
        return len(self._elements)

    def __iter__(self) -> Iterator[str]:
        for each in self._elements:
            self.yielded += 1
            yield each


def test_a_thousand_jobs_that_a_node_does_not_know_cost_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each node asks twice a second: with 10,000 Pods that are classes of their own it took 60 times as long."""
    made = make_fleet(1)
    jobs = Counted(f"job-{index}" for index in range(1000))
    answers = []
    by_dimension = headroom.NodeRoom.by_dimension

    def count(*args: Any) -> list[float]:
        answers.append(args)
        return by_dimension(*args)

    monkeypatch.setattr(headroom.NodeRoom, "by_dimension", count)
    admitted = admission.admits(made.row(0, NOW_S), jobs)
    assert not admitted.has_gained(admission.admits(made.row(0, NOW_S), jobs))
    assert admitted.has_gained(admission.Admitted())
    assert jobs.yielded <= 2 and len(answers) == 2
    assert all(each in admitted for each in jobs)


@hypothesis.settings(max_examples=200, deadline=None)
@hypothesis.given(st.lists(st.tuples(st.sets(st.sampled_from("abcd")), st.booleans()), min_size=4, max_size=4))
def test_a_node_has_gained_if_it_admits_a_class_that_it_did_not_admit(drawn: list[tuple[set[str], bool]]) -> None:
    (named, others), (classes, _), (named_before, others_before), (classes_before, _) = drawn
    after = admission.Admitted(named & classes, named, others)
    before = admission.Admitted(named_before & classes_before, named_before, others_before)
    # What neither names is one more class.
    assert after.has_gained(before) or not any(each in after and each not in before for each in "abcdx")
    if not (others and not others_before):
        assert after.has_gained(before) == any(each in after and each not in before for each in "abcdx")


def test_what_demands_with_many_terms_leave_behind_is_bounded_by_their_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lru, "ENTRIES_MOST", 50_000)
    made, kept = make_fleet(), masks.NodeMasks()
    view, stages = made.snapshot(NOW_S), registry.by_capacity(made.policy)
    terms = [selectors.Requirement(key=f"key-{number}", operator="Exists") for number in range(15)]
    for number in range(lru.KEPT_MOST + 76):
        first = selectors.Requirement(key="number", operator="In", values=(str(number),))
        term = selectors.NodeTerm(labels=(first, *terms))
        limits = dataclasses.replace(
            constraints.NONE, node_terms=(term,), node_preferences=(constraints.NodePreference(weight=1, term=term),)
        )
        kept.of(demands.Demand(constraints=limits), view, stages)
        view.labels.preferred(limits.node_preferences)
    words = constraints.count_words(limits)
    assert len(kept._keys) * words <= lru.ENTRIES_MOST >= len(kept._cached) * words
    assert sum(map(constraints.count_words, view.labels._kept)) <= lru.ENTRIES_MOST
    assert len(kept._cached) > lru.ENTRIES_MOST // words // 2
