"""What a Pod is made of, as far as recommended requests depend on it: images, containers, requests."""

import functools
import hashlib
from collections.abc import Mapping, Sequence

from carico_core.domain import names as valid_names
from carico_core.domain import usage
from carico_core.wire import fields as bounds
from carico_core.wire.kubernetes import object_fields as fields

# Enough to distinguish images: two different ones have the same digest once in 2^64.
_DIGITS = 16
# Enough to distinguish the containers of a Pod: hex digits of 64, as in the names of their cgroups.
ID_CHARS = 12
# Bounds of the cache: Pods of one template share it.
_MOST = 4096
_CHARS = 2048


def template_of(
    containers: Sequence[Mapping[str, object]], requests: Mapping[str, float], *,
    priority_class: str = "", has_deadline: bool = False, crosses_namespaces: bool = False,
) -> usage.Template | None:  # fmt: skip
    """Return the template of a Pod from its containers, and the requests of the whole Pod. Raises `ValueError`.

    None if a message cannot hold it: the readers of that message would refuse what it says of other Pods, too.
    """
    images = tuple([fields.optional(each, "image", "spec.containers.") for each in containers])
    names = tuple(filter(None, [fields.optional(each, "name", "spec.containers.") for each in containers]))
    wanted = tuple([(dim, requests[dim]) for dim in usage.DIMS if requests.get(dim, 0.0) > 0.0])
    if len(names) > bounds.CONTAINERS_MAX or any(amount > bounds.QUANTITY_MAX for _, amount in wanted):
        return None
    if len(priority_class) > valid_names.SUBDOMAIN_MAX:
        return None
    is_shared = sum(map(len, images)) + sum(map(len, names)) <= _CHARS
    make = _template if is_shared else _template.__wrapped__
    return make(images, names, wanted, priority_class, has_deadline, crosses_namespaces)


def container_ids(status: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Return the beginning of each container's id, and its name; without those that have not started.

    Raises `ValueError`.
    """
    path = "status.containerStatuses."
    found = [
        (fields.optional(each, "containerID", path).rpartition("//")[2][:ID_CHARS], fields.optional(each, "name", path))
        for each in fields.objects(status, "containerStatuses", "status.")[: bounds.CONTAINERS_MAX]
    ]
    return tuple(each for each in found if all(each))


@functools.lru_cache(maxsize=_MOST)
def _template(
    images: tuple[str, ...], names: tuple[str, ...], requests: tuple[tuple[str, float], ...],
    priority_class: str, has_deadline: bool, crosses_namespaces: bool,
) -> usage.Template:  # fmt: skip
    return usage.Template(
        image=hashlib.sha256("\n".join(images).encode()).hexdigest()[:_DIGITS],
        containers=names,
        requests=dict(requests),
        priority_class=priority_class,
        has_deadline=has_deadline,
        crosses_namespaces=crosses_namespaces,
    )
