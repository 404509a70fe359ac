"""What Pods use: from the ledger of single Pods to distributions by class, and the load of each Pod.

Pure: time comes as an argument.

    unseen -> followed (read when due) -> ended        its class may become known in any of the last two

A Pod is read each second at first, then at intervals of a tenth of its age, at most 15 s: short Pods are measured in
detail, and a node full of old ones costs no more than a few reads a second. CPU is the mean over each interval.
"""

import collections
import dataclasses
import math
from collections.abc import Callable, Mapping

from carico_agent import ports
from carico_core.domain import messages, pod_telemetry, usage
from carico_core.numerics import distribution

CPU, MEMORY = usage.DIMS
READ_LEAST_S, READ_MOST_S = 1.0, 15.0
_SHARE_OF_AGE = 0.1
# Reads in a second. Each takes 40 us (bench/agent.py), so that this bounds the cost to .05 % of a core.
READS_MOST = 12
# A shorter interval between two reads is measured too coarsely: clocks and counters have a resolution.
_INTERVAL_LEAST_S = 0.2
# A Pod that still runs reports its mean once, after this time.
MEAN_AFTER_S = 60.0
# Pods that ended before the API has shown their class: kept for this long, and at most so many.
UNNAMED_S = 60.0
UNNAMED_MOST = 256
# Of a report in JSON; readers accept 64 KiB. What does not fit is in the next one.
REPORT_BYTES = 48 << 10
_CLASS_BYTES, _PAIR_BYTES = 300, 16


_Weights = collections.defaultdict[int, float]


@dataclasses.dataclass(slots=True)
class _Tally:
    """What has been measured of a class, or of a Pod without one, since the last report."""

    pods: int = 0
    failed: int = 0
    seconds: dict[str, _Weights] = dataclasses.field(
        default_factory=lambda: {dim: collections.defaultdict(float) for dim in usage.DIMS}
    )
    pod_means: _Weights = dataclasses.field(default_factory=lambda: collections.defaultdict(float))
    peaks: dict[str, float] = dataclasses.field(default_factory=dict)

    def note(self, dimension: str, amount: float, seconds: float) -> None:
        self.seconds[dimension][distribution.bucket(dimension, amount)] += seconds
        self.peaks[dimension] = max(amount, self.peaks.get(dimension, 0.0))

    def add(self, other: "_Tally | usage.ClassUsage") -> None:
        self.pods += other.pods
        self.failed += other.failed
        for dim, buckets in other.seconds.items():
            for index, weight in buckets.items():
                self.seconds[dim][index] += weight
        for index, count in other.pod_means.items():
            self.pod_means[index] += count
        for dim, peak in other.peaks.items():
            self.peaks[dim] = max(peak, self.peaks.get(dim, 0.0))

    @property
    def size_bytes(self) -> int:
        pairs = sum(map(len, self.seconds.values())) + len(self.pod_means)
        return _CLASS_BYTES + _PAIR_BYTES * pairs


@dataclasses.dataclass(slots=True, kw_only=True)
class _Pod:
    """A Pod that is followed. `tally`: that of its class as soon as the class is known, until then its own."""

    tally: _Tally
    pod_class: str | None = None
    first: ports.PodAmounts | None = None
    first_s: float = 0.0
    last: ports.PodAmounts | None = None
    last_s: float = 0.0
    due_s: float = -math.inf
    has_mean: bool = False
    ended_s: float | None = None
    # The reading up to which loads have been reported, and the last load.
    reported: ports.PodAmounts | None = None
    reported_s: float = 0.0
    load: tuple[float, float] | None = None


class PodUsage:
    """Follows the Pods of a node. `core_scale`: real CPUs per core of the node."""

    def __init__(self, *, core_scale: float = 1.0) -> None:
        self._core_scale = core_scale
        self._pods: dict[str, _Pod] = {}
        self._ended: dict[str, _Pod] = {}
        self._by_class: dict[str, _Tally] = {}
        self._reads_left = float(READS_MOST)
        self._counted_s = 0.0

    def follow(self, classes: Mapping[str, str], now_s: float) -> list[str]:
        """Set which Pods run (UID -> class); return those that have ended."""
        for uid in classes.keys() - self._pods.keys():
            # A Pod that restarts is the same one.
            self._pods[uid] = self._ended.pop(uid) if uid in self._ended else _Pod(tally=_Tally())
        ended = list(self._pods.keys() - classes.keys())
        for uid in ended:
            self._end(uid, now_s)
        for uid, pod_class in classes.items():
            self._name(self._pods[uid], pod_class)
        return ended

    def name_ended(self, class_of: Callable[[str], str], now_s: float) -> None:
        """Look again for the class of Pods that ended without one; drop those that have waited for too long."""
        for uid, pod in list(self._ended.items()):
            self._name(pod, class_of(uid))
            if pod.pod_class is not None or now_s - (pod.ended_s or 0.0) >= UNNAMED_S:
                del self._ended[uid]

    def due(self, now_s: float) -> list[str]:
        """Return the Pods to read now, those that have waited longest first, a bounded number."""
        # Updates may follow each other within a second.
        self._reads_left = min(READS_MOST, self._reads_left + READS_MOST * (now_s - self._counted_s))
        self._counted_s = now_s
        waiting = [(pod.due_s, uid) for uid, pod in self._pods.items() if pod.due_s <= now_s]
        found = [uid for _, uid in sorted(waiting)[: int(self._reads_left)]]
        self._reads_left -= len(found)
        return found

    def take(self, uid: str, found: ports.PodAmounts | None, now_s: float) -> None:
        """Take in a reading of a Pod that is due; None: it could not be read."""
        pod = self._pods[uid]
        pod.due_s = now_s + min(max(_SHARE_OF_AGE * (now_s - pod.first_s), READ_LEAST_S), READ_MOST_S)
        if found is None:
            return
        last, last_s = pod.last, pod.last_s
        if last is None or found.cpu_s < last.cpu_s:
            # The first reading, or a cgroup that was made again.
            pod.tally.pods += last is None
            pod.first, pod.first_s, pod.due_s, pod.has_mean = found, now_s, now_s + READ_LEAST_S, False
            pod.reported, pod.reported_s = found, now_s
            pod.tally.peaks[MEMORY] = max(found.memory_bytes, pod.tally.peaks.get(MEMORY, 0.0))
        elif now_s - last_s < _INTERVAL_LEAST_S:
            return
        else:
            elapsed_s = now_s - last_s
            pod.tally.note(CPU, (found.cpu_s - last.cpu_s) / elapsed_s / self._core_scale, elapsed_s)
            pod.tally.note(MEMORY, found.memory_bytes, elapsed_s)
        pod.last, pod.last_s = found, now_s
        if not pod.has_mean and now_s - pod.first_s >= MEAN_AFTER_S:
            self._note_mean(pod)

    def failed(self, counts: Mapping[str, int]) -> None:
        """Take in how many more Pods of each class have failed."""
        for pod_class, count in counts.items():
            self._tally(pod_class).failed += count

    def report(self, template_of: Callable[[str], usage.Template | None]) -> dict[str, usage.ClassUsage]:
        """Return what was measured since the last report, of the classes measured most if not all fit."""
        running = collections.Counter(pod.pod_class for pod in self._pods.values() if pod.pod_class is not None)
        for pod_class in running:
            self._tally(pod_class)
        room = REPORT_BYTES
        found: dict[str, usage.ClassUsage] = {}
        for pod_class, tally in sorted(self._by_class.items(), key=_measured_most_first):
            # UTF-8 has up to four bytes for a character.
            room -= tally.size_bytes + 4 * len(pod_class)
            if found and room < 0:
                break
            found[pod_class] = usage.ClassUsage(
                pods=tally.pods, failed=tally.failed, running=running[pod_class],
                seconds={dim: dict(each) for dim, each in tally.seconds.items() if each},
                pod_means=dict(tally.pod_means), peaks=dict(tally.peaks), template=template_of(pod_class),
            )  # fmt: skip
        for pod_class in found:
            self._clear(pod_class)
        return found

    def loads(self) -> dict[str, pod_telemetry.PodLoad]:
        """Return the load of each Pod, the mean of its readings since the last call; of a Pod without one, the last."""
        found = {}
        for uid, pod in self._pods.items():
            self._note_load(pod)
            if pod.load is not None and pod.last is not None:
                name = messages.ANY_CLASS if pod.pod_class is None else pod.pod_class
                found[uid] = pod_telemetry.PodLoad(name, *pod.load, pod.last.memory_bytes)
        return found

    def put_back(self, found: Mapping[str, usage.ClassUsage]) -> None:
        """Take back a report that was not sent."""
        for pod_class, each in found.items():
            self._tally(pod_class).add(each)

    def _tally(self, pod_class: str) -> _Tally:
        return self._by_class.setdefault(pod_class, _Tally())

    def _clear(self, pod_class: str) -> None:
        del self._by_class[pod_class]
        fresh = _Tally()
        for pod in self._pods.values():
            if pod.pod_class == pod_class:
                pod.tally = self._by_class.setdefault(pod_class, fresh)

    def _name(self, pod: _Pod, pod_class: str) -> None:
        if pod.pod_class is not None or pod_class == messages.ANY_CLASS:
            return
        tally = self._tally(pod_class)
        tally.add(pod.tally)
        pod.tally, pod.pod_class = tally, pod_class

    def _end(self, uid: str, now_s: float) -> None:
        pod = self._pods.pop(uid)
        if not pod.has_mean:
            self._note_mean(pod)
        if pod.pod_class is None:
            pod.ended_s = now_s
            self._ended[uid] = pod
            while len(self._ended) > UNNAMED_MOST:
                del self._ended[next(iter(self._ended))]

    def _note_load(self, pod: _Pod) -> None:
        """Take in the readings since the last report."""
        before, last, elapsed_s = pod.reported, pod.last, pod.last_s - pod.reported_s
        if before is None or last is None or elapsed_s < _INTERVAL_LEAST_S:
            return
        waiting = 0.0
        if last.waiting_s is not None and before.waiting_s is not None:
            # Throttled time is counted late, and the files are read one after the other.
            waiting = min(max((last.waiting_s - before.waiting_s) / elapsed_s, 0.0), 1.0)
        pod.load = (last.cpu_s - before.cpu_s) / elapsed_s / self._core_scale, waiting
        pod.reported, pod.reported_s = last, pod.last_s

    def _note_mean(self, pod: _Pod) -> None:
        if pod.first is None or pod.last is None or pod.last_s - pod.first_s < READ_LEAST_S / 2.0:
            return
        mean = (pod.last.cpu_s - pod.first.cpu_s) / (pod.last_s - pod.first_s) / self._core_scale
        pod.tally.pod_means[distribution.bucket(CPU, mean)] += 1
        pod.has_mean = True


def _measured_most_first(item: tuple[str, _Tally]) -> tuple[float, str]:
    name, tally = item
    return -float(sum(tally.seconds[CPU].values())), name
