"""Rules that recommend requests, on a recorded trace: how much they reserve without use, how often too little.

Each series is a class of Pods. Each rule sees the samples so far, and its recommendation holds for the next horizon.
Slack is 1 - usage / recommendation, both summed over all series and samples that followed; overruns are the share of
those samples that are above the recommendation. No rule can have less slack than amounts that are chosen in hindsight.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from carico_core.domain import errors, usage
from carico_core.numerics import arrays, distribution, recommendation
from carico_twin.evaluate.trace import reading, scoring

HALF_LIFE_S = 24 * 3600.0
_DAY_S = 86_400
MIB = 2.0**20
# Halvings of the price of an overrun.
_PRICES = 60
_NOTHING = distribution.Distribution("cpu", np.zeros(usage.BUCKETS))
# Samples so far (s,) in cores or bytes and their interval in seconds -> request.
Rule = Callable[[arrays.Array, int], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Shares of 1: of the recommendation, and of the samples."""

    slack: float
    overruns: float


def evaluate(
    file: str, trace: reading.Trace, setup: scoring.Setup, *, dimension: str, unit: float
) -> dict[str, Any]:  # fmt: skip
    """Return each rule's score, as JSON. `unit`: cores or bytes of 1 in the trace. Raises `SettingsError`."""
    if not 0.0 < unit < math.inf:
        raise errors.SettingsError(f"--unit: got {unit:g}, expected the cores or bytes of 1 in the trace")
    series, samples = trace.series.shape
    if samples < setup.history + setup.horizon:
        raise errors.SettingsError(
            f"{file}: got {samples} samples, expected at least {setup.history + setup.horizon}: those of --history and "
            "--horizon"
        )
    used = unit * trace.series
    scores = {name: score(used, rule, setup) for name, rule in RULES[dimension].items()}
    most = scores["vpa"].overruns
    scores["oracle"] = in_hindsight(used, setup, overruns=most)
    scores["oracle-constant"] = in_hindsight(used, setup, overruns=most, is_constant=True)
    return {
        "trace": file, "series": series, "samples": samples, "setup": asdict(setup), "dimension": dimension,
        "unit": unit, "rules": {name: asdict(each) for name, each in scores.items()},
    }  # fmt: skip


def score(series: arrays.Array, rule: Rule, setup: scoring.Setup) -> Score:
    """Return a rule's score on the series (series, samples) in cores or bytes."""
    used = reserved = 0.0
    above = judged = 0
    for moment in range(setup.history, series.shape[1] - setup.horizon + 1, setup.horizon):
        for each in series:
            request = rule(each[:moment], setup.interval_s)
            followed = each[moment : moment + setup.horizon]
            used += float(followed.sum())
            reserved += request * followed.size
            above += int((followed > request).sum())
            judged += followed.size
    return Score(slack=1.0 - used / reserved, overruns=above / judged)


def in_hindsight(
    series: arrays.Array, setup: scoring.Setup, *, overruns: float, is_constant: bool = False
) -> Score:  # fmt: skip
    """Return the least slack that amounts for each horizon can have, with at most this share of overruns.

    With `is_constant` each series has one amount for all that is judged. If an overrun has a price, the best amount is
    one of the samples; what is reserved at the lowest price with few enough overruns is the least there is, but for the
    overruns that are then left (Lagrange).
    """
    horizons = (series.shape[1] - setup.history) // setup.horizon
    judged = series[:, setup.history : setup.history + horizons * setup.horizon]
    held = judged.shape[1] if is_constant else setup.horizon
    # An amount equal to the n-th largest sample (from 0) is exceeded by n samples.
    amounts = -np.sort(-judged.reshape(-1, held), axis=1)
    exceeded, rows = np.arange(held), np.arange(len(amounts))

    def chosen(price: float) -> arrays.Array:
        places: arrays.Array = (amounts * held + price * exceeded).argmin(axis=1)
        return places

    low, high = 0.0, float(judged.max()) * held + 1.0
    for _ in range(_PRICES):
        middle = 0.5 * (low + high)
        is_few = chosen(middle).sum() <= overruns * judged.size
        low, high = (low, middle) if is_few else (middle, high)
    places = chosen(high)
    reserved = float(amounts[rows, places].sum()) * held
    # Without any usage nothing is reserved.
    slack = 1.0 - float(judged.sum()) / reserved if reserved > 0.0 else 0.0
    return Score(slack=slack, overruns=float(places.sum()) / judged.size)


def carico_cpu(seen: arrays.Array, interval_s: int) -> float:
    """Return what `carico recommend` recommends."""
    return recommendation.recommend(_measured(seen, "cpu", interval_s), recommendation.Rule()).requests["cpu"]


def carico_memory(seen: arrays.Array, interval_s: int) -> float:
    """Return what `carico recommend` recommends."""
    return recommendation.recommend(_measured(seen, "memory", interval_s), recommendation.Rule()).requests["memory"]


def vpa_cpu(seen: arrays.Array, interval_s: int, *, least: float = 0.025) -> float:
    """Return VPA's target: 90th percentile of a histogram that halves in a day, plus 15 %, at least 25m.

    Source: vertical-pod-autoscaler/pkg/recommender (estimator.go, aggregations_config.go, histogram_options.go).
    """
    found = _vpa_percentile(seen, _ages_decay(seen.size, interval_s), first=0.01)
    return max(1.15 * found, least)


def vpa_memory(seen: arrays.Array, interval_s: int, *, least: float = 250 * MIB) -> float:
    """Return VPA's target: 90th percentile of daily peaks in the same histogram, plus 15 %, at least 250 MiB."""
    per_day = max(1, _DAY_S // interval_s)
    starts = range(0, seen.size, per_day)
    peaks = np.array([float(seen[start : start + per_day].max()) for start in starts])
    return max(1.15 * _vpa_percentile(peaks, _ages_decay(peaks.size, _DAY_S), first=1e7), least)


def krr_cpu(seen: arrays.Array, interval_s: int) -> float:
    """Return krr's: 95th percentile of the last week, at least 10m (robusta_krr/strategies/simple.py)."""
    week = seen[-max(1, 7 * _DAY_S // interval_s) :]
    return max(float(np.percentile(week, 95)), 0.01)


def krr_memory(seen: arrays.Array, interval_s: int) -> float:
    """Return krr's: the maximum of the last week plus 15 %, at least 100 MB."""
    week = seen[-max(1, 7 * _DAY_S // interval_s) :]
    return max(1.15 * float(week.max()), 100e6)


def _measured(seen: arrays.Array, dimension: str, interval_s: int) -> recommendation.Measured:
    weights = np.zeros(usage.BUCKETS)
    places = [distribution.bucket(dimension, amount) for amount in seen.tolist()]
    np.add.at(weights, places, interval_s * _ages_decay(seen.size, interval_s))
    used = {dimension: distribution.Distribution(dimension, weights, peak=float(seen.max()))}
    return recommendation.Measured(
        cpu=used.get("cpu", _NOTHING), memory=used.get("memory", _NOTHING), pod_means=_NOTHING,
        memory_before=None, pods=1, failed=0, failed_share=0.0, nodes=1, has_new_image=False,
        measured_s=float(seen.size * interval_s), age_s=float(seen.size * interval_s),
    )  # fmt: skip


def _ages_decay(count: int, interval_s: int) -> arrays.Array:
    """Return the weight of each sample, the oldest first: 2^(-age / half-life)."""
    ages_s = interval_s * np.arange(count - 1, -1, -1.0)
    found: arrays.Array = 2.0 ** (-ages_s / HALF_LIFE_S)
    return found


def _vpa_percentile(amounts: arrays.Array, weights: arrays.Array, *, first: float) -> float:
    """Return the upper bound of the bucket in which the 90th percentile is; the n-th is `first` x 1.05^n wide."""
    # start of bucket n = first (1.05^n - 1) / .05
    places = np.floor(np.log1p(amounts * 0.05 / first) / math.log(1.05)).astype(int)
    reached = np.cumsum(np.bincount(places, weights=weights))
    place = int(np.searchsorted(reached, 0.9 * reached[-1]))
    return first * (1.05 ** (place + 1) - 1.0) / 0.05


RULES: Mapping[str, Mapping[str, Rule]] = {
    "cpu": {
        "carico": carico_cpu,
        "vpa": vpa_cpu,
        "vpa-without-floor": lambda seen, interval_s: vpa_cpu(seen, interval_s, least=0.0),
        "krr": krr_cpu,
    },
    "memory": {
        "carico": carico_memory,
        "vpa": vpa_memory,
        "vpa-without-floor": lambda seen, interval_s: vpa_memory(seen, interval_s, least=0.0),
        "krr": krr_memory,
    },
}
