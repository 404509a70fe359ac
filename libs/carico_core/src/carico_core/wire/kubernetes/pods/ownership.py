"""Who a Pod belongs to: its controller, or its node."""

from collections.abc import Mapping, Set
from typing import TYPE_CHECKING

from carico_core.domain import names
from carico_core.wire.kubernetes import object_fields as fields
from carico_core.wire.kubernetes.object_fields import Object

if TYPE_CHECKING:
    # It imports the records of Pods, which the class of a Pod does not need.
    from carico_core.wire.kubernetes.pods import shared_values

# The kubelet's annotation of a mirror Pod.
# https://kubernetes.io/docs/reference/labels-annotations-taints/#kubernetes-io-config-mirror
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"


def owner_of(metadata: Object, labels: Mapping[str, str]) -> "shared_values.Texts | None":
    """Return kind, name and UID of what decides on a Pod's class.

    A surge Pod's first owner, its ReplicaSet, will control it: it is of the same class of Pods as the others. The label
    is there some milliseconds before the ReplicaSet's controller has seen it.
    """
    found = _owner(metadata)
    if found is None and (names.SURGE_LABEL in labels or names.TEMPLATE_HASH in labels):
        return _owner(metadata, must_control=False)
    return found


def is_mirror(metadata: Object, spec: Object) -> bool:
    """Return whether it is a mirror Pod (the API's copy of a static Pod): annotated, and owned by the Node it names.

    The API server accepts the annotation only at creation, and only on a Pod that names its node, so such a Pod was
    never to be scheduled. With NodeRestriction a kubelet can create mirror Pods of its own node only, and a kubelet
    deletes a mirror Pod without static Pod instead of running it.
    """
    if MIRROR_ANNOTATION not in fields.mapping(metadata, "annotations", "metadata."):
        return False
    owner, node = _owner(metadata), fields.optional(spec, "nodeName", "spec.")
    return bool(node) and owner is not None and owner[:2] == ("Node", node)


def belongs_to_node(obj: Object, baseline_namespaces: Set[str] = frozenset()) -> bool:
    """Return whether a Pod belongs to its node and is no workload, as far as the Pod's own object shows.

    Such are mirror Pods, Pods that name a DaemonSet as their controller, and Pods of `baseline_namespaces`. Whether the
    DaemonSet exists is not checked, so no Pod may be admitted because of this.
    """
    metadata = fields.mapping(obj, "metadata")
    owner = _owner(metadata)
    return (
        fields.optional(metadata, "namespace", "metadata.") in baseline_namespaces
        or (owner is not None and owner[0] == "DaemonSet")
        or is_mirror(metadata, fields.mapping(obj, "spec"))
    )


def _owner(metadata: Object, *, must_control: bool = True) -> "shared_values.Texts | None":
    """Return kind, name and UID of the controlling owner, or of the first one."""
    for index, reference in enumerate(fields.objects(metadata, "ownerReferences", "metadata.")):
        if reference.get("controller") is True or not must_control:
            path = f"metadata.ownerReferences[{index}]."
            kind, name = fields.required(reference, "kind", path), fields.required(reference, "name", path)
            return kind, name, fields.optional(reference, "uid", path)
    return None
