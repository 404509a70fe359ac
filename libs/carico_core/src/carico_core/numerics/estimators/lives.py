"""How long Pods of a class live, in the time that they would need on an idle node, and who is likely to end soon."""

import bisect
import collections
import dataclasses
import itertools
import operator
from collections.abc import Mapping, Sequence

import numpy as np

# Lives kept of a class, and how many make a distribution (design, section 7, step 9).
KEPT = 48
ENOUGH = 3
# Until then a Pod is taken to last this long (step 10).
UNKNOWN_LIFE_S = 60.0


@dataclasses.dataclass(slots=True, eq=False)
class _Ended:
    """The last lives of a class: by the clock, and in CPU share."""

    lives_s: collections.deque[float]
    shares_s: collections.deque[float]
    # Once enough lives are known: the longest, and those in CPU share, shortest first.
    longest_s: float = UNKNOWN_LIFE_S
    in_order: list[float] | None = None

    def add(self, life_s: float, share_s: float) -> None:
        """One more Pod has ended."""
        self.lives_s.append(life_s)
        self.shares_s.append(share_s)
        if len(self.lives_s) >= ENOUGH:
            self.longest_s = max(self.lives_s)
            self.in_order = sorted(self.shares_s)


class Lives:
    """Ages of the running Pods and the last lives of each class.

    Two ages: by the clock, and in CPU share, which load does not stretch: tau = integral of min(1, .5 / y) dt, since
    a CPU reading y above .5 says that y / .5 tasks share each core.
    """

    __slots__ = ("_ended", "_running", "_share_s", "_wall_s")

    def __init__(self) -> None:
        # Integrals since the beginning; a Pod's age is the difference to those at its start.
        self._share_s = 0.0
        self._wall_s = 0.0
        # uid -> (class, both integrals at its start)
        self._running: dict[str, tuple[str, float, float]] = {}
        self._ended: dict[str, _Ended] = {}

    def tick(self, cpu: float, dt_s: float) -> None:
        """Move on by one sample with this CPU reading."""
        self._wall_s += dt_s
        self._share_s += dt_s * speed(cpu)

    def follow(self, running: Mapping[str, str]) -> int:
        """How many have ended: those no longer among the Pods that run now (UID to class)."""
        gone = [uid for uid in self._running if uid not in running]
        for uid in gone:
            name, share_s, wall_s = self._running.pop(uid)
            ended = self._ended.get(name)
            if ended is None:
                ended = self._ended[name] = _Ended(collections.deque(maxlen=KEPT), collections.deque(maxlen=KEPT))
            ended.add(self._wall_s - wall_s, self._share_s - share_s)
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

    def counts(self) -> collections.Counter[str]:
        """Running Pods by class."""
        return collections.Counter([name for name, _, _ in self._running.values()])

    def ages_s(self, name: str, *, since_s: float = 0.0) -> list[float]:
        """Ages of the running Pods of a class by the clock, counted from so long after their starts; oldest first."""
        now_s = self._wall_s
        return [now_s - wall_s - since_s for held, _, wall_s in self._running.values() if held == name]

    def is_known(self, name: str) -> bool:
        """Whether enough lives of a class have ended to make a distribution."""
        ended = self._ended.get(name)
        return ended is not None and ended.in_order is not None

    def longest_s(self, name: str) -> float:
        """The longest of the last lives of a class by the clock; UNKNOWN_LIFE_S until enough are known."""
        ended = self._ended.get(name)
        return UNKNOWN_LIFE_S if ended is None else ended.longest_s

    def ending_within(self, name: str, span_s: float) -> float:
        """Pods of a class expected to end within `span_s` of CPU share; 0 until enough lives are known.

        By the Kaplan-Meier estimate, in which running Pods count as lives that last at least so long: without them
        the short lives of a job's beginning would stand for all.
        """
        ended = self._ended.get(name)
        if ended is None or ended.in_order is None or span_s <= 0.0:
            return 0.0
        ages = [self._share_s - share_s for held, share_s, _ in self._running.values() if held == name]
        chances = _chances(ended.in_order, ages, span_s)
        return sum(chances, 0.0) if len(chances) < _PAIRWISE_FROM else float(np.array(chances).sum())


# From so many numbers on numpy adds in pairs, to less rounding; of fewer plain Python is quicker.
_PAIRWISE_FROM = 8


def speed(cpu: float) -> float:
    """How fast a one-thread Pod advances at this CPU reading: its share of a core.

    >>> speed(0.4), speed(1.0)
    (1.0, 0.5)
    """
    return 1.0 if cpu <= 0.5 else 0.5 / cpu


def _chances(ended: Sequence[float], ages: Sequence[float], span: float) -> list[float]:
    """For each age the chance that the life ends within `span`, 0 where none was ever as old; `ended` in order."""
    past = [bisect.bisect_right(ended, age) for age in ages]
    reached: list[int] = []
    for younger, place in enumerate([*sorted(past), len(ended)]):
        # So many lives that ended, and ages, reached each of those up to the next age.
        beside = len(ended) + len(ages) - younger
        reached += range(beside - len(reached), beside - place, -1)
    # S(t) = product over lives t_i <= t of 1 - 1 / (lives and ages that reached t_i)
    survival = list(itertools.accumulate([1.0 - 1.0 / each for each in reached], operator.mul, initial=1.0))
    later = [survival[bisect.bisect_right(ended, age + span)] for age in ages]
    return [1.0 - then / survival[now] if survival[now] > 0.0 else 0.0 for now, then in zip(past, later, strict=True)]
