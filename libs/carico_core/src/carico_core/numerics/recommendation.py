"""The rule that turns measured usage of a class of Pods into requests and limits. Pure.

CPU can be shared in time, so its request is a percentile of usage plus a margin, and there is no limit: a limit slows
a Pod down while the node's CPU is idle. Pods whose usage is steady need little more than their peak: half the margin
above it is the most. Memory cannot be shared: its request is the highest peak seen plus the margin, never
below a peak, and the limit is the request, so that a Pod cannot take what others were promised.
"""

import dataclasses
import enum
import math

from carico_core.domain import amounts
from carico_core.numerics import distribution

CPU, MEMORY = "cpu", "memory"
MEBIBYTE = 2.0**20
# Kubernetes counts CPU in thousandths of a core, and accepts no smaller request.
CPU_UNIT = 1e-3
_CPU_UNITS = round(1.0 / CPU_UNIT)
# Less than this share of a millicore above a whole one is rounding of floats.
_SLACK = 1e-6
# Standard deviations of the interval of a percentile: 95 % of a normal distribution.
_Z = 1.96
# Fewer Pod-seconds than this are a first impression: five Pods of 5 s have more.
LEAST_MEASURED_S = 10.0
# Confidence is medium from so many Pods, and so many Pod-seconds, on.
MEDIUM_PODS, MEDIUM_S = 5, 60.0
# A peak of memory that has risen by more than half of the default margin in the later half of the time would be above
# the limit before as much time has passed again.
GROWTH = 0.075
# From this share of failed Pods on, measurements are of Pods that fail; those of a day ago count half.
FAILED_SHARE = 0.75
# Two kinds of Pods are recognized from this number of Pods on: of fewer, one is a fifth.
LEAST_PODS_FOR_KINDS = 5


class Confidence(enum.StrEnum):
    """How sure a recommendation is: by Pods, nodes and time. The thresholds are those of `confidence`."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Flag(enum.StrEnum):
    """Why a recommendation must not be applied without a look at it."""

    ONE_POD = "one_pod"
    ALL_FAILED = "all_failed"
    IMAGE_CHANGED = "image_changed"
    GROWING = "growing"
    TWO_KINDS = "two_kinds"
    BRIEF = "brief"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Percentile of CPU usage and safety margin, as shares. Raises `ValueError` for what is no share.

    With the defaults, next to the Vertical Pod Autoscaler's recommender (90th percentile, 15 %, no bound by the peak),
    less is reserved without use, and fewer samples exceed the request (docs/recommendations.md).
    """

    percentile: float = 0.95
    margin: float = 0.15

    def __post_init__(self) -> None:
        if not 0.0 < self.percentile <= 1.0:
            raise ValueError(f"percentile: got {self.percentile:g}, expected above 0, at most 1")
        if not 0.0 <= self.margin <= 10.0:
            raise ValueError(f"margin: got {self.margin:g}, expected 0 to 10")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measured:
    """What is known of a class. `cpu`, `memory`: Pod-seconds; `pod_means`: Pods by their mean CPU."""

    cpu: distribution.Distribution
    memory: distribution.Distribution
    pod_means: distribution.Distribution
    # The peak of memory when the class was known for a quarter to half as long, or six to twelve hours ago; None: not
    # known.
    memory_before: float | None
    pods: int
    failed: int
    # Of recent Pods: what was measured a day ago counts half.
    failed_share: float
    nodes: int
    # Whether the images that run now have been measured too little: the amounts are of earlier ones, too.
    has_new_image: bool
    measured_s: float
    age_s: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """Requests of a Pod or a container in cores and bytes. A resource that has not been measured is missing.

    `cpu_bounds`: the interval that contains the percentile with 95 % probability, by the number of Pods seen.
    """

    requests: dict[str, float]
    cpu_bounds: tuple[float, float] | None

    @property
    def limits(self) -> dict[str, float]:
        """The limits to these requests."""
        return {dim: amount for dim, amount in self.requests.items() if dim == MEMORY}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation(Amounts):
    """Amounts of a class's Pods, and how well they are known."""

    # Probability that the next Pod's peak of memory is above the highest seen so far.
    memory_risk: float
    confidence: Confidence
    flags: tuple[Flag, ...]
    # The two levels of CPU of a class with the flag `TWO_KINDS`.
    kinds: tuple[float, float] | None


def amounts_of(cpu: distribution.Distribution, memory_peak: float | None, rule: Rule, *, pods: int) -> Amounts:
    """Return what the rule gives for a Pod, or for a container of `pods` Pods."""
    requests: dict[str, float] = {}
    bounds = None
    # Samples of one Pod are not independent, so the ranks count Pods:  p +- z sqrt(p (1 - p) / n)
    spread = _Z * math.sqrt(rule.percentile * (1.0 - rule.percentile) / max(pods, 1))
    shares = (rule.percentile, max(0.0, rule.percentile - spread), min(1.0, rule.percentile + spread))
    found = cpu.percentiles(shares)
    if found is not None:
        percentile, lower, upper = found
        bounds = lower, upper
        most = math.inf if cpu.peak is None else cpu.peak * (1.0 + 0.5 * rule.margin)
        requests[CPU] = rounded_up(CPU, min(percentile * (1.0 + rule.margin), most))
    if memory_peak is not None:
        requests[MEMORY] = rounded_up(MEMORY, memory_peak * (1.0 + rule.margin))
    return Amounts(requests=requests, cpu_bounds=bounds)


def recommend(measured: Measured, rule: Rule) -> Recommendation:
    """Return what the rule gives; flags do not change the amounts."""
    found = amounts_of(measured.cpu, measured.memory.peak, rule, pods=measured.pods)
    kinds = measured.pod_means.levels() if measured.pods >= LEAST_PODS_FOR_KINDS else None
    return Recommendation(
        requests=found.requests,
        cpu_bounds=found.cpu_bounds,
        # Of n + 1 peaks in random order, the last is the largest with probability 1 / (n + 1).
        memory_risk=1.0 / (measured.pods + 1.0),
        confidence=confidence(measured),
        flags=_flags(measured, kinds),
        kinds=kinds,
    )


def confidence(measured: Measured) -> Confidence:
    """Return how sure a recommendation is.

    High: 30 Pods (the interval of a 95th percentile is then .87 to 1), 2 nodes and a day, as usage follows the time of
    day. Medium: 5 Pods, a minute, and means of Pods, without which it is not known whether they are of two kinds.
    """
    if measured.pods < MEDIUM_PODS or measured.measured_s < MEDIUM_S or not measured.pod_means.total > 0.0:
        return Confidence.LOW
    is_high = measured.pods >= 30 and measured.nodes >= 2 and measured.age_s >= 24 * 3600.0
    return Confidence.HIGH if is_high else Confidence.MEDIUM


def rounded_up(dimension: str, value: float) -> float:
    """Return the smallest request that is not below `value`: millicores, at least one; steps of memory, at least 1Mi.

    >>> rounded_up(CPU, 0.2301), rounded_up(CPU, 0.0), rounded_up(MEMORY, 3.45 * MEBIBYTE) / MEBIBYTE
    (0.231, 0.001, 3.5)
    """
    if dimension == MEMORY:
        step = amounts.memory_step(value)
        return max(MEBIBYTE, math.ceil(value / step) * step)
    # A division gives 0.231, a product with the unit 0.23100000000000001.
    return max(1, math.ceil(value / CPU_UNIT - _SLACK)) / _CPU_UNITS


def _flags(measured: Measured, kinds: tuple[float, float] | None) -> tuple[Flag, ...]:
    found = (
        (Flag.ONE_POD, measured.pods <= 1),
        (Flag.ALL_FAILED, measured.failed_share >= FAILED_SHARE),
        (Flag.IMAGE_CHANGED, measured.has_new_image),
        (Flag.GROWING, _grows(measured)),
        (Flag.TWO_KINDS, kinds is not None),
        (Flag.BRIEF, measured.measured_s < LEAST_MEASURED_S),
    )
    return tuple([flag for flag, is_set in found if is_set])


def _grows(measured: Measured) -> bool:
    peak, before = measured.memory.peak, measured.memory_before
    return peak is not None and before is not None and peak > before * (1.0 + GROWTH)
