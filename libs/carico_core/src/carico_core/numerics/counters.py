"""Rates from counters that the kernel only ever counts up.

A counter that goes backwards (a reset, a wrapped field, a node restored from a snapshot) gives None: no sample,
never a negative one.
"""


def rate(before: float, after: float, elapsed_s: float) -> float | None:
    """Units per second between two reads; None where the counter went back or no time has passed.

    >>> rate(100, 150, 0.5)
    100.0
    >>> rate(150, 100, 0.5) is None
    True
    """
    if elapsed_s <= 0 or after < before:
        return None
    return (after - before) / elapsed_s


def ratio(before: float, after: float, elapsed: float) -> float | None:
    """Return the share of `elapsed` that the counter spent counting, 0 to 1; both in one unit (PSI: microseconds).

    Held to 1: the two clocks are read an instant apart, so a full counter may read a little more than the interval.

    >>> ratio(0, 25_000, 100_000)
    0.25
    """
    value = rate(before, after, elapsed)
    return None if value is None else min(1.0, value)


def share(part_before: float, part_after: float, whole_before: float, whole_after: float) -> float | None:
    """Return the share of the whole that the part took between two reads, 0 to 1.

    None where either went back or none moved.

    >>> share(10, 15, 100, 120)
    0.25
    """
    if part_after < part_before:
        return None
    return ratio(part_before, part_after, whole_after - whole_before)
