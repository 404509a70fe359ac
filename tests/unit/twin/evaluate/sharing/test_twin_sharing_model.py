"""Several schedulers in virtual time: tiny cases with known answers, and what must never happen."""

import collections
import dataclasses
import functools
from collections.abc import Sequence

import hypothesis
import pytest
from hypothesis import strategies

from carico_scheduler.sharing import shares
from carico_scheduler.sharing.claims import commits
from carico_twin import records
from carico_twin.evaluate.sharing import member, model
from carico_twin.evaluate.sharing import setup as setups

# No load of its own, and Pods that do not end: tests let Pods arrive.
QUIET = setups.Setup(fill=0.0, life_s=1e9, warm_up_s=0.0, measured_s=0.04, choice=setups.Choice.EMPTIEST)


def run(setup: setups.Setup, owners: Sequence[str], at_s: float = 0.01) -> tuple[model.Model, model.Figures]:
    """Run with one Pod for each of these schedulers, all of them at the same time."""
    made = model.Model(_seeded(setup, owners))
    made.timeline.at(at_s, lambda: made.arrive(len(owners)))
    return made, made.run()


def _seeded(setup: setups.Setup, owners: Sequence[str]) -> setups.Setup:
    """Return the setup with a seed by which the first Pods belong to these schedulers."""
    names = [f"scheduler-{index}" for index in range(setup.schedulers)]
    for seed in range(10_000):
        if [shares.owner(f"pod-{seed}-{index}", names) for index in range(len(owners))] == list(owners):
            return dataclasses.replace(setup, seed=seed)
    raise AssertionError("no seed found")


A, B = "scheduler-0", "scheduler-1"


def test_two_schedulers_and_room_for_one_make_one_conflict() -> None:
    made, found = run(dataclasses.replace(QUIET, schedulers=2, nodes=1, pods_per_node=1), [A, B])
    assert (found.commits, found.conflicts, found.retries) == (2, 1, 0)
    # The other Pod is tried once more, and finds no node.
    assert (found.placed, found.given_up, found.requeued) == (1, 1, 0)
    assert made.truth.pods.tolist() == [1]


def test_a_pod_that_loses_its_first_claim_goes_to_another_node_without_waiting() -> None:
    setup = dataclasses.replace(QUIET, schedulers=2, nodes=2, pods_per_node=1, fuller_pods=0.0)
    _, found = run(setup, [A, B])
    assert (found.placed, found.given_up, found.requeued) == (2, 1, 0)
    # A decision, a refused commit that is looked at again, another decision, a commit, and a look at the stream.
    assert max(found.waiting_s) <= 2.0 * setup.decision_s + 5.0 * setup.commit_s


def test_a_conflict_that_leaves_room_is_sent_again() -> None:
    made, found = run(dataclasses.replace(QUIET, schedulers=2, nodes=1, pods_per_node=2), [A, B])
    assert (found.commits, found.conflicts, found.retries) == (3, 1, 1)
    assert (found.placed, found.given_up) == (2, 0)
    # Answer and look at the stream; the other one also waits for the refusal and for what it reads again.
    decided_s, commit_s = QUIET.decision_s, QUIET.commit_s
    assert sorted(found.waiting_s) == pytest.approx([decided_s + 2.0 * commit_s, decided_s + 4.0 * commit_s])
    assert made.truth.pods.tolist() == [2]


def test_coarse_detection_gives_up_what_would_fit() -> None:
    setup = dataclasses.replace(QUIET, schedulers=2, nodes=1, pods_per_node=2, detection=setups.Detection.COARSE)
    _, found = run(setup, [A, B])
    assert (found.conflicts, found.retries, found.given_up, found.placed) == (1, 0, 1, 1)
    assert found.requeued == 1
    # It is decided on again after at most 0.1 s.
    _, later = run(dataclasses.replace(setup, measured_s=0.2), [A, B])
    assert (later.conflicts, later.given_up, later.placed) == (1, 1, 2)


@pytest.mark.parametrize(("transaction", "given_up"), [("incremental", 1), ("all-or-nothing", 2)])
def test_all_or_nothing_gives_up_the_whole_batch(transaction: str, given_up: int) -> None:
    setup = dataclasses.replace(
        QUIET, schedulers=2, nodes=2, pods_per_node=1, transaction=setups.Transaction(transaction)
    )
    # B decides on one Pod, so it is done before A, which places its two on both nodes.
    _, found = run(setup, [A, A, B])
    assert (found.conflicts, found.given_up) == (1, given_up)


def test_homes_keep_schedulers_apart() -> None:
    node = shares.owner(records.node_name(0), [A, B])
    # A second node, so that each scheduler has a home.
    other = next(index for index in range(1, 50) if shares.owner(records.node_name(index), [A, B]) != node)
    setup = dataclasses.replace(QUIET, schedulers=2, nodes=other + 1, pods_per_node=5, choice=setups.Choice.HOMES)
    made, found = run(setup, [A, B])
    assert (found.conflicts, found.placed) == (0, 2)
    for change in made.truth.journal:
        assert shares.owner(records.node_name(change.node), [A, B]) == change.scheduler


def test_a_view_is_older_by_its_delay() -> None:
    # The second Pod arrives when the first is stored. With a view that is old, its scheduler does not know.
    found = []
    for view_s in (0.001, 0.03):
        setup = dataclasses.replace(QUIET, schedulers=2, nodes=1, pods_per_node=2, view_s=view_s, measured_s=0.1)
        made = model.Model(_seeded(setup, [A, B]))
        made.timeline.at(0.0, functools.partial(made.arrive, 1))
        made.timeline.at(0.01, functools.partial(made.arrive, 1))
        found.append(made.run())
    assert [each.conflicts for each in found] == [0, 1]
    assert [each.placed for each in found] == [2, 2]


def test_one_leader_places_a_burst_one_decision_after_the_other() -> None:
    setup = dataclasses.replace(
        QUIET, mode=setups.Mode.LEADER, schedulers=1, nodes=10, batch=1, decision_s=0.001, measured_s=0.1
    )
    made, found = run(setup, ["scheduler-0"] * 20)
    assert sorted(found.waiting_s) == pytest.approx([0.001 * (1 + place) for place in range(20)])
    assert found.busy == pytest.approx(0.2)
    # Twenty Pods on ten nodes: on each the second was placed next to one.
    assert found.chosen_pods == pytest.approx(0.5)
    assert made.truth.pods.tolist() == [2] * 10


def test_one_scheduler_that_shares_also_waits_for_its_commits() -> None:
    setup = dataclasses.replace(QUIET, schedulers=1, nodes=10, batch=1, decision_s=0.001, commit_s=0.002)
    _, found = run(dataclasses.replace(setup, measured_s=0.2), ["scheduler-0"] * 5)
    # Decision, commit, and a look whether the stream is still the same.
    assert sorted(found.waiting_s) == pytest.approx([0.005 * (1 + place) for place in range(5)])


def test_partitions_keep_to_their_own_nodes() -> None:
    setup = dataclasses.replace(
        QUIET, mode=setups.Mode.PARTITIONED, schedulers=3, nodes=30, fill=0.7, life_s=0.2, measured_s=0.3
    )
    made = model.Model(setup)
    found = made.run()
    stored = [change for change in made.truth.journal if change.seq is not None]
    assert found.conflicts == 0
    assert len(stored) > 50
    assert all(shares.owner(records.node_name(each.node), made.members) == each.scheduler for each in stored)


def test_homes_make_fewer_conflicts_than_the_emptiest_node_at_the_same_balance() -> None:
    figures = {}
    for choice in (setups.Choice.EMPTIEST, setups.Choice.HOMES):
        setup = setups.Setup(schedulers=8, nodes=200, choice=choice, burst=8, warm_up_s=0.2, measured_s=1.5)
        figures[choice] = model.Model(setup).run()
    emptiest, homes = figures[setups.Choice.EMPTIEST], figures[setups.Choice.HOMES]
    assert emptiest.conflicts > 0.2 * emptiest.commits
    assert homes.conflicts < 0.02 * homes.commits
    assert homes.chosen_pods == pytest.approx(emptiest.chosen_pods, abs=0.25)


def test_the_seed_decides_everything() -> None:
    setup = setups.Setup(schedulers=4, nodes=40, choice=setups.Choice.RANDOM, warm_up_s=0.1, measured_s=0.4)
    first, again = model.Model(setup).run(), model.Model(setup).run()
    assert first == again
    assert first != model.Model(dataclasses.replace(setup, seed=2)).run()


def test_a_conflict_is_tried_as_often_as_by_the_service() -> None:
    assert member.ROUNDS == commits.ROUNDS


@hypothesis.settings(max_examples=25, deadline=None)
@hypothesis.given(
    mode=strategies.sampled_from(setups.Mode), schedulers=strategies.integers(1, 5),
    choice=strategies.sampled_from(setups.Choice), detection=strategies.sampled_from(setups.Detection),
    transaction=strategies.sampled_from(setups.Transaction), nodes=strategies.integers(5, 12),
    pods_per_node=strategies.integers(1, 4), batch=strategies.integers(1, 8), view_s=strategies.floats(0.0, 0.1),
    bursts=strategies.lists(strategies.integers(1, 12), min_size=1, max_size=6), seed=strategies.integers(0, 1000),
)  # fmt: skip
def test_no_node_is_overfull_and_no_pod_is_lost_or_placed_twice(bursts: list[int], **given: object) -> None:
    setup = dataclasses.replace(QUIET, life_s=0.05, commit_s=0.004, measured_s=20.0, **given)  # type: ignore[arg-type]
    made = model.Model(setup)
    # In a partition without nodes its Pods wait forever.
    hypothesis.assume(setup.mode is not setups.Mode.PARTITIONED or _has_nodes(made))
    for place, count in enumerate(bursts):
        made.timeline.at(0.02 * place, functools.partial(made.arrive, count))
    found = made.run()
    assert found.placed == found.arrived == sum(bursts)
    on_nodes: collections.Counter[int] = collections.Counter()
    placed: collections.Counter[str] = collections.Counter()
    for change in made.truth.journal:
        on_nodes[change.node] += -1 if change.seq is None else len(change.uids)
        assert 0 <= on_nodes[change.node] <= setup.pods_per_node
        if change.seq is not None:
            placed.update(change.uids)
    assert placed == collections.Counter({pod.uid: 1 for pod in made.pods})


def _has_nodes(made: model.Model) -> bool:
    owners = {shares.owner(records.node_name(node), made.members) for node in range(made.setup.nodes)}
    return owners == set(made.members)


@pytest.mark.parametrize(
    ("name", "value"), [("schedulers", 0), ("batch", 0), ("decision_s", 0.0), ("view_s", -1.0), ("fill", 1.5)]
)
def test_impossible_setups_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name}: expected"):
        dataclasses.replace(QUIET, **{name: value})  # type: ignore[arg-type]
