"""`carico`: a linear predictor whose margin is learnt online, from outcomes pooled over all machines.

At each sample:

    1. resolve    a prediction of one horizon ago now has its outcome: the peak since then
    2. refit      once a period, for each weight of severity, on all resolved outcomes
    3. choose     the lightest weight with at most .95 of the violations and severity of the published predictor on
                  the same outcomes, and no less savings; if there is none, the published predictor. The fewer the
                  outcomes, the more it must be better.
    4. predict

Until enough outcomes are resolved, it predicts what the published predictor does. No constant belongs to a trace:
usage is a share of the limits, severity a share of the peak, and times are counted in horizons.
"""

import collections
from typing import NamedTuple

import numpy as np

from carico_core.numerics import arrays
from carico_core.numerics.overcommit import features, regression
from carico_core.numerics.overcommit import recent as recents

# From what saves most (violating every other time) to what almost never violates.
_SEVERITY_WEIGHTS: tuple[float, ...] = tuple(np.geomspace(4.0, 250.0, 16).tolist())
# A shorter horizon than this many samples would refit too often, on too little.
_PERIOD_LEAST = 12
# Fifty for each coefficient.
_OUTCOMES_LEAST = 50 * len(features.NAMES)
# In periods. Older outcomes are dropped, which bounds memory and time.
_KEPT_PERIODS = 24
# In periods: after this time an outcome counts half, where coefficients are learnt, and where a weight is chosen.
_LEARN_HALF_LIFE = 12.0
_CHOOSE_HALF_LIFE = 3.0
_LARGEST_HALF_LIFE = 24.0
# A lower prediction than a peak by this share of the limits is rounding.
_TOLERANCE = 1e-12
# The chosen weight has at most this share of the published predictor's violations and severity.
_AT_MOST = 0.95
# A fit of d coefficients passes through d of its outcomes, so others violate it more often: by this times d over the
# number of outcomes. Chosen on the series of docs/evaluation.md: with 50 machines none is not enough, and half of d is
# too cautious with 300.
_DOUBT = 0.2
_PRIOR = np.eye(len(features.NAMES))[features.PUBLISHED]


class _Resolved(NamedTuple):
    """What was known (machines, features) at a moment, and the peak (machines,) of the horizon after it."""

    known: arrays.Array
    peaks: arrays.Array


class _Record(NamedTuple):
    """Means over outcomes, each (k,) for k predictors."""

    violations: arrays.Array
    severity: arrays.Array
    level: arrays.Array


class Margin:
    """Predicts the peak within `horizon` samples. It is called once a sample, always with the same machines."""

    __slots__ = (
        "_chosen",
        "_coefficients",
        "_features",
        "_horizon",
        "_new",
        "_newest",
        "_pending",
        "_period",
        "_resolved",
    )

    def __init__(self, horizon: int) -> None:
        self._horizon = horizon
        self._period = max(horizon, _PERIOD_LEAST)
        self._features = features.Features(
            horizon=horizon, forget=1.0 - 0.5 ** (1.0 / (_LARGEST_HALF_LIFE * self._period))
        )
        # The samples of the last horizon, and what was known at each of its moments.
        self._newest: collections.deque[arrays.Array] = collections.deque(maxlen=horizon)
        self._pending: collections.deque[arrays.Array] = collections.deque()
        self._resolved: collections.deque[_Resolved] = collections.deque(maxlen=_KEPT_PERIODS * self._period)
        self._new = 0
        self._coefficients = np.tile(_PRIOR, (len(_SEVERITY_WEIGHTS), 1))
        self._chosen = _PRIOR

    def predict(self, recent: recents.Recent) -> arrays.Array:
        """Return the peak (m,), at least 0, and at most the limits or what the published predictor states."""
        self._newest.append(recent.total[:, -1] / recent.limits)
        if len(self._pending) == self._horizon:
            self._resolve()
        known = self._features.of(recent)
        self._pending.append(known)
        return _within(known, self._chosen) * recent.limits

    def _resolve(self) -> None:
        peaks = np.max(self._newest, axis=0)
        self._resolved.append(_Resolved(self._pending.popleft(), peaks))
        self._new += 1
        if self._new >= self._period and len(self._resolved) * len(peaks) >= _OUTCOMES_LEAST:
            self._new = 0
            self._refit()

    def _refit(self) -> None:
        known = np.array([each.known for each in self._resolved])
        peaks = np.array([each.peaks for each in self._resolved])
        ages = np.arange(len(known))[::-1, np.newaxis] / self._period
        # An idle machine has no severity.
        is_used = peaks > 0.0
        if not is_used.any():
            return
        learnt = np.broadcast_to(0.5 ** (ages / _LEARN_HALF_LIFE), peaks.shape)
        outcomes = regression.Outcomes(known=known[is_used], peaks=peaks[is_used], weights=learnt[is_used])
        self._coefficients = np.array(
            [
                regression.fit(outcomes, weight, prior=_PRIOR, start=start)
                for weight, start in zip(_SEVERITY_WEIGHTS, self._coefficients, strict=True)
            ]
        )
        # The outcomes of one period overlap: together they are worth one of each machine.
        doubt = _DOUBT * len(_PRIOR) * self._period / float(outcomes.weights.sum())
        judged = np.broadcast_to(0.5 ** (ages / _CHOOSE_HALF_LIFE), peaks.shape)[is_used]
        self._chosen = self._choose(outcomes.known, outcomes.peaks, judged, doubt=doubt)

    def _choose(self, known: arrays.Array, peaks: arrays.Array, weights: arrays.Array, *, doubt: float) -> arrays.Array:
        """Return the coefficients of the lightest weight that is better than the published predictor in all three.

        doubt: violations to expect beyond those of the outcomes that it was fitted to; severity grows in proportion.
        """
        share = weights / weights.sum()
        found = _record(np.array([_within(known, each) for each in self._coefficients]), peaks, share)
        published = _record(_within(known, _PRIOR)[np.newaxis], peaks, share)
        is_better = (
            (found.violations + doubt <= _AT_MOST * published.violations)
            & (found.severity * (published.violations + doubt) <= _AT_MOST * published.severity * published.violations)
            & (found.level <= published.level)
        )
        lightest: arrays.Array = self._coefficients[int(is_better.argmax())]
        return lightest if is_better.any() else _PRIOR


def _within(known: arrays.Array, coefficients: arrays.Array) -> arrays.Array:
    most = np.maximum(1.0, known[..., features.PUBLISHED])
    return np.asarray(np.clip(known @ coefficients, 0.0, most))


def _record(predicted: arrays.Array, peaks: arrays.Array, share: arrays.Array) -> _Record:
    """Return the weighted means of the predictions (k, n)."""
    return _Record(
        violations=(predicted < peaks - _TOLERANCE) @ share,
        severity=np.maximum(1.0 - predicted / peaks, 0.0) @ share,
        level=predicted @ share,
    )
