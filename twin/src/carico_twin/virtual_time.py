"""Virtual time: actions that run in order of their time, and messages that arrive after a delay or are lost."""

import dataclasses
import heapq
import itertools
from collections.abc import Callable

import numpy as np

Action = Callable[[], None]


class Timeline:
    """Runs actions in order of time, ties in the order of planning. Deterministic: no wall clock, no hash order."""

    __slots__ = ("_order", "_queue", "events", "now_s")

    def __init__(self) -> None:
        self.now_s = 0.0
        self.events = 0
        self._queue: list[tuple[float, int, Action]] = []
        self._order = itertools.count()

    def at(self, when_s: float, action: Action) -> None:
        """Plan an action; an instant in the past counts as now."""
        heapq.heappush(self._queue, (when_s if when_s > self.now_s else self.now_s, next(self._order), action))

    def account(self, events: int) -> None:
        """Count this many events that were processed together with another."""
        self.events += events

    def after(self, delay_s: float, action: Action) -> None:
        """Plan an action `delay_s` from now."""
        self.at(self.now_s + delay_s, action)

    def run(self, *, until_s: float, done: Callable[[], bool]) -> bool:
        """Run until `done` (asked after each action) or until `until_s`; return True if `done` came first."""
        queue, pop = self._queue, heapq.heappop
        while queue:
            if queue[0][0] > until_s:
                self.now_s = until_s
                return False
            self.now_s, _, action = pop(queue)
            self.events += 1
            action()
            if done():
                return True
        return done()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """delay_s: mean delivery time, half of it fixed, half exponential. loss: share of messages lost."""

    delay_s: float = 0.002
    loss: float = 0.0

    def __post_init__(self) -> None:
        if not self.delay_s >= 0.0:
            raise ValueError(f"delay_s: expected 0 or more seconds, got {self.delay_s}")
        if not 0.0 <= self.loss < 1.0:
            raise ValueError(f"loss: expected a share from 0 to below 1, got {self.loss}")


class Network:
    """Carries messages between the twin's services."""

    def __init__(self, link: Link, timeline: Timeline, rng: np.random.Generator) -> None:
        self._link = link
        self._timeline = timeline
        self._rng = rng
        self.lost = 0

    def send(self, deliver: Callable[[], None]) -> None:
        """Call `deliver` when the message arrives, unless it is lost."""
        link = self._link
        if link.loss > 0.0 and self._rng.random() < link.loss:
            self.lost += 1
            return
        delay_s = 0.5 * link.delay_s * (1.0 + self._rng.standard_exponential()) if link.delay_s > 0.0 else 0.0
        self._timeline.after(delay_s, deliver)
