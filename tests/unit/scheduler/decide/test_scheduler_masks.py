"""A cached mask follows nodes that come, change and go."""

import dataclasses
import random

import hypothesis
from hypothesis import strategies as st

from carico_core.domain import cluster, constraints, gangs
from carico_scheduler.decide import masks
from carico_scheduler.nodes import fleet
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import reservations
from carico_scheduler.rules import policy, registry
from tests.unit.scheduler import objects

DEMANDS = (
    demands.Demand(), demands.Demand(unsupported=("claims",)), demands.Demand(node_name="node-1"),
    demands.Demand(node_selector=(("disk", "ssd"),)),
    demands.Demand(tolerations=(cluster.Toleration(key="", operator="Exists", value="", effect=""),)),
)  # fmt: skip
DEAR = cluster.Taint(key="dear", value="", effect="NoSchedule")


def change(made: fleet.Fleet, rng: random.Random) -> None:
    """A node comes, changes or goes."""
    name = f"node-{rng.randrange(6)}"
    if rng.random() < 0.3:
        made.remove_node(name)
        return
    node = objects.make_node(
        name, ready=rng.random() < 0.8, unschedulable=rng.random() < 0.2, taints=rng.choice([(), (DEAR,)]),
        labels={"disk": rng.choice(["ssd", "hdd"])},
    )  # fmt: skip
    made.put_node(node, reservations.Load())


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(seed=st.integers(0, 2**32))
def test_a_cached_mask_is_the_one_that_would_be_computed(seed: int) -> None:
    rng = random.Random(seed)
    made, stages, kept = fleet.Fleet(policy.Policy()), registry.by_capacity(policy.Policy()), masks.NodeMasks()
    for _ in range(10):
        for _ in range(rng.randrange(4)):
            change(made, rng)
        view = made.snapshot(0.0)
        for demand in rng.sample(DEMANDS, 3):
            cached, fresh = kept.of(demand, view, stages), masks.NodeMasks().of(demand, view, stages)
            assert cached.mask.tolist() == fresh.mask.tolist()
            assert cached.refused_by.tolist() == fresh.refused_by.tolist()
            assert cached.refused == fresh.refused
            assert sum(fresh.refused.values()) + fresh.mask.sum() == view.count
            # Nothing is looked at twice.
            assert kept.of(demand, view, stages) is cached
    assert kept.of(DEMANDS[0], made.snapshot(0.0), stages).version == made.snapshot(0.0).nodes_version


def test_gangs_share_the_mask_of_a_pod_without_one() -> None:
    made, stages, kept = fleet.Fleet(policy.Policy()), registry.by_capacity(policy.Policy()), masks.NodeMasks()
    made.put_node(objects.make_node("a"), reservations.Load())
    view = made.snapshot(0.0)
    found = [
        kept.of(demands.Demand(gang=gang), view, stages)
        for gang in (None, gangs.Key("default", "a"), gangs.Key("default", "b"))
    ]
    assert found[0] is found[1] is found[2]


def test_pods_spread_by_default_share_the_mask_of_a_pod_without_constraints() -> None:
    made, stages, kept = fleet.Fleet(policy.Policy()), registry.by_capacity(policy.Policy()), masks.NodeMasks()
    made.put_node(objects.make_node("a"), reservations.Load())
    spread = constraints.Spread(namespace="default", topology_key="zone", selector=(), max_skew=1, is_soft=True)
    others: list[constraints.Constraints | None] = [None, constraints.Constraints(node_terms=())]
    found = []
    for each in others:
        spreads = dataclasses.replace(each or constraints.NONE, default_spreads=(spread,))
        masks_of = [kept.of(demands.Demand(constraints=one), made.snapshot(0.0), stages) for one in (each, spreads)]
        assert masks_of[0] is masks_of[1]
        found.append(masks_of[0].count)
    assert found == [1, 0]


def test_a_pod_that_is_not_supported_fits_no_node_that_changes() -> None:
    made, stages, kept = fleet.Fleet(policy.Policy()), registry.by_capacity(policy.Policy()), masks.NodeMasks()
    demand = demands.Demand(unsupported=("claims",))
    made.put_node(objects.make_node("a"), reservations.Load())
    assert kept.of(demand, made.snapshot(0.0), stages).refused == {"unsupported": 1}
    made.put_node(objects.make_node("a", labels={"new": "yes"}), reservations.Load())
    made.put_node(objects.make_node("b"), reservations.Load())
    found = kept.of(demand, made.snapshot(0.0), stages)
    assert (found.mask.tolist(), found.refused) == ([False, False], {"unsupported": 2})
