"""Kubernetes storage objects, reduced to what decides where a Pod with volumes may go."""

import dataclasses
from collections.abc import Mapping

from carico_core.domain import selectors

NO_PROVISIONER = "kubernetes.io/no-provisioner"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class VolumeClaim:
    """A PersistentVolumeClaim. `size_bytes` is what it requests."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    storage_class: str
    # The PersistentVolume that it names, "" if none yet; it is bound once the controller has confirmed it (`is_bound`).
    volume: str
    is_bound: bool
    is_lost: bool
    deleting: bool
    selected_node: str
    access_modes: tuple[str, ...]
    volume_mode: str
    attributes_class: str
    size_bytes: float
    selector: selectors.Selector
    owner_uid: str

    @property
    def is_exclusive(self) -> bool:
        """Whether only one Pod of the whole cluster may use it (ReadWriteOncePod)."""
        return "ReadWriteOncePod" in self.access_modes


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRef:
    """The claim that a volume is reserved for; an empty `uid` means any claim with that name."""

    namespace: str
    name: str
    uid: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A PersistentVolume."""

    name: str
    uid: str
    resource_version: str
    storage_class: str
    # None: usable from every node.
    node_terms: selectors.NodeTerms | None
    labels: Mapping[str, str]
    claim: ClaimRef | None
    is_available: bool
    deleting: bool
    access_modes: tuple[str, ...]
    volume_mode: str
    attributes_class: str
    size_bytes: float
    # The CSI driver and its handle; "" for volumes of another kind.
    driver: str
    handle: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StorageClass:
    """A StorageClass. `topologies`: where it can provision volumes; () is everywhere."""

    name: str
    provisioner: str
    waits_for_consumer: bool
    topologies: selectors.NodeTerms


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CsiNode:
    """The maximum number of volumes that a node attaches, per CSI driver that reports a limit."""

    name: str
    limits: Mapping[str, int]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """A Namespace's labels, for terms that select namespaces."""

    name: str
    labels: Mapping[str, str]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A VolumeAttachment: a volume that a CSI driver has attached to a node, whether or not a Pod uses it there."""

    name: str
    node: str
    driver: str
    volume: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CsiDriver:
    """A CSIDriver; `tracks_capacity`: it publishes CSIStorageCapacity objects."""

    name: str
    tracks_capacity: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StorageCapacity:
    """A CSIStorageCapacity: the largest volume that a class can provision on the nodes that the selector matches."""

    namespace: str
    name: str
    storage_class: str
    nodes: selectors.Selector
    largest_bytes: float | None
