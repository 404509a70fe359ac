"""The class of a Pod, for readers of its API object who need nothing else of it."""

from carico_core.domain import names
from carico_core.wire.kubernetes import object_fields as fields
from carico_core.wire.kubernetes.object_fields import Object
from carico_core.wire.kubernetes.pods import ownership


def parse_class(obj: Object) -> str:
    """Return `names.class_of` of the Pod that an API object describes, without reading the rest of the object.

    Raises `ValueError` with the path of the bad field.
    """
    metadata, spec = fields.mapping(obj, "metadata"), fields.mapping(obj, "spec")
    labels = fields.texts(metadata, "labels", "metadata.")
    owner = ownership.owner_of(metadata, labels)
    containers = fields.objects(spec, "containers", "spec.")
    return names.class_by(
        fields.required(metadata, "namespace", "metadata."),
        labels=labels,
        owner=None if owner is None else (owner[0], owner[1]),
        image=fields.optional(containers[0], "image", "spec.containers[0].") if containers else "",
    )
