"""Call at a steady rate, with a random phase."""

import asyncio
import random
from collections.abc import Callable

from carico_core.runtime.process import clock as clocks


class Sampler:
    """Calls `tick(late_s, missed)` every `period_s` until cancelled.

    The phase is random: agents of one machine (or one rack, started together) must not all sample and publish at the
    same time. Late calls are not repeated: whole periods that were missed are skipped and counted.
    """

    def __init__(
        self, tick: Callable[[float, int], None], *, period_s: float, clock: clocks.Clock, rng: random.Random
    ) -> None:
        self._tick = tick
        self._period_s = period_s
        self._clock = clock
        self._phase_s = rng.random() * period_s
        self._due_s = 0.0
        self._handle: asyncio.TimerHandle | None = None
        self._failed: asyncio.Future[None] | None = None

    async def run(self) -> None:
        """Call `tick` at each period until cancelled. Raises what it raises."""
        loop = asyncio.get_running_loop()
        self._failed = loop.create_future()
        self._due_s = self._clock.monotonic_s() + self._phase_s
        self._arm(loop)
        try:
            await self._failed
        finally:
            if self._handle is not None:
                self._handle.cancel()

    def next_due(self, now_s: float) -> int:
        """Move the due time to the next one after now, and return the number of missed periods."""
        self._due_s += self._period_s
        missed = 0
        if self._due_s <= now_s:
            missed = int((now_s - self._due_s) / self._period_s) + 1
            self._due_s += missed * self._period_s
        return missed

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        # A timer and a plain call, without waking a task: this loop determines the agent's CPU usage.
        delay_s = max(0.0, self._due_s - self._clock.monotonic_s())
        self._handle = loop.call_later(delay_s, self._fire, loop)

    def _fire(self, loop: asyncio.AbstractEventLoop) -> None:
        now_s = self._clock.monotonic_s()
        late_s = max(0.0, now_s - self._due_s)
        missed = self.next_due(now_s)
        try:
            self._tick(late_s, missed)
        except Exception as error:
            if self._failed is not None and not self._failed.done():
                self._failed.set_exception(error)
            return
        self._arm(loop)
