"""The class of each Pod on this node, from the rosters that the scheduler sends over the bus.

This needs no right at the Kubernetes API.
"""

import asyncio
import contextlib

from carico_agent.pod_events import known_classes
from carico_core.domain import errors
from carico_core.runtime.observe import logs
from carico_core.runtime.observe import metrics as metric
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire

# An agent takes no samples before its first roster, for so long at most: light Pods that belong to the node, such as
# our own, would be learnt as cheap workloads.
WAIT_MOST_S = 10.0
# The scheduler repeats a roster every minute; this many lost in a row are a sign that there is no scheduler.
SILENT_AFTER_S = 180.0


class RosterClasses(known_classes.KnownClasses):
    """Implements `carico_agent.ports.PodClasses`."""

    def __init__(self, *, clock: clocks.Clock, metrics: metric.Metrics) -> None:
        super().__init__()
        self._clock = clock
        self._log = logs.get("rosters")
        self._limited = logs.RateLimited(self._log, clock=clock)
        self._dropped = metrics.counter("roster_drops", "dropped rosters of this node's Pods", ("reason",))
        self._arrived = asyncio.Event()
        # When the newest roster arrived; before the first, when this began.
        self._since_s = clock.monotonic_s()
        metrics.reading(
            "roster_age_seconds", "time since the newest roster of this node's Pods, or since the start",
            lambda: [((), self.silent_s())],
        )  # fmt: skip

    def take(self, subject: str, payload: bytes) -> None:
        """Take in the newest roster, or drop and count a message that cannot be used."""
        try:
            roster = wire.decode_roster(payload, subject=subject)
        except errors.MessageError as error:
            self._dropped.labels(error.reason.value).inc()
            self._limited.warning(error.reason, "roster dropped", reason=error.reason.value, detail=str(error))
            return
        self._since_s = self._clock.monotonic_s()
        self._arrived.set()
        templates, failed = roster.templates, roster.failed
        self.replace(
            known_classes.Known(uid, name, templates.get(uid), uid in failed, roster.containers.get(uid, {}))
            for uid, name in roster.pods.items()
        )

    async def wait_for_first(self) -> None:
        """Return once a roster has arrived, or after `WAIT_MOST_S`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAIT_MOST_S):
                await self._arrived.wait()

    async def run(self) -> None:
        """Log while no roster arrives, until cancelled. The known classes stay; new Pods are in the general class."""
        while True:
            await asyncio.sleep(SILENT_AFTER_S)
            silent_s = self.silent_s()
            if silent_s >= SILENT_AFTER_S:
                self._log.warning(
                    "no scheduler sends this node's roster: new Pods have no known class", silent_s=round(silent_s)
                )

    def silent_s(self) -> float:
        """Return how long ago the newest roster arrived, or since when the first is missing."""
        return self._clock.monotonic_s() - self._since_s
