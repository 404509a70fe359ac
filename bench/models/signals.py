"""Figures 4.6 and 4.7 of the dissertation as a closed loop: the signal of a node whose peers get work.

One node of the published cluster takes no Pods and has work of its own all the time; 1000 pi Pods run on the others.
What the author's stress-ng uses is modelled as the figures' text describes it: `--cpu=8 --cpu-load=25` is two runnable
tasks, `--vm=4 --vm-bytes=4G` is 4 GiB of memory. As it is documented, the latter writes to its memory without a pause,
which takes four tasks, and the signal of a full node is 0: what kept it from that in figure 4.7 is not known.
"""

import dataclasses
import math
import statistics
from collections.abc import Mapping

from carico_core.numerics.estimators import scalar
from carico_twin import records, world
from carico_twin.evaluate import contenders
from carico_twin.evaluate.comparisons import calibration
from carico_twin.nodes import machine, work
from carico_twin.schedulers import carico

Row = tuple[str, float, str, str]
CPU, MEMORY = "cpu", "memory"
# By what the measured node uses by itself: the number of the figure.
FIGURES: Mapping[str, str] = {CPU: "4.6", MEMORY: "4.7"}
STRESS_TASKS = 8 * 0.25
STRESS_BYTES = 4 * work.GIB
# The means are over this time before the job, and from when all peers run Pods of it.
MEAN_S = 20.0
FILLED_S = 20.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """The mean signal of the measured node before its peers get work, and while they have it."""

    before: float
    during: float


def run(quick: bool) -> list[Row]:
    """The signal of the measured node as the author's agent computes it, and as today's does: means of seeds."""
    modes = {
        "paper": contenders.paper(scalar.LOGGED_IDLE_SIGNAL),
        contenders.DEFAULT: contenders.all_contenders()[contenders.DEFAULT],
    }
    rows: list[Row] = []
    for stress, number in FIGURES.items():
        for name, mode in modes.items():
            found = [measure(stress, mode, seed=seed) for seed in range(1, 2 if quick else 4)]
            for when, values in (
                ("before", [each.before for each in found]),
                ("while peers work", [each.during for each in found]),
            ):
                rows.append((f"{number}, {stress}, {name}: {when}", statistics.mean(values), "", ""))
    return rows


def measure(stress: str, contender: contenders.Contender, *, seed: int) -> Signals:
    """Return the signals of one of `FIGURES` under a mode of CARICO."""
    plan = calibration.plans()["pi-1000"]
    made = world.World(
        dataclasses.replace(plan, hardware=(_stressed(stress), *plan.hardware[1:])), contender.choice, seed
    )
    assert isinstance(made.scheduler, carico.Carico)
    hardware = plan.hardware[0]
    node = records.api_node(0, cores=hardware.cores, size=hardware.memory_bytes)
    made.scheduler.state.put_node(dataclasses.replace(node, unschedulable=True))
    job_s = plan.jobs[0].at_s
    before = _mean(made, job_s - MEAN_S, job_s)
    return Signals(before=before, during=_mean(made, job_s + FILLED_S, job_s + FILLED_S + MEAN_S))


def _stressed(stress: str) -> machine.Hardware:
    hardware = calibration.HARDWARE
    if stress == CPU:
        return dataclasses.replace(hardware, baseline_cores=hardware.baseline_cores + STRESS_TASKS)
    return dataclasses.replace(hardware, baseline_bytes=hardware.baseline_bytes + STRESS_BYTES)


def _mean(made: world.World, from_s: float, to_s: float) -> float:
    """Return the mean of the first node's signal, once a second."""
    found = []
    for second in range(math.ceil(from_s), math.floor(to_s)):
        made.run_until(float(second))
        state = made.agents[0].state
        assert state is not None
        found.append(state.signal)
    return statistics.mean(found)
