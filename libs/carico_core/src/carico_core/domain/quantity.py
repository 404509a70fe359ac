"""Kubernetes resource quantities ("250m", "1Gi") as plain floats."""

import functools
import re

# https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
_SUFFIX = {
    "": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([numkMGTPE]|[KMGTPE]i)?")


# Pods are made from few templates: what was read once is remembered, within bounds.
@functools.lru_cache(maxsize=4096)
def parse_quantity(text: str | int | float) -> float:
    """Return the value of a quantity in its base unit (cores, bytes, pieces).

    >>> parse_quantity("250m"), parse_quantity("1Ki"), parse_quantity(2)
    (0.25, 1024.0, 2.0)

    Raises `ValueError` where it is not a quantity.
    """
    match = _QUANTITY.fullmatch(str(text))
    if match is None:
        raise ValueError(f"got {text!r}, expected a Kubernetes quantity such as 250m or 1Gi")
    return float(match[1]) * _SUFFIX[match[2] or ""]
