"""Container images: those that a Pod needs, and those that a node has."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from carico_core.domain import cluster
from carico_core.wire.kubernetes import object_fields as fields

# https://kubernetes.io/docs/concepts/containers/images/#image-names
_DEFAULT_TAG = ":latest"
# Pods of one template share a record, unless their names are longer: see `shared_values.SHARED_MOST`.
_SHARED_MOST = 4096
_SHARED_CHARS = 2048


def parse_images(spec: Mapping[str, Any], containers: Sequence[Mapping[str, Any]]) -> cluster.Images:
    """Return the images of a Pod with these containers. Raises `ValueError` with the path of the bad field."""
    initial = fields.objects(spec, "initContainers", "spec.")
    found = [fields.optional(each, "image", "spec.containers[].") for each in (*initial, *containers)]
    volumes = [fields.mapping(each, "image") for each in fields.objects(spec, "volumes", "spec.")]
    found += [fields.optional(each, "reference", "spec.volumes[].image.") for each in volumes]
    names, count = tuple(found), len(initial) + len(containers)
    return (_images if sum(map(len, names)) <= _SHARED_CHARS else _images.__wrapped__)(names, count)


def parse_node_images(status: Mapping[str, Any]) -> tuple[cluster.NodeImage, ...]:
    """Return the images that a node reports. Raises `ValueError` with the path of the bad field."""
    return tuple(
        cluster.NodeImage(fields.words(each, "names"), fields.integer(each, "sizeBytes", "status.images[]."))
        for each in fields.objects(status, "images", "status.")
    )


def with_tag(name: str) -> str:
    """Return an image's name with its tag or digest, as kubelets report it.

    >>> with_tag("registry:5000/pi"), with_tag("pi:1")
    ('registry:5000/pi:latest', 'pi:1')
    """
    return name if name.rfind(":") > name.rfind("/") else name + _DEFAULT_TAG


@functools.lru_cache(maxsize=_SHARED_MOST)
def _images(names: tuple[str, ...], containers: int) -> cluster.Images:
    return cluster.Images(tuple(with_tag(each) for each in names if each), containers)
