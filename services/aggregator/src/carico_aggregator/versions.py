"""What the Pods of a class have used with one set of images, and which of these count. Pure.

a new image is reported     the one before still counts: the new one has been seen for minutes, peaks come later
a third image is reported   the two before are added up, and remain known by their images: Pods of three may run on
the new one is as old       and no Pod of those before runs: they are dropped, with their peaks
"""

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from carico_core.domain import messages, usage
from carico_core.numerics import distribution, recommendation
from carico_core.wire.messages import usage as wire

# As VPA's: what was measured a day ago counts half.
HALF_LIFE_S = 24 * 3600.0
# Six reports: a node that is silent for so long runs nothing.
RUNNING_S = 30.0
# Marks of the peak of memory are further apart the longer Pods are known, up to this.
MARKS_S = 6 * 3600.0
# With more, the older ones are added up: each takes 9 kB.
MOST = 2
_NS = 1e9


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Container:
    """One container of the Pods. `cpu`: weights by bucket, as of the version's `at_ns`."""

    cpu: messages.Array = dataclasses.field(default_factory=lambda: np.zeros(usage.BUCKETS))
    peaks: dict[str, float] = dataclasses.field(default_factory=dict)


_NOTHING = Container()


class Seen(NamedTuple):
    """When Pods with a set of images were first and last reported."""

    first_ns: int
    last_ns: int


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Version:
    """Pods with one set of images, or with several older ones; arrays are weights by bucket, as of `at_ns`."""

    # By digest; none while they are unknown.
    images: dict[str, Seen]
    at_ns: int
    first_ns: int
    last_ns: int
    seconds: dict[str, messages.Array]
    pod_means: messages.Array
    pods: int = 0
    failed: int = 0
    # The same as weights, as of `at_ns`.
    recent_pods: float = 0.0
    recent_failed: float = 0.0
    # Of the largest node on which they were measured.
    node_size: dict[str, float] = dataclasses.field(default_factory=dict)
    # Of the peak of memory: an earlier one and a later one.
    marks: tuple[usage.Mark, usage.Mark] | None = None
    measured_s: float = 0.0
    peaks: dict[str, float] = dataclasses.field(default_factory=dict)
    nodes: set[int] = dataclasses.field(default_factory=set)
    template: usage.Template | None = None
    containers: dict[str, Container] = dataclasses.field(default_factory=dict)

    @property
    def is_learnt(self) -> bool:
        """Whether there are enough Pods and measurements to recommend something."""
        return self.pods >= recommendation.MEDIUM_PODS and self.measured_s >= recommendation.MEDIUM_S

    @property
    def failed_share(self) -> float:
        """The share of recent Pods that have failed, 0 without any."""
        # Those that run on for days have a mean each day: of a class whose Pods failed once while they waited for a
        # database, the failures are forgotten.
        pods = max(self.recent_pods, float(self.pod_means.sum()))
        return self.recent_failed / pods if pods > 0.0 else 0.0

    def memory_before(self, now_ns: int) -> float | None:
        """Return the peak of memory at the earlier mark; None if it was not known.

        Of Pods that have ended nothing more is reported, and marks stay: the answer is what it would be with reports.
        """
        if self.marks is None:
            return None
        early, late = self.marks
        passed_ns, due_ns = now_ns - late.at_ns, self._due_ns(late)
        if passed_ns < due_ns:
            found = early.memory_peak
        elif passed_ns < 3 * due_ns:
            found = late.memory_peak
        else:
            found = self.peaks.get(recommendation.MEMORY, 0.0)
        return found if found > 0.0 else None

    @property
    def span_s(self) -> float:
        """The time from the first to the last report."""
        return (self.last_ns - self.first_ns) / _NS

    def distribution(self, dim: str) -> distribution.Distribution:
        """Return what was used of a resource, to read from; it shares the weights."""
        return distribution.Distribution(dim, self.seconds[dim], peak=self.peaks.get(dim))

    def live(self, now_ns: int) -> list[str]:
        """Return the images whose Pods run."""
        return [image for image, seen in self.images.items() if (now_ns - seen.last_ns) / _NS < RUNNING_S]

    def add(self, found: usage.ClassUsage, node: int, size: Mapping[str, float], now_ns: int) -> None:
        """Take in what a node of this size measured."""
        self._decay(now_ns)
        image = _image(found)
        if image in self.images:
            self.images[image] = self.images[image]._replace(last_ns=now_ns)
        for dim, weights in self.seconds.items():
            _add_to(weights, found.seconds.get(dim, {}))
        _add_to(self.pod_means, found.pod_means)
        self.last_ns = now_ns
        self.pods += found.pods
        self.failed += found.failed
        self.recent_pods += found.pods
        self.recent_failed += found.failed
        self.measured_s += sum(found.seconds.get(recommendation.CPU, {}).values())
        raise_to(self.peaks, found.peaks)
        raise_to(self.node_size, size)
        self._mark(now_ns)
        if len(self.nodes) < wire.NODES_MAX:
            self.nodes.add(node)
        if found.template is not None:
            self.template = found.template
        for name, each in found.containers.items():
            if (held := self._container(name)) is not None:
                _add_to(held.cpu, each.cpu)
                raise_to(held.peaks, each.peaks)

    def facts(self, name: str) -> usage.KeptClass:
        """Return it as a record."""
        return usage.KeptClass(
            name=name, at_ns=self.at_ns, first_ns=self.first_ns, last_ns=self.last_ns, pods=self.pods,
            failed=self.failed, recent_pods=self.recent_pods, recent_failed=self.recent_failed,
            node_size=dict(self.node_size), marks=self.marks, measured_s=self.measured_s,
            seconds={dim: distribution.buckets(each) for dim, each in self.seconds.items()},
            pod_means=distribution.buckets(self.pod_means), peaks=dict(self.peaks), nodes=frozenset(self.nodes),
            images={image: seen.first_ns for image, seen in self.images.items()}, template=self.template,
            containers={
                name: usage.ContainerUsage(cpu=distribution.buckets(each.cpu), peaks=dict(each.peaks))
                for name, each in self.containers.items()
            },
        )  # fmt: skip

    def _container(self, name: str) -> Container | None:
        """Return a container, new if it is not known; None if there are too many."""
        if name not in self.containers and len(self.containers) >= wire.CONTAINERS_KEPT:
            return None
        return self.containers.setdefault(name, Container())

    def _mark(self, now_ns: int) -> None:
        """Note the peak of memory each time that Pods are known for twice as long, and every `MARKS_S` later."""
        now = usage.Mark(now_ns, self.peaks.get(recommendation.MEMORY, 0.0))
        if self.marks is None:
            self.marks = now, now
            return
        late = self.marks[1]
        if now_ns - late.at_ns >= self._due_ns(late):
            self.marks = late, now

    def _due_ns(self, late: usage.Mark) -> float:
        """Return the time from the later mark to the next one."""
        return min(late.at_ns - self.first_ns, MARKS_S * _NS)

    def decay(self, now_ns: int) -> float:
        """Return the factor of its weights as of now."""
        return distribution.decay((now_ns - self.at_ns) / _NS, half_life_s=HALF_LIFE_S)

    def _decay(self, now_ns: int) -> None:
        factor = self.decay(now_ns)
        for weights in (*self.seconds.values(), self.pod_means, *(each.cpu for each in self.containers.values())):
            weights *= factor
        self.recent_pods *= factor
        self.recent_failed *= factor
        self.at_ns = now_ns


def new(image: str, now_ns: int) -> Version:
    """Return one without measurements."""
    return Version(
        images={image: Seen(now_ns, now_ns)} if image else {}, at_ns=now_ns, first_ns=now_ns, last_ns=now_ns,
        seconds={dim: np.zeros(usage.BUCKETS) for dim in usage.DIMS}, pod_means=np.zeros(usage.BUCKETS),
    )  # fmt: skip


def of_kept(kept: usage.KeptClass) -> Version:
    """Return the version that a record describes, without the earlier one."""
    return Version(
        images={image: Seen(first_ns, kept.last_ns) for image, first_ns in kept.images.items()},
        at_ns=kept.at_ns, first_ns=kept.first_ns, last_ns=kept.last_ns, pods=kept.pods, failed=kept.failed,
        recent_pods=kept.recent_pods, recent_failed=kept.recent_failed, node_size=dict(kept.node_size),
        marks=kept.marks, measured_s=kept.measured_s,
        seconds={dim: distribution.weights(kept.seconds.get(dim, {})) for dim in usage.DIMS},
        pod_means=distribution.weights(kept.pod_means), peaks=dict(kept.peaks), nodes=set(kept.nodes),
        template=kept.template,
        containers={
            name: Container(cpu=distribution.weights(each.cpu), peaks=dict(each.peaks))
            for name, each in kept.containers.items()
        },
    )  # fmt: skip


def place(held: list[Version], found: usage.ClassUsage, now_ns: int) -> Version:
    """Return the version that takes in what was measured; a new one is put first, of too many the oldest are added up.

    A class of which Pods of so many sets of images run that they cannot all be known has no new one among them.
    """
    image = _image(found)
    for each in held:
        if not each.images and image:
            # What was measured before the images were known is of the first that are.
            each.images[image] = Seen(each.first_ns, now_ns)
        if image in each.images or not image:
            return each
    if sum(len(each.live(now_ns)) for each in held) >= wire.IMAGES_MAX:
        return held[-1]
    held.insert(0, new(image, now_ns))
    if len(held) > MOST:
        held[-2:] = [merged(*held[-2:])]
    return held[0]


def settled(held: Sequence[Version]) -> list[Version]:
    """Return those that still count."""
    if len(held) < MOST:
        return list(held)
    older, later = sorted(held, key=lambda each: each.last_ns)
    is_silent = (later.last_ns - older.last_ns) / _NS >= RUNNING_S
    # As long as the other one: memory grows, and usage follows the time of day.
    is_enough = later.span_s >= HALF_LIFE_S or (later.is_learnt and later.span_s >= older.span_s)
    return [later] if is_silent and is_enough else list(held)


def is_new(held: Sequence[Version]) -> bool:
    """Return whether the images that run now have not been measured enough, so that amounts are of earlier ones."""
    if len(held) < MOST:
        return False
    last_ns = max(each.last_ns for each in held)
    live = [each for each in held if (last_ns - each.last_ns) / _NS < RUNNING_S]
    return not max(live, key=lambda each: each.first_ns).is_learnt


def added_up(held: Sequence[Version]) -> Version:
    """Return all of them as one, to read; a single one as it is."""
    return functools.reduce(merged, held)


def merged(one: Version, other: Version) -> Version:
    """Return both as one; of too many images, containers and nodes those of the first, which is the newer one."""
    # Of two records one was changed last: only the weights of the other one decay.
    newer, older = (one, other) if one.at_ns >= other.at_ns else (other, one)
    factor = older.decay(newer.at_ns)
    images = sorted((one.images | other.images).items(), key=lambda each: -each[1].last_ns)
    return Version(
        images=dict(images[: wire.IMAGES_MAX]), at_ns=newer.at_ns,
        first_ns=min(one.first_ns, other.first_ns), last_ns=max(one.last_ns, other.last_ns),
        seconds={dim: each + older.seconds[dim] * factor for dim, each in newer.seconds.items()},
        pod_means=newer.pod_means + older.pod_means * factor,
        pods=one.pods + other.pods, failed=one.failed + other.failed,
        recent_pods=newer.recent_pods + older.recent_pods * factor,
        recent_failed=newer.recent_failed + older.recent_failed * factor,
        node_size=_higher(one.node_size, other.node_size), marks=_higher_marks(one.marks, other.marks),
        measured_s=one.measured_s + other.measured_s, peaks=_higher(one.peaks, other.peaks),
        nodes=one.nodes | set(list(other.nodes)[: wire.NODES_MAX - len(one.nodes)]),
        template=one.template,
        containers={
            name: _both(newer.containers.get(name, _NOTHING), older.containers.get(name, _NOTHING), factor)
            for name in itertools.islice(one.containers | other.containers, wire.CONTAINERS_KEPT)
        },
    )  # fmt: skip


def live_images(held: Sequence[Version]) -> int:
    """Return of how many sets of images Pods run."""
    last_ns = max(each.last_ns for each in held)
    return sum(len(each.live(last_ns)) for each in held)


def raise_to(peaks: dict[str, float], found: Mapping[str, float]) -> None:
    """Raise each to what was found, where that is more."""
    for dim, peak in found.items():
        peaks[dim] = max(peak, peaks.get(dim, 0.0))


def _image(found: usage.ClassUsage) -> str:
    """Return the digest of the images; "" if they are unknown."""
    return "" if found.template is None else found.template.image


def _both(newer: Container, older: Container, factor: float) -> Container:
    return Container(cpu=newer.cpu + older.cpu * factor, peaks=_higher(newer.peaks, older.peaks))


def _higher(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    found = dict(one)
    raise_to(found, other)
    return found


_Marks = tuple[usage.Mark, usage.Mark]


def _higher_marks(one: _Marks | None, other: _Marks | None) -> _Marks | None:
    """Return the marks of both together: their peak is the higher one, at each time."""
    if one is None or other is None:
        return one or other
    early, late = (
        usage.Mark(max(mine.at_ns, theirs.at_ns), max(mine.memory_peak, theirs.memory_peak))
        for mine, theirs in zip(one, other, strict=True)
    )
    return early, late


def _add_to(weights: messages.Array, found: usage.Buckets) -> None:
    for index, weight in found.items():
        weights[index] += weight
