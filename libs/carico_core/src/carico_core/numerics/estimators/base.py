"""What every estimator is given and gives back.

Units: y is usage in [0, 1]; physical units are y times the full scale S of the dimension (tasks for "cpu", bytes for
"memory"). Pods counted here are workload Pods: DaemonSet-owned and static ones are part of the baseline.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from carico_core.domain import messages
from carico_core.numerics import arrays, signal

Mode: TypeAlias = Literal["measured", "predicted", "warming", "saturated"]
# A mean and its standard deviation.
Spread: TypeAlias = tuple[float, float]
# A mean and its variance.
Evidence: TypeAlias = tuple[float, float]

# CPU: chosen on the twin over all scenarios (ADR 49). Memory cannot be squeezed: .95 leaves a twentieth before the
# kernel ends a process. Dimensions not measured take less.
DEFAULT_CEILING: Mapping[str, float] = {"cpu": 0.77, "memory": 0.95}
OTHER_CEILING = 0.9
# The kubelet's default maxPods.
DEFAULT_POD_LIMIT = 110
# In Pods. An idle cluster's footprint is almost nothing and its signal almost infinite: no node runs more than this.
CAPACITY_CAP = 1000.0
# From this usage on a reading says "at least": the filtered maximum of a full node stays just below 1 (spec 7, 4).
CENSORED_FROM = 0.97
# The class of an estimator that does not keep classes apart.
ALL_PODS = messages.ANY_CLASS
# A node asleep for longer learns nothing from the gap.
MAX_INTERVAL_S = 60.0
# The one dimension of the scalar estimators.
SIGNAL = "signal"


def default_ceiling(dims: tuple[str, ...]) -> arrays.Array:
    """Return the ceiling (d,) of each named dimension."""
    return arrays.vector([DEFAULT_CEILING.get(dim, OTHER_CEILING) for dim in dims], name="ceiling")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EstimatorConfig:
    """A node's fixed facts and the user's settings.

    scale: (d,) what usage 1.0 is: 2 x cores runnable tasks for "cpu", bytes for "memory". cores: live cores.
    ceiling: (d,) usage up to which Pods are admitted.
    signal_mode: `sigma1u1` or `trace`, the signal that the scalar estimators are fed with.
    """

    dims: tuple[str, ...]
    scale: arrays.Array
    cores: float
    ceiling: arrays.Array
    pod_limit: int = DEFAULT_POD_LIMIT
    signal_mode: signal.SignalMode = "sigma1u1"
    # A node's largest load counts half after this time: one of long ago says little of today's.
    peak_half_life_s: float = 600.0

    def __post_init__(self) -> None:
        size = len(self.dims)
        if size == 0 or len(set(self.dims)) != size:
            raise ValueError(f"estimator: expected distinct dimensions, at least one, got {self.dims}")
        for name in ("scale", "ceiling"):
            values = arrays.frozen(getattr(self, name), name=f"estimator.{name}", size=size)
            if not all(0.0 < value < math.inf for value in values.tolist()):
                raise ValueError(f"estimator.{name}: expected positive finite numbers, got {values.tolist()}")
            object.__setattr__(self, name, values)
        for name in ("cores", "pod_limit", "peak_half_life_s"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise ValueError(f"estimator.{name}: expected a positive finite number, got {value}")


class Observation(NamedTuple):
    """What a node sees at one moment.

    A NamedTuple, as `CapacityEstimate`: a frozen dataclass takes twice as long to make.
    y: (d,) filtered usage. gains: (d,) the filter's gains at the last sample. pods: workload Pods now.
    signal: the capacity signal, eq. 3.3 on the merged model. direction: (d,) what it divides by.
    churning: a container is being created or taken down. peak_pods_per_core: the largest filtered count per core
    any node of the cluster reported, 0 where unknown. dt_s: time since the last update.
    """

    dt_s: float
    y: arrays.Array
    gains: arrays.Array
    pods: int
    signal: float
    direction: arrays.Array
    churning: bool = False
    peak_pods_per_core: float = 0.0


class CapacityEstimate(NamedTuple):
    """How many more Pods fit, and what that rests on. Every number is finite; capacity is never negative.

    mode: which equation made it. baseline, cost: per dimension, of the node without workload and of one Pod.
    headroom: per dimension what is free below the ceiling (negative above it). cost_plus: per class and dimension a
    Pod's cost plus its risk. limit: most Pods for now. evidence: per class and dimension what this node alone has
    measured. class_pods: running Pods by class. In physical units; the scalar estimators have one dimension
    "signal", without unit, and no headroom.
    """

    capacity: float
    capacity_sd: float
    bottleneck: str | None
    mode: Mode
    baseline: dict[str, Spread]
    cost: dict[str, Spread]
    filtered_pods: float
    headroom: dict[str, float] | None = None
    cost_plus: dict[str, dict[str, float]] | None = None
    limit: int | None = None
    evidence: dict[str, dict[str, Evidence]] | None = None
    class_pods: dict[str, int] | None = None


class Estimator(Protocol):
    """Learns a node's baseline and the cost of a Pod. Without a clock: time comes with each call."""

    def tick(self, sample_y: arrays.Array, gains: arrays.Array, pods: int, dt_s: float) -> None:
        """Take the Pod count through the telemetry's filter at each sample, where the estimator needs it."""
        ...

    def update(self, observation: Observation) -> CapacityEstimate:
        """Return the estimate after learning from one more observation."""
        ...

    def estimate(self, observation: Observation) -> CapacityEstimate:
        """Return the estimate for this observation without learning from it: for a publish when a Pod starts or
        ends.
        """
        ...


@runtime_checkable
class ByClass(Protocol):
    """What an estimator that keeps classes of Pods apart is given besides."""

    @property
    def eager(self) -> bool:
        """Whether an update is worth its while after a few samples: so little is known that each says much."""
        ...

    def follow(self, running: Mapping[str, str]) -> None:
        """Take in which workload Pods run now (UID to class), at each change."""
        ...

    def use(self, model: messages.GlobalModel) -> None:
        """Take in what the cluster has measured of each class."""
        ...


def usage(y: arrays.Array) -> tuple[list[float], bool]:
    """Return (usages held to [0, 1], whether all were finite). What is not a number counts as full: never as room."""
    values: list[float] = y.tolist()
    whole = all(map(math.isfinite, values))
    return [min(max(value, 0.0), 1.0) if math.isfinite(value) else 1.0 for value in values], whole


def steps(gains: arrays.Array, dimensions: int) -> list[float] | None:
    """Return the filter's gains, one for each dimension, held to [0, 1]; None where they are no such gains."""
    found: list[float] = gains.tolist()
    if len(found) != dimensions or not all(map(math.isfinite, found)):
        return None
    return [gain if 0.0 <= gain <= 1.0 else float(gain > 0.0) for gain in found]


def elapsed(dt_s: float) -> float:
    """Return `dt_s` where it is a sane interval,
    else 0: a clock that jumps must not make a filter forget everything.
    """
    return dt_s if 0.0 < dt_s <= MAX_INTERVAL_S else 0.0
