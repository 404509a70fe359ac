"""What the Pods of a class use, as agents report it: distributions in buckets, peaks, and the Pods' template.

A distribution is a number of buckets with geometric bounds, the same everywhere, so that those of several nodes can be
added. Bucket 0 holds amounts up to `LOWEST`; bucket i > 0 holds those above LOWEST x GROWTH^(i-1), up to
LOWEST x GROWTH^i; the last one also holds everything above. Amounts are cores and bytes, weights are seconds.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import NamedTuple

from carico_core.domain import amounts

# A value that is read from a bucket differs from the true one by at most (GROWTH - 1) / (GROWTH + 1) = 2.4 %.
GROWTH = 1.05
# Up to 27,000 cores and 28 TB.
BUCKETS = 352
# The smallest request in use (1m), and a mebibyte.
LOWEST: Mapping[str, float] = {"cpu": 1e-3, "memory": 2.0**20}
DIMS = tuple(LOWEST)

# Of a node's size this is what its Pods can request: the kubelet, the system and Pods of DaemonSets take the rest.
NODE_SHARE = 0.9

# Bucket -> weight; buckets without weight are left out.
Buckets = Mapping[int, float]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """What the Pods of a class are made of. `image`: a digest of all images; `requests`: of a whole Pod.

    The last three are what scopes of quotas go by; `has_deadline`: whether the Pods state activeDeadlineSeconds;
    `crosses_namespaces`: whether a term of Pod affinity or anti-affinity names namespaces.
    """

    image: str
    containers: tuple[str, ...]
    requests: Mapping[str, float]
    priority_class: str = ""
    has_deadline: bool = False
    crosses_namespaces: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ContainerUsage:
    """What one container of the Pods used. `cpu`: Pod-seconds by bucket; `peaks`: highest amounts, by dimension."""

    cpu: Buckets
    peaks: Mapping[str, float]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClassUsage:
    """What a node measured of a class since its last report. Reports add up: each second is in one of them only."""

    # Pods that were measured for the first time, Pods that failed for the first time, and Pods that run now.
    pods: int
    failed: int
    running: int
    # Pod-seconds by bucket, for each of `DIMS`.
    seconds: Mapping[str, Buckets]
    # One for each Pod that has ended, or has run for a minute, and for each day that it runs on: its mean CPU.
    pod_means: Buckets
    # Highest amount of one Pod; memory is the working set.
    peaks: Mapping[str, float]
    # Of Pods with these images only; None: not known.
    template: Template | None = None
    # By name; of Pods with several.
    containers: Mapping[str, ContainerUsage] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Recommended:
    """What an aggregator recommends for a class: requests of a whole Pod, and how well they are known."""

    name: str
    requests: Mapping[str, float]
    # Highest amount of one Pod.
    peaks: Mapping[str, float]
    # The interval of the percentile of CPU, without margin.
    cpu_bounds: tuple[float, float] | None
    # "low", "medium" or "high".
    confidence: str
    flags: tuple[str, ...]
    containers: tuple[str, ...]
    running: int
    # What a Pod of the newest images requests today, and what scopes of quotas go by, as in `Template`.
    requested: Mapping[str, float] = dataclasses.field(default_factory=dict)
    priority_class: str = ""
    has_deadline: bool = False
    crosses_namespaces: bool = False
    # By name, of Pods with several containers: amounts of each. Empty if they are not known of all.
    of_containers: Mapping[str, "RecommendedContainer"] = dataclasses.field(default_factory=dict)
    # The most that a Pod can request on the largest node; a resource whose size is not known is missing.
    node_gives: Mapping[str, float] = dataclasses.field(default_factory=dict)
    # Pod-seconds, and the time from the first to the last report.
    measured_s: float
    age_s: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RecommendedContainer:
    """What an aggregator recommends for one container of a class's Pods; as the fields of `Recommended`."""

    requests: Mapping[str, float]
    peaks: Mapping[str, float]
    cpu_bounds: tuple[float, float] | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """Subject `carico.v1.usage.<node>`."""

    node: str
    boot: str
    seq: int
    ts_ns: int
    classes: Mapping[str, ClassUsage]


class Mark(NamedTuple):
    """The highest working set of a Pod until a time, in bytes; 0 if none was known."""

    at_ns: int
    memory_peak: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KeptClass:
    """Everything that aggregators keep of a class. Weights are as of `at_ns`; they decay from then on."""

    name: str
    at_ns: int
    first_ns: int
    last_ns: int
    pods: int
    failed: int
    # The same as weights.
    recent_pods: float
    recent_failed: float
    # Of the largest node on which Pods of it were measured.
    node_size: Mapping[str, float]
    measured_s: float
    seconds: Mapping[str, Buckets]
    pod_means: Buckets
    peaks: Mapping[str, float]
    # Hashes of the names of nodes, a bounded number.
    nodes: frozenset[int]
    # Digest of the images -> when it was first reported, a bounded number.
    images: Mapping[str, int]
    template: Template | None = None
    containers: Mapping[str, ContainerUsage] = dataclasses.field(default_factory=dict)
    # An earlier one and a later one, by which it is known whether memory still grows; None: not known.
    marks: tuple[Mark, Mark] | None = None
    # What was measured with the images before these, as long as it counts.
    earlier: "KeptClass | None" = None


def above_node(requests: Mapping[str, float], node_gives: Mapping[str, float]) -> dict[str, str]:
    """Return the resources of which no node gives a Pod so much, each with a sentence.

    >>> above_node({"cpu": 4.193, "memory": 1e9}, {"cpu": 3.6, "memory": 7e9})
    {'cpu': 'a Pod would request 4193m cpu, of at most 3600m on the largest node'}
    """
    return {
        dim: f"a Pod would request {amounts.quantity(dim, amount)} {dim}, "
        f"of at most {amounts.quantity(dim, node_gives[dim])} on the largest node"
        for dim, amount in requests.items()
        if amount > node_gives.get(dim, math.inf)
    }
