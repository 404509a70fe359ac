"""Storage objects of the API, and Namespaces -> `carico_core.domain.storage`; parsers raise `ValueError`."""

from carico_core.domain import storage
from carico_core.wire.kubernetes import object_fields as fields
from carico_core.wire.kubernetes import selectors as parse
from carico_core.wire.kubernetes.pods import pod_requests as requests

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
# The class of claims and volumes written before spec.storageClassName.
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_ZONES = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_REGIONS = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")
# Separates several zones in one label of a volume: https://kubernetes.io/docs/reference/labels-annotations-taints/
_ZONE_SEPARATOR = "__"


def parse_volume_claim(obj: fields.Object) -> storage.VolumeClaim:
    """Return the PersistentVolumeClaim that an API object describes."""
    metadata, spec, status = (fields.mapping(obj, key) for key in ("metadata", "spec", "status"))
    annotations = fields.texts(metadata, "annotations", "metadata.")
    volume, phase = fields.optional(spec, "volumeName", "spec."), fields.optional(status, "phase", "status.")
    owners = fields.objects(metadata, "ownerReferences", "metadata.")
    return storage.VolumeClaim(
        namespace=fields.required(metadata, "namespace", "metadata."),
        name=fields.required(metadata, "name", "metadata."),
        uid=fields.optional(metadata, "uid", "metadata."),
        resource_version=fields.optional(metadata, "resourceVersion", "metadata."),
        storage_class=annotations.get(_CLASS_ANNOTATION, fields.optional(spec, "storageClassName", "spec.")),
        volume=volume,
        is_bound=bool(volume) and BIND_COMPLETED in annotations,
        is_lost=phase == "Lost",
        deleting=metadata.get("deletionTimestamp") is not None,
        selected_node=annotations.get(SELECTED_NODE, ""),
        access_modes=fields.words(spec, "accessModes", "spec."),
        volume_mode=fields.optional(spec, "volumeMode", "spec.") or "Filesystem",
        attributes_class=fields.optional(spec, "volumeAttributesClassName", "spec."),
        size_bytes=_storage_bytes(fields.mapping(spec, "resources", "spec."), "requests"),
        selector=parse.label_selector(spec, "selector", "spec.") if spec.get("selector") is not None else (),
        owner_uid=next((fields.optional(each, "uid") for each in owners if each.get("controller") is True), ""),
    )


def parse_volume(obj: fields.Object) -> storage.Volume:
    """Return the PersistentVolume that an API object describes."""
    metadata, spec, status = (fields.mapping(obj, key) for key in ("metadata", "spec", "status"))
    annotations = fields.texts(metadata, "annotations", "metadata.")
    labels, csi = fields.texts(metadata, "labels", "metadata."), fields.mapping(spec, "csi", "spec.")
    affinity = fields.mapping(spec, "nodeAffinity", "spec.")
    terms = None
    if affinity.get("required") is not None:
        terms = parse.node_terms(fields.mapping(affinity, "required", "spec.nodeAffinity."), "spec.nodeAffinity.")
    return storage.Volume(
        name=fields.required(metadata, "name", "metadata."),
        uid=fields.optional(metadata, "uid", "metadata."),
        resource_version=fields.optional(metadata, "resourceVersion", "metadata."),
        storage_class=annotations.get(_CLASS_ANNOTATION, fields.optional(spec, "storageClassName", "spec.")),
        node_terms=terms,
        labels=labels,
        claim=_claim_ref(spec),
        is_available=fields.optional(status, "phase", "status.") == "Available",
        deleting=metadata.get("deletionTimestamp") is not None,
        access_modes=fields.words(spec, "accessModes", "spec."),
        volume_mode=fields.optional(spec, "volumeMode", "spec.") or "Filesystem",
        attributes_class=fields.optional(spec, "volumeAttributesClassName", "spec."),
        size_bytes=_storage_bytes(spec, "capacity"),
        driver=fields.optional(csi, "driver", "spec.csi."),
        handle=fields.optional(csi, "volumeHandle", "spec.csi."),
    )


def zones_of(volume: storage.Volume) -> list[tuple[tuple[str, ...], frozenset[str]]]:
    """Return where a volume's labels place it: names of the node's label (one must match), and allowed values."""
    found: list[tuple[tuple[str, ...], frozenset[str]]] = []
    for names in (_ZONES, _REGIONS):
        for name in names:
            if name in volume.labels:
                values = frozenset(volume.labels[name].split(_ZONE_SEPARATOR))
                # A volume's older name also matches a node's newer one, but not the reverse.
                found.append((names if name == names[0] else (name,), values))
    return found


ZONE_LABELS = _ZONES + _REGIONS


def parse_class(obj: fields.Object) -> storage.StorageClass:
    """Return the StorageClass that an API object describes."""
    return storage.StorageClass(
        name=fields.required(fields.mapping(obj, "metadata"), "name", "metadata."),
        provisioner=fields.optional(obj, "provisioner"),
        waits_for_consumer=fields.optional(obj, "volumeBindingMode") == "WaitForFirstConsumer",
        topologies=parse.topology_terms(obj),
    )


def parse_csi_node(obj: fields.Object) -> storage.CsiNode:
    """Return the CSINode that an API object describes."""
    limits = {}
    for driver in fields.objects(fields.mapping(obj, "spec"), "drivers", "spec."):
        allocatable = fields.mapping(driver, "allocatable", "spec.drivers.")
        if allocatable.get("count") is not None:
            name = fields.required(driver, "name", "spec.drivers.")
            limits[name] = fields.integer(allocatable, "count", "spec.drivers.allocatable.")
    return storage.CsiNode(name=fields.required(fields.mapping(obj, "metadata"), "name", "metadata."), limits=limits)


def parse_attachment(obj: fields.Object) -> storage.Attachment:
    """Return the VolumeAttachment that an API object describes."""
    spec = fields.mapping(obj, "spec")
    return storage.Attachment(
        name=fields.required(fields.mapping(obj, "metadata"), "name", "metadata."),
        node=fields.optional(spec, "nodeName", "spec."),
        driver=fields.optional(spec, "attacher", "spec."),
        volume=fields.optional(fields.mapping(spec, "source", "spec."), "persistentVolumeName", "spec.source."),
    )


def parse_driver(obj: fields.Object) -> storage.CsiDriver:
    """Return the CSIDriver that an API object describes."""
    return storage.CsiDriver(
        name=fields.required(fields.mapping(obj, "metadata"), "name", "metadata."),
        tracks_capacity=fields.mapping(obj, "spec").get("storageCapacity") is True,
    )


def parse_capacity(obj: fields.Object) -> storage.StorageCapacity:
    """Return the CSIStorageCapacity that an API object describes."""
    metadata = fields.mapping(obj, "metadata")
    stated = obj.get("maximumVolumeSize") if obj.get("maximumVolumeSize") is not None else obj.get("capacity")
    return storage.StorageCapacity(
        namespace=fields.required(metadata, "namespace", "metadata."),
        name=fields.required(metadata, "name", "metadata."),
        storage_class=fields.optional(obj, "storageClassName"),
        nodes=parse.label_selector(obj, "nodeTopology", ""),
        largest_bytes=None
        if stated is None
        else requests.amounts({"size": {"storage": stated}}, "size", "")["storage"],
    )


def parse_namespace(obj: fields.Object) -> storage.Namespace:
    """Return the Namespace that an API object describes."""
    metadata = fields.mapping(obj, "metadata")
    return storage.Namespace(
        name=fields.required(metadata, "name", "metadata."), labels=fields.texts(metadata, "labels", "metadata.")
    )


def selected_node_body(*, node: str, resource_version: str) -> dict[str, object]:
    """Return a merge patch that requests a claim's volume on `node`, if the claim has not changed."""
    return {"metadata": {"annotations": {SELECTED_NODE: node}, "resourceVersion": resource_version}}


def prebind_body(volume: storage.Volume, claim: storage.VolumeClaim) -> dict[str, object]:
    """Return a merge patch that reserves a volume for a claim, if the volume has not changed."""
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.namespace,
        "name": claim.name,
        "uid": claim.uid,
        "resourceVersion": claim.resource_version,
    }
    metadata: dict[str, object] = {"resourceVersion": volume.resource_version}
    if volume.claim is None:
        metadata["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
    return {"metadata": metadata, "spec": {"claimRef": reference}}


def _claim_ref(spec: fields.Object) -> storage.ClaimRef | None:
    if spec.get("claimRef") is None:
        return None
    found = fields.mapping(spec, "claimRef", "spec.")
    return storage.ClaimRef(
        namespace=fields.optional(found, "namespace", "spec.claimRef."),
        name=fields.optional(found, "name", "spec.claimRef."),
        uid=fields.optional(found, "uid", "spec.claimRef."),
    )


def _storage_bytes(obj: fields.Object, key: str) -> float:
    return requests.amounts(obj, key, "spec.").get("storage", 0.0)
