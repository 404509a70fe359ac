"""PersistentVolumeClaims, volumes and attachments as the API shows them, and which volume is kept for a claim."""

import collections
import copy
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from carico_core.domain import constraints, selectors, storage

T = TypeVar("T")
Key = tuple[str, str]
# A claim names its volume within seconds of the volume's creation: this is as many deletions as an API does in them.
REMOVED_MOST = 1024


class Table(Generic[T]):
    """Objects of one collection by namespace and name."""

    def __init__(self) -> None:
        self._objects: dict[Key, T] = {}
        self._removed: collections.deque[Key] = collections.deque(maxlen=REMOVED_MOST)
        # Counts changes.
        self.version = 0

    def find(self, name: str, namespace: str = "") -> T | None:
        """Return the object of this name, or None."""
        return self._objects.get((namespace, name))

    def all(self) -> Iterable[T]:
        """Return every object."""
        return self._objects.values()

    def put_all(self, objects: Mapping[Key, T]) -> None:
        """Take in the list of all objects."""
        self.version += 1
        self._removed.extend(self._objects.keys() - objects.keys())
        self._objects = dict(objects)

    def put(self, key: Key, value: T) -> None:
        """Take in one object."""
        self.version += 1
        self._objects[key] = value

    def remove(self, key: Key) -> None:
        """Forget one object."""
        self.version += 1
        self._removed.append(key)
        self._objects.pop(key, None)

    def was_removed(self, name: str) -> bool:
        """Return True if there was an object of this name, in no namespace, lately and is none now."""
        return ("", name) not in self._objects and ("", name) in self._removed


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What must be done before a Pod is bound to a node: volumes to keep for claims, and claims to provision."""

    keep: tuple[tuple[storage.Volume, storage.VolumeClaim], ...]
    make: tuple[storage.VolumeClaim, ...]


class _Offers(NamedTuple):
    """The volumes that name no claim, by class, and the others by the claim that they name, as of one version."""

    version: int
    unclaimed: Mapping[str, Sequence[storage.Volume]]
    claimed: Mapping[Key, Sequence[storage.Volume]]


class Storage:
    """The mirrored storage objects of one cluster; empty if the API serves none."""

    def __init__(self) -> None:
        self.volume_claims: Table[storage.VolumeClaim] = Table()
        self.volumes: Table[storage.Volume] = Table()
        self.classes: Table[storage.StorageClass] = Table()
        self.csi_nodes: Table[storage.CsiNode] = Table()
        self.attachments: Table[storage.Attachment] = Table()
        self.drivers: Table[storage.CsiDriver] = Table()
        self.capacities: Table[storage.StorageCapacity] = Table()
        # Collection -> why it is not known.
        self._lacking: dict[str, str] = {}
        # Volume name -> UID of the claim, and UID of the claim -> node: decided, and not shown by the API yet. For how
        # many Pods, by either key: several may use one claim.
        self._kept: dict[str, str] = {}
        self._chosen: dict[str, str] = {}
        self._promised: collections.Counter[str] = collections.Counter()
        # Of thousands of volumes, most belong to the claims of others.
        self._offers = _Offers(self.volumes.version, {}, {})

    def lacking(self) -> str | None:
        """Return which collection is not known, so that Pods with claims must wait; None if all are known."""
        return next((f"{what}: {why}" for what, why in self._lacking.items()), None)

    def note_lacking(self, what: str, why: str | None) -> None:
        """Note why a collection is not known; None: it is."""
        if why is None:
            self._lacking.pop(what, None)
        else:
            self._lacking[what] = why

    def selected_node(self, claim: storage.VolumeClaim) -> str:
        """Return the node for which a claim's volume is being provisioned; "" if none is chosen."""
        return claim.selected_node or self._chosen.get(claim.uid, "")

    def is_kept_for(self, volume: storage.Volume, claim: storage.VolumeClaim) -> bool:
        """Return True if the volume already names the claim, or is kept for it."""
        if volume.claim is None:
            return self._kept.get(volume.name) == claim.uid
        named = (volume.claim.namespace, volume.claim.name) == (claim.namespace, claim.name)
        return named and volume.claim.uid in ("", claim.uid)

    def is_free(self, volume: storage.Volume) -> bool:
        """Return True if the volume names no claim and is kept for none."""
        return volume.claim is None and volume.name not in self._kept

    def promise(self, plan: Plan, node: str) -> None:
        """Keep the plan's volumes for a Pod on `node`, until `release`."""
        for volume, claim in plan.keep:
            self._kept[volume.name] = claim.uid
            self._promised[volume.name] += 1
        for claim in plan.make:
            self._chosen[claim.uid] = node
            self._promised[claim.uid] += 1

    def fork(self) -> "Storage":
        """Return a copy of the same objects, to which promises can be added on trial."""
        copied = copy.copy(self)
        copied._kept, copied._chosen = dict(self._kept), dict(self._chosen)
        copied._promised = self._promised.copy()
        return copied

    def release(self, plan: Plan) -> None:
        """Forget a plan that was promised: it failed, or the API shows its result now."""
        for volume, _ in plan.keep:
            self._release(self._kept, volume.name)
        for claim in plan.make:
            self._release(self._chosen, claim.uid)

    def waits_for(self, uses: Iterable[constraints.VolumeClaimUse]) -> str | None:
        """Return why a Pod with these claims must wait whatever the node; None if a node may be found."""
        lacking = self.lacking()
        if lacking is not None:
            return lacking
        return next(filter(None, map(self._waits_for, uses)), None)

    def unbound(self, uses: Iterable[constraints.VolumeClaimUse]) -> list[storage.VolumeClaim]:
        """Return the claims whose volume is chosen together with the node, smallest first.

        A claim that a Pod names twice is listed twice and so needs two volumes, as in kube-scheduler.
        """
        return sorted((claim for claim in self._claims(uses) if not claim.is_bound), key=lambda claim: claim.size_bytes)

    def bound_volumes(self, uses: Iterable[constraints.VolumeClaimUse]) -> list[storage.Volume]:
        """Return the volumes of the claims that are bound."""
        volumes = (self.volumes.find(claim.volume) for claim in self._claims(uses) if claim.is_bound)
        return [volume for volume in volumes if volume is not None]

    def are_bound(self, uses: Iterable[constraints.VolumeClaimUse]) -> bool:
        """Return True if every claim exists and is bound."""
        uses = tuple(uses)
        return len(claims := list(self._claims(uses))) == len(uses) and all(claim.is_bound for claim in claims)

    def never_bound(self, uses: Iterable[constraints.VolumeClaimUse]) -> str | None:
        """Return why claims that a node was chosen with will not get usable volumes any more; None if they may."""
        for use in uses:
            claim, named = self.volume_claims.find(use.name, use.namespace), f"PersistentVolumeClaim {use.name}"
            if claim is None:
                return f"{named} was deleted"
            if claim.is_lost or self.volumes.was_removed(claim.volume):
                return f"{named} has lost its PersistentVolume {claim.volume}"
        return None

    def candidates(self, claim: storage.VolumeClaim) -> list[storage.Volume]:
        """Return the volumes that fit an unbound claim, smallest first; only the kept one if there is one."""
        offers = self._offers = self._offers_now()
        offered = *offers.unclaimed.get(claim.storage_class, ()), *offers.claimed.get((claim.namespace, claim.name), ())
        fitting = [volume for volume in offered if _fits(claim, volume)]
        kept = [volume for volume in fitting if self.is_kept_for(volume, claim)]
        if kept:
            return kept
        free = [
            volume
            for volume in fitting
            if self.is_free(volume)
            and volume.is_available
            and selectors.matches(claim.selector, volume.labels)
            and set(claim.access_modes) <= set(volume.access_modes)
        ]
        return sorted(free, key=lambda volume: volume.size_bytes)

    def can_make(self, claim: storage.VolumeClaim) -> storage.StorageClass | None:
        """Return the StorageClass that provisions volumes for the claim; None if none does."""
        found = self.classes.find(claim.storage_class)
        if found is None or found.provisioner in ("", storage.NO_PROVISIONER):
            return None
        return found

    def _offers_now(self) -> _Offers:
        if self._offers.version == self.volumes.version:
            return self._offers
        unclaimed: collections.defaultdict[str, list[storage.Volume]] = collections.defaultdict(list)
        claimed: collections.defaultdict[Key, list[storage.Volume]] = collections.defaultdict(list)
        for volume in self.volumes.all():
            if volume.claim is None:
                unclaimed[volume.storage_class].append(volume)
            else:
                claimed[volume.claim.namespace, volume.claim.name].append(volume)
        return _Offers(self.volumes.version, unclaimed, claimed)

    def _release(self, promises: dict[str, str], key: str) -> None:
        self._promised[key] -= 1
        if not self._promised[key]:
            del self._promised[key], promises[key]

    def _claims(self, uses: Iterable[constraints.VolumeClaimUse]) -> Iterable[storage.VolumeClaim]:
        found = (self.volume_claims.find(use.name, use.namespace) for use in uses)
        return (claim for claim in found if claim is not None)

    def _waits_for(self, use: constraints.VolumeClaimUse) -> str | None:
        claim, named = self.volume_claims.find(use.name, use.namespace), f"PersistentVolumeClaim {use.name}"
        if claim is None:
            return f"{named} not found" + (": waits for its controller" if use.owner_uid is not None else "")
        if use.owner_uid is not None and claim.owner_uid != use.owner_uid:
            return f"{named} was not created for this Pod"
        if claim.is_lost:
            return f"{named} has lost its PersistentVolume {claim.volume}"
        if claim.deleting:
            return f"{named} is being deleted"
        if claim.is_bound:
            missing = self.volumes.find(claim.volume) is None
            return f"{named} is bound to PersistentVolume {claim.volume}, which does not exist" if missing else None
        if claim.volume:
            return f"{named} names PersistentVolume {claim.volume} and is not bound to it yet"
        found = self.classes.find(claim.storage_class) if claim.storage_class else None
        return None if found is not None and found.waits_for_consumer else f"{named} is not bound yet"


def _fits(claim: storage.VolumeClaim, volume: storage.Volume) -> bool:
    """Return True if the volume has the properties that the claim asks for, free or not."""
    return (
        volume.storage_class == claim.storage_class
        and volume.size_bytes >= claim.size_bytes
        and volume.volume_mode == claim.volume_mode
        and volume.attributes_class == claim.attributes_class
        and not volume.deleting
    )
