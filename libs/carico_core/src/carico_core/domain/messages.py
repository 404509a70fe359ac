"""What is said on the bus, as records: the meaning of each field; its bytes are `carico_core.wire`'s.

Units: times are wall-clock nanoseconds (`_ns`) of the writer; usage, direction and signal are in parts of a full
node (0 = free, 1 = exhausted); costs of our own modes in physical units (tasks for "cpu", bytes for "memory").
Every writer states `boot` (16 hex digits, its start in ns with random low bits: later starts sort higher) and a
`seq` that grows by one a message.
"""

import dataclasses
import enum
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

SCHEMA_VERSION = 1
# One class for all Pods, where classes are not told apart.
ANY_CLASS = "*"
# Pods of a class that no advertisement names: not measured yet.
NEW_CLASS = "?"

Array = npt.NDArray[np.float64]


class Mode(enum.StrEnum):
    """Which rule made an advertised capacity."""

    MEASURED = "measured"
    PREDICTED = "predicted"
    WARMING = "warming"
    SATURATED = "saturated"


class Estimate(NamedTuple):
    """A mean and its standard deviation, in the unit of what it is of.

    A NamedTuple, as `ClassCapacity`: every message of a node has several, and a frozen dataclass takes twice as long.
    """

    mean: float
    sd: float


class ClassCapacity(NamedTuple):
    """What one more Pod of a class would cost on a node, cautiously: mean plus one sd per dimension."""

    cost_plus: Mapping[str, float]
    pods: int


class Advertisement(NamedTuple):
    """How many more Pods a node can take, and why: subject `carico.v1.capacity.<node>`.

    A NamedTuple, too: a frozen dataclass of so many fields takes three times as long.
    """

    node: str
    boot: str
    seq: int
    ts_ns: int
    sampled_at_ns: int
    capacity: float
    capacity_sd: float
    bottleneck: str | None
    signal: float
    baseline: Mapping[str, Estimate]
    cost: Mapping[str, Estimate]
    pods: int
    # Every UID that `pods` counts, and those that ended within the last 60 s: what the scheduler may release.
    covers: frozenset[str]
    mode: Mode
    # Filtered usage per dimension; `parts` are the raw shares it is made of ("cpu.utilisation", "cpu.pressure").
    usage: Mapping[str, float]
    parts: Mapping[str, float]
    direction: Mapping[str, float]
    headroom: Mapping[str, float] | None = None
    classes: Mapping[str, ClassCapacity] | None = None
    # Most Pods that the node takes for now (an unmeasured load may only grow so far).
    limit: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClassEvidence:
    """What one node, or the cluster, has measured of a class of Pods; prior excluded; physical units."""

    pods: int
    cost: Mapping[str, Estimate]
    growth: Mapping[str, Estimate] = dataclasses.field(default_factory=dict)
    lifetime_s: Estimate | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LocalSubspace:
    """A node's own model: subject `carico.v1.subspace.<node>`. u (d x r) and sigma (r) of its Gram matrix."""

    node: str
    boot: str
    seq: int
    ts_ns: int
    sampled_at_ns: int
    dims: tuple[str, ...]
    u: Array
    sigma: Array
    samples: int
    # Live cores: the weight of the node in the model of the cluster.
    weight: float
    # What 1.0 is in each dimension, in physical units (cores, bytes).
    scale: Array
    evidence: Mapping[str, ClassEvidence]
    # The largest filtered Pod count per core this node has carried recently; the cluster's largest bounds the others.
    peak_pods_per_core: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Entry:
    """The newest that a replica has of one node, as replicas exchange it. `gram` is d x d."""

    node: str
    boot: str
    seq: int
    ts_ns: int
    # Age of the entry at the replica that wrote it, so that no two clocks are compared.
    age_s: float
    dims: tuple[str, ...]
    gram: Array
    weight: float
    scale: Array
    evidence: Mapping[str, ClassEvidence]
    peak_pods_per_core: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Partial:
    """What one aggregator replica tells the others: subject `carico.v1.partial.<replica>`."""

    replica: str
    boot: str
    seq: int
    ts_ns: int
    # True where `entries` is all the replica has; False where it is what changed.
    complete: bool
    # True where the replica has just started and asks the others for all they have.
    joining: bool
    entries: tuple[Entry, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GlobalModel:
    """The model of the cluster: subject `carico.v1.model` and the key `global`. `gram` is d x d."""

    replica: str
    boot: str
    seq: int
    ts_ns: int
    epoch: int
    merge: str
    contributors: int
    weight: float
    dims: tuple[str, ...]
    gram: Array
    evidence: Mapping[str, ClassEvidence]
    peak_pods_per_core: float
