"""Which Pods run, which ended in the last minute, and whether the runtime is at work: what every adapter keeps."""

import dataclasses
import math
from collections.abc import Callable, Set

from carico_core.domain import recording

# Spec of the messages: a capacity covers those that ended in the last 60 s.
ENDED_KEPT_S = 60.0
# The runtime's own work outlasts the events: 100 ms after a start, 300 ms after a removal (published agent's hold).
HOLD_AFTER_START_S = 0.1
HOLD_AFTER_REMOVAL_S = 0.3
# A container that is created and never starts holds no longer than this.
HOLD_MOST_S = 30.0
# Newest kept; the Pod limit of a node and those that ended within a minute on it stay below.
ENDED_MOST = 4096
# In place of when its removal began: what is left of the Pod is not being touched.
_AT_REST = -math.inf


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PodSet:
    """The Pods of a node at one moment: see `carico_agent.ports.PodSet`."""

    running: frozenset[str]
    # In order: of more than there is room for, the last are kept.
    ended: Set[str]
    holding: bool
    # Those that belong to the node: covered, and not counted.
    baseline: frozenset[str] = frozenset()


# Told of each event that changed something: its kind, the Pod, when.
Witness = Callable[[recording.EventKind, str, float], None]


class PodStates:
    """Takes in what an adapter sees; `now_s` is monotonic. Calls back after each change of what runs."""

    def __init__(self) -> None:
        self._running: set[str] = set()
        self._ended_s: dict[str, float] = {}
        # Pods between create and start, and between exit and removal, and since when.
        self._creating_s: dict[str, float] = {}
        self._removing_s: dict[str, float] = {}
        self._hold_until_s = 0.0
        self._callbacks: list[Callable[[], None]] = []
        self._witnesses: list[Witness] = []

    def on_change(self, callback: Callable[[], None]) -> None:
        """`callback` is called after each change of what runs."""
        self._callbacks.append(callback)

    def on_event(self, witness: Witness) -> None:
        """Call `witness` with each event; states that take in the same ones are equal."""
        self._witnesses.append(witness)

    def current(self, now_s: float) -> PodSet:
        """Return the Pods at `now_s`."""
        # In the order of their ends.
        while self._ended_s and now_s - next(iter(self._ended_s.values())) >= ENDED_KEPT_S:
            del self._ended_s[next(iter(self._ended_s))]
        return PodSet(
            running=frozenset(self._running),
            ended=self._ends(),
            holding=now_s < self._hold_until_s or self._is_busy(now_s),
        )

    def _ends(self) -> Set[str]:
        """Return those that are gone, oldest first; then those that have ended and are still on the node, likewise.

        Of the latter also one that ended long ago, as between two restarts. They come last, as they are kept first: a
        Pod that stands at the API and that no message covers makes its node suspect. None of them runs: a Pod that
        starts is in neither table.
        """
        removing = self._removing_s
        return dict.fromkeys([*[uid for uid in self._ended_s if uid not in removing], *removing]).keys()

    def created(self, uid: str, now_s: float) -> None:
        """The runtime makes the Pod's container."""
        if uid not in self._running and uid not in self._creating_s and not self._ended_lately(uid, now_s):
            self._creating_s[uid] = now_s
            self._note(recording.EventKind.CREATED, uid, now_s)

    def started(self, uid: str, now_s: float) -> None:
        """The Pod's process runs."""
        self._creating_s.pop(uid, None)
        self._removing_s.pop(uid, None)
        if uid in self._running:
            return
        self._running.add(uid)
        self._note(recording.EventKind.STARTED, uid, now_s)
        self._ended_s.pop(uid, None)
        self._hold_until_s = max(self._hold_until_s, now_s + HOLD_AFTER_START_S)
        self._tell()

    def ended(self, uid: str, now_s: float) -> None:
        """The Pod's processes have exited: it counts no more, though its sandbox may stay for seconds.

        One that has not started yet is still being created.
        """
        if uid not in self._running:
            return
        self._running.remove(uid)
        self._note(recording.EventKind.ENDED, uid, now_s)
        self._note_end(uid, now_s)
        self._removing_s[uid] = now_s
        self._tell()

    def removing(self, uid: str, now_s: float) -> None:
        """The runtime takes down what is left of a Pod that does not run, such as its sandbox."""
        if uid not in self._running and self._removing_s.get(uid, _AT_REST) == _AT_REST:
            self._removing_s[uid] = now_s
            self._note(recording.EventKind.REMOVING, uid, now_s)

    def settled(self, uid: str, now_s: float) -> None:
        """The runtime is done with what has ended of a Pod, and its sandbox stays: for seconds, or until a restart."""
        if self._removing_s.get(uid, _AT_REST) != _AT_REST:
            self._removing_s[uid] = _AT_REST
            self._note(recording.EventKind.SETTLED, uid, now_s)
            self._hold_until_s = max(self._hold_until_s, now_s + HOLD_AFTER_REMOVAL_S)

    def removed(self, uid: str, now_s: float) -> None:
        """Take in that nothing is left of the Pod on the node."""
        was_running = uid in self._running
        was_known = was_running or uid in self._creating_s or uid in self._removing_s
        ended_lately = self._ended_lately(uid, now_s)
        if was_known or not ended_lately:
            self._note(recording.EventKind.REMOVED, uid, now_s)
        self._creating_s.pop(uid, None)
        self._removing_s.pop(uid, None)
        self._running.discard(uid)
        if not ended_lately:
            # Also one that came and went between two looks.
            self._note_end(uid, now_s)
        if was_known:
            self._hold_until_s = max(self._hold_until_s, now_s + HOLD_AFTER_REMOVAL_S)
        if was_running:
            self._tell()

    def take(self, event: recording.PodEvent) -> None:
        """Take in what other states reported."""
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

    def _ended_lately(self, uid: str, now_s: float) -> bool:
        # Also where no one asked since then, so that old ones are still kept.
        return now_s - self._ended_s.get(uid, -math.inf) < ENDED_KEPT_S

    def _note_end(self, uid: str, now_s: float) -> None:
        # Once more in the order of their ends.
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

    def _tell(self) -> None:
        for callback in self._callbacks:
            callback()
