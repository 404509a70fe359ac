"""Rendezvous hashing: everyone agrees, shares are even, and a change of members moves only what it must."""

import collections
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from carico_core.domain import constraints
from carico_scheduler.nodes import fleet, snapshot
from carico_scheduler.pods import demand, reservations
from carico_scheduler.rules import policy, scorers
from carico_scheduler.sharing import shares
from tests.unit.scheduler import objects

MEMBERS = strategies.sets(strategies.text("abcdef0123456789", min_size=1, max_size=6), min_size=1, max_size=8)


@hypothesis.given(MEMBERS, strategies.uuids())
def test_the_order_of_members_does_not_matter(members: set[str], uid: object) -> None:
    assert shares.owner(str(uid), sorted(members)) == shares.owner(str(uid), sorted(members, reverse=True))


@hypothesis.given(MEMBERS, strategies.lists(strategies.uuids(), max_size=20))
def test_a_member_that_leaves_moves_only_its_own_share(members: set[str], uids: list[object]) -> None:
    gone = min(members)
    for uid in map(str, uids):
        before, after = shares.owner(uid, members), shares.owner(uid, members - {gone})
        assert after == before or before == gone


def test_without_members_there_is_no_owner() -> None:
    assert shares.owner("uid", []) is None


@pytest.mark.parametrize("count", [2, 4, 8])
def test_shares_are_even(count: int) -> None:
    names = [f"scheduler-{index}" for index in range(count)]
    found = collections.Counter(shares.owner(f"uid-{index}", names) for index in range(4000))
    # Binomial: sd = sqrt(n p (1 - p)), at most 32.
    assert all(abs(found[name] - 4000 / count) < 5 * 32 for name in names)


@pytest.mark.parametrize(
    "found",
    [
        {"host_ports": (constraints.HostPort(address="0.0.0.0", protocol="TCP", port=80),)},
        {"volume_claims": ("claim",)},
        {"affinity": ("term",)},
        {"anti_affinity": ("term",)},
        {"disks": ("disk",)},
    ],
)
def test_pods_whose_rules_look_beyond_one_node_are_decided_on_by_one_member(found: dict[str, Any]) -> None:
    assert not demand.Demand(constraints=constraints.Constraints(**found)).is_alone


def test_pods_with_preferences_and_rules_of_one_node_are_shared_out() -> None:
    assert demand.Demand().is_alone
    assert demand.Demand(constraints=constraints.Constraints(node_terms=())).is_alone


def test_a_node_that_is_not_at_home_counts_as_fuller() -> None:
    made = shares.Homes("a")
    view = view_of(["n0", "n1", "n2", "n3"])
    assert made.fuller(view).tolist() == [0.0] * 4, "alone, every node is at home"
    made.set_members(["a", "b"])
    expected = [0.0 if shares.owner(f"n{index}", ("a", "b")) == "a" else shares.FULLER_PODS for index in range(4)]
    assert made.fuller(view).tolist() == expected
    assert len(set(expected)) == 2


@pytest.mark.parametrize("mode", list(policy.ScoreMode))
def test_a_stranger_scores_as_if_it_had_more_pods(mode: policy.ScoreMode) -> None:
    view = view_of(["n0", "n1", "n2", "n3"])
    scorer = scorers.scorer_of(mode)
    found = shares.HomeScore(scorer=scorer, fuller=lambda _: np.array([0.0, 2.0, 0.0, 2.0]))
    wanted = demand.Demand(pod_class="pi")
    scores = found.score(view, wanted)
    assert isinstance(scores, np.ndarray)
    assert scores[1] == found.score(view.row(1), wanted)
    fuller = view.row(1).with_pod(wanted).with_pod(wanted)
    assert scores[1] == pytest.approx(float(scorer.score(fuller, wanted)))
    assert scores[0] == scorer.score(view.row(0), wanted)
    assert scores[0] > scores[1]


def view_of(names: list[str]) -> snapshot.Snapshot:
    """Equal nodes with room for eight Pods."""
    made = fleet.Fleet(policy.Policy())
    for name in names:
        made.put_node(objects.make_node(name), reservations.Load())
        made.put_advertisement(objects.make_advertisement(name, 8.0), 0.0)
    return made.snapshot(0.0)
