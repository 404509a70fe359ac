"""Two minutes of overlapping faults on every part of a cluster, with a fixed seed; and which faults a seed gives."""

import collections
import dataclasses
import itertools
import os
import pathlib
import subprocess
import sys
import time

import pytest

from tests.chaos.nemesis import checker, deck, history, shifted_clock, soak

SEED = 1
# A Lease of 6 s and Pods of up to 14 s: 30 s after the last fault all has ended, and four times that is allowed, since
# the machine is shared. For half a minute after the API's restart, a scheduler has 30 idle connections to it.
LIMITS = checker.Limits(settled_s=120.0, growth_count=60)
RUN = soak.Run(seed=SEED, seconds=120.0, longest_s=5.0, every_s=1.2, limits=LIMITS, least_starts=50, least_judged=25)


@pytest.mark.timeout(600)
def test_pods_run_once_where_they_may_under_every_fault_of_the_matrix(tmp_path: pathlib.Path) -> None:
    found, violations = soak.judge(tmp_path, RUN)
    print(*soak.figures(found), *soak.timeline(found), *violations, sep="\n")
    assert [str(each) for each in violations] == []
    assert dealt(found) == {f"{kind} of {part}" for kind, part in RUN.cards}
    # The run was not empty: Pods ran, and their decisions could be judged by the advertisements that were seen.
    assert sum(run.is_start for run in found.runs) >= 50
    assert checker.judged(found) >= 25


def test_a_service_reads_the_clock_that_its_test_moves(tmp_path: pathlib.Path) -> None:
    offset = shifted_clock.Offset(tmp_path / "offset")
    (tmp_path / "told.py").write_text(
        "import sys\n"
        "from carico_core.runtime.process import clock\n"
        "if __name__ == '__main__':\n"
        "    print(sys.argv[1], clock.BootClock().wall_ns(), clock.SystemClock().wall_ns(), flush=True)\n"
    )

    def told_s() -> list[float]:
        command = shifted_clock.command([sys.executable, "-m", "told", "an argument"], offset)
        environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
        said = subprocess.run(command, check=True, capture_output=True, text=True, env=environ).stdout
        assert said.startswith("an argument ")
        return [int(each) / 1e9 - time.time() for each in said.split()[2:]]

    assert all(abs(each) < 60.0 for each in told_s())
    offset.add(86400.0)
    offset.add(3600.0)
    assert all(abs(each - 90000.0) < 60.0 for each in told_s())


def dealt(found: history.History) -> set[str]:
    """The cards of the faults that were done."""
    kinds = {kind for kind, _ in deck.CARDS}
    return {
        f"{next(kind for kind in kinds if fault.kind.startswith(kind))} of {fault.target.split()[0]}"
        for fault in found.faults
    }


def test_a_seed_gives_the_same_faults_again_and_another_one_others() -> None:
    assert RUN.steps() == RUN.steps()
    assert RUN.steps() != dataclasses.replace(RUN, seed=SEED + 1).steps()


def test_the_short_run_deals_every_card() -> None:
    assert {(step.kind, step.part) for step in RUN.steps()} == set(RUN.cards)


@pytest.mark.parametrize("seed", range(20))
def test_faults_overlap_and_end_with_the_run(seed: int) -> None:
    steps = soak.Run(seed=seed, seconds=600.0, longest_s=60.0, limits=LIMITS).steps()
    counts = collections.Counter((step.kind, step.part) for step in steps)
    assert set(counts) == set(deck.CARDS)
    # No card comes again before all others have.
    assert max(counts.values()) - min(counts.values()) <= 1
    assert all(step.at_s + step.lasts_s <= 600.0 for step in steps)
    assert any(a.at_s + a.lasts_s > b.at_s for a, b in itertools.pairwise(steps))
    assert max(step.lasts_s for step in steps) > 30.0
