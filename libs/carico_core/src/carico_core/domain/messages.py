"""The messages of the bus as records, with the meaning of each field. `carico_core.wire.messages` encodes them.

Units: times are the writer's wall clock in nanoseconds (`_ns`). Usage, direction and signal are shares of a full node
(0 = free, 1 = exhausted). Costs of our own modes are in physical units (tasks for "cpu", bytes for "memory").
Every message has a `boot` (16 hex digits: the writer's start in ns with random low bits, so later starts sort higher)
and a `seq` that grows by one per message.
"""

import dataclasses
import enum
from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from carico_core.domain import usage

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[np.float64]
else:
    # Importing numpy takes a fifth of the time of `carico status`, which reads no arrays.
    Array = Any

SCHEMA_VERSION = 1
# The one class of all Pods, if classes are not distinguished; else of the Pods whose class an agent does not know yet.
ANY_CLASS = "*"
# Stands for every class that the advertisement does not name: not measured yet.
NEW_CLASS = "?"

# Of so many classes at most a node reports what it measured: those that one makes up must not crowd out all others.
REPORTED_MOST = 64

# The lowest ceiling that an agent can be set to; a lower one in an advertisement is not believed.
CEILING_LEAST = 0.05

# How far a class's cost differs between nodes, as a share of it; from the quick twin, where .1 to .5 changed nothing.
# The weight of a node's evidence is 1 / (v + (BETWEEN_NODES c)^2), both where evidence is fused and where a node
# subtracts its own part.
BETWEEN_NODES = 0.2
# A smaller variance counts as none, so that its weight cannot overflow.
EXACT_BELOW = 1e-200


class Mode(enum.StrEnum):
    """Which rule made an advertised capacity."""

    MEASURED = "measured"
    PREDICTED = "predicted"
    WARMING = "warming"
    SATURATED = "saturated"


class Estimate(NamedTuple):
    """A mean and its standard deviation, in the unit of the quantity.

    A NamedTuple, like `ClassCapacity`: every message has several, and a frozen dataclass takes twice as long.
    """

    mean: float
    sd: float


class ClassCapacity(NamedTuple):
    """The cautious cost of one more Pod of a class on a node: mean plus one sd per dimension.

    measured: false while Pods of the class run there and neither the node nor its peers have measured one.
    """

    cost_plus: Mapping[str, float]
    pods: int
    measured: bool = True


class Advertisement(NamedTuple):
    """How many more Pods a node can take, and why: subject `carico.v1.capacity.<node>`.

    A NamedTuple, too: a frozen dataclass with as many fields takes three times as long.
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
    # Every UID that `pods` counts, and those that ended within the last 60 s: reservations that may be released.
    covers: frozenset[str]
    mode: Mode
    # Filtered usage per dimension; `parts` are the raw shares it is made of ("cpu.utilisation", "cpu.pressure").
    usage: Mapping[str, float]
    parts: Mapping[str, float]
    direction: Mapping[str, float]
    headroom: Mapping[str, float] | None = None
    classes: Mapping[str, ClassCapacity] | None = None
    # Maximum number of Pods for now: the growth of an unmeasured load is limited.
    limit: int | None = None
    # Share of each dimension up to which the node takes Pods.
    ceiling: Mapping[str, float] | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Roster:
    """The Pods that are placed on a node, with the class of each: subject `carico.v1.roster.<node>`.

    Agents only see UIDs. `boot` and `seq` are those of the scheduler that wrote it.
    """

    node: str
    boot: str
    seq: int
    ts_ns: int
    # UID in the node's runtime -> class; None for a Pod that belongs to the node, such as a DaemonSet's.
    pods: Mapping[str, str | None]
    # UID -> what the Pod is made of.
    templates: Mapping[str, usage.Template] = dataclasses.field(default_factory=dict)
    # UID of a Pod with several containers -> the beginning of each one's id in the runtime -> its name.
    containers: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    # Those of `pods` that have failed recently, or ran out of memory.
    failed: Set[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClassEvidence:
    """What one node, or the cluster, has measured about a class of Pods: without prior, in physical units."""

    pods: int
    cost: Mapping[str, Estimate]
    # Of older agents; no model has it.
    growth: Mapping[str, Estimate] = dataclasses.field(default_factory=dict)
    lifetime_s: Estimate | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LocalSubspace:
    """A node's own model: subject `carico.v1.subspace.<node>`. u (d x r) and sigma (r) are those of its Gram matrix."""

    node: str
    boot: str
    seq: int
    ts_ns: int
    sampled_at_ns: int
    dims: tuple[str, ...]
    u: Array
    sigma: Array
    samples: int
    # Live cores: the node's weight in the model of the cluster.
    weight: float
    # What 1.0 is in each dimension, in physical units (cores, bytes).
    scale: Array
    evidence: Mapping[str, ClassEvidence]
    # The largest recent filtered Pod count per core on this node; the cluster's largest limits growth on other nodes.
    peak_pods_per_core: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Entry:
    """The newest report of one node, as aggregator replicas exchange it. `gram` is d x d."""

    node: str
    boot: str
    seq: int
    ts_ns: int
    # Age of the entry at the replica that sent it, so that clocks are not compared.
    age_s: float
    dims: tuple[str, ...]
    gram: Array
    weight: float
    scale: Array
    evidence: Mapping[str, ClassEvidence]
    peak_pods_per_core: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Partial:
    """What one aggregator replica sends to the others: subject `carico.v1.partial.<replica>`."""

    replica: str
    boot: str
    seq: int
    ts_ns: int
    # True if `entries` is everything that the replica has; False if it is what has changed.
    complete: bool
    # True if the replica has just started and requests all entries of the others.
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


class Claim(NamedTuple):
    """Room on a node that a scheduler has claimed for a Pod before it binds it.

    `cores`, `size_bytes` and `others` are the Pod's requests. `at_ns`: when it was made, by the scheduler's wall clock;
    it distinguishes claims of one Pod, and readers never compare it with a clock of their own. `apart`: the topology
    keys of the Pod's required anti-affinity, for those who do not know the Pod yet.
    """

    uid: str
    pod_class: str
    cores: float
    size_bytes: float
    others: tuple[tuple[str, float], ...]
    scheduler: str
    at_ns: int
    apart: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NodeClaims:
    """All claims on one node: subject `carico.v1.claim.<node>`; stored, it comes as `carico.v1.claimed.<node>`.

    `epoch` names the stream that the writer has read (`subjects.CLAIMS_EPOCH`).
    """

    node: str
    epoch: str
    boot: str
    seq: int
    ts_ns: int
    claims: tuple[Claim, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MemberReport:
    """What a scheduler that shares the work reports of itself to people; no scheduler decides by it.

    `names`: the schedulerNames whose Pods it places. `why_not`: why it may not commit now; `intruder`: a scheduler that
    holds the Lease and does not share. Both are empty if there is none. `ready_s`: for how long it may commit by now.

    `stored`, `conflicts` and `requeued` count since its start: claims that were stored, commits that were refused since
    another one came first, and decisions that were given up so that the Pod waits. `recent` counts the claims that were
    stored in the last minute for Pods that are shared out, without those that the holder of the Lease decides on alone.

    `view_age_s`: how old its view of the API is; None before its first lists. `orphans`: claims whose Pods were not
    bound, and which the janitor should have ended by now.
    """

    names: tuple[str, ...]
    has_lease: bool
    why_not: str
    intruder: str
    ready_s: float
    stored: int
    conflicts: int
    requeued: int
    recent: int
    view_age_s: float | None
    orphans: int


class Corrections(NamedTuple):
    """What passes between a scheduler that shares the work and the holder of the Lease, which corrects.

    `handed`: Pods of its share that the holder is to decide on, by UID, with how long each has waited, in seconds.
    `held`: the nodes on which the holder holds room for Pods, by UID: Pods that come later get no room there.
    """

    handed: Mapping[str, float]
    held: Mapping[str, str]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A scheduler that shares the work is alive: subject `carico.v1.member.<replica>`.

    `is_leaving`: it stops, or may not decide now, so that the others take its share.
    `identity` is its name in the Lease, by which others recognise a Lease that none of them holds.
    `corrections` is None if it is of a version that does not correct.
    """

    replica: str
    boot: str
    seq: int
    ts_ns: int
    identity: str
    is_leaving: bool = False
    report: MemberReport | None = None
    corrections: Corrections | None = None


class ClusterEvent(NamedTuple):
    """Something that happened, at `at_ns`: `about` a node or a Pod (namespace/name); `state`: what it became."""

    at_ns: int
    # "node", "evicted", "moved" or "leader"; readers show kinds that they do not know as they are.
    kind: str
    about: str
    state: str


class Percentiles(NamedTuple):
    """How a share is spread over the nodes: 5 %, 50 % and 95 % of them are at most there."""

    low: float
    median: float
    high: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSummary:
    """The cluster at `ts_ns`, and what happened in the `span_s` before: subject `carico.v1.summary`.

    Written by the scheduler that leads, and kept for a quarter of an hour.
    """

    boot: str
    seq: int
    ts_ns: int
    span_s: float
    # Nodes by state: the freshness of their advertisement, or why they get no Pods. A state without nodes is left out.
    nodes: Mapping[str, int]
    # Of nodes whose advertisement is not absent; capacity in Pods.
    pods: int
    capacity: float
    capacity_sd: float
    usage: Mapping[str, Percentiles]
    # Pods that wait for a node now, and the longest time that one of them has waited.
    waiting: int
    oldest_s: float
    # Pods that got a node in the span, and the longest that one of them had waited.
    placed: int
    placed_waited_s: float
    events: tuple[ClusterEvent, ...]
    # Events that the message had no room for.
    left_off: int = 0
