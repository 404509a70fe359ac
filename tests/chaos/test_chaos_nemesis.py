"""Two minutes of overlapping faults on every part of a cluster, with a fixed seed; and which faults a seed gives."""

import collections
import itertools
import pathlib

import pytest

from tests.chaos.nemesis import checker, deck, history, nemesis_site, soak

SEED = 1
# Long enough for the whole deck. A Lease of 6 s and Pods of up to 14 s: 30 s after the last fault all has ended, and
# four times that is allowed, since the machine is shared.
RUN = soak.Run(seed=SEED, seconds=78.0, longest_s=5.0, limits=checker.Limits(settled_s=120.0))


@pytest.mark.timeout(600)
async def test_pods_run_once_where_they_may_under_every_fault_of_the_matrix(tmp_path: pathlib.Path) -> None:
    with nemesis_site.disk(tmp_path / "cluster") as root:
        found = await soak.record(root, RUN)
    print(*soak.figures(found), sep="\n")
    assert [str(each) for each in checker.check(found, RUN.limits)] == []
    assert dealt(found) == {f"{kind} of {part}" for kind, part in deck.CARDS}
    # The run was not empty: Pods ran, and their decisions could be judged by the advertisements that were seen.
    assert sum(run.is_start for run in found.runs) >= 50
    assert checker.judged(found) >= 25


def dealt(found: history.History) -> set[str]:
    """The cards of the faults that were done."""
    kinds = {kind for kind, _ in deck.CARDS}
    return {
        f"{next(kind for kind in kinds if fault.kind.startswith(kind))} of {fault.target.split()[0]}"
        for fault in found.faults
    }


def test_a_seed_gives_the_same_faults_again_and_another_one_others() -> None:
    assert deck.deal(7, seconds=60.0, longest_s=5.0) == deck.deal(7, seconds=60.0, longest_s=5.0)
    assert deck.deal(7, seconds=60.0, longest_s=5.0) != deck.deal(8, seconds=60.0, longest_s=5.0)


def test_the_short_run_deals_every_card() -> None:
    steps = deck.deal(SEED, seconds=RUN.seconds, longest_s=RUN.longest_s)
    assert {(step.kind, step.part) for step in steps} == set(deck.CARDS)


@pytest.mark.parametrize("seed", range(20))
def test_faults_overlap_and_end_with_the_run(seed: int) -> None:
    steps = deck.deal(seed, seconds=600.0, longest_s=60.0)
    counts = collections.Counter((step.kind, step.part) for step in steps)
    assert set(counts) == set(deck.CARDS)
    # No card comes again before all others have.
    assert max(counts.values()) - min(counts.values()) <= 1
    assert all(step.at_s + step.lasts_s <= 600.0 for step in steps)
    assert any(a.at_s + a.lasts_s > b.at_s for a, b in itertools.pairwise(steps))
    assert max(step.lasts_s for step in steps) > 30.0
