"""The pace of one emulated core: at most `scale` of a real CPU in every short period, and never more to catch up."""

import time
from typing import Protocol

# An eighth of the node's 20 ms quota period, so that the demand of several Pods in one period is near its mean. With
# 5 ms in a quota period of 10 ms, five Pods on four cores show a pressure of .63; with 2.5 ms in 20 ms, .34; on a real
# node, .29 (ADR 13).
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
        """Return the CPU time of this thread (CLOCK_THREAD_CPUTIME_ID), which excludes throttling and waiting."""
        return time.thread_time()

    def monotonic_s(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic_ns() / 1e9

    def sleep(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)


class Pacer:
    """Limits a thread to `scale` of a real CPU: call `pace` between pieces of work far shorter than a period's share.

    The share of a period lost to throttling or waiting is not added to the next one, just as a real core's lost time
    is lost. A piece of work that exceeds its share is compensated in the following periods.
    """

    __slots__ = ("_mark_cpu_s", "_period_end_s", "_share_s", "_start_cpu_s", "_timer")

    def __init__(self, *, scale: float, timer: Timer) -> None:
        self._timer = timer
        self._share_s = scale * PERIOD_S
        self._start_cpu_s = timer.cpu_s()
        self._mark_cpu_s = self._start_cpu_s + self._share_s
        self._period_end_s = timer.monotonic_s() + PERIOD_S

    @property
    def cpu_s(self) -> float:
        """Real CPU seconds that this thread has used since the pacer was made."""
        return self._timer.cpu_s() - self._start_cpu_s

    def pace(self) -> None:
        """Return at once while this period's share lasts, else sleep until the excess is compensated.

        One sleep for the whole excess: where a wake-up costs more than a share, waking in each period would only add to
        it and never end.
        """
        over_s = self._timer.cpu_s() - self._mark_cpu_s
        if over_s < 0.0:
            return
        now_s = self._timer.monotonic_s()
        periods = int(over_s / self._share_s) + 1
        # A period that is over is lost, and the next one begins now.
        wake_s = max(now_s, self._period_end_s) + (periods - 1) * PERIOD_S
        if now_s < wake_s:
            self._timer.sleep(wake_s - now_s)
        self._period_end_s = wake_s + PERIOD_S
        self._mark_cpu_s += periods * self._share_s
