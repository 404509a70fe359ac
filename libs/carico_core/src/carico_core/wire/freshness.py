"""Whether a message is newer than the last, and how old what it says is on a receiver whose clock differs."""

import collections
import dataclasses
import enum

from carico_core.domain import errors

# messages.md, "Every message": an advertisement is fresh to 2.5 s, ageing to 5 s, stale to the lease, then absent.
FRESH_S = 2.5
AGEING_S = 5.0
# A model of the cluster is repeated every 5 s; an older one is neither merged nor resumed from.
MODEL_LEASES = 3.0
_WINDOW_BUCKETS = 10
_BUCKET_NS = 30 * 1_000_000_000
# A writer is forgotten after this many leases of silence: by then its old messages are refused by their age.
_FORGET_LEASES = 60


class Freshness(enum.StrEnum):
    """What an age allows."""

    FRESH = "fresh"
    AGEING = "ageing"
    STALE = "stale"
    ABSENT = "absent"


def classify(age_s: float, *, lease_s: float) -> Freshness:
    """Return how far an advertisement of this age is to be believed.

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
    heard_s: float


class SequenceGuard:
    """Refuses messages that are not newer than the last of the same writer.

    A writer that restarts has a later boot, which is taken at once; an earlier boot is refused until the lease of the
    later one has ended, so that what an old process left in a queue cannot undo what the new one said.
    """

    def __init__(self, lease_s: float) -> None:
        self._lease_s = lease_s
        self._newest: dict[str, _Newest] = {}
        self._next_sweep_s = 0.0

    def accept(self, node: str, boot: str, seq: int, now_s: float) -> errors.Drop | None:
        """None where the message is new, and is noted; else why it is to be dropped. `now_s` is monotonic."""
        if now_s >= self._next_sweep_s:
            self._forget(now_s)
        newest = self._newest.get(node)
        if newest is not None:
            if boot == newest.boot and seq <= newest.seq:
                return errors.Drop.REPLAYED
            if boot < newest.boot and now_s - newest.heard_s <= self._lease_s:
                return errors.Drop.OLDER_BOOT
            newest.boot, newest.seq, newest.heard_s = boot, seq, now_s
        else:
            self._newest[node] = _Newest(boot, seq, now_s)
        return None

    def __len__(self) -> int:
        return len(self._newest)

    def _forget(self, now_s: float) -> None:
        self._next_sweep_s = now_s + self._lease_s
        oldest_s = now_s - _FORGET_LEASES * self._lease_s
        self._newest = {node: newest for node, newest in self._newest.items() if newest.heard_s >= oldest_s}


@dataclasses.dataclass(slots=True)
class _Window:
    """Smallest differences of one node by bucket, as long as its clock runs on."""

    boot: str | None
    ts_ns: int
    buckets: collections.deque[tuple[int, int]]
    # The smallest of all buckets, as long as the newest is that of `bucket`.
    smallest_ns: int = 0
    bucket: int | None = None


class AgeTracker:
    """The age of what messages say, free of the difference between two clocks.

    age = (ts - sampled_at) + (arrival - ts - the smallest such difference of the last 5 minutes) + time since arrival.
    The smallest difference stands for the offset of the clocks plus the shortest way; what exceeds it is delay.

    Messages come in the order they were sent (`SequenceGuard`), so a `ts` before the last one can only be a clock that
    was set back: the node's window starts again, as it does with a new boot. Without that, all it says for 5 minutes
    would be taken for as late as the clock was set back.
    """

    def __init__(self) -> None:
        self._windows: dict[str, _Window] = {}
        self._swept = 0

    def __len__(self) -> int:
        return len(self._windows)

    def age_at_arrival_s(
        self, node: str, *, sampled_at_ns: int, ts_ns: int, arrival_ns: int, boot: str | None = None
    ) -> float:
        """Seconds since what the message says was true, at its arrival; the receiver adds the time since then.

        `arrival_ns` may be of any clock of the receiver that does not jump: only differences of it count.
        """
        bucket = arrival_ns // _BUCKET_NS
        if bucket != self._swept:
            self._forget(bucket)
        window = self._windows.get(node)
        if window is None or boot != window.boot or ts_ns < window.ts_ns:
            window = _Window(boot, ts_ns, collections.deque(maxlen=_WINDOW_BUCKETS))
            self._windows[node] = window
        window.ts_ns = ts_ns
        difference_ns = arrival_ns - ts_ns
        # Nearly every message comes later than one before it in the same half minute, which it leaves as it is.
        if bucket != window.bucket or difference_ns < window.buckets[-1][1]:
            window.smallest_ns = _note(window.buckets, difference_ns, bucket)
            window.bucket = bucket
        return (max(0, ts_ns - sampled_at_ns) + difference_ns - window.smallest_ns) / 1e9

    def _forget(self, bucket: int) -> None:
        """Nodes that are silent for the whole window have nothing left in it."""
        self._swept = bucket
        oldest = bucket - _WINDOW_BUCKETS
        self._windows = {node: window for node, window in self._windows.items() if window.buckets[-1][0] > oldest}


def _note(buckets: collections.deque[tuple[int, int]], difference_ns: int, bucket: int) -> int:
    """Return the smallest difference of the window, this one included; one minimum per half minute is kept."""
    while buckets and buckets[0][0] <= bucket - _WINDOW_BUCKETS:
        buckets.popleft()
    if buckets and buckets[-1][0] == bucket:
        buckets[-1] = (bucket, min(buckets[-1][1], difference_ns))
    else:
        buckets.append((bucket, difference_ns))
    return min(smallest for _, smallest in buckets)
