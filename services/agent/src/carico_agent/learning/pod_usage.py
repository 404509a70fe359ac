"""What Pods use: from the ledger of single Pods to distributions by class, and the load of each Pod.

Pure: time comes as an argument.

    unseen -> followed (read when due) <-> ended       its class may become known in any of the last two

A Pod whose containers all end is ended, and followed again if one starts again; it counts once.

A Pod is read each second at first, then at intervals of a tenth of its age, at most 15 s: short Pods are measured in
detail, and a node full of old ones costs no more than a few reads a second. CPU is the mean over each interval. Of a
Pod with several containers each is read, too. What Pods with different images used is kept apart.
"""

import collections
import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Set

from carico_agent import ports
from carico_agent.learning import usage_tally
from carico_core.domain import messages, pod_telemetry, usage
from carico_core.numerics import distribution

CPU, MEMORY = usage.DIMS
READ_LEAST_S, READ_MOST_S = 1.0, 15.0
_SHARE_OF_AGE = 0.1
# Reads in a second. Each takes 40 us (`python -m bench agent`), so that this bounds the cost to .05 % of a core.
READS_MOST = 12
# A Pod is due this much earlier: updates come about a second apart, and it is read some milliseconds after one began.
_EARLY_S = 0.05
# A shorter interval between two reads is measured too coarsely: clocks and counters have a resolution.
_INTERVAL_LEAST_S = 0.2
# A Pod that still runs reports its mean after this time, and again every day. Aggregators halve its weight in a day: of
# a class whose Pods started long ago, the first two that start again would be all that counts.
MEAN_AFTER_S, MEAN_EVERY_S = 60.0, 24 * 3600.0
# A Pod that ended before the API has shown its class is kept for this long.
UNNAMED_S = 60.0
# Others in case they restart; a kubelet waits for up to five minutes.
RESTARTS_S = 330.0
# Of both; of more, those that ended first are dropped.
ENDED_MOST = 512
# Of a report in JSON; readers accept 64 KiB. What does not fit is in the next one.
REPORT_BYTES = 48 << 10


# Class, and digest of the images; empty if they are not known.
_Key = tuple[str, str]


@dataclasses.dataclass(slots=True, kw_only=True)
class _Pod:
    """A Pod that is followed. `tally`: that of its class as soon as the class is known, until then its own."""

    tally: usage_tally.Tally
    pod_class: str | None = None
    template: usage.Template | None = None
    # The last reading of each container by folder, and when it was taken.
    containers: dict[str, tuple[ports.ContainerAmounts, float]] = dataclasses.field(default_factory=dict)
    first_s: float = 0.0
    # The reading from which on its mean is taken, and when.
    mean_from: ports.PodAmounts | None = None
    mean_from_s: float = 0.0
    last: ports.PodAmounts | None = None
    last_s: float = 0.0
    due_s: float = -math.inf
    # Whether it counts as a Pod of its class, and its mean as one.
    is_counted: bool = False
    has_mean: bool = False
    ended_s: float = 0.0
    # The reading up to which loads have been reported, and the last load.
    reported: ports.PodAmounts | None = None
    reported_s: float = 0.0
    load: tuple[float, float] | None = None

    @property
    def has_several(self) -> bool:
        """Whether it is known to have several containers."""
        return self.template is not None and len(self.template.containers) > 1

    def restart(self) -> None:
        """Take in that its containers are others."""
        self.mean_from = self.last = self.reported = None
        self.containers, self.due_s = {}, -math.inf

    @property
    def key(self) -> _Key | None:
        """Where it is counted; None without a class."""
        return (
            None if self.pod_class is None else (self.pod_class, "" if self.template is None else self.template.image)
        )


TemplateOf = Callable[[str], usage.Template | None]


class PodUsage:
    """Follows the Pods of a node. `scale`: real CPUs and memory of the node, as a share of those that it has."""

    def __init__(self, *, scale: float = 1.0) -> None:
        self._scale = scale
        self._pods: dict[str, _Pod] = {}
        self._ended: dict[str, _Pod] = {}
        # Those that have not been reported for longest first.
        self._tallies: dict[_Key, usage_tally.Tally] = {}
        # Pods that have failed and are not measured yet, and since when.
        self._failed: dict[str, float] = {}
        self._reads_left = float(READS_MOST)
        self._counted_s = 0.0

    def follow(self, classes: Mapping[str, str], now_s: float, template_of: TemplateOf) -> list[str]:
        """Set which Pods run (UID -> class), and what each is made of now; return those that have ended."""
        for uid in classes.keys() - self._pods.keys():
            self._pods[uid] = self._restarted(uid) if uid in self._ended else _Pod(tally=usage_tally.Tally())
        ended = list(self._pods.keys() - classes.keys())
        for uid in ended:
            self._end(uid, now_s)
        for uid, pod_class in classes.items():
            self._name(uid, self._pods[uid], pod_class, template_of)
            self._renew(self._pods[uid], template_of(uid))
        return ended

    def name_ended(self, class_of: Callable[[str], str], now_s: float, template_of: TemplateOf) -> None:
        """Look again for the class of Pods that ended without one; drop those that ended too long ago."""
        for uid, pod in list(self._ended.items()):
            self._name(uid, pod, class_of(uid), template_of)
            if now_s - pod.ended_s >= (UNNAMED_S if pod.pod_class is None else RESTARTS_S):
                del self._ended[uid]

    def due(self, now_s: float) -> list[str]:
        """Return the Pods to read now, those that have waited longest first, a bounded number."""
        # Updates may follow each other within a second.
        self._reads_left = min(READS_MOST, self._reads_left + READS_MOST * (now_s - self._counted_s))
        self._counted_s = now_s
        waiting = [(pod.due_s, uid) for uid, pod in self._pods.items() if pod.due_s <= now_s + _EARLY_S]
        found: list[str] = []
        for _, uid in sorted(waiting):
            if self._reads_left < 1.0:
                break
            pod = self._pods[uid]
            # Each container costs as much as a Pod.
            self._reads_left -= 1 + (len(pod.containers) if pod.has_several else 0)
            found.append(uid)
        return found

    def has_several(self, uid: str) -> bool:
        """Return whether the containers of a Pod that is due are to be read, too."""
        return self._pods[uid].has_several

    def take(
        self, uid: str, found: ports.PodAmounts | None, now_s: float, *, container: Callable[[str, str], str | None]
    ) -> None:
        """Take in a reading of a Pod that is due; None: it could not be read.

        `container`: the name of a container by UID and folder.
        """
        pod = self._pods[uid]
        pod.due_s = now_s + min(max(_SHARE_OF_AGE * (now_s - pod.first_s), READ_LEAST_S), READ_MOST_S)
        if found is None:
            return
        self._take_containers(
            pod, {folder: (each, container(uid, folder)) for folder, each in found.containers.items()}, now_s
        )
        last, last_s = pod.last, pod.last_s
        if last is None or found.cpu_s < last.cpu_s:
            # The first reading, or a cgroup that was made again.
            pod.tally.pods += not pod.is_counted
            pod.is_counted = True
            pod.first_s, pod.due_s = now_s, now_s + READ_LEAST_S
            pod.mean_from, pod.mean_from_s = found, now_s
            pod.reported, pod.reported_s = found, now_s
            pod.tally.peaks[MEMORY] = max(found.memory_bytes / self._scale, pod.tally.peaks.get(MEMORY, 0.0))
        elif now_s - last_s < _INTERVAL_LEAST_S:
            return
        else:
            elapsed_s = now_s - last_s
            pod.tally.note(CPU, (found.cpu_s - last.cpu_s) / elapsed_s / self._scale, elapsed_s)
            pod.tally.note(MEMORY, found.memory_bytes / self._scale, elapsed_s)
        pod.last, pod.last_s = found, now_s
        if now_s - pod.mean_from_s >= (MEAN_EVERY_S if pod.has_mean else MEAN_AFTER_S):
            self._note_mean(pod)

    def failed(self, uids: Iterable[str], now_s: float) -> None:
        """Take in which Pods have failed; they count once they have been measured.

        One that never is does not count: a full kubelet refuses a Deployment's Pods by the hundred, and next to the few
        that run they would look like a class of which every Pod fails.
        """
        self._failed |= dict.fromkeys(uids, now_s)
        for uid, since_s in list(self._failed.items()):
            pod = self._pods.get(uid) or self._ended.get(uid)
            if pod is not None and pod.is_counted:
                self._tally_of(pod).failed += 1
            elif now_s - since_s < UNNAMED_S:
                continue
            del self._failed[uid]

    def report(self) -> dict[str, usage.ClassUsage]:
        """Return what was measured since the last report, of the classes that have waited longest if not all fit.

        A report has one set of images for each class: others are in the next ones.
        """
        running = collections.Counter(pod.pod_class for pod in self._pods.values() if pod.pod_class is not None)
        room = REPORT_BYTES
        found: dict[str, usage.ClassUsage] = {}
        sent: set[_Key] = set()
        for (pod_class, image), tally in self._tallies.items():
            if pod_class in found:
                continue
            # UTF-8 has up to four bytes for a character.
            room -= tally.size_bytes + 4 * len(pod_class)
            if found and room < 0:
                break
            found[pod_class] = usage.ClassUsage(
                pods=tally.pods, failed=tally.failed, running=running[pod_class],
                seconds={dim: dict(each) for dim, each in tally.seconds.items() if each},
                pod_means=dict(tally.pod_means), peaks=dict(tally.peaks), template=tally.template,
                containers={
                    name: usage.ContainerUsage(cpu=dict(each.cpu), peaks=dict(each.peaks))
                    for name, each in tally.containers.items()
                },
            )  # fmt: skip
            sent.add((pod_class, image))
        self._clear(sent)
        return found

    def loads(self) -> dict[str, pod_telemetry.PodLoad]:
        """Return the load of each Pod, the mean of its readings since the last call; of a Pod without one, the last."""
        for pod in self._pods.values():
            load = self._load_since(pod)
            if load is not None:
                pod.load, pod.reported, pod.reported_s = load, pod.last, pod.last_s
        return self.known_loads()

    def known_loads(self) -> dict[str, pod_telemetry.PodLoad]:
        """Return what `loads` returned last, and of a Pod that was not in it the mean since its start.

        The next `loads` does not change by it.
        """
        found = {}
        for uid, pod in self._pods.items():
            load = self._load_since(pod) if pod.load is None else pod.load
            if load is not None and pod.last is not None:
                name = messages.ANY_CLASS if pod.pod_class is None else pod.pod_class
                found[uid] = pod_telemetry.PodLoad(name, *load, pod.last.memory_bytes / self._scale)
        return found

    def put_back(self, found: Mapping[str, usage.ClassUsage]) -> None:
        """Take back a report that was not sent."""
        for pod_class, each in found.items():
            self._tally((pod_class, "" if each.template is None else each.template.image)).add(each)

    def _tally(self, key: _Key) -> usage_tally.Tally:
        return self._tallies.setdefault(key, usage_tally.Tally())

    def _tally_of(self, pod: _Pod) -> usage_tally.Tally:
        """Return that of a Pod's class, which is made of what the Pod is; its own without a class."""
        if pod.key is None:
            return pod.tally
        tally = self._tally(pod.key)
        tally.template = pod.template
        return tally

    def _clear(self, sent: Set[_Key]) -> None:
        for key in sent:
            del self._tallies[key]
        for pod in self._pods.values():
            if pod.key in sent:
                pod.tally = self._tally_of(pod)

    def _name(self, uid: str, pod: _Pod, pod_class: str, template_of: TemplateOf) -> None:
        if pod.pod_class is not None or pod_class == messages.ANY_CLASS:
            return
        pod.pod_class, pod.template, own = pod_class, template_of(uid), pod.tally
        pod.tally = self._tally_of(pod)
        pod.tally.add(own)

    def _renew(self, pod: _Pod, template: usage.Template | None) -> None:
        """Take in what a Pod is made of now: it can be resized in place, and be given another image."""
        if template is not None and template is not pod.template and pod.pod_class is not None:
            pod.template = template
            pod.tally = self._tally_of(pod)

    def _take_containers(
        self, pod: _Pod, found: Mapping[str, tuple[ports.ContainerAmounts, str | None]], now_s: float
    ) -> None:
        before, pod.containers = pod.containers, {folder: (each, now_s) for folder, (each, _) in found.items()}
        for folder, (each, name) in found.items():
            # Without a name: the runtime's own, an init container, or the id has not arrived yet.
            if name is None:
                continue
            pod.tally.add_to_container(name, {}, {MEMORY: each.memory_bytes / self._scale})
            last, last_s = before.get(folder, (each, now_s))
            elapsed_s = now_s - last_s
            if elapsed_s >= _INTERVAL_LEAST_S and each.cpu_s >= last.cpu_s:
                cores = (each.cpu_s - last.cpu_s) / elapsed_s / self._scale
                pod.tally.add_to_container(name, {distribution.bucket(CPU, cores): elapsed_s}, {CPU: cores})

    def _end(self, uid: str, now_s: float) -> None:
        pod = self._pods.pop(uid)
        if not pod.has_mean:
            self._note_mean(pod)
        pod.ended_s = now_s
        self._ended[uid] = pod
        while len(self._ended) > ENDED_MOST:
            del self._ended[next(iter(self._ended))]

    def _restarted(self, uid: str) -> _Pod:
        pod = self._ended.pop(uid)
        pod.restart()
        pod.tally = self._tally_of(pod)
        return pod

    def _load_since(self, pod: _Pod) -> tuple[float, float] | None:
        """Return the load since the last report; None without a reading since."""
        before, last, elapsed_s = pod.reported, pod.last, pod.last_s - pod.reported_s
        if before is None or last is None or elapsed_s < _INTERVAL_LEAST_S:
            return None
        waiting = 0.0
        if last.waiting_s is not None and before.waiting_s is not None:
            # Throttled time is counted late, and the files are read one after the other.
            waiting = min(max((last.waiting_s - before.waiting_s) / elapsed_s, 0.0), 1.0)
        return (last.cpu_s - before.cpu_s) / elapsed_s / self._scale, waiting

    def _note_mean(self, pod: _Pod) -> None:
        if pod.mean_from is None or pod.last is None or pod.last_s - pod.mean_from_s < READ_LEAST_S / 2.0:
            return
        mean = (pod.last.cpu_s - pod.mean_from.cpu_s) / (pod.last_s - pod.mean_from_s) / self._scale
        pod.tally.pod_means[distribution.bucket(CPU, mean)] += 1
        pod.has_mean, pod.mean_from, pod.mean_from_s = True, pod.last, pod.last_s
