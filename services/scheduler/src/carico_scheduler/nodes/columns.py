"""The columns that a fleet of nodes is kept in: one numpy array per field, one slot per node."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from carico_scheduler.nodes import headroom

# For a node that states no cores, and for an empty slot: scores are by core.
LEAST_CORES = 1e-9
# name -> (dtype, value of an empty slot)
_FIELDS: dict[str, tuple[npt.DTypeLike, float]] = {
    "present": (np.bool_, False),
    "ready": (np.bool_, False),
    "schedulable": (np.bool_, False),
    "deleting": (np.bool_, False),
    "tainted": (np.bool_, False),
    "allocatable_cores": (np.float64, LEAST_CORES),
    "per_core": (np.float64, 1.0 / LEAST_CORES),
    "allocatable_bytes": (np.float64, 0.0),
    # Compared by every decision: half as wide, twice as fast.
    "pod_limit": (np.int32, 0),
    "placed": (np.int32, 0),
    "workloads": (np.int64, 0),
    "used_cores": (np.float64, 0.0),
    "used_bytes": (np.float64, 0.0),
    "capacity": (np.float64, math.nan),
    "pods": (np.int64, 0),
    "limit": (np.float64, headroom.UNLIMITED),
    "guessing": (np.bool_, False),
    "seq": (np.int64, 0),
    "sampled_s": (np.float64, -math.inf),
    "reserved": (np.int64, 0),
    "uncovered_since_s": (np.float64, math.inf),
}
_FIRST_SLOTS = 64


class Columns:
    """Arrays by field name, grown by doubling; `count` slots are in use or were."""

    def __init__(self) -> None:
        self.count = 0
        # Read dozens of times at each event of a node: a plain dict is faster than a method.
        self.by_field: dict[str, npt.NDArray[Any]] = {name: _empty(name, _FIRST_SLOTS) for name in _FIELDS}

    def add_slot(self) -> int:
        """Return a new slot, empty."""
        if self.count == len(self.by_field["present"]):
            for name, old in self.by_field.items():
                self.by_field[name] = np.concatenate([old, _empty(name, len(old))])
        self.count += 1
        return self.count - 1

    def clear(self, slot: int) -> None:
        """Empty a slot."""
        for name in _FIELDS:
            self.by_field[name][slot] = _FIELDS[name][1]

    def views(self) -> dict[str, npt.NDArray[Any]]:
        """Return read-only views of the slots in use, by field name."""
        views = {}
        for name, array in self.by_field.items():
            view = array[: self.count]
            view.flags.writeable = False
            views[name] = view
        return views


def _empty(name: str, slots: int) -> npt.NDArray[Any]:
    dtype, value = _FIELDS[name]
    return np.full(slots, value, dtype=dtype)
