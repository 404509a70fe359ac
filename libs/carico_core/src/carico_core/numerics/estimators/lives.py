"""How long Pods of a class live, and how old those are that run."""

import collections
import dataclasses
from collections.abc import Mapping

# Lives kept of a class, and how many make a distribution (design, section 7, step 9).
KEPT = 48
ENOUGH = 3
# Until then a Pod is taken to last this long (step 10).
UNKNOWN_LIFE_S = 60.0


@dataclasses.dataclass(slots=True, eq=False)
class _Ended:
    """The last lives of a class."""

    lives_s: collections.deque[float] = dataclasses.field(default_factory=lambda: collections.deque(maxlen=KEPT))
    # The longest of them once enough are known.
    longest_s: float | None = None

    def add(self, life_s: float) -> None:
        """One more Pod has ended."""
        self.lives_s.append(life_s)
        if len(self.lives_s) >= ENOUGH:
            self.longest_s = max(self.lives_s)


class Lives:
    """Ages of the running Pods and the last lives of each class, by the clock."""

    __slots__ = ("_ended", "_now_s", "_running")

    def __init__(self) -> None:
        # Time since the beginning; a Pod's age is the difference to that at its start.
        self._now_s = 0.0
        # uid -> (class, time at its start)
        self._running: dict[str, tuple[str, float]] = {}
        self._ended: dict[str, _Ended] = {}

    def tick(self, dt_s: float) -> None:
        """Move on by one sample."""
        self._now_s += dt_s

    def follow(self, running: Mapping[str, str]) -> None:
        """Take in which Pods run now (UID to class); those no longer among them have ended."""
        for uid in [uid for uid in self._running if uid not in running]:
            name, started_s = self._running.pop(uid)
            self._ended.setdefault(name, _Ended()).add(self._now_s - started_s)
        for uid, name in running.items():
            held = self._running.get(uid)
            if held is None:
                self._running[uid] = (name, self._now_s)
            elif held[0] != name:
                # Its class has become known since.
                self._running[uid] = (name, held[1])

    def forget(self, name: str) -> None:
        """Drop the lives of a class."""
        self._ended.pop(name, None)

    def counts(self) -> collections.Counter[str]:
        """Running Pods by class."""
        return collections.Counter([name for name, _ in self._running.values()])

    def ages_s(self, name: str, *, since_s: float = 0.0) -> list[float]:
        """Ages of the running Pods of a class, counted from so long after their starts; oldest first."""
        now_s = self._now_s
        return [now_s - started_s - since_s for held, started_s in self._running.values() if held == name]

    def is_known(self, name: str) -> bool:
        """Whether enough lives of a class have ended to make a distribution."""
        ended = self._ended.get(name)
        return ended is not None and ended.longest_s is not None

    def longest_s(self, name: str) -> float:
        """The longest of the last lives of a class; UNKNOWN_LIFE_S until enough are known."""
        ended = self._ended.get(name)
        return UNKNOWN_LIFE_S if ended is None or ended.longest_s is None else ended.longest_s
