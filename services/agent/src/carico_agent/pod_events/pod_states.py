"""The states of a node's Pods: which run, which ended in the last minute, and whether the runtime is working.

    created -> started -> ended -> removing -> removed      settled: ended, but the sandbox stays; it may start again

A Pod may skip states that its adapter did not see. `PodStates` accepts every event and ignores repetitions.
"""

import dataclasses
import math
from collections.abc import Callable, Set

from carico_core.domain import recording

# An advertisement covers the Pods that ended in the last 60 s.
ENDED_KEPT_S = 60.0
# The runtime's work lasts longer than the events: 100 ms after a start, 300 ms after a removal (published agent).
HOLD_AFTER_START_S = 0.1
HOLD_AFTER_REMOVAL_S = 0.3
# Maximum hold for a container that is created and never starts.
HOLD_MOST_S = 30.0
# Only the newest are kept; a Pod limit and the Pods that end within a minute are fewer.
ENDED_MOST = 4096
# Instead of the time when the removal began: the rest of the Pod is not being removed now.
_AT_REST = -math.inf


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KnownPods:
    """Implements `carico_agent.ports.PodSet`: the Pods of a node at one moment."""

    running: frozenset[str]
    # Oldest first: if there are too many, the last ones are kept.
    ended: Set[str]
    holding: bool
    # Pods that belong to the node: covered, but not counted.
    baseline: frozenset[str] = frozenset()


# Called with each event that changed something: its kind, the Pod, the time.
Witness = Callable[[recording.EventKind, str, float], None]


class PodStates:
    """Takes in the events of an adapter; `now_s` is monotonic. Calls back after each change of the running Pods."""

    def __init__(self) -> None:
        self._running: set[str] = set()
        self._ended_s: dict[str, float] = {}
        # Pods between creation and start, and between end and removal: UID -> since when.
        self._creating_s: dict[str, float] = {}
        self._removing_s: dict[str, float] = {}
        self._hold_until_s = 0.0
        self._callbacks: list[Callable[[], None]] = []
        self._witnesses: list[Witness] = []

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback` after each change of the running Pods."""
        self._callbacks.append(callback)

    def on_event(self, witness: Witness) -> None:
        """Call `witness` with each event; states that take in the same events are equal."""
        self._witnesses.append(witness)

    def current(self, now_s: float) -> KnownPods:
        """Return the Pods at `now_s`."""
        # In the order of their ends.
        while self._ended_s and now_s - next(iter(self._ended_s.values())) >= ENDED_KEPT_S:
            del self._ended_s[next(iter(self._ended_s))]
        return KnownPods(
            running=frozenset(self._running),
            ended=self._ends(),
            holding=now_s < self._hold_until_s or self._is_busy(now_s),
        )

    def _ends(self) -> Set[str]:
        """Return removed Pods, oldest first, then those that have ended and are still on the node, in the same order.

        The latter may have ended long ago, as between two restarts. They come last because the last ones are kept: a
        Pod that the API shows and no message covers makes its node suspect. None of them runs: a Pod that starts is
        removed from both tables.
        """
        found = dict.fromkeys(self._ended_s)
        for uid in self._removing_s:
            found.pop(uid, None)
            found[uid] = None
        return found.keys()

    def created(self, uid: str, now_s: float) -> None:
        """Take in that the runtime creates the Pod's container."""
        if uid not in self._running and uid not in self._creating_s and not self._ended_recently(uid, now_s):
            self._creating_s[uid] = now_s
            self._note(recording.EventKind.CREATED, uid, now_s)

    def started(self, uid: str, now_s: float) -> None:
        """Take in that the Pod's process runs."""
        self._creating_s.pop(uid, None)
        self._removing_s.pop(uid, None)
        if uid in self._running:
            return
        self._running.add(uid)
        self._note(recording.EventKind.STARTED, uid, now_s)
        self._ended_s.pop(uid, None)
        self._hold_until_s = max(self._hold_until_s, now_s + HOLD_AFTER_START_S)
        self._notify()

    def ended(self, uid: str, now_s: float) -> None:
        """Take in that the Pod's processes have exited. It no longer counts, though its sandbox may stay for seconds.

        A Pod that has not started yet is still being created.
        """
        if uid not in self._running:
            return
        self._running.remove(uid)
        self._note(recording.EventKind.ENDED, uid, now_s)
        self._note_end(uid, now_s)
        self._removing_s[uid] = now_s
        self._notify()

    def removing(self, uid: str, now_s: float) -> None:
        """Take in that the runtime removes the rest of a Pod that does not run, such as its sandbox."""
        if uid not in self._running and self._removing_s.get(uid, _AT_REST) == _AT_REST:
            self._removing_s[uid] = now_s
            self._note(recording.EventKind.REMOVING, uid, now_s)

    def settled(self, uid: str, now_s: float) -> None:
        """Take in that the runtime is done with an ended Pod whose sandbox stays, for seconds or until a restart."""
        if self._removing_s.get(uid, _AT_REST) != _AT_REST:
            self._removing_s[uid] = _AT_REST
            self._note(recording.EventKind.SETTLED, uid, now_s)
            self._hold_until_s = max(self._hold_until_s, now_s + HOLD_AFTER_REMOVAL_S)

    def removed(self, uid: str, now_s: float) -> None:
        """Take in that nothing of the Pod is left on the node."""
        was_running = uid in self._running
        was_known = was_running or uid in self._creating_s or uid in self._removing_s
        ended_recently = self._ended_recently(uid, now_s)
        if was_known or not ended_recently:
            self._note(recording.EventKind.REMOVED, uid, now_s)
        self._creating_s.pop(uid, None)
        self._removing_s.pop(uid, None)
        self._running.discard(uid)
        if not ended_recently:
            # Also a Pod that existed only between two scans.
            self._note_end(uid, now_s)
        if was_known:
            self._hold_until_s = max(self._hold_until_s, now_s + HOLD_AFTER_REMOVAL_S)
        if was_running:
            self._notify()

    def take(self, event: recording.PodEvent) -> None:
        """Take in a recorded event."""
        verbs = {
            recording.EventKind.CREATED: self.created,
            recording.EventKind.STARTED: self.started,
            recording.EventKind.ENDED: self.ended,
            recording.EventKind.REMOVING: self.removing,
            recording.EventKind.REMOVED: self.removed,
            recording.EventKind.SETTLED: self.settled,
        }
        verbs[event.kind](event.uid, event.at_s)

    def known(self) -> frozenset[str]:
        """Return the Pods that have not been removed yet."""
        return frozenset(self._running | self._creating_s.keys() | self._removing_s.keys())

    def _ended_recently(self, uid: str, now_s: float) -> bool:
        # `current` may not have been called for long, so old entries may still be there.
        return now_s - self._ended_s.get(uid, -math.inf) < ENDED_KEPT_S

    def _note_end(self, uid: str, now_s: float) -> None:
        # Insert it at the end again: the order is that of the ends.
        self._ended_s.pop(uid, None)
        self._ended_s[uid] = now_s
        while len(self._ended_s) > ENDED_MOST:
            del self._ended_s[next(iter(self._ended_s))]

    def _is_busy(self, now_s: float) -> bool:
        return any(
            now_s - since < HOLD_MOST_S for held in (self._creating_s, self._removing_s) for since in held.values()
        )

    def _note(self, kind: recording.EventKind, uid: str, now_s: float) -> None:
        for witness in self._witnesses:
            witness(kind, uid, now_s)

    def _notify(self) -> None:
        for callback in self._callbacks:
            callback()
