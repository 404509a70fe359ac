"""Which nodes a Pod's volumes allow, and what must be done for its claims once a node is chosen.

https://kubernetes.io/docs/concepts/storage/storage-classes/#volume-binding-mode
"""

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from carico_core.domain import cluster, constraints, selectors
from carico_core.domain import storage as objects
from carico_core.wire.kubernetes import storage as kubernetes_storage
from carico_scheduler.nodes import node_labels, snapshot, storage


def reachable(view: snapshot.Snapshot, uses: tuple[constraints.VolumeClaimUse, ...]) -> snapshot.Bools:
    """Return the nodes from which every bound volume can be used, by its node affinity and zone labels."""
    mask = view.present.copy()
    for volume in view.storage.bound_volumes(uses):
        if volume.node_terms is not None:
            mask &= view.labels.matching(volume.node_terms)
        if zones := kubernetes_storage.zones_of(volume):
            mask &= _in_zones(view, zones)
    return mask


def bindable(view: snapshot.Snapshot, uses: tuple[constraints.VolumeClaimUse, ...]) -> snapshot.Bools:
    """Return the nodes where every unbound claim finds a volume, or one can be provisioned for it."""
    mask = view.present.copy()
    chooser = _Chooser(view, view.storage.unbound(uses))
    contested = chooser.contested()
    for each in chooser.options:
        mask &= contested | each.found | each.makeable
    for slot in contested.nonzero()[0].tolist():
        mask[slot] = _plan_at(chooser, slot) is not None
    return mask


def plan(view: snapshot.Snapshot, uses: tuple[constraints.VolumeClaimUse, ...], slot: int) -> storage.Plan | None:
    """Return what must be done before a Pod with these claims is bound to a slot's node; None if that is impossible."""
    found = _plan_at(_Chooser(view, view.storage.unbound(uses)), slot)
    if found is None:
        return None
    # A claim that is named twice has two volumes in the plan, and gets one.
    keep = {claim.uid: (volume, claim) for volume, claim in reversed(found.keep)}
    make = {claim.uid: claim for claim in found.make if claim.uid not in keep}
    return storage.Plan(keep=tuple(keep.values()), make=tuple(make.values()))


def promised(
    view: snapshot.Snapshot, uses: tuple[constraints.VolumeClaimUse, ...], row: snapshot.NodeRow
) -> snapshot.Snapshot:
    """Return the snapshot as it is once a Pod with these claims is placed on a node: what it needs is kept for it."""
    found = plan(view, uses, row.slot)
    if found is None:
        return view
    known = view.storage.fork()
    known.promise(found, row.node.name)
    return dataclasses.replace(view, storage=known)


class Attached:
    """The volumes that are attached to each node or will be, and the limits of its CSI drivers."""

    def __init__(self, view: snapshot.Snapshot) -> None:
        self._view = view
        self._by_node: dict[str, set[tuple[str, str]]] = {}
        for each in view.storage.attachments.all():
            volume = view.storage.volumes.find(each.volume)
            if volume is not None and volume.driver:
                self._by_node.setdefault(each.node, set()).add((each.driver, volume.handle))

    def refuse(
        self, uses: tuple[constraints.VolumeClaimUse, ...], slot: int, coming: Iterable[cluster.Pod] = ()
    ) -> str | None:  # fmt: skip
        """Return why the node cannot attach a Pod's volumes in addition to its present ones; None if it can.

        `coming`: Pods that are placed there besides those that the view has.
        """
        node = self._view.nodes[slot]
        limits = None if node is None else self._view.storage.csi_nodes.find(node.name)
        if node is None or limits is None or not limits.limits:
            return None
        known = self._view.storage
        pods = (*self._view.pod_counts.on(node.name), *coming)
        held = {
            handle for pod in pods for handle in _handles(known, (pod.constraints or constraints.NONE).volume_claims)
        }
        new = set(_handles(known, uses)) - held
        held |= self._by_node.get(node.name, set())
        for driver in {driver for driver, _ in new}:
            limit = limits.limits.get(driver)
            count = sum(each == driver for each, _ in held)
            more = sum(each == driver for each, _ in new)
            if limit is not None and count + more > limit:
                return f"{count} volumes of {driver} attached, {more} more needed, at most {limit}"
        return None


class _Option(NamedTuple):
    """A claim, its candidate volumes, the nodes where one can be used, and those for which one can be provisioned."""

    claim: objects.VolumeClaim
    candidates: Sequence[objects.Volume]
    found: snapshot.Bools
    makeable: snapshot.Bools


class _Chooser:
    """The candidate volumes of a Pod's unbound claims, and the nodes where each can be used."""

    def __init__(self, view: snapshot.Snapshot, claims: Sequence[objects.VolumeClaim]) -> None:
        self._view = view
        self.volume_claims = claims
        self.candidates = {claim.uid: view.storage.candidates(claim) for claim in claims}
        self._slots: dict[str, snapshot.Bools] = {}

    @functools.cached_property
    def options(self) -> list[_Option]:
        """What there is for each claim, whatever the others get: each node where two may need the same looks at it."""
        return [
            _Option(claim, self.candidates[claim.uid], self._found(claim), self._makeable(claim))
            for claim in self.volume_claims
        ]

    def is_usable(self, volume: objects.Volume, slot: int) -> bool:
        """Return True if the volume can be used from the node."""
        return bool(self._usable(volume)[slot])

    def _found(self, claim: objects.VolumeClaim) -> snapshot.Bools:
        """Return the nodes where a candidate of the claim can be used; none while a volume is being provisioned."""
        mask = np.zeros(len(self._view.present), dtype=np.bool_)
        if not self._view.storage.selected_node(claim):
            for volume in self.candidates[claim.uid]:
                mask |= self._usable(volume)
        return mask

    def _makeable(self, claim: objects.VolumeClaim) -> snapshot.Bools:
        """Return the nodes for which a volume can be provisioned."""
        view = self._view
        made_by = view.storage.can_make(claim)
        if made_by is None:
            return np.zeros(len(view.present), dtype=np.bool_)
        mask = view.present.copy()
        chosen = view.storage.selected_node(claim)
        if chosen:
            name = selectors.Requirement(key=selectors.NAME_FIELD, operator=selectors.IN, values=(chosen,))
            mask &= view.labels.matching((selectors.NodeTerm(fields=(name,)),))
        if made_by.topologies:
            mask &= view.labels.matching(made_by.topologies)
        driver = view.storage.drivers.find(made_by.provisioner)
        if driver is not None and driver.tracks_capacity and claim.size_bytes > 0:
            mask &= self._has_capacity(claim)
        return mask

    def contested(self) -> snapshot.Bools:
        """Return the nodes where two claims of the Pod may need the same volume."""
        shared = [
            volume
            for one, claim in enumerate(self.volume_claims)
            for volume in self.candidates[claim.uid]
            if any(volume in self.candidates[other.uid] for other in self.volume_claims[one + 1 :])
        ]
        nowhere: snapshot.Bools = np.zeros(len(self._view.present), dtype=np.bool_)
        return functools.reduce(np.logical_or, map(self._usable, shared), nowhere)

    def _usable(self, volume: objects.Volume) -> snapshot.Bools:
        found = self._slots.get(volume.name)
        if found is None:
            found = self._view.present
            if volume.node_terms is not None:
                found = self._view.labels.where(volume.node_terms)
            self._slots[volume.name] = found
        return found

    def _has_capacity(self, claim: objects.VolumeClaim) -> snapshot.Bools:
        mask = np.zeros(len(self._view.present), dtype=np.bool_)
        for each in self._view.storage.capacities.all():
            is_enough = each.largest_bytes is not None and each.largest_bytes >= claim.size_bytes
            if is_enough and each.storage_class == claim.storage_class and each.nodes is not None:
                mask |= (
                    self._view.present
                    if not each.nodes
                    else self._view.labels.matching((selectors.NodeTerm(labels=each.nodes),))
                )
        return mask


def _plan_at(chooser: _Chooser, slot: int) -> storage.Plan | None:
    """Plan the smallest volume for each claim in turn, or a new one if there is none; None if that is impossible."""
    keep: list[tuple[objects.Volume, objects.VolumeClaim]] = []
    make: list[objects.VolumeClaim] = []
    taken: set[str] = set()
    for option in chooser.options:
        chosen = None
        if option.found[slot]:
            free = (volume for volume in option.candidates if volume.name not in taken)
            chosen = next((volume for volume in free if chooser.is_usable(volume, slot)), None)
        if chosen is not None:
            taken.add(chosen.name)
            keep.append((chosen, option.claim))
        elif option.makeable[slot]:
            make.append(option.claim)
        else:
            return None
    return storage.Plan(keep=tuple(keep), make=tuple(make))


def _in_zones(view: snapshot.Snapshot, zones: list[tuple[tuple[str, ...], frozenset[str]]]) -> snapshot.Bools:
    """Return the nodes in all of these zones, and those without any zone label: a cluster may have none."""
    labelled = functools.reduce(
        np.logical_or, (view.labels.domains(label).known for label in kubernetes_storage.ZONE_LABELS)
    )
    mask = np.ones(len(view.present), dtype=np.bool_)
    for names, values in zones:
        mask &= _has_value(view.labels, names, values)
    result: snapshot.Bools = mask | ~labelled
    return result


def _has_value(known: node_labels.NodeLabels, names: tuple[str, ...], values: frozenset[str]) -> snapshot.Bools:
    """Return the nodes whose first present label of `names` has one of the values."""
    first = known.domains(names[0])
    mask = first.having(values)
    if len(names) > 1:
        mask |= ~first.known & known.domains(names[1]).having(values)
    return mask


def _handles(known: storage.Storage, uses: Iterable[constraints.VolumeClaimUse]) -> Iterable[tuple[str, str]]:
    """Yield CSI driver and handle of each volume; before it is provisioned, the class's driver and the claim's name."""
    for use in uses:
        claim = known.volume_claims.find(use.name, use.namespace)
        if claim is None:
            continue
        volume = known.volumes.find(claim.volume) if claim.volume else None
        made_by = known.classes.find(claim.storage_class) if claim.storage_class else None
        if volume is not None and volume.driver:
            yield volume.driver, volume.handle
        elif volume is None and made_by is not None and made_by.provisioner:
            yield made_by.provisioner, f"claim {claim.namespace}/{claim.name}"
