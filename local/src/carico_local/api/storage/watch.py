"""Changes since a resourceVersion, for any number of watches; a change is encoded once for all that are open.

The history of a kind is bounded, by age and by number: a watch from before its start gets a 410, as from
kube-apiserver, and lists again. A watch whose client does not read its events is ended, since its buffer is bounded.
"""

import asyncio
import collections
import dataclasses
from collections.abc import Callable

import orjson

from carico_core.runtime.process import clock as clocks
from carico_local.api.model import objects, resources, statuses
from carico_local.api.storage import selectors, store

# A client whose watch was cut resumes at the last version that it has seen, which a bookmark renews every minute.
# kube-apiserver keeps events for as long (cacher/watch_cache.go, DefaultEventFreshDuration), between 100 and 102,400 of
# a kind.
HISTORY_S = 75.0
HISTORY_EVENTS = 10_000
# How many events a slow client may be behind before its watch is ended.
PENDING_EVENTS = 10_000

# Encodes an object for a watch.
Render = Callable[[objects.Stored], bytes]


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class EncodedChange:
    """An object after and before a change, and the change's encodings so far, by event type and representation."""

    current: objects.Stored
    previous: objects.Stored | None
    deleted: bool
    encoded: dict[tuple[str, str], bytes] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Past:
    """A change as the history keeps it, a sixth of its size: few watches begin in the past. `at_s`: monotonic."""

    at_s: float
    version: int
    current: bytes
    previous: bytes | None
    deleted: bool

    def thawed(self) -> EncodedChange:
        """Return the change again."""
        previous = None if self.previous is None else objects.thaw(self.previous)
        return EncodedChange(current=objects.thaw(self.current), previous=previous, deleted=self.deleted)


def frame(kind: str, body: bytes) -> bytes:
    """Encode one line of a watch stream."""
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), body)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The objects that one watch shows, and their representation."""

    namespace: str
    selector: selectors.Selector
    representation: str
    render: Render

    def includes(self, stored: objects.Stored | None) -> bool:
        """Return True where the watch shows this version of an object."""
        if stored is None or (self.namespace and stored.data["metadata"].get("namespace") != self.namespace):
            return False
        return self.selector.everything or self.selector.matches(stored.data)

    def line(self, event: EncodedChange) -> bytes | None:
        """Return the line for a change; None where the watch does not select it."""
        was = self.includes(event.previous)
        now = not event.deleted and self.includes(event.current)
        if not was and not now:
            return None
        # An object that leaves the selection looks deleted, one that enters it looks new.
        kind = "MODIFIED" if was and now else "ADDED" if now else "DELETED"
        slot = (kind, self.representation)
        if slot not in event.encoded:
            event.encoded[slot] = frame(kind, self.render(self._shown(event, kind)))
        return event.encoded[slot]

    def _shown(self, event: EncodedChange, kind: str) -> objects.Stored:
        """Return the object of an event: for DELETED the last version that matched."""
        if kind != "DELETED" or event.deleted or event.previous is None:
            return event.current
        return objects.freeze(event.previous.data, event.current.version)


class Watcher:
    """The pending lines of one watch."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.closed = False
        self._pending: list[bytes] = []
        self._wake = asyncio.Event()

    def offer(self, event: EncodedChange) -> None:
        """Queue the event's line; end the watch of a client that is too far behind."""
        line = self.view.line(event)
        if line is None or self.closed:
            return
        if len(self._pending) >= PENDING_EVENTS:
            self.close()
            return
        self._pending.append(line)
        self._wake.set()

    def close(self) -> None:
        """End the watch after its pending lines."""
        self.closed = True
        self._wake.set()

    def wake(self) -> None:
        """Wake the waiting task, whose timeout may have passed."""
        self._wake.set()

    async def wait(self) -> bytes:
        """Wait for lines and return them joined; empty after a wake or the end."""
        await self._wake.wait()
        self._wake.clear()
        return self.take()

    def take(self) -> bytes:
        """Return the pending lines, joined, without waiting."""
        lines, self._pending = self._pending, []
        return b"".join(lines)


class Hub:
    """The recent history of every kind, and all watches."""

    def __init__(self, kept: store.Store, clock: clocks.Clock, *, history_events: int = HISTORY_EVENTS) -> None:
        self._clock = clock
        self._histories: dict[str, collections.deque[Past]] = {
            storage: collections.deque() for storage in resources.STORAGES
        }
        self._history_events = history_events
        # The history begins with this process.
        self._floors = dict.fromkeys(resources.STORAGES, kept.revision)
        self._watchers: dict[str, set[Watcher]] = {storage: set() for storage in resources.STORAGES}
        kept.listen(self._take)

    def watch(self, storage: str, view: View, since: int) -> Watcher:
        """Register a watcher with the changes since `since`; raise `RequestFailed` (410) if those are gone."""
        floor = self._floors[storage]
        if since < floor:
            raise statuses.too_old(since, floor)
        watcher = Watcher(view)
        for past in self._histories[storage]:
            if past.version > since:
                watcher.offer(past.thawed())
        self._watchers[storage].add(watcher)
        return watcher

    def forget(self, storage: str, watcher: Watcher) -> None:
        """Unregister a watcher."""
        self._watchers[storage].discard(watcher)

    def close(self) -> None:
        """End every watch."""
        for watchers in self._watchers.values():
            for watcher in watchers:
                watcher.close()

    def _take(self, change: store.Change) -> None:
        now_s = self._clock.monotonic_s()
        past = Past(
            at_s=now_s, version=change.current.version, current=change.current.body,
            previous=None if change.previous is None else change.previous.body, deleted=change.deleted,
        )  # fmt: skip
        self._histories[change.storage].append(past)
        self._forget_old(now_s)
        event = EncodedChange(current=change.current, previous=change.previous, deleted=change.deleted)
        for watcher in self._watchers[change.storage]:
            watcher.offer(event)

    def _forget_old(self, now_s: float) -> None:
        """Drop what is too old or too much, of every kind: one may not change for hours after many changes."""
        for storage, history in self._histories.items():
            while history and (len(history) > self._history_events or now_s - history[0].at_s > HISTORY_S):
                self._floors[storage] = history.popleft().version


def error_line(failure: statuses.RequestFailed) -> bytes:
    """Encode a failure as a line of a running watch."""
    return frame("ERROR", orjson.dumps(failure.as_json()))
