"""Events about Pods, written in the background so that a slow API delays no container."""

import asyncio
import contextlib
import dataclasses
from typing import Any, Protocol

from carico_core.domain import cluster, errors
from carico_core.runtime.observe import logs
from carico_core.wire.kubernetes import api_objects

# Beyond this many unwritten Events the newest is dropped: Events only explain.
QUEUE_LIMIT = 512
_RETRY_S = 2.0
_log = logs.get("node.events")


class Recorder(Protocol):
    """Writes one Event."""

    async def record(self, pod: cluster.Pod, *, reason: str, action: str, note: str, warning: bool = False) -> None: ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    pod: cluster.Pod
    reason: str
    action: str
    note: str
    warning: bool


class Events:
    """A bounded queue of Events."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._queue: asyncio.Queue[_Event] = asyncio.Queue(QUEUE_LIMIT)

    def add(self, pod: dict[str, Any], *, reason: str, action: str, note: str, warning: bool) -> None:
        """Queue an Event; a full queue drops it."""
        with contextlib.suppress(ValueError, asyncio.QueueFull):
            parsed = api_objects.parse_pod(pod)
            self._queue.put_nowait(_Event(pod=parsed, reason=reason, action=action, note=note, warning=warning))

    async def run(self) -> None:
        """Write queued Events in order until cancelled."""
        while True:
            event = await self._queue.get()
            try:
                await self._recorder.record(
                    event.pod, reason=event.reason, action=event.action, note=event.note, warning=event.warning
                )
            except errors.ApiUnavailable:
                await asyncio.sleep(_RETRY_S)
            except errors.ApiError as error:
                _log.warning("event_refused", pod=event.pod.key, reason=event.reason, error=str(error))
