"""What others have measured of a class: the cluster's evidence without the node's own part in it."""

import pytest

from carico_core.domain import messages
from carico_core.numerics.estimators import cluster_evidence


def fused(**classes: tuple[int, float, float]) -> dict[str, messages.ClassEvidence]:
    """Evidence of classes by (Pods, mean, sd) of their CPU."""
    return {
        name: messages.ClassEvidence(pods=pods, cost={"cpu": messages.Estimate(mean=mean, sd=sd)})
        for name, (pods, mean, sd) in classes.items()
    }


def test_the_largest_classes_are_told_and_all_that_run_are_counted() -> None:
    evidence = cluster_evidence.ClusterEvidence(between_nodes=0.2, told=2)
    evidence.take(fused(small=(1, 1.0, 0.1), b=(5, 1.0, 0.1), a=(5, 1.0, 0.1), gone=(0, 1.0, 0.1)))
    assert evidence.classes == ["a", "b"]
    assert evidence.pods == {"small": 1.0, "b": 5.0, "a": 5.0}


def test_what_the_node_never_measured_is_the_others_alone() -> None:
    evidence = cluster_evidence.ClusterEvidence(between_nodes=0.2, told=2)
    assert evidence.of_others(fused(a=(5, 1.5, 0.5)), "cpu") == {"a": (1.5, 0.25)}


def test_the_nodes_own_part_is_taken_out() -> None:
    # Two nodes of equal weight: 1 / V = 1 / p + 1 / p, with p = v + (share x c)^2 = .5 of each; mean (1 + 2) / 2.
    evidence = cluster_evidence.ClusterEvidence(between_nodes=0.0, told=2)
    evidence.contribute({"a": {"cpu": (1.0, 0.5)}})
    mean, variance = evidence.of_others(fused(a=(5, 1.5, 0.5)), "cpu")["a"]
    assert mean == pytest.approx(2.0)
    assert variance == pytest.approx(0.5)


def test_what_nobody_else_measured_is_no_evidence() -> None:
    evidence = cluster_evidence.ClusterEvidence(between_nodes=0.0, told=2)
    evidence.contribute({"own": {"cpu": (1.0, 0.25)}})
    heard = fused(own=(5, 1.0, 0.5), other=(5, 1.0, 0.5))
    assert set(evidence.of_others(heard, "cpu")) == {"other"}
    assert evidence.of_others(heard, "memory") == {}
