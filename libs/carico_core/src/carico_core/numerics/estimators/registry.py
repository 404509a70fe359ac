"""The estimators by name. A new one is a file like `dual`, and a line here."""

from collections.abc import Callable

from carico_core.numerics.estimators import base, delta, dual, footprint, joint

# Each takes the node's facts and, where they are not to be its defaults, its own constants.
ESTIMATORS: dict[str, Callable[..., base.Estimator]] = {
    "delta": delta.Delta,
    "dual": dual.Dual,
    "joint": joint.Joint,
    "footprint": footprint.Footprint,
}

# Best over all scenarios of the twin (docs/evaluation.md).
DEFAULT = "footprint"
# Those of earlier versions, with what took their place.
GONE = {"vector": "it was footprint without classes of Pods: take footprint, with CARICO_AGENT_POD_CLASSES=none"}
# Fed with the scalar signal, which starts and stops of containers disturb: the paper's.
SCALAR = frozenset({"delta", "dual", "joint"})


def create(name: str, config: base.EstimatorConfig, constants: object | None = None) -> base.Estimator:
    """Return a fresh estimator; raises ValueError with the known names where there is none of that name."""
    if name in GONE:
        raise ValueError(f"estimator: {name!r} is gone: {GONE[name]}")
    if name not in ESTIMATORS:
        raise ValueError(f"estimator: expected one of {', '.join(sorted(ESTIMATORS))}, got {name!r}")
    return ESTIMATORS[name](config) if constants is None else ESTIMATORS[name](config, constants)
