"""Virtual time: a queue of actions, each at its instant, run in order; ties in the order they were planned."""

import heapq
import itertools
from collections.abc import Callable

Action = Callable[[], None]


class Timeline:
    """Runs planned actions in order of time. Deterministic: no wall clock, no hash order."""

    __slots__ = ("_order", "_queue", "events", "now_s")

    def __init__(self) -> None:
        self.now_s = 0.0
        self.events = 0
        self._queue: list[tuple[float, int, Action]] = []
        self._order = itertools.count()

    def at(self, when_s: float, action: Action) -> None:
        """Plans an action; an instant in the past counts as now."""
        heapq.heappush(self._queue, (max(when_s, self.now_s), next(self._order), action))

    def account(self, events: int) -> None:
        """Counts so many events that were worked off together with another."""
        self.events += events

    def after(self, delay_s: float, action: Action) -> None:
        """Plans an action `delay_s` from now."""
        self.at(self.now_s + delay_s, action)

    def run(self, *, until_s: float, done: Callable[[], bool]) -> bool:
        """True where `done` came true before virtual time reached `until_s`; asked after each action."""
        while self._queue:
            if self._queue[0][0] > until_s:
                self.now_s = until_s
                return False
            self.now_s, _, action = heapq.heappop(self._queue)
            self.events += 1
            action()
            if done():
                return True
        return done()
