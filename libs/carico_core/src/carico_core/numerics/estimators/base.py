"""What every estimator receives and returns.

Units: y is usage in [0, 1]; in physical units it is y times the full scale S of the dimension (tasks for "cpu", bytes
for "memory"). Only workload Pods are counted: those of DaemonSets and static ones belong to the baseline.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from carico_core.domain import messages
from carico_core.numerics import arrays, signal

Mode: TypeAlias = Literal["measured", "predicted", "warming", "saturated"]
# A mean and its standard deviation.
Spread: TypeAlias = tuple[float, float]
# A mean and its variance.
Evidence: TypeAlias = tuple[float, float]

# CPU: chosen on the twin over all scenarios (ADR 49). Memory cannot be shared in time: .95 leaves a twentieth before
# the kernel kills a process. For other dimensions, for which no measurements exist, it is lower.
DEFAULT_CEILING: Mapping[str, float] = {"cpu": 0.77, "memory": 0.95}
OTHER_CEILING = 0.9
# The kubelet's default maxPods: https://kubernetes.io/docs/setup/best-practices/cluster-large/
DEFAULT_POD_LIMIT = 110
# In Pods. On an idle cluster the footprint is almost 0 and the signal almost infinite; no node runs more than this.
CAPACITY_CAP = 1000.0
# From this usage on, a reading means "at least": the filtered usage of a full node stays just below 1.
CENSORED_FROM = 0.97
# The one class of estimators that do not distinguish classes.
ALL_PODS = messages.ANY_CLASS
# After a longer gap (a suspended node) nothing is learnt from it.
MAX_INTERVAL_S = 60.0
# The one dimension of the scalar estimators.
SIGNAL = "signal"


def default_ceiling(dims: tuple[str, ...]) -> arrays.Array:
    """Return the ceiling (d,) of each named dimension."""
    return arrays.vector([DEFAULT_CEILING.get(dim, OTHER_CEILING) for dim in dims], name="ceiling")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EstimatorConfig:
    """A node's fixed facts and the user's settings.

    scale: (d,) the physical amount of usage 1.0: 2 x cores runnable tasks for "cpu", bytes for "memory". cores: live
    cores. ceiling: (d,) usage up to which Pods are admitted.
    signal_mode: `sigma1u1` or `trace`, the signal that the scalar estimators learn from.
    """

    dims: tuple[str, ...]
    scale: arrays.Array
    cores: float
    ceiling: arrays.Array
    pod_limit: int = DEFAULT_POD_LIMIT
    signal_mode: signal.SignalMode = "sigma1u1"
    # After this time a node's largest load counts half: an old maximum says little about the current load.
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
    """What a node observes at one moment.

    A NamedTuple, like `CapacityEstimate`: a frozen dataclass takes twice as long to create.
    y: (d,) filtered usage. gains: (d,) the filter's gains at the last sample. pods: workload Pods now.
    signal: the capacity signal, eq. 3.3 on the merged model.
    churning: a container is being created or removed. peak_pods_per_core: the largest filtered count per core that
    any node of the cluster reported, 0 if unknown. dt_s: time since the last update.
    """

    dt_s: float
    y: arrays.Array
    gains: arrays.Array
    pods: int
    signal: float
    churning: bool = False
    peak_pods_per_core: float = 0.0


class CapacityEstimate(NamedTuple):
    """How many more Pods fit, and the numbers behind it. Every number is finite; capacity is never negative.

    mode: which equation made it. baseline, cost: per dimension, usage without workload and cost of one Pod.
    headroom: per dimension, the room below the ceiling (negative above it). cost_plus: per class and dimension, a
    Pod's cost plus its risk. limit: maximum number of Pods for now. evidence: per class and dimension, what this node
    alone has measured. class_pods: running Pods by class. lifetimes_s: mean lifetime by class, where known. All in
    physical units; the scalar estimators have one dimension "signal", without unit, and no headroom. guessed: the
    classes that run here of which no node has measured a Pod.
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
    lifetimes_s: dict[str, Evidence] | None = None
    guessed: frozenset[str] = frozenset()


class Estimator(Protocol):
    """Learns a node's baseline and the cost of a Pod. It has no clock: each call brings the time."""

    def tick(self, sample_y: Sequence[float], gains: Sequence[float], pods: int, dt_s: float) -> None:
        """Filter the Pod count as telemetry is filtered, at each sample, if the estimator needs that."""
        ...

    def update(self, observation: Observation) -> CapacityEstimate:
        """Return the estimate after learning from one more observation."""
        ...

    def estimate(self, observation: Observation) -> CapacityEstimate:
        """Return the estimate for this observation without learning from it, to publish when a Pod starts or ends."""
        ...


@runtime_checkable
class ByClass(Protocol):
    """What an estimator that distinguishes classes of Pods receives in addition."""

    @property
    def eager(self) -> bool:
        """Whether an update pays off after a few samples, because little is known yet."""
        ...

    def follow(self, running: Mapping[str, str]) -> None:
        """Take in which workload Pods run now (UID to class), after each change."""
        ...

    def use(self, model: messages.GlobalModel) -> None:
        """Use what the cluster has measured about each class."""
        ...


def usage(y: arrays.Array) -> tuple[list[float], bool]:
    """Return (usages clipped to [0, 1], whether all were finite); one that is not finite counts as full."""
    values: list[float] = y.tolist()
    for value in values:
        if not 0.0 <= value <= 1.0:
            break
    else:
        return values, True
    whole = all(map(math.isfinite, values))
    return [min(max(value, 0.0), 1.0) if math.isfinite(value) else 1.0 for value in values], whole


def steps(gains: Sequence[float], dimensions: int) -> Sequence[float] | None:
    """Return the filter's gains, one per dimension, clipped to [0, 1]; None if they are not valid gains."""
    if len(gains) != dimensions:
        return None
    for gain in gains:
        if not 0.0 <= gain <= 1.0:
            break
    else:
        # At every sample.
        return gains
    if not all(map(math.isfinite, gains)):
        return None
    return [min(max(gain, 0.0), 1.0) for gain in gains]


def elapsed(dt_s: float) -> float:
    """Return `dt_s` if it is a plausible interval, else 0: no filter may forget everything when a clock jumps."""
    return dt_s if 0.0 < dt_s <= MAX_INTERVAL_S else 0.0
