"""What a Pod is made of, as far as recommended requests depend on it: images, containers, requests."""

import hashlib

from carico_core.domain import usage
from carico_core.wire.kubernetes import object_fields as fields
from carico_core.wire.kubernetes import pod_requests

# Enough to tell images apart: two different ones have the same digest once in 2^64.
_DIGITS = 16


def parse_template(obj: pod_requests.Object) -> usage.Template:
    """Return the template of a Pod's API object. Raises `ValueError` with the path of the bad field."""
    spec = fields.mapping(obj, "spec")
    containers = fields.objects(spec, "containers", "spec.")
    images = [fields.optional(each, "image", "spec.containers.") for each in containers]
    requests = pod_requests.rounded(pod_requests.pod_requests(obj))
    return usage.Template(
        image=hashlib.sha256("\n".join(images).encode()).hexdigest()[:_DIGITS],
        containers=tuple(fields.required(each, "name", "spec.containers.") for each in containers),
        requests={dim: requests[dim] for dim in usage.DIMS if requests.get(dim, 0.0) > 0.0},
    )
