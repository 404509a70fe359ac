"""Pods and Nodes of the Kubernetes API, reduced to what CARICO uses."""

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

from carico_core.domain import constraints as limits

SCHEDULER_NAME = "carico"
# Kubernetes' own default for pods per node: https://kubernetes.io/docs/setup/best-practices/cluster-large/
DEFAULT_POD_LIMIT = 110
TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The controlling owner of a Pod."""

    kind: str
    name: str
    uid: str


class DaemonSet(NamedTuple):
    """A DaemonSet, reduced to what tells that it exists."""

    namespace: str
    uid: str


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


class Pod(NamedTuple):
    """A Pod, reduced. Times are Unix seconds; requests are summed by the rules of the scheduler (cores, bytes).

    A NamedTuple: each event of a Pod makes one, and a frozen dataclass of so many fields takes three times as long.
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
    # True for the API's copy of a static Pod, as a kubelet makes it.
    is_mirror: bool
    request_cores: float
    request_bytes: float
    # Names of constraints that the Pod states and this version does not evaluate: the Pod waits, with an Event.
    unsupported: tuple[str, ...]
    scheduling_gates: tuple[str, ...] = ()
    # Requests of every other resource by name, in its own unit.
    request_others: tuple[tuple[str, float], ...] = ()
    # None: nothing but what stands above.
    constraints: limits.Constraints | None = None

    @property
    def key(self) -> str:
        """namespace/name"""
        return f"{self.namespace}/{self.name}"

    @property
    def claims_daemon_set(self) -> bool:
        """True if it says that a DaemonSet controls it. Who creates a Pod may say so of any DaemonSet."""
        return self.owner is not None and self.owner.kind == "DaemonSet"

    @property
    def is_terminal(self) -> bool:
        """True where its containers have ended for good."""
        return self.phase in TERMINAL_PHASES


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A Node, reduced. Allocatable in cores, bytes and Pods."""

    name: str
    uid: str
    resource_version: str
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
