"""What others have measured of a class: the cluster's evidence without the node's own part in it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico_core.domain import messages
from carico_core.numerics.estimators import base
from carico_core.numerics.estimators.footprint import cluster_evidence


def fused(**classes: tuple[int, float, float]) -> dict[str, messages.ClassEvidence]:
    """Evidence of classes by (Pods, mean, sd) of their CPU."""
    return {
        name: messages.ClassEvidence(pods=pods, cost={"cpu": messages.Estimate(mean=mean, sd=sd)})
        for name, (pods, mean, sd) in classes.items()
    }


def test_the_largest_classes_are_reported_and_all_that_run_are_counted() -> None:
    evidence = cluster_evidence.ClusterEvidence(between_nodes=0.2, most_classes=2)
    evidence.take(fused(small=(1, 1.0, 0.1), b=(5, 1.0, 0.1), a=(5, 1.0, 0.1), gone=(0, 1.0, 0.1)))
    assert evidence.classes == ["a", "b"]
    assert evidence.pods == {"small": 1.0, "b": 5.0, "a": 5.0}


def test_what_the_node_never_measured_is_the_others_alone() -> None:
    evidence = cluster_evidence.ClusterEvidence(between_nodes=0.2, most_classes=2)
    assert evidence.of_others(fused(a=(5, 1.5, 0.5)), "cpu") == {"a": (1.5, 0.25)}


def test_the_nodes_own_part_is_taken_out() -> None:
    # Two nodes of equal weight: 1 / V = 1 / p + 1 / p, with p = v + (share x c)^2 = .5 of each; mean (1 + 2) / 2.
    evidence = cluster_evidence.ClusterEvidence(between_nodes=0.0, most_classes=2)
    evidence.contribute({"a": {"cpu": (1.0, 0.5)}}, 1.0)
    mean, variance = evidence.of_others(fused(a=(5, 1.5, 0.5)), "cpu")["a"]
    assert mean == pytest.approx(2.0)
    assert variance == pytest.approx(0.5)


WORDS = st.tuples(st.floats(0.01, 10.0), st.floats(0.01, 10.0))


@given(own=WORDS, others=st.lists(WORDS, min_size=1, max_size=5))
def test_what_the_others_say_does_not_depend_on_what_the_node_said(
    own: base.Evidence, others: list[base.Evidence]
) -> None:
    def together(*said: base.Evidence) -> tuple[float, float]:
        means, variances = np.array(said).T
        weights = 1.0 / (variances + (0.2 * means) ** 2)
        return float(weights @ means / weights.sum()), float(1.0 / weights.sum())

    evidence = cluster_evidence.ClusterEvidence(between_nodes=0.2, most_classes=2)
    # Of the other dimension it said something else.
    evidence.contribute({"a": {"memory": (1.0, 1.0), "cpu": own}}, 1.0)
    mean, variance = together(own, *others)
    found = evidence.of_others(fused(a=(5, mean, variance**0.5)), "cpu")
    rest_mean, rest_variance = together(*others)
    if 1.0 - variance / (own[1] + (0.2 * own[0]) ** 2) > 0.0501:
        assert found["a"] == pytest.approx((rest_mean, rest_variance), rel=1e-9)


def taken_out(evidence: cluster_evidence.ClusterEvidence) -> float | None:
    """The mean of what counts as the node's own in a model of twice as much weight, by which 2 is known; None: nothing.

    Equal weights: the others' mean is 4 less the node's.
    """
    found = evidence.of_others(fused(a=(5, 2.0, 0.5)), "cpu")["a"][0]
    return None if found == 2.0 else 4.0 - found


# v + (c / 2)^2 is .5 of the first two, and more of the others.
SURE, AS_SURE, LESS_SURE = (1.0, 0.25), (0.5, 0.4375), ((1.5, 0.125), (0.9, 0.32))


def test_what_a_node_was_surest_of_counts_until_no_model_has_it() -> None:
    def said(*evidences: base.Evidence | None, dt_s: float = 1.0) -> list[float | None]:
        evidence = cluster_evidence.ClusterEvidence(between_nodes=0.5, most_classes=2)
        counted = []
        for each in evidences:
            evidence.contribute({} if each is None else {"a": {"cpu": each}}, dt_s)
            counted.append(taken_out(evidence))
        return counted

    assert said(SURE, *[None] * 11) == [1.0] * 11 + [None]
    # By time, however often it learns: five times a second while it is eager.
    assert said(SURE, *[None] * 41, dt_s=0.25) == [1.0] * 41 + [None]
    # By weight, not by variance alone; what weighs as much is the newer one's.
    assert said(SURE, *LESS_SURE) == [1.0, 1.0, 1.0]
    assert said(SURE, AS_SURE, None) == [1.0, 0.5, 0.5]
    # Said again it counts from then on.
    assert said(SURE, *[None] * 8, SURE, *[None] * 11) == [1.0] * 20 + [None]


def test_what_no_other_node_measured_is_no_evidence() -> None:
    evidence = cluster_evidence.ClusterEvidence(between_nodes=0.0, most_classes=2)
    evidence.contribute({"own": {"cpu": (1.0, 0.25)}}, 1.0)
    heard = fused(own=(5, 1.0, 0.5), other=(5, 1.0, 0.5))
    assert set(evidence.of_others(heard, "cpu")) == {"other"}
    assert evidence.of_others(heard, "memory") == {}
