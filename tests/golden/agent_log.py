"""Where the author's recorded logs lie, and a generator of the same format that stands in where they are absent.

The generator writes the same lines from its own plain arithmetic, not from the project's numerics, so that a replay
still compares two implementations. What it cannot show is that the author's agent worked that way.
"""

import dataclasses
import datetime
import os
import pathlib
import re
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from carico_cli.recordings import author_log, sample_words, trace
from carico_core.numerics import signal
from carico_core.numerics.estimators import base

Array = npt.NDArray[np.float64]
NUMBER = author_log.NUMBER
PODS = author_log.PODS
Evaluation = trace.Evaluation
numbers = author_log.numbers
BASIS = re.compile(rf"\(fpca\) U: .*Data:\[\]float64\{{{NUMBER}, {NUMBER}, {NUMBER}, {NUMBER}\}}")
SIGMA = re.compile(rf"\(fpca\) S: .*Data:\[\]float64\{{{NUMBER}, {NUMBER}\}}")
WEIGHTS = re.compile(rf"\(fpca\) sumProbU: \[\]float64\{{{NUMBER}, {NUMBER}\}}")
# The stand-in begins at the time of the recorded logs.
BEGIN = datetime.datetime(2025, 5, 21, 21, 26, 53, tzinfo=datetime.UTC)


def shared_data() -> pathlib.Path:
    """Where the recorded logs lie: CARICO_SHARED_DATA, or `shared/data` next to the repository."""
    named = os.environ.get("CARICO_SHARED_DATA")
    root = pathlib.Path(__file__).resolve().parents[2]
    return (pathlib.Path(named) if named else root.parent / "shared" / "data") / "dissertation"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AgentLog(author_log.AuthorLog):
    """A log, with what a replay computes by itself.

    filtered: (n, columns as logged), in the log's units. models: (U (2, 2), sigma (2,), w (2,)).
    """

    filtered: Array
    models: list[tuple[Array, Array, Array]]


def parse(lines: Iterable[str]) -> AgentLog:
    """The log of one agent."""
    every = list(lines)
    found = author_log.parse(every, name="log")
    read = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
    return AgentLog(**read, filtered=np.array(list(_filtered(every))), models=list(_models(every)))


def _filtered(lines: Iterable[str]) -> Iterator[list[float]]:
    for line in lines:
        if line[27:].startswith("(filter-metrics)"):
            found = sample_words.columns(line[27:].removeprefix("(filter-metrics)"))
            assert found is not None, line
            yield [found[name] for name in sample_words.ordered(found)]


def _models(lines: Iterable[str]) -> Iterator[tuple[Array, Array, Array]]:
    basis, sigma = np.empty((0, 0)), np.empty(0)
    for line in lines:
        if found := BASIS.search(line):
            basis = numbers(found).reshape(2, 2)
        elif found := SIGMA.search(line):
            sigma = numbers(found)
        elif found := WEIGHTS.search(line):
            yield basis, sigma, numbers(found)


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
    at = BEGIN
    for line in untimed(seconds=seconds, seed=seed):
        at += datetime.timedelta(seconds=0.1 if line.startswith("(metrics)") else 0.0)
        yield f"{at:%Y/%m/%d %H:%M:%S.%f} {line}"


def untimed(*, seconds: int, seed: int) -> Iterator[str]:
    """The run's lines without their stamps."""
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


def observe(evaluation: Evaluation) -> base.Observation:
    """What an estimator was shown at this evaluation."""
    level, _ = signal.capacity_signal(evaluation.usage, evaluation.direction, ceiling=np.ones(2), cap=1e3)
    return base.Observation(
        dt_s=1.0,
        y=evaluation.usage,
        gains=np.ones(2),
        pods=evaluation.pods or 0,
        signal=level,
        churning=evaluation.pods is None,
    )
