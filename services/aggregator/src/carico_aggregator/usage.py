"""What the Pods of each class have used, added up over all nodes. Pure: times are arguments.

Each replica takes in every report. Reports add up, so their order does not matter. What is kept over restarts
(`kept`, `resume`) is written by one replica, and read by each when it starts.

One node can distort a class only by what it measures: a peak above the node's own size is refused, of a Pod or of a
container of it.
"""

import dataclasses
import itertools
import math
import zlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from carico_aggregator import versions
from carico_core.domain import errors, messages, names, usage
from carico_core.numerics import distribution, recommendation
from carico_core.wire import freshness, streams

# As VPA's history: a class without Pods for this long is forgotten.
FORGET_S = 8 * 24 * 3600.0
# Each takes 9 kB for each set of images; of more, some are forgotten (`_in_turns`).
CLASSES_MOST = 1000
# More are not waited for: on 5,000 nodes, Pods with classes of their own would fill the memory between two expirations.
CLASSES_HELD_MOST = 2 * CLASSES_MOST
# Classes of which a node reports Pods, each under a name of its choice; those reported longest ago are forgotten. More
# than a node has Pods.
NODE_CLASSES_MOST = 1024
# Counts of all nodes: three for each of the 150,000 Pods that Kubernetes supports, if no two on a node are of a class.
# Of more, nodes are forgotten that are known for the shortest time: names that someone makes up come last.
COUNTS_MOST = 500_000
# An agent that starts reads 12 Pods a second: with this all of a node.
AGAIN_S = 60.0
# An agent may start again as late as this: of a new version, its image must be pulled first.
SILENT_MOST_S = 600.0
# A Pod's CPU is measured over intervals whose ends are read late by milliseconds.
_CPU_ROUNDING = 1.25
_NS = 1e9


class About(NamedTuple):
    """When a class was first and last seen, what its Pods are made of, and what is measured of them.

    `images`: of how many sets of images Pods run. `node_gives`: the most that a Pod can request on the largest node.
    """

    first_ns: int
    last_ns: int
    template: usage.Template | None
    images: int
    node_gives: Mapping[str, float]
    measured: recommendation.Measured
    containers: Mapping[str, versions.Container]


class _Running(NamedTuple):
    """How many Pods of a class a node runs, and when it reported that."""

    pods: int
    at_s: float


@dataclasses.dataclass(slots=True, kw_only=True)
class _Node:
    """What a node runs by class; a report may leave out classes that do not fit into it.

    `size`: in cores and bytes; known for longer than the node's entry, which comes another way.
    `last`: Pods that ran when they were last reported. `again`: those at the time when its agent started again, which
    counts them once more until `again_until_s`.
    """

    boot: str
    size: Mapping[str, float]
    heard_s: float = 0.0
    running: dict[str, _Running] = dataclasses.field(default_factory=dict)
    last: dict[str, int] = dataclasses.field(default_factory=dict)
    again: dict[str, int] = dataclasses.field(default_factory=dict)
    again_until_s: float = 0.0

    @property
    def counts(self) -> int:
        """How many numbers of Pods are kept of it; what else there is of a node takes as much as four."""
        return 4 + len(self.running) + len(self.last) + len(self.again)

    def take(self, report: usage.UsageReport, now_s: float) -> dict[str, int]:
        """Take in a report; return how many Pods of each class it counts that were not counted before."""
        if report.boot != self.boot:
            self.boot, self.again_until_s = report.boot, now_s + AGAIN_S
            self.again, self.last = self.last, {}
        self.heard_s = now_s
        again = self.again if now_s < self.again_until_s else {}
        new = {}
        for name, found in report.classes.items():
            known = min(found.pods, again.get(name, 0))
            if known:
                again[name] -= known
            new[name] = found.pods - known
            # Newest last.
            self.running.pop(name, None)
            self.running[name] = _Running(found.running, now_s)
            self.last.pop(name, None)
            if found.running:
                self.last[name] = found.running
        for held in (self.running, self.last):
            for name in list(itertools.islice(held, max(len(held) - NODE_CLASSES_MOST, 0))):
                del held[name]
        return new


class Usages:
    """Classes by name."""

    def __init__(self, *, lease_s: float) -> None:
        # Newest images first.
        self._classes: dict[str, list[versions.Version]] = {}
        self._nodes: dict[str, _Node] = {}
        # Of all nodes.
        self._counts = 0
        # Of the largest node, by dimension.
        self._largest: dict[str, float] = {}
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
        # First: this report may come again once the node is known.
        size = self._size_of(report.node, node)
        refused = self._guard.accept(report.node, report.boot, report.seq, now_s)
        if refused is not None:
            raise errors.MessageError(refused, "seq", f"got {report.seq}, expected a later one")
        _check_size(report, _most(size))
        hashed = zlib.crc32(report.node.encode())
        held = self._nodes.get(report.node)
        before = 0 if held is None else held.counts
        if held is None:
            held = self._nodes[report.node] = _Node(boot=report.boot, size=size)
        held.size = size
        versions.raise_to(self._largest, size)
        new = held.take(report, now_s)
        self._counts += held.counts - before
        while self._counts > COUNTS_MOST and len(self._nodes) > 1:
            self._keep_nodes(dict(itertools.islice(self._nodes.items(), len(self._nodes) // 2)))
        for name, found in report.classes.items():
            self._add(name, dataclasses.replace(found, pods=new[name]), hashed, size, now_ns)
        if len(self._classes) > CLASSES_HELD_MOST:
            self._forget_old(now_ns)

    def expire(self, *, now_ns: int, now_s: float) -> None:
        """Forget nodes that are silent, classes without Pods for long, and of too many classes some."""
        for node in self._nodes.values():
            node.running = {
                name: each
                for name, each in node.running.items()
                if now_s - each.at_s < versions.RUNNING_S and each.pods
            }
            if now_s >= node.again_until_s:
                node.again = {}
        self._keep_nodes({name: node for name, node in self._nodes.items() if now_s - node.heard_s < SILENT_MOST_S})
        for name, held in self._classes.items():
            if len(found := versions.settled(held)) < len(held):
                self._classes[name] = found
                self._changed.add(_key(name))
        self._forget_old(now_ns)

    def running(self) -> dict[str, int]:
        """Return the Pods that run now, by class."""
        found: dict[str, int] = {}
        for node in self._nodes.values():
            for name, each in node.running.items():
                found[name] = found.get(name, 0) + each.pods
        return found

    def measured(self, name: str, *, now_ns: int) -> recommendation.Measured:
        """Return what the rule needs of a class. Raises `KeyError`."""
        return self.about(name, now_ns=now_ns).measured

    def about(self, name: str, *, now_ns: int) -> About:
        """Return what an answer states of a class. Raises `KeyError`."""
        held = self._classes[name]
        found = versions.added_up(held)
        return About(
            first_ns=found.first_ns, last_ns=found.last_ns, template=held[0].template,
            images=versions.live_images(held), node_gives=self._gives(found.node_size),
            measured=recommendation.Measured(
                cpu=found.distribution(recommendation.CPU), memory=found.distribution(recommendation.MEMORY),
                pod_means=distribution.Distribution(recommendation.CPU, found.pod_means),
                memory_before=found.memory_before(now_ns), pods=found.pods, failed=found.failed,
                failed_share=found.failed_share, nodes=len(found.nodes), has_new_image=versions.is_new(held),
                measured_s=found.measured_s, age_s=max(0.0, (now_ns - found.first_ns) / _NS),
            ),
            containers=found.containers,
        )  # fmt: skip

    def facts(self, name: str) -> usage.KeptClass:
        """Return everything known of a class. Raises `KeyError`."""
        found = None
        for each in reversed(self._classes[name]):
            found = dataclasses.replace(each.facts(name), earlier=found)
        assert found is not None
        return found

    def take_changed(self, *, also: int | None = None) -> dict[int, list[usage.KeptClass]]:
        """Return the classes under each key that has changed since the last call, those to be kept before others first.

        `also`: a key that is returned too if there are classes under it.
        """
        found: dict[int, list[usage.KeptClass]] = {key: [] for key in self._changed}
        self._changed = set()
        for name in self._in_turns(self._classes):
            key = _key(name)
            if key in found or key == also:
                found.setdefault(key, []).append(self.facts(name))
        return found

    def doubt_kept(self) -> None:
        """Take all classes as changed: the bucket may have lost what was written."""
        self._changed.update(map(_key, self._classes))

    def resume(self, kept: Iterable[usage.KeptClass]) -> None:
        """Continue from what was kept."""
        for each in kept:
            held = self._classes[each.name] = [versions.of_kept(each)]
            if each.earlier is not None:
                held.append(versions.of_kept(each.earlier))

    def _keep_nodes(self, kept: dict[str, _Node]) -> None:
        """Forget all nodes but these."""
        self._nodes = kept
        self._counts = sum(each.counts for each in kept.values())
        self._largest = {}
        for each in kept.values():
            versions.raise_to(self._largest, each.size)

    def _gives(self, size: Mapping[str, float]) -> dict[str, float]:
        """Return what a Pod can request on the largest node: of those that are known, and of this size."""
        # A class that runs at night on nodes that are gone by day gets its amounts all the same.
        found = dict(self._largest)
        versions.raise_to(found, size)
        return {dim: usage.NODE_SHARE * amount for dim, amount in found.items()}

    def _add(self, name: str, found: usage.ClassUsage, node: int, size: Mapping[str, float], now_ns: int) -> None:
        held = self._classes.setdefault(name, [])
        versions.place(held, found, now_ns).add(found, node, size, now_ns)
        self._changed.add(_key(name))

    def _size_of(self, node: str, entry: messages.Entry | None) -> Mapping[str, float]:
        """Return the size of a node; without an entry the one that it had. Raises `MessageError` if there is none."""
        if entry is not None:
            return _size(entry)
        if node not in self._nodes:
            raise errors.MessageError(errors.Drop.FOREIGN_NODE, "node", f"got {node!r}, which has not reported yet")
        return self._nodes[node].size

    def _forget_old(self, now_ns: int) -> None:
        recent = [name for name in self._classes if (now_ns - self._last_ns(name)) / _NS < FORGET_S]
        for name in self._classes.keys() - set(self._in_turns(recent)[:CLASSES_MOST]):
            self._changed.add(_key(name))
            del self._classes[name]

    def _in_turns(self, found: Iterable[str]) -> list[str]:
        """Return classes in the order in which they are kept: those seen last first, of each namespace in turn.

        Who can write as one agent can make up classes, and namespaces. So a class that a single node has reported comes
        no earlier than its turn among those of that node, and of its namespace after classes of other nodes.
        """
        ranked = sorted(found, key=lambda name: (-self._last_ns(name), name))
        of_one_node: dict[int, list[str]] = {}
        for name in ranked:
            nodes = set().union(*(each.nodes for each in self._classes[name]))
            if len(nodes) == 1:
                of_one_node.setdefault(nodes.pop(), []).append(name)
        at_node: dict[str, int] = {}
        for own in of_one_node.values():
            turn_of = names.turns(own)
            at_node |= {name: turn for turn, name in enumerate(sorted(own, key=lambda name: turn_of[name]))}
        turn_of = names.turns(sorted(ranked, key=lambda name: at_node.get(name, 0)))
        return sorted(ranked, key=lambda name: max(turn_of[name], at_node.get(name, 0)))

    def _last_ns(self, name: str) -> int:
        return max(each.last_ns for each in self._classes[name])


def _size(node: messages.Entry) -> dict[str, float]:
    """Return the size of a node in cores and bytes; of memory it may not be known."""
    scale = dict(zip(node.dims, node.scale.tolist(), strict=True))
    size = {recommendation.CPU: node.weight} | {dim: scale[dim] for dim in (recommendation.MEMORY,) if dim in scale}
    # A node states its size itself: with a larger amount readers would refuse the answer for all classes.
    return {dim: min(each, _largest(dim)) for dim, each in size.items()}


def _largest(dim: str) -> float:
    return distribution.amount(dim, usage.BUCKETS - 1)


def _most(size: Mapping[str, float]) -> dict[str, float]:
    """Return the largest peak that a node can measure, by dimension."""
    cores = _CPU_ROUNDING * size[recommendation.CPU] + 1.0
    most = {recommendation.CPU: cores, recommendation.MEMORY: size.get(recommendation.MEMORY, math.inf)}
    return {dim: min(each, _largest(dim)) for dim, each in most.items()}


def _check_size(report: usage.UsageReport, most: Mapping[str, float]) -> None:
    """Raise `MessageError` for a Pod that is larger than its node."""
    for name, found in report.classes.items():
        for peaks in (found.peaks, *(each.peaks for each in found.containers.values())):
            for dim, peak in peaks.items():
                if dim in most and peak > most[dim]:
                    detail = f"got {peak:.4g}, expected at most {most[dim]:.4g}, the size of the node"
                    raise errors.MessageError(errors.Drop.OUT_OF_RANGE, f"classes[{name[:60]}].peaks.{dim}", detail)


def _key(name: str) -> int:
    return zlib.crc32(name.encode()) % streams.USAGE_KEYS
