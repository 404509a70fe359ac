"""Waits between attempts: they double up to a maximum."""

import random

# More doublings reach no maximum that the first do not, and a thousand are too many for a float.
_DOUBLINGS_MOST = 32


def doubled_s(earlier: int, *, first_s: float, most_s: float) -> float:
    """Return how long to wait after `earlier` other waits.

    >>> [doubled_s(earlier, first_s=10.0, most_s=300.0) for earlier in (0, 1, 2, 5000)]
    [10.0, 20.0, 40.0, 300.0]
    """
    return min(first_s * 2.0 ** min(earlier, _DOUBLINGS_MOST), most_s)


def drawn_s(earlier: int, *, first_s: float, most_s: float, rng: random.Random) -> float:
    """Return the same times a random 0.5 to 1, so that many that began together do not try again together."""
    return doubled_s(earlier, first_s=first_s, most_s=most_s) * rng.uniform(0.5, 1.0)


class Backoff:
    """Waits that double from `first_s` to `most_s`, each times a random 0.5 to 1, until `reset`."""

    def __init__(self, *, first_s: float, most_s: float, rng: random.Random) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._rng = rng
        self._earlier = 0

    def reset(self) -> None:
        """Start again from the first wait."""
        self._earlier = 0

    def next_s(self) -> float:
        """Return how long to wait now."""
        wait_s = drawn_s(self._earlier, first_s=self._first_s, most_s=self._most_s, rng=self._rng)
        self._earlier += 1
        return wait_s
