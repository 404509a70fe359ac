"""The API's own Events, about Pods that no scheduler here handles, and the expiry of old Events.

Old Events would fill the memory and the store of a cluster: kube-apiserver keeps an Event for an hour after its last
write (--event-ttl), in etcd. A Pod that runs and ends has five, of some 5 kB each.
"""

import asyncio
import secrets
from collections.abc import Collection

from carico_core.runtime.process import clock as clocks
from carico_local.api.lifecycle import writing
from carico_local.api.model import objects, resources
from carico_local.api.storage import store

_KEPT_S = 3600.0
# The newest: those of some 2,000 Pods, in 50 MB. What still happens to a Pod is written again, and so stays.
KEPT_MOST = 10_000
_EVERY_S = 15.0
# Removing one takes some 30 microseconds.
_AT_ONCE = 500


class EventExpiry:
    """Removes Events that have not been written for an hour, and the oldest of too many."""

    def __init__(self, kept: store.Store, clock: clocks.Clock) -> None:
        self._store = kept
        self._clock = clock
        # resourceVersion -> when it was first seen here: an update restarts the hour.
        self._seen_s: dict[int, float] = {}

    async def run(self) -> None:
        """Sweep four times a minute until cancelled."""
        while True:
            with store.unwritable_ignored("expiry of Events"):
                await self.sweep()
            await asyncio.sleep(_EVERY_S)

    async def sweep(self) -> None:
        """Remove those Events, some at a time: requests are answered in between."""
        now_s = self._clock.monotonic_s()
        kept: list[objects.Stored] = self._store.select("events")
        self._seen_s = {event.version: self._seen_s.get(event.version, now_s) for event in kept}
        by_age = sorted(kept, key=lambda event: event.version)
        too_many = max(0, len(by_age) - KEPT_MOST)
        expired = by_age[:too_many]
        expired += [event for event in by_age[too_many:] if now_s - self._seen_s[event.version] >= _KEPT_S]
        for first in range(0, len(expired), _AT_ONCE):
            with self._store.batch():
                for event in expired[first : first + _AT_ONCE]:
                    # It may have been written or deleted in between.
                    if self._store.get("events", objects.key_of(event.data)) is event:
                        self._store.remove("events", event.data)
            await asyncio.sleep(0)


def warn_of_no_scheduler(writer: writing.Writer, pod: objects.Object, served: Collection[str]) -> str:
    """Create an Event about a new Pod whose schedulerName is not `served`, and return its text as a warning.

    Empty for a Pod that has a scheduler or a node, and where `served` is empty.
    """
    spec, metadata = pod["spec"], pod["metadata"]
    if not served or spec["schedulerName"] in served or spec.get("nodeName"):
        return ""
    note = (
        f"no scheduler here handles Pods with schedulerName {spec['schedulerName']}: set spec.schedulerName to "
        f"{' or '.join(served)}, or use `carico up --control-plane real`, which also runs kube-scheduler"
    )
    at = writer.now()
    about = {"kind": "Pod", "apiVersion": "v1", **{name: metadata[name] for name in ("namespace", "name", "uid")}}
    event = {
        "metadata": {"name": f"{metadata['name']}.{secrets.token_hex(8)}"}, "involvedObject": about,
        "reason": "FailedScheduling", "message": note, "type": "Warning", "count": 1,
        "firstTimestamp": at, "lastTimestamp": at, "source": {"component": "carico-api"},
    }  # fmt: skip
    writer.create(resources.EVENTS, metadata["namespace"], event)
    return note
