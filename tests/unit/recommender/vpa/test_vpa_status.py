"""When the status of a VerticalPodAutoscaler is written, and what."""

from typing import Any

import pytest

from carico_recommender.vpa import advice as advices
from carico_recommender.vpa import status
from tests.unit.recommender import learnt

MIB = learnt.MIB


def update(there: dict[str, Any], known_cpu: float = 0.23, *, at: str = "now", **fields: Any) -> dict[str, Any] | None:
    known = learnt.recommended(cpu=known_cpu, **fields)
    has = status.has_recommendation(there)
    found = advices.advise(learnt.autoscaler(), known, margin=0.15, has_recommendation=has)
    return status.update(there, found, change=0.1, at=at)


def written(there: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    found = update(there or {}, **fields)
    assert found is not None
    return {key: value for key, value in {**(there or {}), **found}.items() if value is not None}


def test_amounts_are_quantities_and_conditions_have_times() -> None:
    assert written() == {
        "conditions": [{"type": "RecommendationProvided", "status": "True", "lastTransitionTime": "now"}],
        "recommendation": {
            "containerRecommendations": [
                {
                    "containerName": "main",
                    "target": {"cpu": "230m", "memory": "115Mi"},
                    "lowerBound": {"cpu": "115m", "memory": "100Mi"},
                    "upperBound": {"cpu": "460m", "memory": "230Mi"},
                    "uncappedTarget": {"cpu": "230m", "memory": "115Mi"},
                }
            ]
        },
    }


def test_a_maximum_that_is_no_whole_mebibyte_is_not_exceeded() -> None:
    one = learnt.autoscaler({"maxAllowed": {"memory": "100M"}})
    found = status.update(
        {}, advices.advise(one, learnt.recommended(), margin=0.15, has_recommendation=False), change=0.1, at="now"
    )
    assert found is not None
    (container,) = found["recommendation"]["containerRecommendations"]
    assert container["target"]["memory"] == "100000000"


@pytest.mark.parametrize(
    ("bound", "expected"), [({"maxAllowed": {"cpu": "220m"}}, "220m"), ({"minAllowed": {"cpu": "235m"}}, "235m")]
)
def test_a_bound_that_is_near_the_target_is_kept_to(bound: dict[str, Any], expected: str) -> None:
    advice = advices.advise(learnt.autoscaler(bound), learnt.recommended(), margin=0.15, has_recommendation=True)
    there = written()
    found = status.update(there, advice, change=0.1, at="now")
    assert found is not None
    assert found["recommendation"]["containerRecommendations"][0]["target"]["cpu"] == expected
    assert status.update({**there, **found}, advice, change=0.1, at="now") is None


@pytest.mark.parametrize(("cpu", "is_written"), [(0.23, False), (0.25, False), (0.254, True), (0.2, True)])
def test_only_a_change_of_more_than_a_tenth_is_written(cpu: float, is_written: bool) -> None:
    assert (update(written(), cpu) is not None) is is_written


def test_bounds_alone_are_compared_more_coarsely() -> None:
    there = written()
    assert update(there, age_s=1.2 * learnt.DAY_S) is None
    assert update(there, age_s=4.0 * learnt.DAY_S) is None
    assert update(there, age_s=0.2 * learnt.DAY_S) is not None


def test_a_target_that_is_kept_is_not_below_a_peak_that_was_seen() -> None:
    there = written()
    for percent in range(100, 140):
        memory = 1.15 * percent * MIB
        if update(there, memory=memory) is None:
            assert percent <= 115


def test_a_container_with_another_name_is_written() -> None:
    found = update(written(), containers=("renamed",))
    assert found is not None
    assert found["recommendation"]["containerRecommendations"][0]["containerName"] == "renamed"


def test_amounts_of_somebody_else_that_cannot_be_read_are_replaced() -> None:
    there = written()
    there["recommendation"]["containerRecommendations"][0]["target"]["cpu"] = "lots"
    assert update(there) is not None


def test_the_time_of_a_condition_changes_with_its_status_alone() -> None:
    first = written(flags=("brief",), at="first")
    assert first["conditions"][0]["lastTransitionTime"] == "first"
    assert "recommendation" not in first
    other_reason = written(first, flags=("two_kinds",), at="second")
    assert other_reason["conditions"][0]["reason"] == "TwoKinds"
    assert other_reason["conditions"][0]["lastTransitionTime"] == "first"
    provided = written(other_reason, at="third")
    assert provided["conditions"] == [
        {"type": "RecommendationProvided", "status": "True", "lastTransitionTime": "third"}
    ]


def test_conditions_of_others_stay_and_ours_that_hold_no_more_go() -> None:
    there = {
        "conditions": [
            {"type": "FetchingHistory", "status": "False"},
            {"type": "NoPodsMatched", "status": "True", "reason": "NoPodsMatched"},
        ]
    }
    assert [each["type"] for each in written(there)["conditions"]] == ["FetchingHistory", "RecommendationProvided"]


def test_a_specification_without_an_answer_removes_the_recommendation() -> None:
    there = written()
    found = status.update(
        there,
        advices.advise(learnt.autoscaler(kind="Rollout"), None, margin=0.15, has_recommendation=True),
        change=0.1, at="now",
    )  # fmt: skip
    assert found is not None
    # A merge patch removes what is null.
    assert found["recommendation"] is None
