"""What every adapter of Pod events keeps: who runs, who ended within a minute, and when the runtime is at work."""

import itertools

import hypothesis
from hypothesis import strategies

from carico_agent.pod_events import pod_states
from carico_core.domain import recording


def test_a_life() -> None:
    book = pod_states.PodStates()
    told: list[frozenset[str]] = []
    book.on_change(lambda: told.append(book.current(10.0).running))
    book.created("a", 10.0)
    book.started("a", 11.0)
    book.started("a", 11.5)
    book.ended("a", 12.0)
    book.ended("a", 12.5)
    book.removed("a", 13.0)
    assert told == [frozenset({"a"}), frozenset()]
    assert book.current(71.9).ended == {"a"}
    assert book.current(72.0).ended == frozenset()


def test_holds_from_create_to_start_and_from_exit_to_removal() -> None:
    book = pod_states.PodStates()
    book.created("a", 0.0)
    assert book.current(5.0).holding
    book.ended("a", 5.0)
    assert book.current(6.0).holding, "empty is not ended before it has started"
    book.started("a", 10.0)
    assert book.current(10.09).holding
    assert not book.current(10.11).holding
    book.ended("a", 20.0)
    assert book.current(22.0).holding
    book.removed("a", 23.0)
    assert book.current(23.29).holding
    assert not book.current(23.31).holding


def test_what_never_starts_or_is_never_removed_does_not_hold_for_ever() -> None:
    book = pod_states.PodStates()
    book.created("a", 0.0)
    book.started("b", 0.0)
    book.ended("b", 1.0)
    assert book.current(29.0).holding
    assert not book.current(31.5).holding


def test_a_container_that_starts_again() -> None:
    book = pod_states.PodStates()
    book.started("a", 0.0)
    book.ended("a", 1.0)
    book.started("a", 2.0)
    now = book.current(3.0)
    assert now.running == {"a"}
    assert not now.ended
    assert not now.holding


def test_ends_are_kept_in_a_bounded_number_newest_first() -> None:
    book = pod_states.PodStates()
    for index in range(pod_states.ENDED_MOST + 10):
        book.started(str(index), 1.0)
        book.removed(str(index), 1.0)
    ended = book.current(2.0).ended
    assert len(ended) == pod_states.ENDED_MOST
    assert "0" not in ended
    assert str(pod_states.ENDED_MOST + 9) in ended


VERBS = strategies.sampled_from(("created", "started", "ended", "removed"))


@hypothesis.given(strategies.lists(strategies.tuples(VERBS, strategies.sampled_from("abc"), strategies.floats(0, 5))))
# Removed once more a minute later.
@hypothesis.example([("removed", "a", 5.0), *[("created", "a", 5.0)] * 11, ("removed", "a", 5.0)])
def test_in_any_order_nothing_is_both_and_each_change_is_reported(steps: list[tuple[str, str, float]]) -> None:
    book, now_s = pod_states.PodStates(), 0.0
    told: list[frozenset[str]] = [frozenset()]
    book.on_change(lambda: told.append(book.current(now_s).running))
    for verb, uid, dt_s in steps:
        now_s += dt_s
        getattr(book, verb)(uid, now_s)
        now = book.current(now_s)
        assert not now.running & now.ended
        assert told[-1] == now.running
        if verb == "removed":
            assert uid in now.ended
            assert uid not in book.known()
    assert not book.current(now_s + 100.0).holding
    assert all(first != second for first, second in itertools.pairwise(told))


STEPS = strategies.lists(
    strategies.tuples(
        strategies.sampled_from(["created", "started", "ended", "removing", "settled", "removed"]),
        strategies.sampled_from("abc"),
        strategies.floats(0.0, 40.0),
    ),
    max_size=40,
)


@hypothesis.given(STEPS)
def test_ledgers_of_the_same_events_are_equal(steps: list[tuple[str, str, float]]) -> None:
    book, copy, told = pod_states.PodStates(), pod_states.PodStates(), list[recording.PodEvent]()
    book.on_event(lambda kind, uid, now_s: told.append(recording.PodEvent(at_s=now_s, kind=kind, uid=uid)))
    now_s = 0.0
    for verb, uid, pause_s in steps:
        now_s += pause_s
        getattr(book, verb)(uid, now_s)
        for event in told:
            copy.take(event)
        told.clear()
        for later_s in (0.0, 0.2, 31.0):
            assert copy.current(now_s + later_s) == book.current(now_s + later_s)


def test_what_changes_nothing_is_not_reported() -> None:
    book, told = pod_states.PodStates(), list[recording.EventKind]()
    book.on_event(lambda kind, uid, now_s: told.append(kind))
    for now_s in (1.0, 2.0):
        book.created("a", now_s)
    for now_s in (3.0, 4.0):
        book.started("a", now_s)
    for now_s in (5.0, 6.0):
        book.ended("a", now_s)
    for now_s in (7.0, 8.0):
        book.removed("a", now_s)
    assert [kind.value for kind in told] == ["created", "started", "ended", "removed"]


def test_a_pod_whose_sandbox_stays_is_accounted_for_as_long() -> None:
    # Between two restarts of a container that fails minutes may pass: its node must not seem to have lost the Pod.
    kept = pod_states.PodStates()
    kept.started("a", 0.0)
    kept.ended("a", 1.0)
    assert kept.current(300.0).ended == {"a"}
    kept.removed("a", 301.0)
    assert kept.current(302.0).ended == {"a"}
    assert kept.current(362.0).ended == frozenset()


def test_a_sandbox_at_rest_is_not_held() -> None:
    book = pod_states.PodStates()
    book.started("a", 0.0)
    book.ended("a", 1.0)
    assert book.current(1.2).holding
    book.settled("a", 1.2)
    assert book.current(1.49).holding and not book.current(1.51).holding
    assert book.current(300.0).ended == {"a"}
    book.removing("a", 300.0)
    assert book.current(301.0).holding
    book.removed("a", 301.0)
    assert not book.current(301.31).holding


def test_what_was_not_ending_cannot_settle() -> None:
    book = pod_states.PodStates()
    book.settled("nobody", 1.0)
    book.created("b", 2.0)
    book.settled("b", 2.1)
    book.started("c", 3.0)
    book.settled("c", 3.1)
    now = book.current(3.2)
    assert now.running == {"c"} and not now.ended and now.holding
    assert book.known() == {"b", "c"}


def test_ends_are_in_order_and_what_is_still_on_the_node_comes_last() -> None:
    book = pod_states.PodStates()
    names = [f"uid-{number}" for number in range(300)]
    book.started("crashes", 0.0)
    book.ended("crashes", 0.0)
    for at_s, uid in enumerate(names):
        book.started(uid, at_s / 10)
        book.ended(uid, at_s / 10)
        book.removed(uid, at_s / 10)
    assert list(book.current(31.0).ended) == [*names, "crashes"]
