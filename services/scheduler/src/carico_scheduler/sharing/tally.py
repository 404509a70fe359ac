"""Counts what a member commits, for its report to people."""

import collections

from carico_core.runtime.process import clock as clocks

# Long enough that each member of a busy cluster commits something in it.
RECENT_S = 60.0


class Tally:
    """The counts of one member since its start, and of the last minute."""

    def __init__(self, clock: clocks.Clock) -> None:
        self._clock = clock
        self.stored = 0
        self.conflicts = 0
        # Decisions that were given up, and after which a Pod waits.
        self.requeued = 0
        # [second, claims] of shared Pods, oldest first: a minute has few entries, whatever the rate.
        self._seconds: collections.deque[list[int]] = collections.deque()
        # Since when the member may commit; None while it may not.
        self._ready_since_s: float | None = None

    def note_stored(self, *, is_shared: bool) -> None:
        """Count a claim that was stored; `is_shared`: of a Pod that is shared out."""
        self.stored += 1
        if not is_shared:
            return
        second = int(self._clock.monotonic_s())
        if self._seconds and self._seconds[-1][0] == second:
            self._seconds[-1][1] += 1
        else:
            self._seconds.append([second, 1])
            self._forget_old()

    def note_ready(self, is_ready: bool) -> None:
        """Note whether the member may commit now."""
        if not is_ready:
            self._ready_since_s = None
        elif self._ready_since_s is None:
            self._ready_since_s = self._clock.monotonic_s()

    @property
    def ready_s(self) -> float:
        """For how long the member may commit by now; 0 while it may not."""
        return 0.0 if self._ready_since_s is None else self._clock.monotonic_s() - self._ready_since_s

    @property
    def recent(self) -> int:
        """The claims of the last minute that were stored for Pods that are shared out."""
        self._forget_old()
        return sum(count for _, count in self._seconds)

    def _forget_old(self) -> None:
        oldest = self._clock.monotonic_s() - RECENT_S
        while self._seconds and self._seconds[0][0] < oldest:
            self._seconds.popleft()
