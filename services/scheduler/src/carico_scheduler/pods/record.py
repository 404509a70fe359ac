"""One record for each Pod, with an explicit state, and the one place where that state changes.

                 gates removed          decided              sent             confirmed          covered
       OTHERS <--------------> WAITING ---------> ASSUMED ---------> BINDING ---------> BOUND <---------> COVERED
          |   gated, deleting                      ^   |                |                ^    new boot
          |                                        |   |                |                |
          +---- kube-scheduler chose a node -------+   +-- withheld, ---+                |
          ^                                        ^       refused: back to OTHERS,      |
          | shown                                  |       WAITING or UNSEEN             |
       UNSEEN ---- kube-scheduler chose a node ----+                                     |
          |                                                                              |
          +----- shown as bound, as from every other state before BOUND -----------------+

       every state ----> GONE: deleted, ended, or replaced by another Pod of its name

- UNSEEN: a new record, for example of a Pod that kube-scheduler asks for before the watch shows it.
- OTHERS: has no node, and is not ours to place now: it names another scheduler, is gated, or is being deleted.
- WAITING: in the queue, or taken from it by the running cycle.
- ASSUMED: counts on the chosen node; the bind has not been sent yet.
- BINDING: the bind has been sent; its outcome is not known.
- BOUND: the API has shown that it is bound, by its answer or by the watch. It counts until it is GONE.
- COVERED: bound, and the newest advertisement of its node accounts for it.
- GONE: only its UID is remembered, so that a late event does not restore it.

From ASSUMED to COVERED a Pod has exactly one booking, so that it counts once and on one node. `attempt` numbers its
decisions: the outcome of an earlier one changes nothing. A Pod for which others are evicted stays WAITING
(`preempt.nominations`).
"""

import collections
import dataclasses
import enum
from collections.abc import Iterator, Set

from carico_core.domain import cluster, errors
from carico_scheduler.pods import queue, reservations

# UIDs of Pods that are gone. An event that is late by more Pods than this follows a new list, which is current.
GONE_KEPT = 4096


class PodState(enum.IntEnum):
    """The state of a Pod. Integers, since a step is looked up at each event of each Pod."""

    UNSEEN = 0
    OTHERS = 1
    WAITING = 2
    ASSUMED = 3
    BINDING = 4
    BOUND = 5
    COVERED = 6
    GONE = 7


UNSEEN, OTHERS, WAITING, ASSUMED, BINDING, BOUND, COVERED, GONE = PodState
# In these a Pod counts on a node.
PLACED = frozenset({ASSUMED, BINDING, BOUND, COVERED})
# In these the API has shown the Pod, and no node of it yet.
HAS_NO_NODE = frozenset({OTHERS, WAITING, ASSUMED, BINDING})
# In these its place in the queue is kept.
UNBOUND = frozenset({WAITING, ASSUMED, BINDING})
_STEPS: tuple[frozenset[PodState], ...] = (
    frozenset({OTHERS, WAITING, ASSUMED, BOUND, GONE}),
    frozenset({WAITING, ASSUMED, BOUND, GONE}),
    frozenset({OTHERS, ASSUMED, BOUND, GONE}),
    frozenset({UNSEEN, OTHERS, WAITING, BINDING, BOUND, GONE}),
    frozenset({UNSEEN, OTHERS, WAITING, BOUND, GONE}),
    frozenset({COVERED, GONE}),
    frozenset({BOUND, GONE}),
    frozenset(),
)


class ImpossibleStep(errors.CaricoError):
    """A change of a Pod's state that must not happen: a defect of the scheduler."""

    def __init__(self, uid: str, before: PodState, after: PodState) -> None:
        self.uid, self.before, self.after = uid, before, after
        super().__init__(f"Pod {uid}: {before.name} cannot become {after.name}")


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Record:
    """What is known of one Pod."""

    uid: str
    state: PodState = UNSEEN
    # As the API last showed it; None while only its UID is known.
    pod: cluster.Pod | None = None
    # True once the watch has shown it. Only such a Pod is gone if it is missing from a list.
    is_shown: bool = False
    # Where it counts; None in states in which it does not count.
    booking: reservations.Booking | None = None
    # Its place in the queue, kept until it is bound.
    waiting: queue.Waiting | None = None
    # The number of its newest decision; 0 before the first.
    attempt: int = 0
    # Since when it has waited for this scheduler or for one that shares the work with it (monotonic); None: it has not.
    since_s: float | None = None
    # How long it had waited before that, if a list showed it first.
    before_s: float = 0.0

    @property
    def is_placed(self) -> bool:
        """True while the Pod counts on a node."""
        return self.state in PLACED

    @property
    def is_bound(self) -> bool:
        """True if the API has shown that it is bound."""
        return self.state is BOUND or self.state is COVERED

    def step(self, after: PodState) -> PodState:
        """Change the state, and return the one before. Raises `ImpossibleStep`."""
        before = self.state
        if after not in _STEPS[before]:
            raise ImpossibleStep(self.uid, before, after)
        self.state = after
        return before


class Records:
    """All records by UID, and the UIDs of Pods that are gone."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}
        self._gone: collections.OrderedDict[str, None] = collections.OrderedDict()
        # The records that the watch has not shown, by UID.
        self._unshown: dict[str, Record] = {}

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records.values())

    def find(self, uid: str) -> Record | None:
        """Return the record of a Pod, or None."""
        return self._records.get(uid)

    def is_gone(self, uid: str) -> bool:
        """Return True if the Pod is known to be gone for good."""
        return uid in self._gone

    def add(self, uid: str) -> Record:
        """Return the record of a Pod; create one, UNSEEN, if there is none."""
        record = self._records.get(uid)
        if record is None:
            record = self._records[uid] = self._unshown[uid] = Record(uid=uid)
        return record

    def show(self, record: Record) -> None:
        """Note that the watch has shown the Pod."""
        if not record.is_shown:
            record.is_shown = True
            del self._unshown[record.uid]

    def unshown(self) -> list[Record]:
        """Return the records of Pods that the watch has not shown."""
        return list(self._unshown.values())

    def drop(self, record: Record) -> None:
        """Forget a Pod that may be shown again."""
        del self._records[record.uid]
        self._unshown.pop(record.uid, None)

    def bury(self, uid: str) -> None:
        """Remember that a Pod is gone; forget the oldest UID beyond the limit."""
        self._gone[uid] = None
        self._gone.move_to_end(uid)
        if len(self._gone) > GONE_KEPT:
            self._gone.popitem(last=False)

    def unbury(self, uid: str) -> None:
        """Forget that a Pod is gone: a list shows it, for example after etcd was restored from a backup."""
        self._gone.pop(uid, None)


def is_ours(pod: cluster.Pod, names: Set[str]) -> bool:
    """Return True if the Pod waits for us: it names this scheduler, is not gated, and is not being deleted."""
    return pod.scheduler_name in names and pod.node_name is None and not pod.deleting and not pod.scheduling_gates
