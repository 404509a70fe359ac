"""`carico`: a linear predictor whose margin is learnt online, from outcomes pooled over all machines.

At each sample:

    1. resolve    a prediction of one horizon ago now has its outcome: the peak since then
    2. refit      once a period, for each weight of severity, on all resolved outcomes
    3. choose     the lightest weight with at most .95 of the violations and severity of the published predictor, and no
                  less savings; if there is none, the published predictor. What counts is the record on the outcomes
                  that it was fitted to, plus by how much earlier fits did worse than on theirs (`promises`).
    4. predict

Until enough outcomes are resolved, it predicts what the published predictor does. No constant belongs to a trace:
usage is a share of the limits, severity a share of the peak, and times are counted in horizons.
"""

import collections
from typing import NamedTuple

import numpy as np

from carico_core.numerics import arrays
from carico_core.numerics.overcommit import features, promises, regression
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
# In periods: as many outcomes count as much as the doubt at the beginning. With one, an hour in which the published
# predictor hardly violated decided for five.
_MEASURED = 2.0
# The chosen weight has at most this share of the published predictor's violations and severity.
_AT_MOST = 0.95
# A fit of d coefficients passes through d of its outcomes, so others violate it more often: by this times d over the
# number of outcomes. Only the beginning of what is then learnt. Chosen on the series of docs/evaluation.md: with 50
# machines none is not enough, and half of d is too cautious with 300.
_DOUBT = 0.2
_PRIOR: arrays.Array = np.eye(len(features.NAMES))[features.PUBLISHED]


class _Resolved(NamedTuple):
    """What was known (machines, features) at a moment, and the peak (machines,) of the horizon after it."""

    known: arrays.Array
    peaks: arrays.Array


class _Fit(NamedTuple):
    """Coefficients (k, d), one row for each weight of severity.

    record: theirs, and the published predictor's as the last one, on the outcomes that they were fitted to. doubt: how
    much more other outcomes will violate them, before this is measured.
    """

    coefficients: arrays.Array
    record: promises.Record
    doubt: float


class _Pending(NamedTuple):
    """What was known (machines, features) at a moment, and the fit of that moment; None before the first."""

    known: arrays.Array
    fit: _Fit | None


class Margin:
    """Predicts the peak within `horizon` samples. It is called once a sample, always with the same machines."""

    __slots__ = (
        "_features",
        "_fit",
        "_horizon",
        "_new",
        "_newest",
        "_pending",
        "_period",
        "_promises",
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
        self._pending: collections.deque[_Pending] = collections.deque()
        self._resolved: collections.deque[_Resolved] = collections.deque(maxlen=_KEPT_PERIODS * self._period)
        self._new = 0
        self._fit: _Fit | None = None
        self._promises = promises.Promises(_CHOOSE_HALF_LIFE * self._period)

    def predict(self, recent: recents.Recent) -> arrays.Array:
        """Return the peak (m,), at least 0, and at most the limits or what the published predictor states."""
        self._newest.append(recent.total[:, -1] / recent.limits)
        if len(self._pending) == self._horizon:
            self._resolve()
        known = self._features.of(recent)
        self._pending.append(_Pending(known, self._fit))
        return _within(known, self._chosen(machines=len(known))) * recent.limits

    def _resolve(self) -> None:
        peaks = np.max(self._newest, axis=0)
        known, fit = self._pending.popleft()
        self._resolved.append(_Resolved(known, peaks))
        # An idle machine has no severity.
        is_used = peaks > recents.ROUNDING
        if fit is not None and is_used.any():
            outcomes = int(is_used.sum())
            found = _record(known[is_used], peaks[is_used], np.full(outcomes, 1.0 / outcomes), fit.coefficients)
            self._promises.settle(fit.record, found, outcomes=outcomes)
        self._new += 1
        if self._new >= self._period and len(self._resolved) * len(peaks) >= _OUTCOMES_LEAST:
            self._new = 0
            self._refit()

    def _refit(self) -> None:
        known = np.array([each.known for each in self._resolved])
        peaks = np.array([each.peaks for each in self._resolved])
        ages = np.arange(len(known))[::-1, np.newaxis] / self._period
        is_used = peaks > recents.ROUNDING
        if not is_used.any():
            return
        learnt = np.broadcast_to(0.5 ** (ages / _LEARN_HALF_LIFE), peaks.shape)
        outcomes = regression.Outcomes(known=known[is_used], peaks=peaks[is_used], weights=learnt[is_used])
        starts = np.tile(_PRIOR, (len(_SEVERITY_WEIGHTS), 1)) if self._fit is None else self._fit.coefficients
        coefficients = np.array(
            [
                regression.fit(outcomes, weight, prior=_PRIOR, start=start)
                for weight, start in zip(_SEVERITY_WEIGHTS, starts, strict=True)
            ]
        )
        judged = np.broadcast_to(0.5 ** (ages / _CHOOSE_HALF_LIFE), peaks.shape)[is_used]
        self._fit = _Fit(
            coefficients=coefficients,
            record=_record(outcomes.known, outcomes.peaks, judged / judged.sum(), coefficients),
            # The outcomes of one period overlap: together they are worth one of each machine.
            doubt=_DOUBT * len(_PRIOR) * self._period / float(outcomes.weights.sum()),
        )

    def _chosen(self, *, machines: int) -> arrays.Array:
        """Return the coefficients of the lightest weight that is better than the published predictor in all three."""
        fit = self._fit
        if fit is None or not fit.record.is_comparable:
            return _PRIOR
        begins = _MEASURED * self._period * machines
        excess = self._promises.excess(fit.record, doubt=fit.doubt, begins=begins)
        is_better = (fit.record.shares + excess[:, np.newaxis] <= _AT_MOST).all(axis=0)
        is_better &= fit.record.level[:-1] <= fit.record.level[-1]
        lightest: arrays.Array = fit.coefficients[int(is_better.argmax())]
        return lightest if is_better.any() else _PRIOR


def _within(known: arrays.Array, coefficients: arrays.Array) -> arrays.Array:
    most = np.maximum(1.0, known[..., features.PUBLISHED])
    return np.asarray(np.clip(known @ coefficients, 0.0, most))


def _record(
    known: arrays.Array, peaks: arrays.Array, share: arrays.Array, coefficients: arrays.Array
) -> promises.Record:
    """Return the weighted means over outcomes (n,) of each row of coefficients (k, d), and of the published predictor.

    share (n,): the weights, 1 in all.
    """
    predicted = np.array([_within(known, each) for each in (*coefficients, _PRIOR)])
    return promises.Record(
        violations=recents.exceeded(predicted, peaks, 1.0) @ share,
        severity=np.maximum(1.0 - predicted / peaks, 0.0) @ share,
        level=predicted @ share,
    )
