"""How much worse predictors do than on the outcomes that they were fitted to.

A fit is nearer to its own outcomes than to those that follow, because these are few and because usage changes. The
difference is measured as predictions are resolved, for all weights of severity together: a single one is seldom
violated.
"""

from typing import NamedTuple

import numpy as np

from carico_core.numerics import arrays

# Predictors are compared if they promise between these shares of the published predictor's violations or severity.
# Lighter ones are never chosen, and heavier ones hardly ever violated.
_COMPARED = (0.3, 1.05)


class Record(NamedTuple):
    """Means over outcomes, each (k + 1,): of k predictors, and last of the published one."""

    violations: arrays.Array
    severity: arrays.Array
    level: arrays.Array

    @property
    def is_comparable(self) -> bool:
        """Whether the published predictor was violated at all."""
        return bool(self.violations[-1] > 0.0 and self.severity[-1] > 0.0)

    @property
    def shares(self) -> arrays.Array:
        """Violations and severity (2, k) as shares of the published predictor's, which are not 0."""
        both = np.array(self[:2])
        found: arrays.Array = both[:, :-1] / both[:, -1:]
        return found


class Promises:
    """Sums over resolved predictions: violations and severity of each predictor (2, k), and of the published one (2,).

    half_life: moments after which an outcome counts half.
    """

    __slots__ = ("_found", "_keep", "_promised", "_published")

    def __init__(self, half_life: float) -> None:
        self._keep = 0.5 ** (1.0 / half_life)
        self._found: arrays.Array = np.zeros((2, 1))
        self._promised: arrays.Array = np.zeros((2, 1))
        self._published: arrays.Array = np.zeros(2)

    def settle(self, promised: Record, found: Record, *, outcomes: int) -> None:
        """Take in what the predictions of one moment led to, and what their fit promised."""
        if not promised.is_comparable:
            return
        both = outcomes * np.array(found[:2])
        published = both[:, -1]
        self._found = self._keep * self._found + both[:, :-1]
        # A promise is relative: how often the published predictor is violated depends on the hour.
        self._promised = self._keep * self._promised + promised.shares * published[:, np.newaxis]
        self._published = self._keep * self._published + published

    def excess(self, now: Record, *, doubt: float, begins: float) -> arrays.Array:
        """Return what violations and severity (2,) exceed their promises by, as shares of the published predictor's.

        At least 0. It begins with `doubt` more violations, which counts as much as `begins` outcomes.
        """
        found = np.full(2, doubt / now.violations[-1])
        for index, published in enumerate(self._published.tolist()):
            if published <= 0.0:
                continue
            promised = self._promised[index] / published
            is_compared = (promised > _COMPARED[0]) & (promised < _COMPARED[1])
            if is_compared.any():
                measured = (self._found[index] / published - promised)[is_compared].mean()
                # Outcomes count by how much the published predictor was violated: others compare nothing.
                weight = published / (published + begins * now[index][-1])
                found[index] += weight * (measured - found[index])
        return np.asarray(np.maximum(found, 0.0))
