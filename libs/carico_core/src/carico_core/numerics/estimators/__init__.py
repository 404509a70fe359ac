"""How many more Pods a node can take: one estimator a file, found by name."""

from carico_core.numerics.estimators.registry import ESTIMATORS, create

__all__ = ["ESTIMATORS", "create"]
