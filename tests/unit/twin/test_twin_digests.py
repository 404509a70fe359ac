"""What CARICO decides in every scenario, by default and as in the dissertation, is what was recorded.

A digest holds decisions (which Pod goes to which node, in which order) and rounded times, so that it is the same on
any machine's arithmetic: recorded ones hold with OPENBLAS_CORETYPE=Haswell, Nehalem and Prescott, whose kernels
round differently. A run is cut 15 s after the last thing that its scenario brings: two rounds of the short Pods.

A move of code changes no digest. Where a rule, a default or the twin changes on purpose, record them again, in a commit
of its own that says why: `python -m tests.unit.twin.test_twin_digests`.
"""

import dataclasses
import hashlib
import json
import math
import pathlib

import pytest

from carico_twin import catalogue, records, scenario, world
from carico_twin.evaluate import contenders

RECORDED = pathlib.Path(__file__).parents[2] / "fixtures" / "twin" / "digests.json"
CHOICES = {"default": contenders.DEFAULT, "paper": "paper"}
SEED = 1
AFTER_S = 15.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """Binds, Pods that ended and their mean time, and a hash of the placements in order."""

    binds: int
    ended: int
    pod_mean_s: float
    placements: str


def stop_s(plan: scenario.Scenario) -> float:
    """AFTER_S from the last job, wave, node or neighbour on."""
    begins = [job.at_s for job in plan.jobs] + [when_s for _, when_s in plan.nodes_join_at_s]
    begins += [each.at_s for each in plan.neighbours]
    begins += [job.work.busy_at_s for job in plan.jobs if job.work.busy_at_s is not None]
    return max(begins) + AFTER_S


def digest(plan: scenario.Scenario, name: str) -> Digest:
    made = world.World(plan, contenders.all_contenders()[CHOICES[name]].choice, SEED)
    placed: list[str] = []

    def note(record: records.PodRecord) -> None:
        placed.append(f"{record.uid} {record.node}")

    made.on_bind.append(note)
    made.run_until(stop_s(plan))
    times_s = [pod.pod_s for pod in made.pods if not math.isnan(pod.ended_s)]
    return Digest(
        binds=len(placed),
        ended=len(times_s),
        pod_mean_s=round(sum(times_s) / max(1, len(times_s)), 3),
        placements=hashlib.sha256("\n".join(placed).encode()).hexdigest()[:16],
    )


CASES = [(plan, name) for plan in catalogue.all_scenarios() for name in CHOICES]


@pytest.mark.parametrize(("plan", "name"), CASES)
def test_decisions_are_the_recorded_ones(plan: str, name: str) -> None:
    known = json.loads(RECORDED.read_bytes())[f"{plan}/{name}"]
    assert dataclasses.asdict(digest(catalogue.all_scenarios()[plan], name)) == known


def test_every_scenario_is_recorded() -> None:
    assert len(CASES) == 54
    assert set(json.loads(RECORDED.read_bytes())) == {f"{plan}/{name}" for plan, name in CASES}


if __name__ == "__main__":
    every = catalogue.all_scenarios()
    taken = {f"{plan}/{name}": dataclasses.asdict(digest(every[plan], name)) for plan, name in CASES}
    RECORDED.write_text(json.dumps(taken, indent=1) + "\n", encoding="utf-8")
