"""What has been measured of the Pods of a class since the last report; reports of a node add up."""

import collections
import dataclasses
from collections.abc import Mapping

from carico_core.domain import usage
from carico_core.numerics import distribution
from carico_core.wire.messages import usage as wire

# Of a report in JSON: a class, a container, a name and a pair of a bucket and its weight.
_CLASS_BYTES, _CONTAINER_BYTES, _NAME_BYTES, _PAIR_BYTES = 300, 150, 3, 16

_Weights = collections.defaultdict[int, float]


@dataclasses.dataclass(slots=True)
class ContainerTally:
    """What has been measured of one container of the Pods of a class."""

    cpu: _Weights = dataclasses.field(default_factory=lambda: collections.defaultdict(float))
    peaks: dict[str, float] = dataclasses.field(default_factory=dict)

    def add(self, cpu: usage.Buckets, peaks: Mapping[str, float]) -> None:
        """Add what was measured."""
        for index, weight in cpu.items():
            self.cpu[index] += weight
        for dim, peak in peaks.items():
            self.peaks[dim] = max(peak, self.peaks.get(dim, 0.0))


@dataclasses.dataclass(slots=True)
class Tally:
    """What has been measured of the Pods of a class with one set of images, or of a Pod without a class, since the last
    report.
    """

    pods: int = 0
    failed: int = 0
    seconds: dict[str, _Weights] = dataclasses.field(
        default_factory=lambda: {dim: collections.defaultdict(float) for dim in usage.DIMS}
    )
    pod_means: _Weights = dataclasses.field(default_factory=lambda: collections.defaultdict(float))
    peaks: dict[str, float] = dataclasses.field(default_factory=dict)
    containers: dict[str, ContainerTally] = dataclasses.field(default_factory=dict)
    template: usage.Template | None = None

    def note(self, dimension: str, amount: float, seconds: float) -> None:
        """Add seconds in which so much was used."""
        self.seconds[dimension][distribution.bucket(dimension, amount)] += seconds
        self.peaks[dimension] = max(amount, self.peaks.get(dimension, 0.0))

    def add(self, other: "Tally | usage.ClassUsage") -> None:
        """Add another tally, or a report that was not sent."""
        self.pods += other.pods
        self.failed += other.failed
        for dim, buckets in other.seconds.items():
            for index, weight in buckets.items():
                self.seconds[dim][index] += weight
        for index, count in other.pod_means.items():
            self.pod_means[index] += count
        for dim, peak in other.peaks.items():
            self.peaks[dim] = max(peak, self.peaks.get(dim, 0.0))
        for name, part in other.containers.items():
            self.add_to_container(name, part.cpu, part.peaks)
        self.template = other.template or self.template

    def add_to_container(self, name: str, cpu: usage.Buckets, peaks: Mapping[str, float]) -> None:
        """Add what was measured of one container."""
        # As many as an aggregator keeps. With too many, readers refuse the report of the whole node, and each Pod of a
        # class may name its containers as it likes.
        if name in self.containers or len(self.containers) < wire.CONTAINERS_KEPT:
            self.containers.setdefault(name, ContainerTally()).add(cpu, peaks)

    @property
    def size_bytes(self) -> int:
        """About how many bytes of a report it takes."""
        pairs = sum(map(len, self.seconds.values())) + len(self.pod_means)
        pairs += sum(len(each.cpu) for each in self.containers.values())
        names = () if self.template is None else (*self.template.containers, self.template.priority_class)
        template = sum(map(len, names)) + _NAME_BYTES * len(names)
        return _CLASS_BYTES + _CONTAINER_BYTES * len(self.containers) + template + _PAIR_BYTES * pairs
