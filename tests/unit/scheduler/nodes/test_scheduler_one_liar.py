"""Whatever one node advertises, the others stand as they did, and it gets no more than its caps allow."""

import math
import random

import hypothesis
import numpy as np
from hypothesis import strategies as st

from carico_core.domain import messages
from carico_scheduler.rules import policy, scorers
from carico_scheduler.state import node_state, state
from tests.unit.scheduler import objects
from tests.unit.wire import strategies

CLASSES = ("Job/default/x", messages.NEW_CLASS, "a class that no node names")
PODS = 3
CORES, POD_LIMIT = 4.0, 110


def placed_on(known: state.State, node: str) -> list[str]:
    """The UIDs of some Pods that are bound to a node, none of them in an advertisement yet."""
    pods = [objects.make_pod(f"{node}-{number}", node_name=node, phase="Running") for number in range(PODS)]
    for pod in pods:
        known.put_pod(pod, 0.0)
    return [pod.uid for pod in pods]


@st.composite
def lies(draw: st.DrawFn) -> messages.Advertisement:
    """An advertisement within the bounds of the wire, most often as large as they are."""
    many = st.sampled_from((0.0, 5e-324, 1.0, 1e6))
    amounts = st.sampled_from((-1e18, 0.0, 1.0, 1e18))
    # The dimensions of the headroom and of the costs need not be the same, nor need there be any.
    some = {"cpu": st.sampled_from((0.0, 5e-324, 1.0, 1e18)), "memory": st.just(1e9)}
    costs = st.fixed_dictionaries({}, optional=some)
    classes = st.dictionaries(
        st.sampled_from((*CLASSES, messages.ANY_CLASS)),
        st.builds(messages.ClassCapacity, cost_plus=costs, pods=st.integers(0, 10**6)),
    )
    said = objects.make_advertisement("liar", draw(many), seq=draw(strategies.COUNTS), ts_ns=draw(strategies.COUNTS))
    return said._replace(
        pods=draw(st.sampled_from((0, 1, 10**6))), limit=draw(st.none() | st.sampled_from((0, 10**6))),
        headroom=draw(st.none() | st.fixed_dictionaries({}, optional={"cpu": amounts, "memory": amounts})),
        classes=draw(st.none() | classes),
    )  # fmt: skip


@hypothesis.settings(max_examples=100, deadline=None)
@hypothesis.given(lies())
def test_one_node_advertises_anything(lie: messages.Advertisement) -> None:
    known = state.State(policy.Policy(), random.Random(0))
    for name in ("honest", "liar"):
        known.put_node(objects.make_node(name, allocatable_cores=CORES, pod_limit=POD_LIMIT))
    others, own = placed_on(known, "honest"), placed_on(known, "liar")
    known.put_advertisement(node_state.Heard(advertisement=objects.make_advertisement("honest"), sampled_s=0.0), 0.0)
    slot, liars = known.fleet.slot_of("honest"), known.fleet.slot_of("liar")
    assert slot is not None and liars is not None
    before = known.fleet.snapshot(0.0).row(slot)
    said, free_before = objects.row_values(before), {name: before.free(name) for name in CLASSES}
    # It claims to account for everybody's Pods.
    covers = frozenset((*others, *own))
    known.put_advertisement(node_state.Heard(advertisement=lie._replace(covers=covers), sampled_s=0.0), 0.0)
    view = known.fleet.snapshot(0.0)
    assert objects.row_values(view.row(slot)) == said
    bookings = [known.records.find(uid) for uid in others]
    assert all(
        each is not None and each.booking is not None and known.reservations.is_reserved(each.booking)
        for each in bookings
    )
    for name in CLASSES:
        assert view.row(slot).free(name) == free_before[name]
        free = view.free(name).item(liars)
        assert free == view.row(liars).free(name)
        assert not math.isnan(free)
        assert free <= min(POD_LIMIT, view.policy.max_pods_per_core * CORES) - PODS
    demand = known.demand_of(objects.make_pod())
    for mode in policy.ScoreMode:
        scores = np.asarray(scorers.scorer_of(mode).score(view, demand))
        assert not np.isnan(scores).any()
