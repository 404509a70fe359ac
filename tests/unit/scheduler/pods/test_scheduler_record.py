"""A Pod's record: its states, and what is kept of Pods that are gone."""

import itertools

import pytest

from carico_scheduler.pods import record

POSSIBLE = {
    "UNSEEN": "OTHERS WAITING ASSUMED BOUND GONE",
    "OTHERS": "WAITING ASSUMED BOUND GONE",
    "WAITING": "OTHERS ASSUMED BOUND GONE",
    "ASSUMED": "UNSEEN OTHERS WAITING BINDING BOUND GONE",
    "BINDING": "UNSEEN OTHERS WAITING BOUND GONE",
    "BOUND": "COVERED GONE",
    "COVERED": "BOUND GONE",
    "GONE": "",
}


@pytest.mark.parametrize(("before", "after"), list(itertools.product(record.PodState, record.PodState)))
def test_a_step_that_is_not_in_the_drawing_is_refused(before: record.PodState, after: record.PodState) -> None:
    made = record.Record(uid="uid", state=before)
    if after.name in POSSIBLE[before.name].split():
        assert made.step(after) is before
        assert made.state is after
        return
    with pytest.raises(record.ImpossibleStep, match=f"{before.name} cannot become {after.name}"):
        made.step(after)
    assert made.state is before


def test_a_pod_counts_in_the_states_between_its_decision_and_its_end_alone() -> None:
    placed = {state.name for state in record.PodState if record.Record(uid="uid", state=state).is_placed}
    assert placed == {"ASSUMED", "BINDING", "BOUND", "COVERED"}


def test_uids_of_pods_that_are_gone_are_bounded() -> None:
    table = record.Records()
    for index in range(record.GONE_KEPT + 10):
        table.bury(f"uid-{index}")
    assert not table.is_gone("uid-9")
    assert table.is_gone("uid-10")
