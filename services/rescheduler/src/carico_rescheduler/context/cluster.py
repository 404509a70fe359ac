"""Everything known of the cluster now: objects of the API, advertisements, loads and traffic."""

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from carico_core.domain import cluster, messages
from carico_rescheduler.context import objects, services

T = TypeVar("T")
Key = tuple[str, str]
NOT_LISTED = "not listed yet"


class Table(Generic[T]):
    """One collection of the API by namespace and name. `lacking`: why it is not known; None if it is."""

    def __init__(self) -> None:
        self.found: dict[Key, T] = {}
        self.lacking: str | None = NOT_LISTED

    def copied(self) -> "Table[T]":
        """Return a copy, which no event changes."""
        other: Table[T] = Table()
        other.found, other.lacking = dict(self.found), self.lacking
        return other

    def put_all(self, found: Mapping[Key, T]) -> None:
        """Take in a list of the whole collection."""
        self.found = dict(found)
        self.lacking = None

    def put(self, key: Key, found: T) -> None:
        """Take in one object."""
        self.found[key] = found

    def remove(self, key: Key) -> None:
        """Forget an object."""
        self.found.pop(key, None)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Bytes per second between two Pods, in both directions."""

    one: str
    other: str
    bytes_per_s: float


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """The measured load of a Pod: runnable tasks, and memory in bytes."""

    tasks: float
    memory_bytes: float

    def on(self, node: cluster.Node) -> "Load":
        """Return what of it a Pod can have on a node: all cores and one task that waits, and all memory.

        An agent can state any number. Next to a large enough one, no overload of other nodes would count.
        """
        return Load(min(self.tasks, node.allocatable_cores + 1.0), min(self.memory_bytes, node.allocatable_bytes))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """What loads and traffic miss.

    unresolved_bytes: traffic per second of which one end is no known Pod. skipped: readings that the agent of a node
    has skipped since it started, by node and reason. dropped: messages since this process started, by kind and reason.
    """

    unresolved_bytes: float = 0.0
    skipped: Mapping[tuple[str, str], int] = dataclasses.field(default_factory=dict)
    dropped: Mapping[tuple[str, str], int] = dataclasses.field(default_factory=dict)


class Cluster:
    """What the service knows. Its fields are changed by `adapter` alone."""

    def __init__(self) -> None:
        self.pods: Table[objects.KnownPod] = Table()
        self.nodes: Table[cluster.Node] = Table()
        self.replica_sets: Table[objects.ReplicaSet] = Table()
        self.deployments: Table[objects.Deployment] = Table()
        self.budgets: Table[cluster.DisruptionBudget] = Table()
        # Known in mode `node-selector` alone.
        self.autoscalers: Table[objects.Autoscaler] = Table()
        # Without them, traffic to virtual addresses is not known.
        self.services: Table[services.ServiceAddresses] = Table()
        self.slices: Table[services.Slice] = Table()
        # By node; old ones are removed.
        self.advertisements: dict[str, messages.Advertisement] = {}
        # By node and the Pod's UID in its runtime, since a node reports on its own Pods only.
        self.loads: dict[tuple[str, str], Load] = {}
        # In copies alone (`adapter.telemetry.Snapshot`). By UIDs of the API.
        self.flows: tuple[Flow, ...] = ()
        self.gaps = Gaps()
        # By class, in seconds, of those of which enough Pods have ended.
        self.lifetimes_s: Mapping[str, float] = {}

    def copied(self) -> "Cluster":
        """Return a copy of what is known now, which no event changes: to calculate with in a thread."""
        other = Cluster()
        for name, value in vars(self).items():
            setattr(other, name, value.copied() if isinstance(value, Table) else copy.copy(value))
        return other

    def lacking(self) -> dict[str, str]:
        """Return why collections are not known without which nothing is moved; empty if all are."""
        tables: dict[str, Table[Any]] = {
            "Pods": self.pods, "Nodes": self.nodes, "ReplicaSets": self.replica_sets,
            "Deployments": self.deployments, "PodDisruptionBudgets": self.budgets,
        }  # fmt: skip
        return {name: table.lacking for name, table in tables.items() if table.lacking is not None}

    def pod(self, uid: str) -> objects.KnownPod | None:
        """Return the Pod with a UID."""
        return next((each for each in self.pods.found.values() if each.uid == uid), None)

    def replica_set_of(self, pod: objects.KnownPod) -> objects.ReplicaSet | None:
        """Return the ReplicaSet that owns a Pod; None if no known one does."""
        owner = pod.pod.owner
        if owner is None or owner.kind != "ReplicaSet":
            return None
        found = self.replica_sets.found.get((pod.pod.namespace, owner.name))
        return found if found is not None and found.uid == owner.uid else None

    def deployment_of(self, replica_set: objects.ReplicaSet) -> objects.Deployment | None:
        """Return the Deployment that controls a ReplicaSet; None if no known one does."""
        found = self.deployments.found.get((replica_set.namespace, replica_set.deployment))
        return found if found is not None and found.uid == replica_set.deployment_uid else None

    def replicas(self) -> dict[str, list[objects.KnownPod]]:
        """Return the active Pods by their `controller`; a surge Pod has none yet."""
        found: dict[str, list[objects.KnownPod]] = {}
        for each in self.pods.found.values():
            if each.controller and each.is_active and not each.is_surge:
                found.setdefault(each.controller, []).append(each)
        return found
