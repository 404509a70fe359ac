"""A Pod is reserved exactly while it counts on a node and no advertisement covers it."""

import math
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from carico_scheduler.pods import reservations
from carico_scheduler.rules import policy
from tests.unit.scheduler import objects


def booking(
    name: str, node: str = "node-0", *, at_s: float = 0.0, is_baseline: bool = False, **pod: object
) -> reservations.Booking:
    made = objects.make_pod(name, **pod)
    return reservations.booking_of(made, node=node, now_s=at_s, is_baseline=is_baseline)


class Book(reservations.Reservations):
    """A ledger with the bookings by UID, which the Pods' records hold otherwise."""

    def __init__(self, release: policy.Release = policy.Release.COVERS) -> None:
        super().__init__(release)
        self.bookings: dict[str, reservations.Booking] = {}

    def put(self, made: reservations.Booking) -> bool:
        """True where it changed anything."""
        old = self.bookings.get(made.uid)
        self.bookings[made.uid] = self.place(made, old)
        return self.bookings[made.uid] is not old

    def end(self, uid: str) -> None:
        found = self.bookings.pop(uid, None)
        if found is not None:
            self.remove(found)


def test_reserved_from_the_decision_until_covered() -> None:
    ledger = Book()
    ledger.put(booking("a", at_s=5.0))
    assert ledger.load("node-0").reserved == 1
    # Its image may still be on its way: that it is not covered yet says nothing about the node.
    assert ledger.load("node-0").uncovered_since_s == math.inf
    ledger.put(booking("a", at_s=6.0, phase="Running"))
    assert ledger.load("node-0").uncovered_since_s == 6.0
    ledger.put(booking("a", at_s=8.0, phase="Running"))
    assert ledger.load("node-0").uncovered_since_s == 6.0
    assert ledger.cover("node-0", frozenset({"uid-a"}), 7.0)
    assert ledger.load("node-0").reserved == 0
    assert ledger.load("node-0").placed == 1


def test_the_same_booking_again_changes_nothing() -> None:
    ledger = Book()
    assert ledger.put(booking("a", at_s=1.0))
    assert not ledger.put(booking("a", at_s=2.0))


def test_a_new_boot_decides_again() -> None:
    ledger = Book()
    ledger.put(booking("a", phase="Running"))
    ledger.cover("node-0", frozenset({"uid-a"}), 1.0)
    ledger.cover("node-0", frozenset(), 50.0)
    assert ledger.load("node-0").reserved == 1
    assert ledger.load("node-0").uncovered_since_s == 50.0


def test_a_pod_bound_by_another_is_reserved_too_and_covers_come_first() -> None:
    ledger = Book()
    ledger.cover("node-0", frozenset({"uid-known"}), 1.0)
    ledger.put(booking("known"))
    ledger.put(booking("foreign", scheduler_name="default-scheduler"))
    assert [each.uid for each, _ in ledger.reserved()] == ["uid-foreign"]


def test_baseline_pods_take_room_and_are_never_reserved() -> None:
    ledger = Book()
    ledger.put(booking("agent", is_baseline=True, request_cores=0.5))
    load = ledger.load("node-0")
    assert (load.placed, load.workloads, load.reserved, load.used_cores) == (1, 0, 0, 0.5)


def test_a_booking_that_moves_leaves_nothing_behind() -> None:
    ledger = Book()
    ledger.put(booking("a", "node-0"))
    assert ledger.put(booking("a", "node-1"))
    assert ledger.load("node-0") == reservations.Load()
    assert ledger.load("node-1").reserved == 1


def test_paper_mode_releases_when_the_pod_leaves_pending() -> None:
    ledger = Book(policy.Release.PAPER)
    ledger.put(booking("a"))
    ledger.cover("node-0", frozenset({"uid-a"}), 1.0)
    assert ledger.load("node-0").reserved == 1
    ledger.put(booking("a", phase="Running"))
    assert ledger.load("node-0").reserved == 0


def test_a_node_that_left_covers_nothing() -> None:
    ledger = Book()
    ledger.put(booking("a"))
    ledger.cover("node-0", frozenset({"uid-a"}), 1.0)
    ledger.forget_node("node-0")
    assert ledger.load("node-0").reserved == 1


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, False),
        ({"request_cores": 0.4}, True),
        ({"request_cores": 0.6}, False),
        ({"request_bytes": 99.0}, True),
        ({"request_bytes": 101.0}, False),
        ({"request_others": ()}, True),
        ({"image": "other"}, True),
        ({"is_baseline": True}, True),
    ],
)
def test_what_leaves_room_in_the_place_of_another(changes: dict[str, Any], expected: bool) -> None:
    asked: dict[str, Any] = {
        "request_cores": 0.5, "request_bytes": 100.0, "request_others": (("gpu", 1.0),), "image": "pi",
    }  # fmt: skip
    old = booking("a", **asked)
    assert reservations.is_lighter(booking("a", **(asked | changes)), old) is expected
    assert reservations.is_lighter(booking("a", "node-1", **asked), old)
    baseline = booking("a", is_baseline=True, **asked)
    assert not reservations.is_lighter(baseline, baseline)


def waiting(ledger: reservations.Reservations) -> list[tuple[str, float]]:
    return [(each.uid, since_s) for each, since_s in ledger.reserved()]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("place"), st.integers(0, 5), st.integers(0, 2)),
        st.tuples(st.just("remove"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("cover"), st.sets(st.integers(0, 5)), st.integers(0, 2)),
    ),
    max_size=40,
)


@hypothesis.given(steps=STEPS)
def test_reserved_is_placed_less_covered_after_any_history(steps: list[tuple[str, object, int]]) -> None:
    ledger = Book()
    placed: dict[str, str] = {}
    covers: dict[str, frozenset[str]] = {}
    for now_s, (verb, what, where) in enumerate(steps):
        node = f"node-{where}"
        if verb == "place":
            ledger.put(booking(f"{what}", node, at_s=float(now_s)))
            placed[f"uid-{what}"] = node
        elif verb == "remove":
            ledger.end(f"uid-{what}")
            placed.pop(f"uid-{what}", None)
        else:
            assert isinstance(what, set)
            covers[node] = frozenset(f"uid-{each}" for each in what)
            before = dict(waiting(ledger))
            assert ledger.cover(node, covers[node], float(now_s)) == (dict(waiting(ledger)) != before)
    expected = {(uid, node) for uid, node in placed.items() if uid not in covers.get(node, frozenset())}
    assert {(each.uid, each.node) for each, _ in ledger.reserved()} == expected
    assert {uid for uid in placed if ledger.is_reserved(ledger.bookings[uid])} == {uid for uid, _ in expected}
    assert ledger.reserved_count == len(expected)
    assert len(ledger) == len(placed)
    for node in ("node-0", "node-1", "node-2"):
        assert ledger.load(node).placed == sum(each == node for each in placed.values())
