"""Refuses nodes that a Pod's volumes do not allow."""

import numpy as np

from carico_core.domain import cluster, constraints, decision
from carico_scheduler.nodes import snapshot, volumes
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import pod_counts


class Volumes:
    """Every claim is bound to a volume that the node can use, or is to be bound on the node."""

    reason = decision.Reason.VOLUME

    def look(self, view: snapshot.Snapshot, demand: demands.Demand) -> "_Volumes | None":
        """None where the Pod has no claims."""
        uses = (demand.constraints or constraints.NONE).claims
        return _Volumes(view, uses) if uses else None


class VolumeLimits:
    """The node's CSI drivers can attach the Pod's volumes beside those that are attached."""

    reason = decision.Reason.VOLUME_LIMIT

    def look(self, view: snapshot.Snapshot, demand: demands.Demand) -> "_Limits | None":
        """None where the Pod has no claims, or no node states a limit."""
        uses = (demand.constraints or constraints.NONE).claims
        return _Limits(view, uses) if uses and any(each.limits for each in view.storage.csi_nodes.all()) else None


class _Volumes:
    def __init__(self, view: snapshot.Snapshot, uses: tuple[constraints.ClaimUse, ...]) -> None:
        self._view = view
        self._uses = uses
        self._waits_for = view.storage.waits_for(uses) or self._is_in_use()
        self._reachable: snapshot.Bools | None = None
        self._bindable: snapshot.Bools | None = None
        if self._waits_for is None:
            self._reachable = volumes.reachable(view, uses)
            self._bindable = volumes.bindable(view, uses) if view.storage.unbound(uses) else None

    def mask(self) -> snapshot.Bools:
        """No node while a claim is waited for; else those that all volumes can be used from."""
        if self._waits_for is not None or self._reachable is None:
            return np.zeros(len(self._view.present), dtype=np.bool_)
        return self._reachable.copy() if self._bindable is None else self._reachable & self._bindable

    def add(self, pod: cluster.Pod, slot: int) -> None:
        """Waits for the next cycle where this one has given away a volume, or the claim, that this Pod may want."""
        used = (pod.constraints or constraints.NONE).claims
        if not used:
            return
        claims = self._view.storage.unbound(used)
        if claims and self._bindable is not None:
            self._waits_for = "a volume was promised to another Pod just now"
        elif self._exclusive() & set(used):
            self._waits_for = "its ReadWriteOncePod claim is in use by another Pod"

    def refuse(self, slot: int) -> str | None:
        """Says what is waited for, or that the volume cannot be used there."""
        if self._waits_for is not None:
            return self._waits_for
        if self._reachable is not None and not self._reachable[slot]:
            return "a PersistentVolume of it cannot be used from there"
        if self._bindable is not None and not self._bindable[slot]:
            return "no PersistentVolume for a claim of it is there, and none can be made"
        return None

    def _exclusive(self) -> set[constraints.ClaimUse]:
        found = ((use, self._view.storage.claims.find(use.name, use.namespace)) for use in self._uses)
        return {use for use, claim in found if claim is not None and claim.is_exclusive and use.owner_uid is None}

    def _is_in_use(self) -> str | None:
        for use in self._exclusive():
            if self._view.census.per_slot(pod_counts.Using(claim=use), len(self._view.present)).any():
                return f"ReadWriteOncePod claim {use.name} is in use by another Pod"
        return None


class _Limits:
    def __init__(self, view: snapshot.Snapshot, uses: tuple[constraints.ClaimUse, ...]) -> None:
        self._view = view
        attached = volumes.Attached(view)
        asked = ((slot, attached.refuse(uses, slot)) for slot in view.present.nonzero()[0].tolist())
        self._refused = {slot: why for slot, why in asked if why is not None}
        self._mask = view.present.copy()
        self._mask[list(self._refused)] = False

    def mask(self) -> snapshot.Bools:
        """Nodes with room for the volumes."""
        return self._mask.copy()

    def add(self, pod: cluster.Pod, slot: int) -> None:
        """Leaves a node out for this cycle where a Pod with volumes was placed on it."""
        if (pod.constraints or constraints.NONE).claims:
            self._refused[slot] = "volumes of another Pod are being attached"
            self._mask[slot] = False

    def refuse(self, slot: int) -> str | None:
        """States the limit."""
        return self._refused.get(slot)
