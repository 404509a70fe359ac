"""What the learnt margin knows of each machine at one moment, as shares of the machine's limits."""

import numpy as np

from carico_core.numerics import arrays
from carico_core.numerics.overcommit import baselines
from carico_core.numerics.overcommit import recent as recents

NAMES = (
    "one", "last", "mean", "newer mean", "largest", "least", "sd", "sd of innovations", "largest increment",
    "mean increment", "sum of the series' largest", "published",
)  # fmt: skip
PUBLISHED = NAMES.index("published")


class Features:
    """Computes the features (machines, features); remembers the largest sample of each series.

    An increment is the largest usage within the horizon after a sample of the history, less that sample. `forget` is
    the share of each maximum that is lost at a sample: what a series did long ago says little.
    """

    __slots__ = ("_horizon", "_keep", "_largest")

    def __init__(self, *, horizon: int, forget: float) -> None:
        self._horizon = horizon
        self._keep = 1.0 - forget
        self._largest: arrays.Array | None = None

    def of(self, recent: recents.Recent) -> arrays.Array:
        """Return the features at this moment; to be called once a sample."""
        total, samples = recent.total, recent.total.shape[1]
        largest = recent.series.max(axis=2)
        self._largest = largest if self._largest is None else np.maximum(largest, self._keep * self._largest)
        ahead = min(self._horizon, max(samples // 2, 1))
        windows = np.lib.stride_tricks.sliding_window_view(total, ahead + 1, axis=1)
        increments = windows.max(axis=2) - windows[:, :, 0]
        columns = (
            np.full(len(total), recent.limits), total[:, -1], total.mean(axis=1), total[:, samples // 2 :].mean(axis=1),
            total.max(axis=1), total.min(axis=1), total.std(axis=1, ddof=1), np.diff(total, axis=1).std(axis=1),
            increments.max(axis=1), increments.mean(axis=1), self._largest.sum(axis=1), baselines.published(recent),
        )  # fmt: skip
        return np.stack(columns, axis=1) / recent.limits
