"""The pace of one emulated core: at most `scale` of a real CPU in every short period, and never more to catch up."""

import time
from typing import Protocol

# An eighth of the node's 20 ms quota period, so that what several Pods ask for in one period is near its mean: at 5 ms
# under 10 ms, five Pods on four cores read a pressure of .63, at 2.5 under 20 ms .34, and a real node .29 (ADR 13).
PERIOD_S = 0.0025


class Timer(Protocol):
    """CPU seconds of the calling thread, monotonic seconds, and sleep."""

    def cpu_s(self) -> float: ...

    def monotonic_s(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


class ThreadTimer:
    """The machine's timers for the calling thread."""

    __slots__ = ()

    def cpu_s(self) -> float:
        """Return CPU time of this thread (CLOCK_THREAD_CPUTIME_ID): it stands still while throttled or waiting."""
        return time.thread_time()

    def monotonic_s(self) -> float:
        """Return seconds that never go backwards."""
        return time.monotonic_ns() / 1e9

    def sleep(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)


class Pacer:
    """Hold a thread to `scale` of a real CPU: call `pace` between pieces of work far shorter than a period's share.

    A period that was lost to throttling or waiting is lost: its share is not added to the next, as a real core's
    lost time is not. A piece of work that overran its share is paid for in the periods that follow.
    """

    __slots__ = ("_mark_cpu_s", "_period_end_s", "_period_s", "_share_s", "_start_cpu_s", "_timer")

    def __init__(self, *, scale: float, timer: Timer, period_s: float = PERIOD_S) -> None:
        self._timer = timer
        self._period_s = period_s
        self._share_s = scale * period_s
        self._start_cpu_s = timer.cpu_s()
        self._mark_cpu_s = self._start_cpu_s + self._share_s
        self._period_end_s = timer.monotonic_s() + period_s

    @property
    def cpu_s(self) -> float:
        """Real CPU seconds that this thread has used since the pacer was made."""
        return self._timer.cpu_s() - self._start_cpu_s

    def pace(self) -> None:
        """Return at once while this period's share lasts, else wait until what was used above it is paid for.

        Slept in one go: where a wake-up costs more than a share, a look after each period would find more to pay for,
        and never end.
        """
        over_s = self._timer.cpu_s() - self._mark_cpu_s
        if over_s < 0.0:
            return
        now_s = self._timer.monotonic_s()
        periods = int(over_s / self._share_s) + 1
        # A period that has ended is lost, and the next one begins now.
        wake_s = max(now_s, self._period_end_s) + (periods - 1) * self._period_s
        if now_s < wake_s:
            self._timer.sleep(wake_s - now_s)
        self._period_end_s = wake_s + self._period_s
        self._mark_cpu_s += periods * self._share_s
