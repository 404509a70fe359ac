"""A rate that is kept: requests, Events."""

import asyncio

from carico_core.runtime import clock as clocks


class Pace:
    """Spaces requests to a rate: each takes the next slot, and waits for it."""

    def __init__(self, rate_per_s: float, *, clock: clocks.Clock) -> None:
        """At 0 nobody waits."""
        self._period_s = 1.0 / rate_per_s if rate_per_s > 0 else 0.0
        self._clock = clock
        self._next_s = float("-inf")

    async def wait(self) -> None:
        """Nothing, once it is this request's turn."""
        if not self._period_s:
            return
        now_s = self._clock.monotonic_s()
        slot_s = max(now_s, self._next_s)
        self._next_s = slot_s + self._period_s
        if slot_s > now_s:
            await asyncio.sleep(slot_s - now_s)
