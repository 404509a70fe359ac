"""What the Pods of each class have used, added up over all nodes. Pure: times are arguments.

Each replica takes in every report. Reports add up, so their order does not matter. What is kept over restarts
(`kept`, `resume`) is written by one replica, and read by each when it starts.

One node can distort a class only by what it measures: a peak above the node's own size is refused.
"""

import dataclasses
import zlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from carico_core.domain import errors, messages, usage
from carico_core.numerics import distribution, recommendation
from carico_core.wire import freshness, streams
from carico_core.wire.messages import usage as wire

# As VPA's: what was measured a day ago counts half.
HALF_LIFE_S = 24 * 3600.0
# As VPA's history: a class without Pods for this long is forgotten.
FORGET_S = 8 * 24 * 3600.0
# Each takes 9 kB; of more, those that were seen last are kept.
CLASSES_MOST = 1000
# Six reports: a node that is silent for so long runs nothing.
RUNNING_S = 30.0
# A Pod's CPU is measured over intervals whose ends are read late by milliseconds.
_CPU_ROUNDING = 1.25
_NS = 1e9


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class _Class:
    """A class; arrays are weights by bucket, as of `at_ns`."""

    at_ns: int
    first_ns: int
    last_ns: int
    seconds: dict[str, messages.Array]
    pod_means: messages.Array
    pods: int = 0
    failed: int = 0
    measured_s: float = 0.0
    peaks: dict[str, float] = dataclasses.field(default_factory=dict)
    nodes: set[int] = dataclasses.field(default_factory=set)
    images: dict[str, int] = dataclasses.field(default_factory=dict)
    template: usage.Template | None = None


class About(NamedTuple):
    """When a class was first and last seen, its peaks, and what its Pods are made of."""

    first_ns: int
    last_ns: int
    peaks: Mapping[str, float]
    template: usage.Template | None


class _Running(NamedTuple):
    """How many Pods of a class a node runs, and when it reported that."""

    pods: int
    at_s: float


class Usages:
    """Classes by name."""

    def __init__(self, *, lease_s: float) -> None:
        self._classes: dict[str, _Class] = {}
        # By node and class. A report may leave out classes that do not fit into it.
        self._running: dict[str, dict[str, _Running]] = {}
        self._guard = freshness.SequenceGuard(lease_s)
        # Keys of the bucket whose classes have changed since they were taken.
        self._changed: set[int] = set()

    def __len__(self) -> int:
        return len(self._classes)

    def names(self) -> list[str]:
        """Return the classes in the order of their names."""
        return sorted(self._classes)

    def take(
        self, report: usage.UsageReport, node: messages.Entry | None, *, now_ns: int, now_s: float
    ) -> None:  # fmt: skip
        """Take in a report; `node`: the newest entry of its node. Raises `MessageError` for one that is refused."""
        refused = self._guard.accept(report.node, report.boot, report.seq, now_s)
        if refused is not None:
            raise errors.MessageError(refused, "seq", f"got {report.seq}, expected a later one")
        _check_size(report, node)
        hashed = zlib.crc32(report.node.encode())
        for name, found in report.classes.items():
            self._add(name, found, hashed, now_ns)
        running = self._running.setdefault(report.node, {})
        running |= {name: _Running(found.running, now_s) for name, found in report.classes.items()}

    def expire(self, *, now_ns: int, now_s: float) -> None:
        """Forget nodes that are silent, classes without Pods for long, and of too many classes the oldest."""
        for node, by_class in list(self._running.items()):
            live = {name: each for name, each in by_class.items() if now_s - each.at_s < RUNNING_S and each.pods}
            if live:
                self._running[node] = live
            else:
                del self._running[node]
        old = [name for name, each in self._classes.items() if (now_ns - each.last_ns) / _NS >= FORGET_S]
        over = len(self._classes) - len(old) - CLASSES_MOST
        if over > 0:
            old += sorted(self._classes.keys() - set(old), key=lambda name: (self._classes[name].last_ns, name))[:over]
        for name in old:
            self._changed.add(_key(name))
            del self._classes[name]

    def running(self) -> dict[str, int]:
        """Return the Pods that run now, by class."""
        found: dict[str, int] = {}
        for by_class in self._running.values():
            for name, each in by_class.items():
                found[name] = found.get(name, 0) + each.pods
        return found

    def measured(self, name: str, *, now_ns: int) -> recommendation.Measured:
        """Return what the rule needs of a class. Raises `KeyError`."""
        found = self._classes[name]
        return recommendation.Measured(
            cpu=found.seconds[recommendation.CPU],
            memory=found.seconds[recommendation.MEMORY],
            pod_means=found.pod_means,
            cpu_peak=found.peaks.get(recommendation.CPU),
            memory_peak=found.peaks.get(recommendation.MEMORY),
            pods=found.pods,
            failed=found.failed,
            nodes=len(found.nodes),
            images=_images(found, now_ns),
            measured_s=found.measured_s,
            age_s=max(0.0, (now_ns - found.first_ns) / _NS),
        )

    def about(self, name: str) -> About:
        """Return what an answer states of a class besides its measurements. Raises `KeyError`."""
        found = self._classes[name]
        return About(first_ns=found.first_ns, last_ns=found.last_ns, peaks=found.peaks, template=found.template)

    def facts(self, name: str) -> usage.KeptClass:
        """Return everything known of a class. Raises `KeyError`."""
        found = self._classes[name]
        return usage.KeptClass(
            name=name, at_ns=found.at_ns, first_ns=found.first_ns, last_ns=found.last_ns, pods=found.pods,
            failed=found.failed, measured_s=found.measured_s,
            seconds={dim: distribution.buckets(each) for dim, each in found.seconds.items()},
            pod_means=distribution.buckets(found.pod_means), peaks=dict(found.peaks), nodes=frozenset(found.nodes),
            images=dict(found.images), template=found.template,
        )  # fmt: skip

    def take_changed(self) -> dict[int, list[usage.KeptClass]]:
        """Return the classes under each key that has changed since the last call, those seen last first."""
        keys, self._changed = self._changed, set()
        found: dict[int, list[usage.KeptClass]] = {key: [] for key in keys}
        for name in self._classes:
            if _key(name) in keys:
                found[_key(name)].append(self.facts(name))
        return {key: sorted(each, key=lambda one: -one.last_ns) for key, each in found.items()}

    def keep_changed(self, key: int) -> None:
        """Take in that a key could not be written."""
        self._changed.add(key)

    def resume(self, kept: Iterable[usage.KeptClass]) -> None:
        """Continue from what was kept."""
        for each in kept:
            self._classes[each.name] = _Class(
                at_ns=each.at_ns, first_ns=each.first_ns, last_ns=each.last_ns, pods=each.pods, failed=each.failed,
                measured_s=each.measured_s,
                seconds={dim: distribution.weights(each.seconds.get(dim, {})) for dim in usage.DIMS},
                pod_means=distribution.weights(each.pod_means), peaks=dict(each.peaks), nodes=set(each.nodes),
                images=dict(each.images), template=each.template,
            )  # fmt: skip

    def _add(self, name: str, found: usage.ClassUsage, node: int, now_ns: int) -> None:
        held = self._classes.get(name)
        if held is None:
            held = self._classes[name] = _Class(
                at_ns=now_ns, first_ns=now_ns, last_ns=now_ns,
                seconds={dim: np.zeros(usage.BUCKETS) for dim in usage.DIMS}, pod_means=np.zeros(usage.BUCKETS),
            )  # fmt: skip
        factor = distribution.decay((now_ns - held.at_ns) / _NS, half_life_s=HALF_LIFE_S)
        for dim, weights in held.seconds.items():
            weights *= factor
            _add_to(weights, found.seconds.get(dim, {}))
        held.pod_means *= factor
        _add_to(held.pod_means, found.pod_means)
        held.at_ns, held.last_ns = now_ns, now_ns
        held.pods += found.pods
        held.failed += found.failed
        held.measured_s += sum(found.seconds.get(recommendation.CPU, {}).values())
        for dim, peak in found.peaks.items():
            held.peaks[dim] = max(peak, held.peaks.get(dim, 0.0))
        if len(held.nodes) < wire.NODES_MAX:
            held.nodes.add(node)
        if found.template is not None:
            _note_template(held, found.template, now_ns)
        self._changed.add(_key(name))


def _check_size(report: usage.UsageReport, node: messages.Entry | None) -> None:
    """Raise `MessageError` for a Pod that is larger than its node, or of a node that has not reported its size."""
    if node is None:
        raise errors.MessageError(errors.Drop.FOREIGN_NODE, "node", f"got {report.node!r}, which has not reported yet")
    scale = dict(zip(node.dims, node.scale.tolist(), strict=True))
    most = {recommendation.CPU: _CPU_ROUNDING * node.weight + 1.0, recommendation.MEMORY: scale.get("memory")}
    for name, found in report.classes.items():
        for dim, peak in found.peaks.items():
            limit = most.get(dim)
            if limit is not None and peak > limit:
                detail = f"got {peak:.4g}, expected at most {limit:.4g}, the size of the node"
                raise errors.MessageError(errors.Drop.OUT_OF_RANGE, f"classes[{name[:60]}].peaks.{dim}", detail)


def _add_to(weights: messages.Array, found: usage.Buckets) -> None:
    for index, weight in found.items():
        weights[index] += weight


def _note_template(held: _Class, template: usage.Template, now_ns: int) -> None:
    held.template = template
    if template.image not in held.images:
        held.images[template.image] = now_ns
        while len(held.images) > wire.IMAGES_MAX:
            del held.images[min(held.images, key=lambda image: held.images[image])]


def _images(held: _Class, now_ns: int) -> int:
    """Return how many images the measurements come from; an older one counts until half of the weight is newer."""
    if len(held.images) > 1 and (now_ns - max(held.images.values())) / _NS < HALF_LIFE_S:
        return len(held.images)
    return 1


def _key(name: str) -> int:
    return zlib.crc32(name.encode()) % streams.USAGE_KEYS
