"""Whether a message is newer than the last one, and how old its content is, although clocks differ."""

import dataclasses
import enum
import itertools
from collections.abc import Mapping
from typing import TypeVar

from carico_core.domain import errors

# An advertisement is fresh up to 2.5 s, ageing up to 5 s, stale up to the lease, and then absent.
FRESH_S = 2.5
AGEING_S = 5.0
# The model of the cluster is repeated every 5 s; one older than this many leases is not used.
MODEL_LEASES = 3.0
_WINDOW_BUCKETS = 10
_BUCKET_NS = 30 * 1_000_000_000
# A writer is forgotten after this many leases without a message: then its old messages are refused by age.
_FORGET_LEASES = 60
# Writers that are remembered: four times the nodes of the largest cluster that Kubernetes supports. Of more, those are
# forgotten that are known for the shortest time: with a key of all nodes' agents one can report under any number of
# names.
WRITERS_MOST = 20_000
_V = TypeVar("_V")


class Freshness(enum.StrEnum):
    """How fresh an advertisement is, by its age."""

    FRESH = "fresh"
    AGEING = "ageing"
    STALE = "stale"
    ABSENT = "absent"


def classify(age_s: float, *, lease_s: float) -> Freshness:
    """Return how fresh an advertisement of this age is.

    >>> classify(3.0, lease_s=10.0).value
    'ageing'
    """
    if age_s > lease_s:
        return Freshness.ABSENT
    if age_s > AGEING_S:
        return Freshness.STALE
    return Freshness.AGEING if age_s > FRESH_S else Freshness.FRESH


@dataclasses.dataclass(slots=True)
class _Newest:
    boot: str
    seq: int
    received_s: float


class SequenceGuard:
    """Refuses messages that are not newer than the last one of the same writer.

    A writer that restarts has a later boot, which is accepted at once. An earlier boot is refused until the lease of
    the later one has ended, so that a queued message of the old process cannot replace one of the new process.
    """

    def __init__(self, lease_s: float) -> None:
        self._lease_s = lease_s
        self._newest: dict[str, _Newest] = {}
        self._next_sweep_s = 0.0

    def accept(self, node: str, boot: str, seq: int, now_s: float) -> errors.Drop | None:
        """Return None and remember the message if it is new, else why to drop it. `now_s` is monotonic."""
        if now_s >= self._next_sweep_s:
            self._forget(now_s)
        newest = self._newest.get(node)
        if newest is not None:
            if boot == newest.boot and seq <= newest.seq:
                return errors.Drop.REPLAYED
            if boot < newest.boot and now_s - newest.received_s <= self._lease_s:
                return errors.Drop.OLDER_BOOT
            newest.boot, newest.seq, newest.received_s = boot, seq, now_s
        else:
            if len(self._newest) >= WRITERS_MOST:
                self._newest = _known_longest(self._newest)
            self._newest[node] = _Newest(boot, seq, now_s)
        return None

    def __len__(self) -> int:
        return len(self._newest)

    def _forget(self, now_s: float) -> None:
        self._next_sweep_s = now_s + self._lease_s
        oldest_s = now_s - _FORGET_LEASES * self._lease_s
        self._newest = {node: newest for node, newest in self._newest.items() if newest.received_s >= oldest_s}


@dataclasses.dataclass(slots=True)
class _Window:
    """Smallest differences of one node by bucket, while its clock runs steadily."""

    boot: str | None
    ts_ns: int
    # At most one for each bucket of the window. A deque would take 760 bytes a node.
    buckets: list[tuple[int, int]]
    # The smallest of all buckets, valid while `bucket` is the newest.
    smallest_ns: int = 0
    bucket: int | None = None


class AgeTracker:
    """The age of the content of messages, independent of the difference between two clocks.

    age = (ts - sampled_at) + (arrival - ts - the smallest such difference of the last 5 minutes) + time since arrival.
    The smallest difference is the offset of the clocks plus the shortest transmission; anything above it is delay.

    Messages are in the order in which they were sent (`SequenceGuard`), so if `ts` decreases, the clock was set back:
    the node's window starts again, as with a new boot. Otherwise all its messages of the next 5 minutes would seem as
    late as the clock was set back.
    """

    def __init__(self) -> None:
        self._windows: dict[str, _Window] = {}
        self._swept = 0

    def __len__(self) -> int:
        return len(self._windows)

    def age_at_arrival_s(
        self, node: str, *, sampled_at_ns: int, ts_ns: int, arrival_ns: int, boot: str | None = None
    ) -> float:
        """Return the age of the content at the message's arrival, in seconds; the receiver adds the time since then.

        `arrival_ns` may be from any clock of the receiver that does not jump: only differences count.
        """
        bucket = arrival_ns // _BUCKET_NS
        if bucket != self._swept:
            self._forget(bucket)
        window = self._windows.get(node)
        if window is None or boot != window.boot or ts_ns < window.ts_ns:
            if window is None and len(self._windows) >= WRITERS_MOST:
                self._windows = _known_longest(self._windows)
            window = _Window(boot, ts_ns, [])
            self._windows[node] = window
        window.ts_ns = ts_ns
        difference_ns = arrival_ns - ts_ns
        # Nearly every message has a larger difference than an earlier one of the same half minute: no change.
        if bucket != window.bucket or difference_ns < window.buckets[-1][1]:
            window.smallest_ns = _note(window.buckets, difference_ns, bucket)
            window.bucket = bucket
        return (max(0, ts_ns - sampled_at_ns) + difference_ns - window.smallest_ns) / 1e9

    def _forget(self, bucket: int) -> None:
        """Remove the nodes without a message in the whole window."""
        self._swept = bucket
        oldest = bucket - _WINDOW_BUCKETS
        self._windows = {node: window for node, window in self._windows.items() if window.buckets[-1][0] > oldest}


def _known_longest(writers: Mapping[str, _V]) -> dict[str, _V]:
    """Return the half of the writers that has been known longest."""
    return dict(itertools.islice(writers.items(), len(writers) // 2))


def _note(buckets: list[tuple[int, int]], difference_ns: int, bucket: int) -> int:
    """Add a difference and return the smallest of the window; one minimum per half minute is kept."""
    while buckets and buckets[0][0] <= bucket - _WINDOW_BUCKETS:
        del buckets[0]
    if buckets and buckets[-1][0] == bucket:
        buckets[-1] = (bucket, min(buckets[-1][1], difference_ns))
    else:
        buckets.append((bucket, difference_ns))
    return min(smallest for _, smallest in buckets)
