"""How long Pods of a class live, in the time that they would need on an idle node, and who is likely to end soon."""

import bisect
import collections
from collections.abc import Mapping

import numpy as np

from carico_core.numerics import arrays

# Lives kept of a class, and how many make a distribution (design, section 7, step 9).
KEPT = 48
ENOUGH = 3
# Until then a Pod is taken to last this long (step 10).
UNKNOWN_LIFE_S = 60.0


class Lives:
    """Ages of the running Pods and the last lives of each class.

    Two ages: by the clock, and in CPU share, which load does not stretch: tau = integral of min(1, .5 / y) dt, since
    a CPU reading y above .5 says that y / .5 tasks share each core.
    """

    __slots__ = ("_ended", "_ended_s", "_longest_s", "_running", "_share_s", "_wall_s")

    def __init__(self) -> None:
        # Integrals since the beginning; a Pod's age is the difference to those at its start.
        self._share_s = 0.0
        self._wall_s = 0.0
        # uid -> (class, both integrals at its start)
        self._running: dict[str, tuple[str, float, float]] = {}
        self._ended: dict[str, collections.deque[float]] = {}
        self._ended_s: dict[str, collections.deque[float]] = {}
        # The longest of the last lives, of the classes of which enough are known.
        self._longest_s: dict[str, float] = {}

    def tick(self, cpu: float, dt_s: float) -> None:
        """Move on by one sample with this CPU reading."""
        self._wall_s += dt_s
        self._share_s += dt_s * speed(cpu)

    def follow(self, running: Mapping[str, str]) -> int:
        """How many have ended: those no longer among the Pods that run now (UID to class)."""
        gone = [uid for uid in self._running if uid not in running]
        for uid in gone:
            name, share_s, wall_s = self._running.pop(uid)
            self._ended.setdefault(name, collections.deque(maxlen=KEPT)).append(self._share_s - share_s)
            lives_s = self._ended_s.setdefault(name, collections.deque(maxlen=KEPT))
            lives_s.append(self._wall_s - wall_s)
            if len(lives_s) >= ENOUGH:
                self._longest_s[name] = max(lives_s)
        for uid, name in running.items():
            held = self._running.get(uid)
            if held is None:
                self._running[uid] = (name, self._share_s, self._wall_s)
            elif held[0] != name:
                # Its class has become known since.
                self._running[uid] = (name, *held[1:])
        return len(gone)

    def forget(self, name: str) -> None:
        """Drop the lives of a class."""
        self._ended.pop(name, None)
        self._ended_s.pop(name, None)
        self._longest_s.pop(name, None)

    def counts(self) -> collections.Counter[str]:
        """Running Pods by class."""
        return collections.Counter(name for name, _, _ in self._running.values())

    def ages_s(self, name: str) -> list[float]:
        """Ages of the running Pods of a class by the clock."""
        return [self._wall_s - wall_s for held, _, wall_s in self._running.values() if held == name]

    def is_known(self, name: str) -> bool:
        """Whether enough lives of a class have ended to make a distribution."""
        return name in self._longest_s

    def longest_s(self, name: str) -> float:
        """The longest of the last lives of a class by the clock; UNKNOWN_LIFE_S until enough are known."""
        return self._longest_s.get(name, UNKNOWN_LIFE_S)

    def ending_within(self, name: str, span_s: float) -> float:
        """Pods of a class expected to end within `span_s` of CPU share; 0 until enough lives are known.

        By the Kaplan-Meier estimate, in which running Pods count as lives that last at least so long: without them
        the short lives of a job's beginning would stand for all.
        """
        ended = self._ended.get(name, ())
        ages = [self._share_s - share_s for held, share_s, _ in self._running.values() if held == name]
        if len(ended) < ENOUGH or not ages or span_s <= 0.0:
            return 0.0
        if len(ages) <= _FEW:
            return _few_chances(sorted(ended), ages, span_s)
        return float(_chances(np.array(sorted(ended)), np.array(ages), span_s).sum())


# Pods up to which plain numbers are quicker than arrays; from 8 on numpy adds in another order.
_FEW = 7


def speed(cpu: float) -> float:
    """How fast a one-thread Pod advances at this CPU reading: its share of a core.

    >>> speed(0.4), speed(1.0)
    (1.0, 0.5)
    """
    return 1.0 if cpu <= 0.5 else 0.5 / cpu


def _few_chances(ended: list[float], ages: list[float], span: float) -> float:
    """The sum of `_chances`, without arrays."""
    survival = [1.0]
    oldest_first = sorted(ages)
    for index, life in enumerate(ended):
        reached = len(ended) - index + len(ages) - bisect.bisect_left(oldest_first, life)
        survival.append(survival[-1] * (1.0 - 1.0 / reached))
    total = 0.0
    for age in ages:
        now = survival[bisect.bisect_right(ended, age)]
        if now > 0.0:
            total += 1.0 - survival[bisect.bisect_right(ended, age + span)] / now
    return total


def _chances(ended: arrays.Array, ages: arrays.Array, span: float) -> arrays.Array:
    """For each age the chance that the life ends within `span`, 0 where none was ever as old."""
    # S(t) = product over lives t_i <= t of 1 - 1 / (lives and ages that reached t_i)
    reached = len(ended) - np.arange(len(ended)) + (ages[None, :] >= ended[:, None]).sum(axis=1)
    survival = np.concatenate([[1.0], np.cumprod(1.0 - 1.0 / reached)])
    now = survival[np.searchsorted(ended, ages, side="right")]
    later = survival[np.searchsorted(ended, ages + span, side="right")]
    return np.where(now > 0.0, 1.0 - later / np.where(now > 0.0, now, 1.0), 0.0)
