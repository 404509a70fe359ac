"""Where a container's variables and files come from besides its own words: fields, resources, objects, volumes.

The embedded API keeps no ConfigMaps and no Secrets, and none are read of a real one: what is not optional is missing.
"""

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any

from carico_core.domain import quantity

Object = Mapping[str, Any]

_OBJECTS = {
    "configMapKeyRef": "configmap",
    "secretKeyRef": "secret",
    "configMapRef": "configmap",
    "secretRef": "secret",
}
LABEL_FIELD = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
_FIELDS = frozenset(
    {
        "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "status.podIP", "status.podIPs",
        "status.hostIP", "status.hostIPs", "spec.serviceAccountName",
    }
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRef:
    """An amount of a container's resources in a variable. `stated` None: a limit that is not set."""

    resource: str
    stated: float | None
    divisor: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A volume of the Pod at a path of the container."""

    volume: str
    path: str
    sub_path: str = ""
    read_only: bool = False


def is_known_field(path: str) -> bool:
    """True for a field of the Pod that a variable may refer to."""
    return path in _FIELDS or LABEL_FIELD.fullmatch(path) is not None


def not_read(kind: str, name: str) -> str:
    """What is said of a ConfigMap or Secret: a kubelet's words, and why, since a real API may well have it."""
    return f'{kind} "{name}" not found: emulated nodes read no ConfigMaps and no Secrets'


def missing(item: Object) -> str:
    """What a container's variables refer to and is not there, as the kubelet says it; empty where all is there."""
    references = [(entry.get("valueFrom") or {}) for entry in item.get("env") or ()] + list(item.get("envFrom") or ())
    for reference in references:
        for key, kind in _OBJECTS.items():
            wanted = reference.get(key)
            if wanted and not wanted.get("optional"):
                return not_read(kind, wanted.get("name", ""))
    return ""


def resource_ref(reference: Object, items: Mapping[str, Object], own: str) -> ResourceRef:
    """What a resourceFieldRef of container `own` speaks of; `items` are the Pod's containers by name."""
    kind, _, resource = reference["resource"].partition(".")
    resources = (items.get(reference.get("containerName") or own) or {}).get("resources") or {}
    text = (resources.get(kind) or {}).get(resource)
    if kind == "requests" and text is None:
        text = (resources.get("limits") or {}).get(resource, "0")
    divisor = quantity.parse_quantity(str(reference.get("divisor") or "1")) or 1.0
    return ResourceRef(
        resource=resource, stated=None if text is None else quantity.parse_quantity(text), divisor=divisor
    )  # fmt: skip


def amount(ref: ResourceRef, node: Mapping[str, float]) -> str:
    """The amount in divisors, rounded up; a limit that is not set is what the node has, as the kubelet has it.

    >>> amount(ResourceRef(resource="cpu", stated=1.5, divisor=1.0), {}), amount(
    ...     ResourceRef(resource="memory", stated=None, divisor=2.0**20), {"memory": 2.0**30})
    ('2', '1024')
    """
    value = node.get(ref.resource, 0.0) if ref.stated is None else ref.stated
    # A little slack, for floats: 0.3 / 0.1.
    return str(math.ceil(value / ref.divisor - 1e-6))


def mounts(item: Object, volumes: frozenset[str]) -> tuple[Mount, ...]:
    """Where a container has the Pod's own volumes, the deepest path first."""
    found = [
        Mount(
            volume=each["name"], path=each["mountPath"].rstrip("/"), sub_path=each.get("subPath") or "",
            read_only=bool(each.get("readOnly")),
        )
        for each in item.get("volumeMounts") or ()
        if each["name"] in volumes and each["mountPath"].strip("/")
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda mount: -len(mount.path)))


def moved(text: str, places: Mapping[str, str]) -> str:
    """`text` with each path of a mount, `places` by path, replaced by the folder it stands for.

    There are no image filesystems here to mount anything into, so what a command names is changed instead.

    >>> moved("echo a > /cache/b; ls /cached /cache", {"/cache": "/n/v"})
    'echo a > /n/v/b; ls /cached /n/v'
    """
    if not places:
        return text
    either = "|".join(re.escape(path) for path in sorted(places, key=len, reverse=True))
    return re.sub(rf"(?<![\w./-])(?:{either})(?![\w.-])", lambda found: places[found[0]], text)
