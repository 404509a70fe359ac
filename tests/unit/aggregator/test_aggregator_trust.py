"""One node that is wrong bends the model of the others within the bounds of ADR 46, whatever it says."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from carico_aggregator import evidence, members, model, trust
from carico_core.domain import messages
from carico_core.wire import fields
from tests.unit.aggregator import reports
from tests.unit.wire import strategies

PI = "Job/default/pi"
ROUNDING = 1.0 + 1e-9


def told(cost: float, sd: float = 0.1, *, pods: int = 2) -> messages.ClassEvidence:
    return messages.ClassEvidence(pods=pods, cost={"cpu": messages.Estimate(mean=cost, sd=sd)})


def report(node: str, cost: float, sd: float = 0.1, **said: Any) -> messages.LocalSubspace:
    made = dataclasses.replace(reports.report(node, 1), evidence={PI: told(cost, sd)}, peak_pods_per_core=1.5)
    return dataclasses.replace(made, **said)


def made_of(found: Sequence[messages.LocalSubspace]) -> model.Content:
    held = members.Members(lease_s=10.0, horizon_s=10.0)
    held.take(found, 0.0)
    content = model.make(held.mergeable(), model.RoundMerger())
    assert content is not None
    return content


def honest(count: int = 10) -> list[messages.LocalSubspace]:
    return [report(f"n{number}", 1.0 + 0.02 * number) for number in range(count)]


def cost_of(content: model.Content) -> messages.Estimate:
    return content.evidence[PI].cost["cpu"]


@pytest.mark.parametrize(("cost", "sd"), [(1e-6, 0.0), (0.0, 0.0), (1e-160, 0.0), (8.0, 0.0), (4.9, 0.0)])
def test_a_cost_far_from_all_others_counts_for_nothing(cost: float, sd: float) -> None:
    alone = made_of(honest())
    content = made_of([*honest(), report("liar", cost, sd)])
    assert cost_of(content) == cost_of(alone)
    assert content.doubted == ("liar",)
    # It is there all the same, with its Pods and its Gram matrix.
    assert content.evidence[PI].pods == alone.evidence[PI].pods + 2
    assert content.contributors == 11


def test_costs_near_the_median_are_weighted_by_their_variance() -> None:
    content = made_of([*honest(), report("sure", 0.3, 0.0)])
    assert content.doubted == ()
    # Sure of a quarter of the cost: it weighs as sixteen nodes, and halves the cost of ten.
    assert 0.5 < cost_of(content).mean < cost_of(made_of(honest())).mean


def test_of_two_far_apart_the_larger_counts_and_of_three_the_two_that_agree() -> None:
    assert made_of([report("a", 1.0), report("b", 0.2)]).doubted == ()
    assert made_of([report("a", 1.0), report("b", 1e-3)]).doubted == ("b",)
    assert made_of([report("a", 1.0), report("b", 1.1), report("c", 1e-3)]).doubted == ("c",)
    assert made_of([report("a", 1.0), report("b", 1.1), report("c", 8.0)]).doubted == ("c",)


def test_classes_invented_by_one_node_come_after_those_that_run() -> None:
    made_up = {f"made-up-{number}": told(1.0, pods=20) for number in range(50)}
    content = made_of([*honest(), report("liar", 1.0, evidence=made_up)])
    assert content.doubted == ("liar",)
    assert content.evidence[PI].pods == 20
    assert {found.pods for name, found in content.evidence.items() if name != PI} == {0}
    # The kubelet's default limit is no boast, nor is what another node runs too.
    busy = {PI: told(1.0, pods=110)}
    assert made_of([*honest(), report("busy", 1.0, evidence=busy)]).evidence[PI].pods == 130
    denser = [report(f"dense-{pods}", 1.0, evidence={PI: told(1.0, pods=pods)}) for pods in (250, 200)]
    assert made_of([*honest(), *denser]).evidence[PI].pods == 470


def test_a_tenant_with_many_classes_leaves_others_theirs() -> None:
    many = [
        {f"Job/many/{node}-{number}": told(1.0, pods=5) for number in range(messages.REPORTED_MOST)}
        for node in range(9)
    ]
    found, doubted = evidence.fuse([{PI: told(1.0, pods=1)}, *many])
    assert len(found) == fields.CLASSES_MAX
    assert found[PI].pods == 1
    assert not doubted


def test_each_class_and_dimension_is_judged_by_itself() -> None:
    both = {dim: messages.Estimate(mean=mean, sd=0.1) for dim, mean in (("cpu", 1.0), ("memory", 1e8))}
    odd = {**both, "memory": messages.Estimate(mean=1.0, sd=0.0)}
    said = [{PI: messages.ClassEvidence(pods=1, cost=cost)} for cost in (both, both, both, odd)]
    found, doubted = evidence.fuse(said)
    fused = found[PI].cost
    assert doubted == {3}
    assert fused["memory"].mean == pytest.approx(1e8)
    # Four nodes' weight.
    assert fused["cpu"].sd == pytest.approx(math.sqrt((0.1**2 + 0.2**2) / 4))


def test_nodes_that_agree_are_fused_to_the_bit_as_without_any_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    bounded = made_of(honest())
    monkeypatch.setattr(trust, "among", lambda means: None)
    monkeypatch.setattr(trust, "borne_out", lambda found, alone: max(found))
    monkeypatch.setattr(trust, "weights", lambda cores: cores)
    free = made_of(honest())
    assert bounded.evidence == free.evidence
    assert bounded.peak_pods_per_core == free.peak_pods_per_core
    assert bounded.gram.tobytes() == free.gram.tobytes()


@pytest.mark.parametrize(("said", "counts"), [(1.9, 1.9), (1e6, 2.25), (0.0, 1.5)])
def test_the_largest_load_counts_as_far_as_another_node_confirms_it(said: float, counts: float) -> None:
    content = made_of([*honest(), report("liar", 1.0, peak_pods_per_core=said)])
    assert content.peak_pods_per_core == counts
    assert content.doubted == (("liar",) if said > counts else ())


def test_the_first_node_that_carries_anything_is_believed_up_to_a_pod_a_core() -> None:
    idle = [dataclasses.replace(each, peak_pods_per_core=0.0) for each in honest()]
    assert made_of([*idle, report("first", 1.0, peak_pods_per_core=0.8)]).peak_pods_per_core == 0.8
    assert made_of([*idle, report("first", 1.0, peak_pods_per_core=30.0)]).peak_pods_per_core == 1.0
    assert made_of([report("only", 1.0, peak_pods_per_core=30.0)]).peak_pods_per_core == 30.0


def test_no_node_has_more_weight_than_all_others_together() -> None:
    small = honest(3)
    large = report("large", 1.0, weight=1e6)
    grams = members.measured([*small, large])[0]
    np.testing.assert_allclose(made_of([*small, large]).gram, 0.5 * grams[3] + sum(grams[:3]) / 6.0, rtol=1e-12)
    # Of two, each is as it says.
    pair = made_of([small[0], large]).gram
    np.testing.assert_allclose(pair, grams[3], rtol=1e-4)


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ({"evidence": {PI: told(-1e-9)}}, f"evidence.{PI}.cost.cpu"),
        ({"evidence": {PI: told(8.1)}}, f"evidence.{PI}.cost.cpu"),
        ({"evidence": {PI: told(1.0, pods=1001)}}, "evidence"),
        ({"evidence": {PI: told(1.0, pods=600), "other": told(1.0, pods=600)}}, "evidence"),
        ({"evidence": {f"class-{number}": told(1.0) for number in range(65)}}, "evidence"),
        ({"sigma": np.array([1.5, 0.1])}, "u, sigma"),
    ],
)
def test_what_no_node_can_measure_is_refused_from_nodes_and_replicas(said: dict[str, Any], path: str) -> None:
    held = members.Members(lease_s=10.0, horizon_s=10.0)
    wrong = report("liar", 1.0, **said)
    assert [entry.node for entry in held.take([report("a", 1.0), wrong], 0.0)] == ["a"]
    ((node, error),) = held.refused
    assert (node, error.path) == ("liar", path)
    (entry,) = held.entries(0.0)
    gram = members.measured([wrong])[0][0]
    assert not held.adopt(dataclasses.replace(entry, node="liar", gram=gram, evidence=wrong.evidence), 0.0)
    assert len(held) == 1


def test_what_a_node_measures_at_its_limits_is_taken() -> None:
    held = members.Members(lease_s=10.0, horizon_s=10.0)
    full = {f"class-{number}": told(8.0, 0.0, pods=15) for number in range(64)}
    beyond = {PI: messages.ClassEvidence(pods=1000, cost={"gpu": messages.Estimate(mean=99.0, sd=0.0)})}
    assert len(held.take([report("a", 1.0, evidence=full), report("b", 1.0, evidence=beyond)], 0.0)) == 2


def test_a_clock_that_was_wrong_for_one_report_holds_its_node_up_no_longer() -> None:
    held = members.Members(lease_s=10.0, horizon_s=10.0)
    held.take([reports.report("a", 1)], 0.0)
    held.take([reports.report("a", 2, ts_ns=2**62)], 1.0)
    third = reports.report("a", 3)
    (entry,) = held.take([third], 2.0)
    np.testing.assert_array_equal(entry.gram, members.measured([third])[0][0])


@st.composite
def honest_nodes(draw: st.DrawFn) -> list[messages.LocalSubspace]:
    """Five and more that know the class well or hardly, as different from each other as they like."""
    costs = st.floats(0.07, 8.0)
    return [
        dataclasses.replace(
            report(f"n{number}", draw(costs), draw(st.sampled_from((0.0, 0.05, 0.5, 40.0)))),
            weight=draw(st.sampled_from((2.0, 4.0, 16.0))),
            peak_pods_per_core=draw(st.floats(0.0, 8.0)),
        )
        for number in range(draw(st.integers(5, 9)))
    ]


@st.composite
def lies(draw: st.DrawFn) -> messages.LocalSubspace:
    """Whatever passes the wire, in the dimensions of the others: of other ones a node is left out altogether."""
    cost = messages.Estimate(
        mean=draw(st.floats(-1e18, 1e18) | st.floats(0.0, 8.0) | st.floats(0.0, 1e-3)), sd=draw(st.floats(0.0, 1e18))
    )
    pods = draw(st.integers(0, 1_000_000) | st.integers(0, 100))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return report(
        "liar", 1.0, ts_ns=draw(strategies.COUNTS), seq=draw(strategies.COUNTS), weight=draw(st.floats(0.0, 1e6)),
        u=rng.uniform(-1.0, 1.0, (2, 2)), sigma=draw(st.sampled_from((0.0, 0.5, 1.0, 1000.0))) * rng.random(2),
        scale=np.array([draw(st.sampled_from((5e-324, 8.0, 1e18))), 8e9]),
        evidence={PI: messages.ClassEvidence(pods=pods, cost={"cpu": cost}, growth={"cpu": cost}, lifetime_s=cost)},
        peak_pods_per_core=draw(st.floats(0.0, 1e6)),
    )  # fmt: skip


@hypothesis.settings(max_examples=150, deadline=None)
@hypothesis.given(honest_nodes(), lies())
def test_one_wrong_node_moves_the_model_within_bounds(
    others: list[messages.LocalSubspace], lie: messages.LocalSubspace
) -> None:
    alone, content = made_of(others), made_of([*others, lie])
    costs = [each.evidence[PI].cost["cpu"].mean for each in others]
    found = cost_of(content)
    assert min(costs) / trust.FAR / ROUNDING <= found.mean <= max(costs) * trust.FAR * ROUNDING
    assert 0.0 <= found.sd < math.inf
    peaks = sorted(each.peak_pods_per_core for each in others)
    assert peaks[-2] <= content.peak_pods_per_core <= max(trust.PEAK_ALONE, trust.STEP * peaks[-1])
    # Half of the Gram matrix is the honest nodes' at the least, with the weights that they have next to the others;
    # their shares are not negative.
    taken = [*others, lie][: content.contributors]
    cores = trust.weights(np.array([each.weight for each in taken]))[: len(others)]
    mean = np.average(members.measured(others)[0], axis=0, weights=cores)
    assert (content.gram.diagonal() * ROUNDING >= 0.5 * mean.diagonal()).all()
    assert content.gram.max() <= 1.0 + 1e-6
    assert content.evidence[PI].pods <= alone.evidence[PI].pods + trust.PODS_ALONE
