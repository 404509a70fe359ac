"""How what a Pod holds depends on its age: a broken line over segments of doubling length.

Memory comes in steps and in slopes: an interpreter that loads its data in a second and then stays, a cache that fills
for a minute. A single slope takes the step for growth without end; a broken line fits both, and its last measured
piece says how it goes on.
"""

import math
from collections.abc import Iterable, Sequence

# Ages in seconds at which segments begin; the last has no end.
EDGES_S = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
WIDTHS_S = (1.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
# What is there at once, and one part for each segment.
PARTS = 1 + len(EDGES_S)
# And the time before the first, in which a Pod is only there.
_LAST_FIRST = (*zip(reversed(EDGES_S), reversed(WIDTHS_S), strict=True), (-math.inf, 1.0))


def behind(ages_s: Iterable[float]) -> list[float]:
    """How many Pods of these ages, oldest first, there are, and how much of each segment lies behind them (PARTS,).

    >>> behind([3.0, 0.5])
    [2.0, 1.5, 1.0, 0.5, 0.0, 0.0, 0.0, 0.0]
    """
    # From the last segment on: what a Pod is in, those that are older are in as well or have behind them.
    segments = iter(_LAST_FIRST)
    edge_s, width_s = next(segments)
    found: list[float] = []
    count = part = 0.0
    for age_s in ages_s:
        while age_s <= edge_s:
            found.append(part)
            edge_s, width_s = next(segments)
            part = count
        part += (age_s - edge_s) / width_s
        count += 1.0
    found.append(part)
    found += [count] * (PARTS - len(found))
    found[-1] = count
    found.reverse()
    return found


def extrapolated(parts: Sequence[float], measured: Sequence[bool]) -> list[float]:
    """The parts (PARTS,), those beyond the last measured segment by its slope; none of them where none is."""
    last = max((index for index in range(1, PARTS) if measured[index]), default=0)
    slope = max(0.0, parts[last]) / WIDTHS_S[last - 1] if last else 0.0
    return [*parts[: last + 1], *(slope * width_s for width_s in WIDTHS_S[last:])]
