"""Pods and Nodes of the Kubernetes API, reduced to what CARICO uses; which taints a Pod tolerates."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from carico_core.domain import constraints as limits
from carico_core.domain import gangs, selectors, usage

TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})
# Effects of taints: https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
_REFUSING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
_PREFER_NO_SCHEDULE = "PreferNoSchedule"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The controlling owner of a Pod."""

    kind: str
    name: str
    uid: str


class DaemonSet(NamedTuple):
    """A DaemonSet, reduced to what identifies it."""

    namespace: str
    uid: str


class Service(NamedTuple):
    """A Service, reduced to the labels of the Pods that it selects; without labels it selects none."""

    namespace: str
    name: str
    labels: tuple[tuple[str, str], ...]


class DisruptionBudget(NamedTuple):
    """A PodDisruptionBudget: how many more of the Pods that it selects may be evicted now.

    `disrupted`: names of Pods whose eviction it has already counted.
    """

    namespace: str
    name: str
    selector: selectors.Selector
    allowed: int
    disrupted: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """One toleration; empty `key` with Exists tolerates all, empty `effect` means every effect."""

    key: str
    operator: str
    value: str
    effect: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """One taint of a node."""

    key: str
    value: str
    effect: str


class Images(NamedTuple):
    """The images of a Pod's containers and image volumes, with their tags, and how many containers it has."""

    names: tuple[str, ...]
    containers: int


class NodeImage(NamedTuple):
    """An image that a node has, under all its names."""

    names: tuple[str, ...]
    size_bytes: int


class Pod(NamedTuple):
    """A Pod, reduced. Times are Unix seconds; requests (cores, bytes) are summed as kube-scheduler does.

    A NamedTuple, because every event of a Pod creates one: a frozen dataclass with as many fields takes three times as
    long.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    scheduler_name: str
    node_name: str | None
    phase: str
    priority: int
    created_at_s: float
    deleting: bool
    labels: Mapping[str, str]
    node_selector: Mapping[str, str]
    tolerations: tuple[Toleration, ...]
    owner: Owner | None
    image: str
    # True for a mirror Pod: the copy of a static Pod that its kubelet creates in the API.
    is_mirror: bool
    request_cores: float
    request_bytes: float
    # Constraints of the Pod that this version cannot evaluate: the Pod waits, and an Event names them.
    unsupported: tuple[str, ...]
    scheduling_gates: tuple[str, ...] = ()
    # Requests of every other resource by name, in its own unit.
    request_others: tuple[tuple[str, float], ...] = ()
    # None: no constraints besides those above.
    constraints: limits.Constraints | None = None
    # Reason and message of its condition PodScheduled=False; empty without one.
    unscheduled_reason: str = ""
    unscheduled_message: str = ""
    # Of a static Pod: its UID in the node's runtime, where it has another one than in the API.
    static_uid: str = ""
    # None: not known.
    template: usage.Template | None = None
    # Whether it has failed: also while a container that fails again and again waits, and once one ran out of memory.
    has_failed: bool = False
    # Why its first container that waits does not run; empty if none waits.
    stuck: str = ""
    # False: its preemptionPolicy is Never.
    preempts: bool = True
    # When its grace period ends, if it is being deleted.
    ends_at_s: float = math.inf
    # While it has no node: where room is being made for it; empty: nowhere.
    nominated_node: str = ""
    # None: it is placed without regard to others.
    gang: gangs.PodGang | None = None
    # None: not known.
    images: Images | None = None
    # Of a Pod with several containers: the beginning of each one's id in the runtime, and its name; as far as known.
    containers: tuple[tuple[str, str], ...] = ()
    priority_class: str = ""
    # Counts changes of its spec, without that of its node; 0: not known.
    generation: int = 0
    # Features of a kubelet that its node must declare.
    required_features: tuple[str, ...] = ()
    # Which bind gave it its node, of schedulers that share the work; empty: none of theirs, or it has no node.
    bound_by: str = ""

    @property
    def key(self) -> str:
        """namespace/name"""
        return f"{self.namespace}/{self.name}"

    @property
    def uid_on_node(self) -> str:
        """The UID in the node's runtime."""
        return self.static_uid or self.uid

    @property
    def claims_daemon_set(self) -> bool:
        """Whether it names a DaemonSet as its controller, which any creator of a Pod can do: it proves nothing."""
        return self.owner is not None and self.owner.kind == "DaemonSet"

    @property
    def is_terminal(self) -> bool:
        """Whether its containers have ended for good."""
        return self.phase in TERMINAL_PHASES


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A Node, reduced. Allocatable in cores, bytes and Pods."""

    name: str
    uid: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    ready: bool
    deleting: bool
    allocatable_cores: float
    allocatable_bytes: float
    pod_limit: int
    # Every other resource by name, in its own unit.
    allocatable_others: Mapping[str, float] = dataclasses.field(default_factory=dict)
    # The largest images that it has, as its kubelet reports them: 50 by default.
    images: tuple[NodeImage, ...] = ()
    # What its kubelet can do, of what a Pod may require (status.declaredFeatures).
    declared_features: frozenset[str] = frozenset()


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Return whether one of the tolerations matches the taint."""
    return any(_matches(toleration, taint) for toleration in tolerations)


def refusing_taint(node: Node, tolerations: Iterable[Toleration]) -> Taint | None:
    """Return the node's first taint that refuses a Pod with these tolerations; None if there is none."""
    tolerations = tuple(tolerations)
    for taint in node.taints:
        if taint.effect in _REFUSING_EFFECTS and not tolerates(tolerations, taint):
            return taint
    return None


def count_prefer_no_schedule(node: Node, tolerations: Iterable[Toleration]) -> int:
    """Return how many PreferNoSchedule taints of the node are not tolerated."""
    tolerations = tuple(tolerations)
    return sum(taint.effect == _PREFER_NO_SCHEDULE and not tolerates(tolerations, taint) for taint in node.taints)


def has_prefer_no_schedule(node: Node) -> bool:
    """Return whether the node has a PreferNoSchedule taint."""
    return any(taint.effect == _PREFER_NO_SCHEDULE for taint in node.taints)


def _matches(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    # An empty key requires Exists; the API refuses it with Equal. Lt and Gt are behind a feature gate in Kubernetes.
    return toleration.operator == "Equal" and bool(toleration.key) and toleration.value == taint.value
