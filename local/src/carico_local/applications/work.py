"""Computation of a request: digits of pi, at the pace of one emulated core for each request."""

import asyncio

from carico_local.workloads import pacing, pi


class Cores:
    """Emulated cores of one process. `scale`: real CPUs per emulated core."""

    def __init__(self, *, scale: float, timer: pacing.Timer) -> None:
        self._scale = scale
        self._timer = timer
        self._pieces = pi.digits_of_pi(pi.DIGITS)

    async def work(self, work_s: float) -> None:
        """Do `work_s` of work on one emulated core; other requests go on meanwhile."""
        left_s = work_s * self._scale
        while left_s > 0.0:
            began_s = self._timer.monotonic_s()
            left_s -= self._slice(min(left_s, pacing.PERIOD_S * self._scale))
            if left_s > 0.0:
                await asyncio.sleep(max(0.0, pacing.PERIOD_S - (self._timer.monotonic_s() - began_s)))

    def _slice(self, cpu_s: float) -> float:
        """Compute for so many real CPU seconds; return how many it took."""
        began_s = self._timer.cpu_s()
        while (spent_s := self._timer.cpu_s() - began_s) < cpu_s:
            if next(self._pieces, "") is not None:
                self._pieces = pi.digits_of_pi(pi.DIGITS)
        return spent_s
