"""The estimators by name. A new one is a file beside `dual` and `vector`, and a line here."""

from collections.abc import Callable

from carico_core.numerics.estimators import base, dual, vector

ESTIMATORS: dict[str, Callable[[base.EstimatorConfig], base.Estimator]] = {
    "dual": dual.Dual,
    "vector": vector.Vector,
}


def create(name: str, config: base.EstimatorConfig) -> base.Estimator:
    """A fresh estimator; raises ValueError with the known names where there is none of that name."""
    if name not in ESTIMATORS:
        raise ValueError(f"estimator: expected one of {', '.join(sorted(ESTIMATORS))}, got {name!r}")
    return ESTIMATORS[name](config)
