"""The log format of the dissertation author's agent: a parser, and a generator that stands in where it is absent.

The generator writes the same lines from its own plain arithmetic, not from the project's numerics, so that a replay
still compares two implementations. What it cannot show is that the author's agent worked that way.
"""

import os
import pathlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
NUMBER = r"(-?[\d.]+(?:e-?\d+)?)"
RAW = re.compile(rf"\(metrics\) cpu utilisation: {NUMBER} cpu pressure: {NUMBER} mem utilisation {NUMBER}")
FILTERED = re.compile(rf"\(filter-metrics\) cpu pressure: {NUMBER} mem utilisation {NUMBER}")
BASIS = re.compile(rf"\(fpca\) U: .*Data:\[\]float64\{{{NUMBER}, {NUMBER}, {NUMBER}, {NUMBER}\}}")
SIGMA = re.compile(rf"\(fpca\) S: .*Data:\[\]float64\{{{NUMBER}, {NUMBER}\}}")
WEIGHTS = re.compile(rf"\(fpca\) sumProbU: \[\]float64\{{{NUMBER}, {NUMBER}\}}")
USAGE = re.compile(rf"\(signal\) y: \[{NUMBER} {NUMBER}\]")
DIRECTION = re.compile(rf"\(signal\) U: \[\]float64\{{{NUMBER}, {NUMBER}\}}")
LEVEL = re.compile(rf"\(calc-signal\) signal = {NUMBER}")
PODS = re.compile(rf"\(capacity\) podCount = {NUMBER}")
DUAL = re.compile(rf"\(two-kalman-1d\) capacity: {NUMBER} cost: {NUMBER}")


@dataclass
class Evaluation:
    """One evaluation of the signal; what the agent left out of the log (during churn) is None."""

    usage: Array
    direction: Array
    level: float | None = None
    pods: int | None = None
    baseline: float | None = None
    cost: float | None = None


@dataclass
class AgentLog:
    """raw: (n, 3) utilisation, pressure, memory. filtered: (n, 2). models: (U (2, 2), sigma (2,), w (2,))."""

    raw: Array
    filtered: Array
    models: list[tuple[Array, Array, Array]]
    evaluations: list[Evaluation]


def shared_data() -> pathlib.Path:
    """Where the recorded logs lie: CARICO_SHARED_DATA, or `shared/data` beside the repository."""
    named = os.environ.get("CARICO_SHARED_DATA")
    root = pathlib.Path(__file__).resolve().parents[2]
    return (pathlib.Path(named) if named else root.parent / "shared" / "data") / "dissertation"


def numbers(match: re.Match[str]) -> Array:
    return np.array([float(group) for group in match.groups()])


def parse(lines: Iterator[str]) -> AgentLog:
    """The log of one agent."""
    raw: list[Array] = []
    filtered: list[Array] = []
    evaluations: list[Evaluation] = []
    models: list[tuple[Array, Array, Array]] = []
    basis: Array = np.empty((0, 0))
    sigma: Array = np.empty(0)
    usage: Array = np.empty(0)
    for line in lines:
        if found := RAW.search(line):
            raw.append(numbers(found))
        elif found := FILTERED.search(line):
            filtered.append(numbers(found))
        elif found := BASIS.search(line):
            basis = numbers(found).reshape(2, 2)
        elif found := SIGMA.search(line):
            sigma = numbers(found)
        elif found := WEIGHTS.search(line):
            models.append((basis, sigma, numbers(found)))
        elif found := USAGE.search(line):
            usage = numbers(found)
        elif found := DIRECTION.search(line):
            evaluations.append(Evaluation(usage=usage, direction=numbers(found)))
        elif evaluations:
            read_evaluation(line, evaluations[-1])
    return AgentLog(raw=np.array(raw), filtered=np.array(filtered), models=models, evaluations=evaluations)


def read_evaluation(line: str, evaluation: Evaluation) -> None:
    if found := LEVEL.search(line):
        evaluation.level = float(found[1])
    elif found := PODS.search(line):
        evaluation.pods = int(float(found[1]))
    elif found := DUAL.search(line):
        # The author keeps the cost as a negative number.
        evaluation.baseline, evaluation.cost = float(found[1]), -float(found[2])


# --- the stand-in ---


class SharedEma:
    """The logged filter in its plainest form: one counter, CPU first, then memory."""

    def __init__(self) -> None:
        self.values = [0.0, 0.0]
        self.ups = self.downs = 0
        self.started = False

    def take(self, samples: list[float]) -> list[float]:
        if not self.started:
            self.started, self.values = True, list(samples)
            return list(self.values)
        for index, sample in enumerate(samples):
            if sample > self.values[index]:
                self.ups, self.downs = self.ups + 1, 0
                alpha = 0.333 if self.ups >= 4 else 0.09
            elif sample < self.values[index]:
                self.downs, self.ups = self.downs + 1, 0
                alpha = 0.2 if self.downs >= 4 else 0.0625
            else:
                alpha = 0.0
            self.values[index] = (1 - alpha) * self.values[index] + alpha * sample
        return list(self.values)


class PlainDual:
    """Two scalar filters written out, with the author's sign of the cost."""

    def __init__(self) -> None:
        self.baseline, self.p_baseline, self.cost, self.p_cost = 1.3, 0.01, -1.0, 0.2

    def take(self, level: float, pods: int) -> None:
        if level <= 0 and self.baseline + self.cost * pods <= 0:
            return
        self.p_baseline += 1e-4
        gain = self.p_baseline / (self.p_baseline + 0.5)
        self.baseline += gain * (level - self.baseline - self.cost * pods)
        self.p_baseline *= 1 - gain
        if pods > 0:
            self.p_cost += 1e-3
            gain = pods * self.p_cost / (pods * pods * self.p_cost + 0.5)
            self.cost += gain * (level - self.baseline - self.cost * pods)
            self.p_cost *= 1 - gain * pods


def generate(*, seconds: int = 200, seed: int = 1) -> Iterator[str]:
    """Lines of a made-up run: waves of Pods on four cores, memory that rests between them."""
    rng = np.random.default_rng(seed)
    ema, dual = SharedEma(), PlainDual()
    gram: Array | None = None
    for second in range(seconds):
        pods = (0, 2, 4, 1, 8, 0, 6, 10, 3, 0)[second // 10 % 10]
        # A neighbour that fills the node now and then: readings of 0 that the model did not expect.
        neighbour = 1.0 if pods == 6 and second % 10 in (4, 5, 6) else 0.0
        batch = []
        for _ in range(10):
            busy = min(1.0, pods / 4 * (1 + 0.05 * rng.standard_normal()) + 0.03 * rng.random())
            wait = min(1.0, max(neighbour, (pods - 4) / 4, 0.0)) * (0.95 + 0.05 * rng.random()) + 0.005 * rng.random()
            memory = 0.056 + 0.002 * pods + (1e-5 * rng.standard_normal() if rng.random() < 0.2 else 0.0)
            values = ema.take([(busy + wait) / 2, memory])
            batch.append(values)
            yield f"(metrics) cpu utilisation: {busy:.6f} cpu pressure: {wait:.6f} mem utilisation {memory:.6f}\n"
            yield f"(filter-metrics) cpu pressure: {values[0]:.6f} mem utilisation {values[1]:.6f}\n"
        columns = np.array(batch).T
        gram = columns @ columns.T if gram is None else 0.5 * gram + 0.5 * columns @ columns.T
        u, sigma, _ = np.linalg.svd(np.linalg.cholesky(gram))
        yield from evaluate(u, sigma, np.array(values), pods, dual)


def evaluate(u: Array, sigma: Array, y: Array, pods: int, dual: PlainDual) -> Iterator[str]:
    w = [sum(abs(u[i, j]) * sigma[j] for j in range(2)) / (sigma[0] + sigma[1]) for i in range(2)]
    level = 0.0 if max(y) >= 0.95 else min((1 - y[0]) / w[0], (1 - y[1]) / w[1])
    dual.take(level, pods)
    cells = ", ".join(repr(float(value)) for value in u.ravel())
    yield f"(fpca) U: blas64.General{{Rows:2, Cols:2, Data:[]float64{{{cells}}}, Stride:2}}\n"
    yield f"(fpca) S: blas64.Band{{Rows:2, Cols:2, Data:[]float64{{{float(sigma[0])!r}, {float(sigma[1])!r}}}}}\n"
    yield f"(fpca) sumProbU: []float64{{{float(w[0])!r}, {float(w[1])!r}}}\n"
    yield f"(signal) y: [{float(y[0])!r} {float(y[1])!r}]\n"
    yield f"(signal) U: []float64{{{float(w[0])!r}, {float(w[1])!r}}}\n"
    yield f"(calc-signal) signal = {level:.4f}\n"
    yield f"(capacity) podCount = {pods:.6f}\n"
    yield f"(two-kalman-1d) capacity: {dual.baseline:.6f} cost: {dual.cost:.6f}\n"
