"""Refuses nodes that a Pod's volumes do not allow."""

import collections

import numpy as np

from carico_core.domain import cluster, constraints, decision
from carico_scheduler.nodes import snapshot, volume_placement
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import pod_questions
from carico_scheduler.rules import protocol

_NONE_THERE = "one of its PersistentVolumeClaims finds no PersistentVolume there, and none can be created"


class Volumes:
    """Every claim is bound to a volume that the node can use, or can be bound for the node."""

    reason = decision.Reason.VOLUME

    def peers(self, view: snapshot.Snapshot, demand: demands.Demand) -> "_Volumes | None":
        """See `protocol.PeerFilter`."""
        uses = (demand.constraints or constraints.NONE).volume_claims
        return _Volumes(view, uses) if uses else None


class VolumeLimits:
    """The node's CSI drivers can attach the Pod's volumes in addition to those already attached."""

    reason = decision.Reason.VOLUME_LIMIT

    def peers(self, view: snapshot.Snapshot, demand: demands.Demand) -> "_Limits | None":
        """See `protocol.PeerFilter`."""
        uses = (demand.constraints or constraints.NONE).volume_claims
        return _Limits(view, uses) if uses and any(each.limits for each in view.storage.csi_nodes.all()) else None


class _Volumes:
    def __init__(self, view: snapshot.Snapshot, uses: tuple[constraints.VolumeClaimUse, ...]) -> None:
        self._view = view
        self._uses = uses
        self._waits_for = view.storage.waits_for(uses) or self._is_in_use()
        self._reachable = self._bindable = view.present
        if self._waits_for is None:
            self._reachable = volume_placement.reachable(view, uses)
            self._bindable = volume_placement.bindable(view, uses) if view.storage.unbound(uses) else view.present

    def conditions(self) -> list[protocol.Condition]:
        """See `protocol.Peers`."""
        waits_for = self._waits_for
        if waits_for is not None:
            return [protocol.Condition(np.zeros(len(self._view.present), dtype=np.bool_), lambda slot: waits_for)]
        return [
            protocol.Condition(self._reachable, lambda slot: "one of its PersistentVolumes cannot be used from there"),
            protocol.Condition(self._bindable, lambda slot: _NONE_THERE),
        ]

    def add(self, pod: cluster.Pod, slot: int, change: int = 1) -> None:
        """Wait if this cycle placed a Pod with a claim that only one Pod may use."""
        used = (pod.constraints or constraints.NONE).volume_claims
        if used and self._exclusive() & set(used):
            self._waits_for = "its ReadWriteOncePod claim is in use by another Pod"

    def hold(self, pod: cluster.Pod, slot: int) -> None:
        """Do nothing: no volume is held for a Pod that may not come."""

    def _exclusive(self) -> set[constraints.VolumeClaimUse]:
        found = ((use, self._view.storage.volume_claims.find(use.name, use.namespace)) for use in self._uses)
        return {use for use, claim in found if claim is not None and claim.is_exclusive and use.owner_uid is None}

    def _is_in_use(self) -> str | None:
        for use in self._exclusive():
            if self._view.pod_counts.per_slot(pod_questions.Using(claim=use), len(self._view.present)).any():
                return f"ReadWriteOncePod claim {use.name} is in use by another Pod"
        return None


class _Limits:
    def __init__(self, view: snapshot.Snapshot, uses: tuple[constraints.VolumeClaimUse, ...]) -> None:
        self._uses = uses
        self._attached = volume_placement.Attached(view)
        # The Pods with volumes that this cycle has placed, by slot, and the slots that are to be examined.
        self._placed: collections.defaultdict[int, list[cluster.Pod]] = collections.defaultdict(list)
        self._unseen: set[int] = set(view.present.nonzero()[0].tolist())
        self._refused: dict[int, str] = {}
        self._mask = view.present.copy()

    def conditions(self) -> list[protocol.Condition]:
        """See `protocol.Peers`."""
        for slot in self._unseen:
            why = self._attached.refuse(self._uses, slot, self._placed.get(slot, ()))
            if why is not None:
                self._refused[slot] = why
                self._mask[slot] = False
        self._unseen.clear()
        return [protocol.Condition(self._mask.copy(), self._refused.__getitem__)]

    def add(self, pod: cluster.Pod, slot: int, change: int = 1) -> None:
        """Count the volumes of a Pod that this cycle has placed."""
        if (pod.constraints or constraints.NONE).volume_claims:
            self._placed[slot].append(pod)
            self._unseen.add(slot)

    def hold(self, pod: cluster.Pod, slot: int) -> None:
        """Do nothing: no volume is held for a Pod that may not come."""
