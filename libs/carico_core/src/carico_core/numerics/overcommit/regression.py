"""A linear predictor of peaks with the least savings lost + lambda x severity: a quantile regression, relative."""

from dataclasses import dataclass

import numpy as np

from carico_core.numerics import arrays

# Width, as a share of the peak, in which the corner of the severity is rounded, so that Newton's steps converge.
_ROUNDED = 0.03
# Pull towards the prior, so that few outcomes change little.
_PULL = 1e-3
_STEPS_MOST = 25
_STEP_LEAST = 1e-5
_SHRINKS_MOST = 30


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcomes:
    """What was known (n, d), and the peak (n,) that followed, both as shares of the limits; and how much each counts.

    Only peaks above 0: others have no severity.
    """

    known: arrays.Array
    peaks: arrays.Array
    weights: arrays.Array


def fit(outcomes: Outcomes, severity_weight: float, *, prior: arrays.Array, start: arrays.Array) -> arrays.Array:
    """Return the coefficients w (d,) with the least loss, beginning at `start`.

    Loss: mean(p) / mean(peak) + lambda x mean(h(1 - p / peak)) + pull / 2 |w - prior|^2, where p = known w, and h is
    max(0, .) with a rounded corner. All means are weighted.
    """
    share = outcomes.weights / outcomes.weights.sum()
    problem = _Problem(
        share=share,
        relative=outcomes.known / outcomes.peaks[:, np.newaxis],
        slope=(share @ outcomes.known) / (share @ outcomes.peaks),
        severity_weight=severity_weight,
        prior=prior,
    )
    # After usage has changed all at once, the prior may be nearer.
    return problem.solved(min((start, prior), key=problem.loss))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Problem:
    """share (n,): weights of the outcomes, 1 in all; relative (n, d): what was known, over the peak; slope (d,)."""

    share: arrays.Array
    relative: arrays.Array
    slope: arrays.Array
    severity_weight: float
    prior: arrays.Array

    def solved(self, start: arrays.Array) -> arrays.Array:
        """Return the minimum by Newton's method with a line search."""
        found, least = start, self.loss(start)
        for _ in range(_STEPS_MOST):
            step = self._step(found)
            for _ in range(_SHRINKS_MOST):
                tried = found - step
                if (reached := self.loss(tried)) <= least:
                    break
                step = 0.5 * step
            else:
                break
            found, least = tried, reached
            if np.abs(step).max() < _STEP_LEAST:
                break
        return found

    def loss(self, w: arrays.Array) -> float:
        """Return the loss of these coefficients."""
        missing = 1.0 - self.relative @ w
        inside = np.clip(missing + 0.5 * _ROUNDED, 0.0, _ROUNDED)
        rounded = np.where(missing > 0.5 * _ROUNDED, missing, inside * inside / (2.0 * _ROUNDED))
        pull = 0.5 * _PULL * ((w - self.prior) ** 2).sum()
        return float(self.slope @ w + self.severity_weight * (self.share @ rounded) + pull)

    def _step(self, w: arrays.Array) -> arrays.Array:
        is_short = np.clip((1.0 - self.relative @ w) / _ROUNDED + 0.5, 0.0, 1.0)
        is_near = (is_short > 0.0) & (is_short < 1.0)
        near = self.relative[is_near]
        pull = _PULL * (w - self.prior)
        gradient = self.slope - self.severity_weight * ((self.share * is_short) @ self.relative) + pull
        curvature = self.severity_weight / _ROUNDED * (near.T * self.share[is_near]) @ near
        return np.asarray(np.linalg.solve(curvature + _PULL * np.eye(len(w)), gradient))
