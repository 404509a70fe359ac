"""How late a service's event loop is: what waits in it waits that long, whatever it is."""

import asyncio

from carico_core.runtime import metrics as metric

# Often enough to meet a stall of a second between two scrapes, seldom enough to cost nothing.
LOOK_EVERY_S = 1.0
BUCKETS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


class LoopWatch:
    """Feeds `carico_loop_lag_seconds`."""

    def __init__(self, metrics: metric.Metrics) -> None:
        self._lag_s = metrics.histogram(
            "loop_lag_seconds", "how much later than asked for the event loop woke a task", buckets=BUCKETS_S,
            shared=True,
        )  # fmt: skip

    async def run(self) -> None:
        """Never; looks once a second."""
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + LOOK_EVERY_S
            await asyncio.sleep(LOOK_EVERY_S)
            self._lag_s.observe(max(loop.time() - due_s, 0.0))
