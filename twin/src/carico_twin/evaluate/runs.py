"""One run of the twin for an evaluation: figures, Pod times by job, and series for pictures."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from carico_twin import measures, records, scenario, world
from carico_twin.evaluate import contenders

Floats = npt.NDArray[np.float64]
# Points of a series: enough for a picture.
POINTS = 160


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One run to make. pictured: keep series and all Pod times."""

    group: str
    plan: scenario.Scenario
    contender: contenders.Contender
    seed: int
    pictured: bool = False

    @property
    def effort(self) -> float:
        """Its relative duration: an agent on every node costs much more than counting requests."""
        pods = sum(job.pods for job in self.plan.jobs)
        return pods * (20.0 if isinstance(self.contender.choice, world.CaricoOptions) else 1.0)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The load of the nodes over time. pods: least, median, most on a node. used: mean shares of cores and memory."""

    at_s: tuple[float, ...]
    pods: tuple[tuple[float, float, float], ...]
    used: tuple[tuple[float, float], ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The result of a task. pod_s: per job the `distribution` of its Pod times."""

    group: str
    plan: str
    contender: str
    seed: int
    measures: measures.Measures
    job_s: dict[str, float]
    pod_s: dict[str, dict[str, float]]
    pod_times_s: dict[str, tuple[float, ...]] = dataclasses.field(default_factory=dict)
    series: Series | None = None


def run(task: Task) -> RunResult:
    """Make one run and measure it."""
    done = world.run(task.plan, task.contender.choice, seed=task.seed)
    times = {job.name: _times(done, job.name) for job in task.plan.jobs}
    return RunResult(
        group=task.group,
        plan=task.plan.name,
        contender=task.contender.name,
        seed=task.seed,
        measures=measures.measure(done),
        job_s={job.name: _job_s(done, job.name) for job in task.plan.jobs},
        pod_s={name: distribution(values) for name, values in times.items() if values},
        pod_times_s={name: tuple(round(value, 2) for value in values) for name, values in times.items()}
        if task.pictured
        else {},
        series=series(done) if task.pictured else None,
    )


def distribution(values: Sequence[float]) -> dict[str, float]:
    """Return mean, std, min, the quartiles and max."""
    low, quarter, median, three, high = (float(each) for each in np.percentile(values, [0, 25, 50, 75, 100]))
    return {
        "mean": float(np.mean(values)), "std": float(np.std(values)), "min": low, "p25": quarter, "p50": median,
        "p75": three, "max": high,
    }  # fmt: skip


def series(done: world.Run) -> Series:
    """Return Pods and usage of the nodes from the first Pod's creation on, from the times of the Pods."""
    start_s = min(pod.created_s for pod in done.pods)
    times = np.linspace(start_s, done.end_s, POINTS)
    shape = (len(done.nodes), POINTS)
    pods, tasks, held = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    lag_s = done.scenario.runtime.work_lag_s
    for pod in done.pods:
        if math.isnan(pod.started_s):
            continue
        runs = (times >= pod.started_s) & (times < _end_s(pod))
        pods[pod.node, runs] += 1.0
        tasks[pod.node, runs & (times >= pod.started_s + lag_s)] += pod.work.most_threads
        held[pod.node] += _held(pod, times, runs)
    hardware = done.scenario.hardware
    cores = np.array([[each.cores] for each in hardware])
    size = np.array([[each.memory_bytes] for each in hardware])
    base = np.array([[each.baseline_bytes] for each in hardware])
    busy = np.minimum(tasks / cores, 1.0).mean(axis=0)
    memory = np.minimum((held + base) / size, 1.0).mean(axis=0)
    spread = np.percentile(pods, [0, 50, 100], axis=0).T
    return Series(
        at_s=tuple(round(float(each) - start_s, 2) for each in times),
        pods=tuple((float(low), float(middle), float(high)) for low, middle, high in spread),
        used=tuple((round(float(c), 4), round(float(m), 4)) for c, m in zip(busy, memory, strict=True)),
    )


def _held(pod: records.PodRecord, times: Floats, runs: npt.NDArray[np.bool_]) -> Floats:
    work = pod.work
    grown = np.ones_like(times) if work.ramp_s <= 0.0 else np.clip((times - pod.started_s) / work.ramp_s, 0.0, 1.0)
    return np.asarray(np.where(runs, work.memory_bytes * grown, 0.0))


def _end_s(pod: records.PodRecord) -> float:
    return math.inf if math.isnan(pod.ended_s) else pod.ended_s


def _times(done: world.Run, job: str) -> list[float]:
    return [pod.pod_s for pod in done.pods if pod.job == job and not math.isnan(pod.ended_s)]


def _job_s(done: world.Run, job: str) -> float:
    """Return the time from the job's creation to the end of its last Pod; NaN if one has not ended."""
    pods = [pod for pod in done.pods if pod.job == job]
    if not pods or any(math.isnan(pod.terminal_s) for pod in pods):
        return math.nan
    return max(pod.terminal_s for pod in pods) - min(pod.created_s for pod in pods)
