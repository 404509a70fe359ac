"""What the scheduler knows of nodes: Nodes, advertisements and volumes, and which waiting Pods a change may help.

Pure: events in, changed state out.
"""

import functools
import random
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from carico_core.domain import cluster, constraints, messages, selectors
from carico_scheduler.nodes import fleet as fleets
from carico_scheduler.nodes import headroom, snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import queue as queues
from carico_scheduler.pods import reservations
from carico_scheduler.rules import admission
from carico_scheduler.rules import policy as policies
from carico_scheduler.rules.filters import requests
from carico_scheduler.state import early

_REQUESTS = requests.Requests()


class Heard(NamedTuple):
    """The newest advertisement of a node, and when its newest sample was taken on our monotonic clock."""

    advertisement: messages.Advertisement
    sampled_s: float


class NodeState:
    """Fleet, reservations and queue, kept in step with the nodes."""

    def __init__(
        self, policy: policies.Policy, rng: random.Random, demand_of: Callable[[cluster.Pod], demands.Demand]
    ) -> None:
        self.fleet = fleets.Fleet(policy)
        self.reservations = reservations.Reservations(policy.release)
        self.queue = queues.Queue(rng, demand_of)
        # Of the nodes in the fleet.
        self.heard: dict[str, Heard] = {}
        self.early = early.Early(lease_s=policy.lease_s)
        # Called with the name of each node that the API shows for the first time; what is early of it may be taken in.
        self.on_new_node: Callable[[str], None] = lambda name: None
        # Called when a claim or its volume has changed, with the claim; None: any of them may have.
        self.on_volumes: Callable[[tuple[str, str] | None], None] = lambda claim: None

    def put_nodes(self, nodes: Iterable[cluster.Node]) -> None:
        """Take in the list of all Nodes: those not in it are gone."""
        listed = {node.name: node for node in nodes}
        for name in [name for name in self.fleet.names() if name not in listed]:
            self.remove_node(name)
        for node in listed.values():
            self.put_node(node)

    def put_node(self, node: cluster.Node) -> None:
        """Take in a Node as the API shows it."""
        is_new = self.fleet.slot_of(node.name) is None
        if not self.fleet.put_node(node, self.reservations.load(node.name)):
            return
        if is_new:
            self.on_new_node(node.name)
        self.queue.unpark_if(self.helped_by(node.name))

    def remove_node(self, name: str) -> None:
        """Forget a Node and its advertisement; Pods that the API still shows on it keep their bookings."""
        self.fleet.remove_node(name)
        self.heard.pop(name, None)
        self.reservations.forget_node(name)
        self.queue.unpark_if(self.helped_by(name))

    def put_advertisement(self, heard: Heard, now_s: float) -> None:
        """Take in a newer advertisement of a node, and release the reservations that it covers.

        One of a node that the API does not show changes nothing.
        """
        node = heard.advertisement.node
        slot = self.fleet.slot_of(node)
        if slot is None:
            return
        self.heard[node] = heard
        # Ask only for the classes of parked Pods: this is the most expensive part of taking an advertisement in.
        parked = self.queue.parked_classes()
        old = self.fleet.row(slot, now_s) if parked else None
        if old is not None and not admission.are_believed(old):
            # It admitted nothing.
            old = None
        if self.reservations.cover(node, heard.advertisement.covers, now_s):
            self.fleet.put_load(node, self.reservations.load(node))
        self.fleet.put_advertisement(heard.advertisement, heard.sampled_s)
        if not parked:
            return
        row = self.fleet.row(slot, now_s)
        # A class that had room before is parked for another reason, which no advertisement changes.
        gained: dict[float, tuple[admission.Admitted, admission.Admitted]] = {}
        for offset, classes in parked.items():
            after = admission.admits(row, classes, offset)
            # On a full cluster most nodes admit nothing, whatever it was before.
            if after:
                before = admission.Admitted() if old is None else admission.admits(old, classes, offset)
                if after.has_gained(before):
                    gained[offset] = before, after
        if gained:
            self.queue.unpark_if(lambda demand: _gains(demand, gained) and _may_take(row, demand))

    def volumes_changed(self, claim: tuple[str, str] | None = None) -> None:
        """Try Pods that wait for a claim, a volume or a storage class again: one has changed.

        `claim`: namespace and name of the claim that has, which only Pods that use it may wait for.
        """
        self._try_users_of(claim)
        self.on_volumes(claim)

    def volume_changed(self, name: str) -> None:
        """Try Pods that wait for volumes again: this one has changed, or is gone."""
        self._try_users_of(None)
        volume = self.fleet.storage.volumes.find(name)
        if volume is None:
            self.on_volumes(None)
        elif volume.claim is not None:
            self.on_volumes((volume.claim.namespace, volume.claim.name))

    def helped_by(
        self, node: str, is_freed: Callable[[demands.Demand], bool] = lambda _: True
    ) -> Callable[[demands.Demand], bool]:
        """Return which demands a change of `node` could help: room became free there, or it changed, or it is gone.

        `is_freed`: whether what other Pods refuse to a demand may have changed.

        These are the demands for which the node has room by its advertisement, and that its labels and requests allow;
        or which need no room. On a full cluster most Pods end before their node advertises the room, and trying every
        demand on every node then would be wasted. Demands that other Pods may refuse a node may be helped on any node,
        even by a node that goes: it may have been the emptiest domain. A spread that is only preferred refuses none.
        With the fallback to requests any change may help.
        """
        if not self.queue.parked_classes():
            return lambda _: False
        if self.fleet.policy.fallback is not policies.Fallback.WAIT:
            return lambda _: True
        slot = self.fleet.slot_of(node)
        row = None if slot is None else self.fleet.row(slot)
        named = headroom.named(None if row is None else row.room.offer)

        @functools.cache
        def has_room(pod_class: str, offset: float) -> bool:
            return row is not None and bool(admission.has_room(row, pod_class, offset))

        def is_helped(demand: demands.Demand) -> bool:
            # Classes that the node does not name cost the same there: each of thousands of waiting Jobs may be one.
            pod_class = demand.pod_class if demand.pod_class in named else headroom.UNNAMED
            if has_room(pod_class, demand.ceiling_offset) and row is not None and _may_take(row, demand):
                return True
            return demand.is_baseline or (demand.is_limited_by_peers and is_freed(demand))

        return is_helped

    def _try_users_of(self, claim: tuple[str, str] | None) -> None:
        """Try Pods again that use a claim; None: any."""

        def may_help(demand: demands.Demand) -> bool:
            uses = (demand.constraints or constraints.NONE).volume_claims
            return any(claim is None or (use.namespace, use.name) == claim for use in uses)

        self.queue.unpark_if(may_help)


def _gains(demand: demands.Demand, gained: Mapping[float, tuple[admission.Admitted, admission.Admitted]]) -> bool:
    """Return whether a node admits a demand now that it did not admit before; `gained`: both, by offset."""
    found = gained.get(demand.ceiling_offset)
    return found is not None and demand.pod_class in found[1] and demand.pod_class not in found[0]


def _may_take(row: snapshot.NodeRow, demand: demands.Demand) -> bool:
    """Return False if a node refuses a demand by its labels, or by what Pods there request.

    A tenant may have thousands of Pods that no node takes: to try each on every node whenever a Pod ends takes seconds.
    """
    terms = None if demand.constraints is None else demand.constraints.node_terms
    is_chosen = selectors.chooses(demand.node_selector, terms, name=row.node.name, labels=row.node.labels)
    return is_chosen and bool(_REQUESTS.passes(row, demand))
