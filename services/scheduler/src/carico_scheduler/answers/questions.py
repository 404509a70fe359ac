"""Queries as they arrive from the bus: JSON objects; errors name the wrong field."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from carico_core.runtime.bus import serving

# Rows of an answer: by default a page of text; the maximum is far below one bus message (1 MiB).
LIMIT = 100
LIMIT_MOST = 1000


def text_of(asked: Mapping[str, Any], name: str) -> str:
    """Return a required field. Raises `BadQuestion`."""
    found = asked.get(name)
    if not isinstance(found, str) or not found:
        raise serving.BadQuestion(f'expected {{"{name}": "NAME"}}')
    return found


def limit_of(asked: Mapping[str, Any]) -> int:
    """Return the maximum number of rows. Raises `BadQuestion`."""
    found = asked.get("limit", LIMIT)
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found <= LIMIT_MOST:
        raise serving.BadQuestion(f'"limit": got {found!r}, expected 0 to {LIMIT_MOST}')
    return found


def finite(value: float) -> float | None:
    """Return the number for JSON: rounded, and None if it is not finite."""
    return round(value, 4) if math.isfinite(value) else None


def finite_column(values: npt.NDArray[np.float64]) -> list[float | None]:
    """Return each number of a column for JSON, as `finite` does.

    >>> finite_column(np.array([0.12346, math.nan]))
    [0.1235, None]
    """
    shown = np.round(values, 4).astype(object)
    shown[~np.isfinite(values)] = None
    found: list[float | None] = shown.tolist()
    return found
