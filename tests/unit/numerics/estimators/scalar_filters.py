"""What the tests of the filters on the one signal share: their configuration, and what they are shown."""

import numpy as np

from carico_core.numerics import signal
from carico_core.numerics.estimators import base

DIMS = ("cpu", "memory")


def config(mode: signal.SignalMode = "trace") -> base.EstimatorConfig:
    """A node of four cores and 8 GB."""
    return base.EstimatorConfig(
        dims=DIMS,
        scale=np.array([8.0, 8e9]),
        cores=4.0,
        ceiling=np.ones(2),
        signal_mode=mode,
    )


def seen(level: float, pods: int, *, churning: bool = False, dt_s: float = 1.0) -> base.Observation:
    """A signal of `level` while `pods` run."""
    return base.Observation(dt_s=dt_s, y=np.zeros(2), gains=np.ones(2), pods=pods, signal=level, churning=churning)
