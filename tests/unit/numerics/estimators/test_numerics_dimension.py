"""What is believed of a class before it is measured: its peers' word, the runtime's usual work, or a careful guess."""

import math

import pytest

from carico_core.numerics.estimators.footprint import cluster_evidence, dimension, footprint_constants

# Four cores, of which .5 may be used; no cost below 1 / 110.
FACTS = dimension.Facts(scale=8.0, ceiling=0.5, least_cost=8.0 / 110, reading_variance=0.01, cores=4.0)
CONSTANTS = footprint_constants.CostConstants(unknown_sd=0.7, between_nodes=0.2, growth_sd=0.5)


def made(parts: int = 3) -> dimension.Priors:
    return dimension.Priors(FACTS, CONSTANTS, parts=parts)


def test_an_unknown_class_takes_a_core_of_what_the_baseline_leaves() -> None:
    found = made()
    assert found.floor == 0.0
    assert found.whole("job") == pytest.approx((1.0, 0.7**2))
    found.set_baseline(2.0)
    assert found.floor == 2.0
    assert found.whole("job") == pytest.approx((0.5, 0.35**2))
    assert found.unknown_part() == pytest.approx(0.25**2)
    # Nothing of it is known to come at once or later but the whole.
    assert found.by_part("job") == [found.whole("job"), (0.0, found.unknown_part()), (0.0, found.unknown_part())]
    assert made(parts=1).by_part("job") == [made().whole("job")]


def test_what_peers_measured_stands_with_the_difference_between_nodes() -> None:
    found = made()
    found.use_peers({"job": (2.0, 0.01), "tiny": (0.0, 0.0), "huge": (80.0, 1.0)})
    spread = 0.01 + 0.4**2
    assert found.by_peers("other") is None
    assert found.by_peers("job") == pytest.approx((2.0, spread))
    assert found.whole("job") == found.by_peers("job")
    # Within what could fill the node at all, and a whole node.
    assert found.whole("tiny")[0] == FACTS.least_cost
    assert found.whole("huge")[0] == FACTS.scale
    first, *rest = found.by_part("job")
    assert first == found.whole("job")
    assert rest == [pytest.approx((0.0, 0.2**2))] * 2
    found.use_peers({})
    assert found.whole("job") == found.whole("other")


def test_what_a_node_said_itself_is_taken_out_of_what_all_say() -> None:
    own, others = (1.6, 0.04), (2.0, 0.02)
    # The weight of a node's word is 1 / (v + (share c)^2), as the aggregator has it.
    part = own[1] + (0.2 * own[0]) ** 2
    weight, rest = 1.0 / part, 1.0 / others[1]
    fused = ((own[0] * weight + others[0] * rest) / (weight + rest), 1.0 / (weight + rest))
    found = cluster_evidence.without(fused, own, 0.2)
    assert found == pytest.approx(others)
    assert cluster_evidence.without(fused, None, 0.2) == fused


@pytest.mark.parametrize(
    ("fused", "own", "share"),
    [
        # No other node reported, or next to nothing; it was exact; the fused value is no number.
        ((1.0, 0.08), (1.0, 0.04), 0.2), ((1.0, 0.0765), (1.0, 0.04), 0.2), ((1.0, 1e-300), (1.0, 0.0), 0.0),
        ((1.0, math.nan), (1.0, 0.04), 0.2),
    ],
)  # fmt: skip
def test_nothing_is_left_of_what_is_the_nodes_own(
    fused: tuple[float, float], own: tuple[float, float], share: float
) -> None:
    assert cluster_evidence.without(fused, own, share) is None


def test_what_others_said_is_left_as_long_as_it_is_more_than_rounding() -> None:
    assert cluster_evidence.without((1.0, 0.0755), (1.0, 0.04), 0.2) is not None
