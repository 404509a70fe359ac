"""Batch tasks like those of Alibaba's cluster trace of 2018: many classes, most of one Pod, a few of hundreds.

From the quantiles that All-less/trace-generator (commit 5a689312, spar/data/distributions, MIT) fitted to the trace. A
job is one or more tasks that start together; the instances of a task are Pods of one class. Each quantity is drawn on
its own: the quantiles do not show how quantities depend on each other.
"""

import numpy as np

from carico_twin import scenario
from carico_twin.nodes import machine, work

# Of each quantity 40 equally likely values: the quantiles .0125, .0375 ... .9875. Counts are rounded up, because the
# fitted quantiles are smoothed across whole numbers.
# CPU of an instance in % of a core; its memory in % of a machine; its run time in seconds.
_CPU_PERCENT = (
    1.5, 3.8, 7.3, 11.4, 15.9, 20.4, 24.5, 28.3, 31.9, 35.4, 38.9, 42.3, 45.6, 48.9, 51.9, 54.8, 57.6, 60.4, 63, 65.6,
    68.1, 70.5, 72.9, 75.1, 77.3, 79.4, 81.4, 83.3, 85.1, 86.9, 88.6, 90.3, 92.2, 94.2, 96.4, 99, 102.3, 108.7, 123.6,
    160.5,
)  # fmt: skip
_MEMORY_PERCENT = (
    0.0113, 0.014, 0.0166, 0.0193, 0.0207, 0.0216, 0.0225, 0.0234, 0.0244, 0.0253, 0.0262, 0.0271, 0.028, 0.029,
    0.0299, 0.0317, 0.0337, 0.0356, 0.0376, 0.0396, 0.0424, 0.0455, 0.0486, 0.0527, 0.0574, 0.0633, 0.0707, 0.0805,
    0.0931, 0.107, 0.122, 0.138, 0.158, 0.186, 0.226, 0.283, 0.374, 0.521, 0.806, 1.19,
)  # fmt: skip
_RUN_S = (
    0, 0.2, 0.4, 0.7, 0.9, 1.2, 1.5, 1.8, 2.2, 2.6, 3.1, 3.6, 4.1, 4.7, 5.3, 6.1, 6.9, 7.7, 8.7, 9.7, 10.8, 12.1,
    13.4, 14.9, 16.7, 18.6, 20.8, 23.3, 26.1, 29.7, 34.1, 39.5, 45.6, 53, 62.9, 77.2, 97.1, 125.6, 180, 337.6,
)  # fmt: skip
# Instances of a task, tasks of a job, and seconds between the starts of two jobs.
_INSTANCES = (
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3, 3, 3, 5, 7, 9, 13, 21, 33, 60,
    119, 256, 696,
)  # fmt: skip
_TASKS = (
    1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 4, 4, 5, 5, 5, 6, 7, 8, 9,
    12, 18,
)  # fmt: skip
_GAP_S = (
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1,
    1, 2,
)  # fmt: skip

TASKS = len(_CPU_PERCENT)
# Larger tasks and longer runs would leave only themselves to measure.
MOST_INSTANCES = 100
MOST_RUN_S = 60.0
LEAST_RUN_S = 0.5
# The trace's machines have 96 cores: its memory shares are per core, and so 24 times as much of a node of four.
_CORES_RATIO = 96.0 / 4.0
# Any: it decides which values meet. The year of the trace.
_SEED = 2018


def alibaba() -> scenario.Scenario:
    """Return 40 tasks on 19 nodes of four cores; each quantity's 40 values in an order of their own."""
    rng = np.random.default_rng(_SEED)

    def drawn(values: tuple[float, ...]) -> list[float]:
        return [float(value) for value in rng.permutation(values)]

    starts_s = _starts_s(drawn(_TASKS), drawn(_GAP_S))
    columns = zip(drawn(_CPU_PERCENT), drawn(_MEMORY_PERCENT), drawn(_RUN_S), drawn(_INSTANCES), starts_s, strict=True)
    node = machine.Hardware()
    jobs = [
        _task(
            f"task-{index}",
            cores=cpu / 100.0,
            size=memory / 100.0 * _CORES_RATIO * node.memory_bytes,
            run_s=run_s,
            pods=pods,
            at_s=at_s,
        )
        for index, (cpu, memory, run_s, pods, at_s) in enumerate(columns)
    ]
    return scenario.Scenario(name="alibaba", hardware=(node,) * 19, jobs=tuple(jobs))


def _starts_s(tasks: list[float], gaps_s: list[float]) -> list[float]:
    """Return the start of each of TASKS tasks: those of a job start together."""
    found: list[float] = []
    at_s = 0.0
    for count, gap_s in zip(tasks, gaps_s, strict=True):
        found += [at_s] * int(count)
        at_s += gap_s
    return found[:TASKS]


def _task(name: str, *, cores: float, size: float, run_s: float, pods: float, at_s: float) -> scenario.Job:
    run_s = min(max(run_s, LEAST_RUN_S), MOST_RUN_S)
    made = work.Work(name=name, threads=cores, cpu_s=cores * run_s, memory_bytes=size, ramp_s=1.0, spread=0.03)
    return scenario.Job(
        name=name, work=made, pods=int(min(pods, MOST_INSTANCES)), at_s=at_s, request_cores=cores, request_bytes=size
    )
