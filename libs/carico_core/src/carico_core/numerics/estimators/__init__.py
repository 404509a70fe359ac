"""How a node's capacity is estimated, and the estimators by name. Begin with `base` and `footprint`.

- `base`: what every estimator receives and returns.
- `footprint/`, the default: costs per class of Pods and dimension.
- `scalar`, with `delta`, `dual` and `joint`: the dissertation's filters on the capacity signal.

A new estimator is a file like `dual`, and a line in `ESTIMATORS`.
"""

from collections.abc import Callable

from carico_core.numerics import signal
from carico_core.numerics.estimators import base, delta, dual, joint
from carico_core.numerics.estimators.footprint import footprint as footprints

# Each takes the node's facts and, optionally, its own constants.
ESTIMATORS: dict[str, Callable[..., base.Estimator]] = {
    "delta": delta.Delta,
    "dual": dual.Dual,
    "joint": joint.Joint,
    "footprint": footprints.Footprint,
}

# Best over all scenarios of the twin (docs/evaluation.md).
DEFAULT = "footprint"
# Removed estimators, with their replacements.
GONE = {
    "vector": "it was footprint without classes of Pods: use footprint with CARICO_AGENT_POD_CLASSES=none where you "
    "run agents yourself, else footprint as it is"
}
# The paper's estimators: they learn from the scalar signal, which starts and stops of containers disturb.
SCALAR = frozenset({"delta", "dual", "joint"})


def signal_mode(name: str) -> signal.SignalMode:
    """Return the signal that an estimator learns from; the constants of the paper's are valid only for `trace`.

    On an idle node `sigma1u1` is almost infinite, and a scalar estimator would use that as its scale.
    """
    return "trace" if name in SCALAR else "sigma1u1"


def create(name: str, config: base.EstimatorConfig, constants: object | None = None) -> base.Estimator:
    """Return a new estimator. Raises ValueError with the known names if `name` is unknown."""
    if name in GONE:
        raise ValueError(f"estimator: {name!r} was removed: {GONE[name]}")
    if name not in ESTIMATORS:
        raise ValueError(f"estimator: expected one of {', '.join(sorted(ESTIMATORS))}, got {name!r}")
    return ESTIMATORS[name](config) if constants is None else ESTIMATORS[name](config, constants)
