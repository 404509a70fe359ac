"""A small deterministic node of four cores, to close the loop around an estimator: no cluster, no clock."""

from dataclasses import dataclass

import numpy as np

from carico_core.numerics import ewma
from carico_core.numerics.estimators import base, vector

CORES = 4.0
MEMORY_BYTES = 8e9
DIMS = ("cpu", "memory")
STEP_S = 0.1


@dataclass
class Pod:
    """A program: `tasks` runnable threads, bytes held, seconds of work left, seconds until it first uses anything."""

    tasks: float
    held_bytes: float
    work_s: float
    waits_s: float


def config(ceiling: float = 0.9) -> base.EstimatorConfig:
    return base.EstimatorConfig(
        dims=DIMS,
        scale=np.array([2 * CORES, MEMORY_BYTES]),
        cores=CORES,
        ceiling=np.array([ceiling, 0.95]),
        guard=base.default_guard(DIMS),
    )


class SimulatedNode:
    """Processor sharing over four cores, usage as utilisation and pressure read it, the real filter, a made-up ripple.

    Usage is tasks / (2 x cores) up to 1: what the mean of utilisation and pressure measures (spec 1).
    """

    def __init__(
        self, estimator: base.Estimator, *, start_lag_s: float = 0.2, idle_tasks: float = 0.05, ripple: float = 0.01
    ) -> None:
        self.estimator = estimator
        self.pods: list[Pod] = []
        self.steps = 0
        self._ema = ewma.DynamicEma()
        self._start_lag_s = start_lag_s
        self._idle_tasks = idle_tasks
        self._ripple = ripple
        self._y = np.zeros(len(DIMS))

    def start(self, count: int = 1, *, tasks: float = 1.0, held_bytes: float = 20e6, work_s: float = 1e9) -> None:
        self.pods += [Pod(tasks, held_bytes, work_s, self._start_lag_s) for _ in range(count)]

    def step(self) -> int:
        """Pods that ended in the next tenth of a second."""
        running = [pod for pod in self.pods if pod.waits_s <= 0]
        tasks = self._idle_tasks + sum(pod.tasks for pod in running)
        for pod in running:
            pod.work_s -= STEP_S * min(1.0, CORES / tasks)
        for pod in self.pods:
            pod.waits_s -= STEP_S
        before = len(self.pods)
        self.pods = [pod for pod in self.pods if pod.work_s > 0]
        # A fixed ripple of unrelated period in place of noise: the run is the same on every machine.
        wave = self._ripple * np.sin(np.array([2.1, 1.3]) * self.steps)
        held = 4e8 + sum(pod.held_bytes for pod in running)
        sample = np.clip(np.array([min(1.0, tasks / (2 * CORES)), held / MEMORY_BYTES]) + wave * [1.0, 0.05], 0.0, 1.0)
        self._y = self._ema.update(sample)
        self.estimator.tick(sample, self._ema.last_gain, len(self.pods), STEP_S)
        self.steps += 1
        return before - len(self.pods)

    def observation(self) -> base.Observation:
        return base.Observation(
            dt_s=1.0,
            y=self._y,
            gains=self._ema.last_gain,
            pods=len(self.pods),
            signal=1.0,
            direction=np.array([0.5, 0.1]),
        )

    def run(self, seconds: int) -> base.CapacityEstimate:
        """The estimate after that long, with one update a second."""
        for index in range(10 * seconds):
            self.step()
            if index % 10 == 9:
                estimate = self.estimator.update(self.observation())
        return estimate


@dataclass
class LoopResult:
    """running: Pods on the node at each step. finished: Pods that ended."""

    running: list[int]
    finished: int


def close_loop(
    *,
    seconds: int,
    ceiling: float = 0.9,
    start_lag_s: float = 0.2,
    bind_s: float = 0.5,
    tasks: float = 1.0,
    work_s: float = 5.0,
    seed: int = 0,
) -> LoopResult:
    """A scheduler with endless Pods binds while capacity - reserved >= 1; capacity is published as the agent does."""
    rng = np.random.default_rng(seed)
    node = SimulatedNode(vector.Vector(config(ceiling)), start_lag_s=start_lag_s)
    node.step()
    capacity = node.estimator.update(node.observation()).capacity
    bound: list[float] = []
    result = LoopResult(running=[], finished=0)
    for step in range(10 * seconds):
        ended = node.step()
        bound = [left_s - STEP_S for left_s in bound]
        arrived = sum(left_s <= 0 for left_s in bound)
        bound = [left_s for left_s in bound if left_s > 0]
        for _ in range(arrived):
            node.start(tasks=tasks, work_s=work_s * (0.95 + 0.1 * rng.random()))
        if step % 10 == 0:
            capacity = node.estimator.update(node.observation()).capacity
        elif ended or arrived:
            capacity = node.estimator.estimate(node.observation()).capacity
        while capacity - len(bound) >= 1:
            bound.append(bind_s)
        result.running.append(len(node.pods))
        result.finished += ended
    return result
