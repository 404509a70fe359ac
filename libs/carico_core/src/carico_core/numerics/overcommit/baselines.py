"""The predictors of Bashir et al., "Take it to the limit: peak prediction-driven resource overcommitment" (EuroSys'21).

None of them learns, so each is a function of the recent samples.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from carico_core.numerics import arrays
from carico_core.numerics.overcommit import recent as recents

# The paper's predictor in production is the maximum of its N-sigma and its percentile sum.
PUBLISHED = "eurosys21"
_SIGMAS = 5.0
_PERCENTILE = 99.0
# Borg's default: this share of the limits.
_DEFAULT_SHARE = 0.9


def n_sigma(recent: recents.Recent, sigmas: float) -> arrays.Array:
    """Return mean + `sigmas` standard deviations (of a sample) of the machine's usage, at most its limits."""
    total = recent.total
    predicted = total.mean(axis=1) + sigmas * total.std(axis=1, ddof=1)
    return np.asarray(np.minimum(recent.limits, predicted))


def percentile_sum(recent: recents.Recent, percent: float) -> arrays.Array:
    """Return the sum of each series' percentile."""
    return np.asarray(np.percentile(recent.series, percent, axis=2).sum(axis=1))


def published(recent: recents.Recent) -> arrays.Array:
    """Return the maximum of N-sigma 5 and the sum of the 99th percentiles."""
    return np.maximum(n_sigma(recent, _SIGMAS), percentile_sum(recent, _PERCENTILE))


def _default(recent: recents.Recent) -> arrays.Array:
    return np.full(len(recent.series), _DEFAULT_SHARE * recent.limits)


@dataclass(frozen=True, slots=True)
class RecentUsage:
    """A function of the recent samples as a predictor."""

    function: Callable[[recents.Recent], arrays.Array]

    def predict(self, recent: recents.Recent) -> arrays.Array:
        """Return the function's value."""
        return self.function(recent)


BASELINES: Mapping[str, RecentUsage] = {
    PUBLISHED: RecentUsage(published),
    "n-sigma-5": RecentUsage(lambda recent: n_sigma(recent, 5.0)),
    "n-sigma-3": RecentUsage(lambda recent: n_sigma(recent, 3.0)),
    "percentile-99": RecentUsage(lambda recent: percentile_sum(recent, 99.0)),
    "percentile-80": RecentUsage(lambda recent: percentile_sum(recent, 80.0)),
    "max-of-history": RecentUsage(lambda recent: recent.total.max(axis=1)),
    "borg-default": RecentUsage(_default),
}
