"""Machines drawn from a trace, and how well each predictor foresees their peaks.

As in "Take it to the limit" (EuroSys'21): at each sample a predictor states a machine's peak within the horizon from
the history before it. A violation is a prediction below the peak, its severity the missing share of the peak, and the
savings are the share of the limits that is above the prediction; each is a mean over machines and samples.
"""

import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from carico_core.domain import errors
from carico_core.numerics import arrays
from carico_core.numerics.overcommit import agent, baselines, margin
from carico_core.numerics.overcommit import recent as recents
from carico_twin.evaluate.trace import reading

# What ships.
DEFAULT = "carico"
ORACLE = "oracle"
# A standard deviation needs two samples.
_HISTORY_LEAST = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """How machines are drawn and judged. limit: of one series, in the trace's unit."""

    interval_s: int = 300
    per_machine: int = 10
    horizon_s: int = 3600
    history_s: int = 7200
    limit: float = 100.0
    machines: int = 100
    seed: int = 1

    def __post_init__(self) -> None:
        least, most = 1.0 / reading.VALUE_MOST, reading.VALUE_MOST
        if not least <= self.limit <= most:
            raise errors.SettingsError(
                f"--limit: got {self.limit:g}, expected a positive number in the trace's unit, from {least:g} to "
                f"{most:g}"
            )
        for name, seconds in (("--horizon", self.horizon_s), ("--history", self.history_s)):
            if seconds % self.interval_s:
                raise errors.SettingsError(
                    f"{name}: got {seconds} s, expected a multiple of the interval ({self.interval_s} s, --interval)"
                )
        if self.history < _HISTORY_LEAST:
            raise errors.SettingsError(
                f"--history: got {self.history_s} s, expected at least {_HISTORY_LEAST} intervals "
                f"({_HISTORY_LEAST * self.interval_s} s)"
            )

    @property
    def history(self) -> int:
        """In samples."""
        return self.history_s // self.interval_s

    @property
    def horizon(self) -> int:
        """In samples."""
        return self.horizon_s // self.interval_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Shares of 1: of the predictions, of the peak, and of the limits."""

    violations: float
    severity: float
    savings: float


def evaluate(file: str, trace: reading.Trace, setup: Setup) -> dict[str, Any]:
    """Return what was drawn and each predictor's score, as JSON. Raises `SettingsError` if the setup does not fit."""
    _check(file, trace, setup)
    series, samples = trace.series.shape
    drawn = draw(series, setup)
    scores = score(trace.series, drawn, setup)
    return {
        "trace": file, "series": series, "drawn": len(np.unique(drawn)), "samples": samples, "setup": asdict(setup),
        "above_limit": int((trace.series > setup.limit).sum()),
        "predictions": setup.machines * len(_moments(samples, setup)),
        "predictors": {name: asdict(each) for name, each in scores.items()},
    }  # fmt: skip


def draw(series: int, setup: Setup) -> npt.NDArray[np.int64]:
    """Return the series of each machine (machines, per machine); within a machine each is another one."""
    rng, order, drawn = random.Random(setup.seed), list(range(series)), []
    for _ in range(setup.machines):
        rng.shuffle(order)
        drawn.append(order[: setup.per_machine])
    return np.array(drawn)


def predictors(setup: Setup) -> dict[str, recents.Predictor]:
    """Return new predictors by name."""
    return {DEFAULT: margin.Margin(setup.horizon), "agent": agent.Agent(setup.interval_s), **baselines.BASELINES}


def score(series: arrays.Array, drawn: npt.NDArray[np.int64], setup: Setup) -> Mapping[str, Score]:
    """Return each predictor's score on the drawn machines, and the oracle's."""
    found = predictions(series, drawn, setup)
    limits = setup.limit * setup.per_machine
    return {name: _judged(predicted, found[ORACLE], limits) for name, predicted in found.items()}


def predictions(series: arrays.Array, drawn: npt.NDArray[np.int64], setup: Setup) -> dict[str, arrays.Array]:
    """Return what each predictor predicts (moments, machines), and the peaks that followed, as those of the oracle."""
    running = predictors(setup)
    found: dict[str, list[arrays.Array]] = {name: [] for name in (*running, ORACLE)}
    for moment in _moments(series.shape[1], setup):
        # A predictor receives no sample of the horizon.
        recent = recents.Recent(series=series[drawn, moment - setup.history : moment], limit=setup.limit)
        for name, predictor in running.items():
            found[name].append(predictor.predict(recent))
        found[ORACLE].append(series[drawn, moment : moment + setup.horizon].sum(axis=1).max(axis=1))
    return {name: np.array(each) for name, each in found.items()}


def _judged(predicted: arrays.Array, peaks: arrays.Array, limits: float) -> Score:
    missing = np.maximum(peaks - predicted, 0.0)
    severity = np.divide(missing, peaks, out=np.zeros_like(peaks), where=peaks > 0.0)
    return Score(
        violations=float(recents.exceeded(predicted, peaks, limits).mean()),
        severity=float(severity.mean()),
        savings=float(((limits - predicted) / limits).mean()),
    )


def _moments(samples: int, setup: Setup) -> range:
    return range(setup.history, samples - setup.horizon)


def _check(file: str, trace: reading.Trace, setup: Setup) -> None:
    series, samples = trace.series.shape
    if setup.per_machine > series:
        raise errors.SettingsError(
            f"--per-machine: got {setup.per_machine}, expected at most {series}, the series of {file}"
        )
    if not _moments(samples, setup):
        raise errors.SettingsError(
            f"--history and --horizon: got {setup.history_s} s and {setup.horizon_s} s, expected less than "
            f"{samples * setup.interval_s} s in all, the length of {file} ({samples} samples of {setup.interval_s} s)"
        )
