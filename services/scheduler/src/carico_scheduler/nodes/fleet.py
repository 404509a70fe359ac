"""All nodes in columns: what the API shows of them, what they advertise, and what is reserved on them.

The only writer of the columns. They are kept up to date as nodes change, so that a decision on 10,000 nodes is a few
operations on whole columns.
"""

import collections
import dataclasses
import functools
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from carico_core.domain import cluster, messages
from carico_scheduler.nodes import columns, headroom, images, lru, node_labels, storage
from carico_scheduler.nodes import snapshot as snapshots
from carico_scheduler.pods import pod_counts, reservations
from carico_scheduler.rules import policy as policies

# How often the oldest of all ages is looked up again, which takes some 40 us at 10,000 nodes.
_OLDEST_EACH_S = 1.0


class Fleet:
    """The nodes of the cluster by slot."""

    def __init__(self, policy: policies.Policy) -> None:
        self.policy = policy
        self._columns = columns.Columns()
        self._nodes: list[cluster.Node | None] = []
        self._offers: list[headroom.Offer | None] = []
        # Reserved Pods by class.
        self._classes: list[Mapping[str, int]] = []
        # None: to be computed when next asked for.
        self._rooms: list[headroom.NodeRoom | None] = []
        # What is requested of resources other than CPU and memory, and what is left of each by slot.
        self._used_others: list[Mapping[str, float]] = []
        self._left: lru.BySlot[str] = lru.BySlot()
        self.labels = node_labels.NodeLabels(self._nodes, self.slot_of)
        self.pod_counts = pod_counts.PodCounts(self.slot_of)
        self.storage = storage.Storage()
        self.images = images.Images()
        # How many nodes name each class in their offers.
        self._named: collections.Counter[str] = collections.Counter()
        # Free Pods by slot, for each class and offset of the ceiling that was asked for.
        self._free: lru.BySlot[tuple[str, float]] = lru.BySlot()
        self._slots: dict[str, int] = {}
        self._vacant: list[int] = []
        self._nodes_version = 0
        # Times that no node's `sampled_s` and `uncovered_since_s` are before, and when they were looked up.
        self._first_sampled_s = self._first_uncovered_s = self._looked_up_s = -math.inf
        # Makes snapshots; None after a slot was added.
        self._view: Callable[..., snapshots.Snapshot] | None = None
        # Called with each slot whose Pods or whose node have changed.
        self.on_load: Callable[[int], None] = lambda slot: None
        # For reading single rows; it only holds views.
        self._live: snapshots.Snapshot | None = None

    def __len__(self) -> int:
        return len(self._slots)

    def names(self) -> list[str]:
        """Return the names of the nodes present."""
        return list(self._slots)

    def slot_of(self, name: str) -> int | None:
        """Return the slot of a node, or None if the API has not shown it."""
        return self._slots.get(name)

    def snapshot(self, now_s: float) -> snapshots.Snapshot:
        """Return a snapshot of the fleet, valid until its next change."""
        if self._view is None:
            # Each cycle asks for one: it takes three fifths of the time if only what may have changed is passed.
            views: dict[str, Any] = self._columns.views()
            self._view = functools.partial(
                snapshots.Snapshot, policy=self.policy, nodes=self._nodes, slot_of=self.slot_of, room=self.room,
                free=self.free, left=self.left, labels=self.labels, pod_counts=self.pod_counts, storage=self.storage,
                images=self.images, **views,
            )  # fmt: skip
        if now_s - self._looked_up_s >= _OLDEST_EACH_S:
            self._looked_up_s = now_s
            self._first_sampled_s = self._least("sampled_s")
            self._first_uncovered_s = self._least("uncovered_since_s")
        return self._view(
            now_s=now_s, nodes_version=self._nodes_version, first_sampled_s=self._first_sampled_s,
            first_uncovered_s=self._first_uncovered_s,
        )  # fmt: skip

    def _least(self, field: str) -> float:
        """Return the least value of a column over the nodes present; +inf without nodes."""
        c = self._columns.by_field
        return float(np.where(c["present"], c[field], math.inf).min())

    def put_node(self, node: cluster.Node, load: reservations.Load) -> bool:
        """Take in a Node; return True if it is new, or a field has changed that placement depends on."""
        slot = self._slots.get(node.name)
        old = None if slot is None else self._nodes[slot]
        if slot is None:
            slot = self._occupy(node.name)
            self.pod_counts.recount(node.name, slot)
        self.images.put(slot, node.images)
        # Their names would take 10 kB a node.
        self._nodes[slot] = node = dataclasses.replace(node, images=())
        if node == old:
            # A heartbeat.
            return False
        self._write_node(slot, node)
        self._write_load(slot, load)
        self._settle(slot)
        self._note_node(slot)
        return True

    def remove_node(self, name: str) -> None:
        """Remove a node, whose slot becomes vacant."""
        slot = self._slots.pop(name, None)
        if slot is None:
            return
        self._nodes[slot] = None
        self._put_offer(slot, None)
        self._classes[slot] = {}
        self._used_others[slot] = {}
        self._columns.clear(slot)
        self.images.put(slot, ())
        self.on_load(slot)
        self._settle(slot)
        self._vacant.append(slot)
        self._note_node(slot)
        self.pod_counts.recount(name, slot)

    def put_load(self, name: str, load: reservations.Load) -> None:
        """Take in the sum of the bookings on a node."""
        slot = self._slots.get(name)
        if slot is not None:
            self._write_load(slot, load)
            self._settle(slot)

    def put_advertisement(self, advertisement: messages.Advertisement, sampled_s: float) -> None:
        """Take in an advertisement; `sampled_s` is when its newest sample was taken, on our monotonic clock."""
        slot = self._slots.get(advertisement.node)
        if slot is None:
            return
        c = self._columns.by_field
        c["capacity"][slot] = advertisement.capacity
        c["pods"][slot] = advertisement.pods
        c["limit"][slot] = headroom.UNLIMITED if advertisement.limit is None else advertisement.limit
        c["seq"][slot] = advertisement.seq
        c["sampled_s"][slot] = sampled_s
        self._first_sampled_s = min(self._first_sampled_s, sampled_s)
        offer = headroom.offer_of(advertisement)
        self._put_offer(slot, offer)
        c["guessing"][slot] = bool(offer.guessed)
        self._settle(slot)

    def _put_offer(self, slot: int, offer: headroom.Offer | None) -> None:
        old, self._offers[slot] = self._offers[slot], offer
        before, after = headroom.named(old), headroom.named(offer)
        if before != after:
            self._named.update(after - before)
            self._named.subtract(before - after)
            for pod_class in before - after:
                if not self._named[pod_class]:
                    del self._named[pod_class]

    def free(self, pod_class: str, offset: float = 0.0) -> npt.NDArray[np.float64]:
        """Return how many more Pods of a class each slot takes, reservations subtracted; -inf if nothing is advertised.

        `offset`: by how much of a node the ceiling is higher than advertised. Cached: only slots that have changed
        since are computed again.
        """
        if pod_class not in self._named:
            pod_class = headroom.UNNAMED
        fill = functools.partial(self._fill_free, pod_class, offset)
        return self._free.answer((pod_class, offset), self._columns.count, nothing=-math.inf, fill=fill)

    def _fill_free(
        self, pod_class: str, offset: float, values: npt.NDArray[np.float64], slots: Collection[int]
    ) -> None:  # fmt: skip
        if len(slots) == len(values) and 0 < 2 * self._named[pod_class] <= len(values):
            # Few nodes name the class of a Job that runs.
            values[:] = self.free(headroom.UNNAMED, offset)
            slots = [slot for slot, offer in enumerate(self._offers) if pod_class in headroom.named(offer)]
        cores, size_bytes = self._columns.by_field["allocatable_cores"], self._columns.by_field["allocatable_bytes"]
        for slot in slots:
            room = self.room(slot)
            if offset:
                room = room.shifted(offset, cores=cores.item(slot), size_bytes=size_bytes.item(slot))
            values[slot] = room.free(pod_class)

    def room(self, slot: int) -> headroom.NodeRoom:
        """Return the room of a node. Cached until the next change of the slot."""
        cached = self._rooms[slot]
        if cached is None:
            cached = self._rooms[slot] = self._room(slot)
        return cached

    def _room(self, slot: int) -> headroom.NodeRoom:
        c, offer = self._columns.by_field, self._offers[slot]
        pods, reserved = c["pods"].item(slot), c["reserved"].item(slot)
        cores = c["allocatable_cores"].item(slot)
        return headroom.NodeRoom(
            offer=offer,
            taken=() if offer is None else offer.reserved(self._classes[slot]),
            least=min(c["capacity"].item(slot), 1.0) if pods == 0 and reserved == 0 else -math.inf,
            pod_limit=float(c["pod_limit"].item(slot) - c["placed"].item(slot)),
            pods_per_core=self.policy.max_pods_per_core * cores - c["workloads"].item(slot),
            limit=c["limit"].item(slot) - pods - reserved,
        )

    def left(self, resource: str) -> npt.NDArray[np.float64]:
        """Return what each slot has left of a resource other than CPU and memory; cached like `free`."""
        fill = functools.partial(self._fill_left, resource)
        return self._left.answer(resource, self._columns.count, nothing=0.0, fill=fill)

    def _fill_left(self, resource: str, values: npt.NDArray[np.float64], slots: Collection[int]) -> None:
        for slot in slots:
            node = self._nodes[slot]
            whole = 0.0 if node is None else node.allocatable_others.get(resource, 0.0)
            values[slot] = whole - self._used_others[slot].get(resource, 0.0)

    def row(self, slot: int, now_s: float = math.nan) -> snapshots.NodeRow:
        """Return one node, valid until the fleet's next change. Without `now_s` its ages are unknown (NaN)."""
        if self._live is None:
            self._live = self.snapshot(math.nan)
        return self._live.row(slot, now_s)

    def _occupy(self, name: str) -> int:
        """Return a slot for a node that had none."""
        if self._vacant:
            slot = self._vacant.pop()
        else:
            slot = self._columns.add_slot()
            self._nodes.append(None)
            self._offers.append(None)
            self._classes.append({})
            self._rooms.append(None)
            self._used_others.append({})
            self._view = self._live = None
        # It has not advertised.
        self._first_sampled_s = -math.inf
        self._slots[name] = slot
        return slot

    def _write_node(self, slot: int, node: cluster.Node) -> None:
        c = self._columns.by_field
        c["present"][slot] = True
        c["ready"][slot] = node.ready
        c["schedulable"][slot] = not node.unschedulable and not node.deleting
        c["deleting"][slot] = node.deleting
        c["tainted"][slot] = bool(node.taints)
        cores = c["allocatable_cores"][slot] = max(node.allocatable_cores, columns.LEAST_CORES)
        c["per_core"][slot] = 1.0 / cores
        c["allocatable_bytes"][slot] = node.allocatable_bytes
        c["pod_limit"][slot] = node.pod_limit

    def _write_load(self, slot: int, load: reservations.Load) -> None:
        c = self._columns.by_field
        c["placed"][slot] = load.placed
        c["workloads"][slot] = load.workloads
        c["used_cores"][slot] = load.used_cores
        c["used_bytes"][slot] = load.used_bytes
        c["reserved"][slot] = load.reserved
        c["uncovered_since_s"][slot] = load.uncovered_since_s
        self._first_uncovered_s = min(self._first_uncovered_s, load.uncovered_since_s)
        self._classes[slot] = load.classes
        self._used_others[slot] = load.used_others
        self.on_load(slot)

    def _settle(self, slot: int) -> None:
        """Drop what was computed for a slot: it has changed."""
        self._rooms[slot] = None
        self._free.touch(slot)
        self._left.touch(slot)

    def _note_node(self, slot: int) -> None:
        """Note that the Node of a slot was added, changed or removed."""
        self._nodes_version += 1
        self.labels.touch(slot)
