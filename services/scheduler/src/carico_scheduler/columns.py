"""The columns that a fleet of nodes is kept in: one numpy array per field, one slot per node."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from carico_scheduler import headroom

# name -> (dtype, value of an empty slot, entries per slot)
_FIELDS: dict[str, tuple[npt.DTypeLike, float, int]] = {
    "present": (np.bool_, False, 1),
    "ready": (np.bool_, False, 1),
    "schedulable": (np.bool_, False, 1),
    "tainted": (np.bool_, False, 1),
    "allocatable_cores": (np.float64, 0.0, 1),
    "allocatable_bytes": (np.float64, 0.0, 1),
    "pod_limit": (np.int64, 0, 1),
    "placed": (np.int64, 0, 1),
    "workloads": (np.int64, 0, 1),
    "used_cores": (np.float64, 0.0, 1),
    "used_bytes": (np.float64, 0.0, 1),
    "capacity": (np.float64, math.nan, 1),
    "pods": (np.int64, 0, 1),
    "limit": (np.float64, headroom.UNLIMITED, 1),
    "seq": (np.int64, 0, 1),
    "headroom": (np.float64, headroom.UNLIMITED, headroom.DIMENSIONS_MAX),
    "cost": (np.float64, 1.0, headroom.DIMENSIONS_MAX),
    "sampled_s": (np.float64, -math.inf, 1),
    "reserved": (np.int64, 0, 1),
    "uncovered_since_s": (np.float64, math.inf, 1),
    "free": (np.float64, -math.inf, 1),
}
_FIRST_SLOTS = 64


class Columns:
    """Arrays by field name, grown by doubling; `count` slots are in use or were."""

    def __init__(self) -> None:
        self.count = 0
        self._arrays = {name: _empty(name, _FIRST_SLOTS) for name in _FIELDS}

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self._arrays[name]

    def add_slot(self) -> int:
        """A new slot, empty."""
        if self.count == len(self._arrays["present"]):
            for name, old in self._arrays.items():
                self._arrays[name] = np.concatenate([old, _empty(name, len(old))])
        self.count += 1
        return self.count - 1

    def clear(self, slot: int) -> None:
        """Empties a slot."""
        for name in _FIELDS:
            self._arrays[name][slot] = _FIELDS[name][1]

    def views(self) -> dict[str, npt.NDArray[Any]]:
        """Read-only views of the slots in use, by field name."""
        views = {}
        for name, array in self._arrays.items():
            view = array[: self.count]
            view.flags.writeable = False
            views[name] = view
        return views


def _empty(name: str, slots: int) -> npt.NDArray[Any]:
    dtype, value, width = _FIELDS[name]
    return np.full((slots, width) if width > 1 else slots, value, dtype=dtype)
