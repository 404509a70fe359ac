"""All nodes in columns: what the API says of them, what they advertise, and what is reserved on them.

The only writer of the columns. Everything that a decision needs of a node is settled here when it changes (`free`
above all), so that a decision at 10,000 nodes is a few operations on whole columns.
"""

import dataclasses
import math
from typing import Any

import numpy.typing as npt

from carico_core.domain import cluster, messages
from carico_scheduler import columns, headroom, reservations, snapshot
from carico_scheduler import policy as policies

# Slots that changed are logged so that cached answers mend themselves; past this many, they start over.
_LOG_MAX = 20_000


class Fleet:
    """The nodes of the cluster by slot. `version` grows with every change."""

    def __init__(self, policy: policies.Policy) -> None:
        self.policy = policy
        self.version = 0
        self._columns = columns.Columns()
        self._nodes: list[cluster.Node | None] = []
        self._slots: dict[str, int] = {}
        self._vacant: list[int] = []
        self._facts_changed: list[int] = []
        self._facts_epoch = 0
        self._views: dict[str, npt.NDArray[Any]] | None = None

    def __len__(self) -> int:
        return len(self._slots)

    def names(self) -> list[str]:
        """Names of the nodes present."""
        return list(self._slots)

    def slot_of(self, name: str) -> int | None:
        """The slot of a node, or None where the API has shown no such node."""
        return self._slots.get(name)

    def snapshot(self, now_s: float) -> snapshot.Snapshot:
        """The fleet as it is; valid until its next change."""
        if self._views is None:
            self._views = self._columns.views()
        return snapshot.Snapshot(
            version=self.version,
            now_s=now_s,
            policy=self.policy,
            facts_version=len(self._facts_changed),
            facts_changed=self._facts_changed,
            facts_epoch=self._facts_epoch,
            nodes=self._nodes,
            **self._views,
        )

    def put_node(self, node: cluster.Node, load: reservations.Load) -> bool:
        """True where the node is new or a fact that placement depends on has changed."""
        slot = self._slots.get(node.name)
        old = None if slot is None else self._nodes[slot]
        if slot is None:
            slot = self._occupy(node.name)
        self._nodes[slot] = node
        if old is not None and _facts(old) == _facts(node):
            return False
        self._write_node(slot, node)
        self._write_load(slot, load)
        self._settle(slot)
        self._log_facts(slot)
        return True

    def remove_node(self, name: str) -> bool:
        """True where there was such a node; its slot becomes vacant."""
        slot = self._slots.pop(name, None)
        if slot is None:
            return False
        self._nodes[slot] = None
        self._columns.clear(slot)
        self._vacant.append(slot)
        self._log_facts(slot)
        return True

    def put_load(self, name: str, load: reservations.Load) -> None:
        """Takes in what the Pods placed on a node add up to."""
        slot = self._slots.get(name)
        if slot is not None:
            self._write_load(slot, load)
            self._settle(slot)

    def put_advertisement(self, advertisement: messages.Advertisement, sampled_s: float) -> None:
        """Takes in what a node says it can take; `sampled_s` is when, on our monotonic clock."""
        slot = self._slots.get(advertisement.node)
        if slot is None:
            return
        c = self._columns
        slot_headroom, slot_cost = headroom.columns_of(advertisement)
        c["capacity"][slot] = advertisement.capacity
        c["pods"][slot] = advertisement.pods
        c["limit"][slot] = headroom.UNLIMITED if advertisement.limit is None else advertisement.limit
        c["seq"][slot] = advertisement.seq
        c["headroom"][slot] = slot_headroom
        c["cost"][slot] = slot_cost
        c["sampled_s"][slot] = sampled_s
        self._settle(slot)

    def is_admitting(self, name: str, now_s: float) -> bool:
        """True where the node can take a Pod, as far as advertisement and reservations go."""
        slot = self._slots.get(name)
        if slot is None:
            return False
        c = self._columns
        return bool(
            c["free"].item(slot) >= self.policy.threshold
            and now_s - c["sampled_s"].item(slot) <= self.policy.ageing_s
            and now_s - c["uncovered_since_s"].item(slot) <= self.policy.suspect_after_s
        )

    def _occupy(self, name: str) -> int:
        """A slot for a node that had none."""
        if self._vacant:
            slot = self._vacant.pop()
        else:
            slot = self._columns.add_slot()
            self._nodes.append(None)
            self._views = None
        self._slots[name] = slot
        return slot

    def _write_node(self, slot: int, node: cluster.Node) -> None:
        c = self._columns
        c["present"][slot] = True
        c["ready"][slot] = node.ready
        c["schedulable"][slot] = not node.unschedulable and not node.deleting
        c["tainted"][slot] = bool(node.taints)
        c["allocatable_cores"][slot] = node.allocatable_cores
        c["allocatable_bytes"][slot] = node.allocatable_bytes
        c["pod_limit"][slot] = node.pod_limit

    def _write_load(self, slot: int, load: reservations.Load) -> None:
        c = self._columns
        c["placed"][slot] = load.placed
        c["workloads"][slot] = load.workloads
        c["used_cores"][slot] = load.used_cores
        c["used_bytes"][slot] = load.used_bytes
        c["reserved"][slot] = load.reserved
        c["uncovered_since_s"][slot] = load.uncovered_since_s

    def _settle(self, slot: int) -> None:
        """Works out `free` anew for one slot."""
        c = self._columns
        self.version += 1
        if c["sampled_s"].item(slot) == -math.inf:
            c["free"][slot] = -math.inf
            return
        reserved = c["reserved"].item(slot)
        cores = c["allocatable_cores"].item(slot)
        c["free"][slot] = headroom.believed(
            headroom.pods_left(c["headroom"][slot].tolist(), c["cost"][slot].tolist(), reserved),
            capacity=c["capacity"].item(slot),
            pods=c["pods"].item(slot),
            reserved=reserved,
            pod_slots=c["pod_limit"].item(slot) - c["placed"].item(slot),
            core_slots=self.policy.max_pods_per_core * cores - c["workloads"].item(slot),
            limit=c["limit"].item(slot),
        )

    def _log_facts(self, slot: int) -> None:
        self.version += 1
        if len(self._facts_changed) >= _LOG_MAX:
            self._facts_changed = []
            self._facts_epoch += 1
        self._facts_changed.append(slot)


def _facts(node: cluster.Node) -> cluster.Node:
    """The node without what changes at every heartbeat."""
    return dataclasses.replace(node, resource_version="")
