"""Events of the past, removed: they are for reading soon after, and would fill the store of a long-lived cluster.

kube-apiserver keeps an Event for one hour after it was last written (--event-ttl).
"""

import asyncio

from carico_core.runtime.process import clock as clocks
from carico_local.api import objects, store

_KEPT_S = 3600.0
_EVERY_S = 60.0


class EventExpiry:
    """Removes Events that nobody has written for an hour."""

    def __init__(self, kept: store.Store, clock: clocks.Clock) -> None:
        self._store = kept
        self._clock = clock
        # resourceVersion -> when it was first seen here: an update starts the hour anew.
        self._seen_s: dict[int, float] = {}

    async def run(self) -> None:
        """Never."""
        while True:
            self.sweep()
            await asyncio.sleep(_EVERY_S)

    def sweep(self) -> None:
        """Nothing; Events past their hour are gone."""
        now_s = self._clock.monotonic_s()
        kept: list[objects.Stored] = self._store.select("events")
        self._seen_s = {event.version: self._seen_s.get(event.version, now_s) for event in kept}
        with self._store.batch():
            for event in kept:
                if now_s - self._seen_s[event.version] >= _KEPT_S:
                    self._store.remove("events", event.data)
