"""Why the author's CARICO ran as it did: 1000 pi Pods on the published cluster, with one thing changed at a time.

Published: 7.69 s a Pod, 109 s, at most 7 Pods of a node running in the API (figure 5.3, 5.1, the recorded CSV).
"""

import collections
import dataclasses
import statistics

import numpy as np

from carico_core.numerics.estimators import dual, scalar
from carico_twin import scenario, world
from carico_twin.evaluate import contenders
from carico_twin.evaluate.comparisons import calibration
from carico_twin.nodes import machine

Row = tuple[str, float, str, str]
# Pressure that emulated nodes and the author's logs show at 4, 5, 6 and 8 tasks on 4 cores; the twin has 0, .25, .5, 1.
MEASURED = ((0.0, 0.75, 1.0, 1.25, 1.5, 2.0, 99.0), (0.0, 0.01, 0.07, 0.33, 0.51, 0.97, 1.0))


class Crowded(machine.Machine):
    """A machine with the measured pressure in place of the linear one."""

    __slots__ = ()

    def pressure(self) -> float:
        """Return the pressure of the tasks that are runnable now."""
        return float(np.interp(self.tasks / self.hardware.cores, *MEASURED))


def run(quick: bool) -> list[Row]:
    """Pod time, job time, and the most Pods that ran on a node as the API shows them: means of seeds."""
    plan = calibration.plans()["pi-1000"]
    rows: list[Row] = []
    for what, (on, contender, kind) in _variants(plan).items():
        found = [_figures(on, contender, kind, seed) for seed in range(1, 2 if quick else 4)]
        pod_s, job_s, most = (statistics.mean(column) for column in zip(*found, strict=True))
        rows += [
            (f"{what}: Pod", pod_s, "s", ""),
            (f"{what}: job", job_s, "s", ""),
            (f"{what}: most", most, "Pods", ""),
        ]
    return rows


def _variants(
    plan: scenario.Scenario,
) -> dict[str, tuple[scenario.Scenario, contenders.Contender, type[machine.Machine]]]:
    idle, plain = scalar.LOGGED_IDLE_SIGNAL, machine.Machine
    ours = contenders.paper(idle)
    at_once = dataclasses.replace(
        plan, jobs=tuple(dataclasses.replace(job, at_s=job.at_s - calibration.REST_S) for job in plan.jobs)
    )
    hardware = dataclasses.replace(machine.Hardware(), full_speed=calibration.HARDWARE.full_speed)
    twins = dataclasses.replace(plan, hardware=(hardware,) * len(plan.hardware))
    predicting = dataclasses.replace(dual.PUBLISHED, signal_only=False)
    forgetting = dataclasses.replace(dual.PUBLISHED, rests_certain=False)
    return {
        "as the author ran it": (plan, ours, plain),
        "telemetry: pressure as measured": (plan, ours, Crowded),
        "cost: its variance returns to its start at rest": (plan, contenders.paper(idle, forgetting), plain),
        "cost: no rest before the job": (at_once, ours, plain),
        "capacity: equation 3.6 when full or in churn": (plan, contenders.paper(idle, predicting), plain),
        "signal: idle nodes of the other scenarios": (twins, contenders.paper(contenders.TWIN_IDLE_SIGNAL), plain),
        "all but telemetry": (
            dataclasses.replace(at_once, hardware=twins.hardware),
            contenders.paper(contenders.TWIN_IDLE_SIGNAL, dual.LOGGED),
            plain,
        ),
    }


def _figures(
    plan: scenario.Scenario, contender: contenders.Contender, kind: type[machine.Machine], seed: int
) -> tuple[float, float, float]:
    made = world.World(plan, contender.choice, seed)
    for node in made.nodes:
        node.machine.__class__ = kind
    done = made.run()
    job_s = max(pod.terminal_s for pod in done.pods) - min(pod.created_s for pod in done.pods)
    return statistics.mean(pod.pod_s for pod in done.pods), job_s, float(_most_in_api(done))


def _most_in_api(done: world.Run) -> int:
    """The most Pods of a node in phase Running: the API hears of a start as late as of an end."""
    late_s = done.scenario.runtime.report_s
    changes: dict[int, list[tuple[float, int]]] = collections.defaultdict(list)
    for pod in done.pods:
        changes[pod.node] += [(pod.started_s + late_s, 1), (pod.terminal_s, -1)]
    most = 0
    for each in changes.values():
        running = 0
        for _, change in sorted(each):
            running += change
            most = max(most, running)
    return most
