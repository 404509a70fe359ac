"""How what a Pod holds depends on its age: a broken line over segments of doubling length.

Memory comes in steps and in slopes: an interpreter that loads its data in a second and then stays, a cache that fills
for a minute. A single slope takes the step for growth without end; a broken line fits both, and its last measured
piece says how it goes on.
"""

from collections.abc import Sequence

import numpy as np

from carico_core.numerics import arrays

# Ages in seconds at which segments begin; the last has no end.
EDGES_S = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
WIDTHS_S = (1.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
# What is there at once, and one part for each segment.
PARTS = 1 + len(EDGES_S)

# Pods up to which plain numbers are quicker than arrays.
_FEW = 8
_EDGES = np.array(EDGES_S)
_WIDTHS = np.array(WIDTHS_S)
_SEGMENTS = tuple(zip(range(1, PARTS), EDGES_S, WIDTHS_S, strict=True))


def reached(ages_s: Sequence[float]) -> arrays.Array:
    """`behind` as an array (PARTS,).

    >>> reached([3.0]).tolist()
    [1.0, 1.0, 1.0, 0.5, 0.0, 0.0, 0.0, 0.0]
    """
    return np.array(behind(ages_s))


def behind(ages_s: Sequence[float]) -> list[float]:
    """Summed over Pods of these ages: how many there are, and how much of each segment lies behind them (PARTS,)."""
    if len(ages_s) <= _FEW:
        return _few_behind(ages_s)
    shares = np.maximum((np.array(ages_s)[:, None] - _EDGES) / _WIDTHS, 0.0)
    np.minimum(shares[:, :-1], 1.0, out=shares[:, :-1])
    found: list[float] = shares.sum(axis=0).tolist()
    return [float(len(ages_s)), *found]


def _few_behind(ages_s: Sequence[float]) -> list[float]:
    """The same without arrays, which cost more than they save on a handful of Pods, ten times a second."""
    found = [0.0] * PARTS
    found[0] = float(len(ages_s))
    last = PARTS - 1
    for age_s in ages_s:
        for part, edge_s, width_s in _SEGMENTS:
            share = (age_s - edge_s) / width_s
            if share <= 0.0:
                break
            found[part] += share if share < 1.0 or part == last else 1.0
    return found


def extrapolated(parts: Sequence[float], measured: Sequence[bool]) -> list[float]:
    """The parts (PARTS,), those beyond the last measured segment by its slope; none of them where none is."""
    last = max((index for index in range(1, PARTS) if measured[index]), default=0)
    slope = max(0.0, parts[last]) / WIDTHS_S[last - 1] if last else 0.0
    return [*parts[: last + 1], *(slope * width_s for width_s in WIDTHS_S[last:])]
