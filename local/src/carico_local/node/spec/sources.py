"""Sources of a container's variables other than literals (fields, resources, objects), and its volume mounts."""

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any

from carico_core.domain import amounts

Object = Mapping[str, Any]

# A kubelet's names of the kinds in its "not found" errors.
CONFIG_MAP, SECRET = "configmap", "secret"
_KEYS = {"configMapKeyRef": CONFIG_MAP, "secretKeyRef": SECRET}
_WHOLE = {"configMapRef": CONFIG_MAP, "secretRef": SECRET}
_LABEL_FIELD = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
_METADATA_FIELDS = frozenset({"metadata.name", "metadata.namespace", "metadata.uid"})
_FIELDS = _METADATA_FIELDS | {
    "spec.nodeName", "status.podIP", "status.podIPs", "status.hostIP", "status.hostIPs", "spec.serviceAccountName",
}  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRef:
    """A variable with an amount of a container's resources. `stated` None: a limit that is not set."""

    resource: str
    stated: float | None
    divisor: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KeyRef:
    """A variable with the value of one key of a ConfigMap or Secret."""

    kind: str
    name: str
    key: str
    optional: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WholeRef:
    """Variables for all keys of a ConfigMap or Secret, each named `prefix` plus the key."""

    kind: str
    name: str
    prefix: str
    optional: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A volume of the Pod at a path in the container."""

    volume: str
    path: str
    sub_path: str


def is_known_field(path: str) -> bool:
    """Return True where a variable may refer to this field of the Pod."""
    return path in _FIELDS or _LABEL_FIELD.fullmatch(path) is not None


def metadata_field(path: str, metadata: Object) -> str | None:
    """Return a field of a Pod's metadata, empty where it is not set; None for any other field.

    >>> metadata_field("metadata.labels['a']", {"labels": {"a": "1"}}), metadata_field("spec.nodeName", {})
    ('1', None)
    """
    if chosen := _LABEL_FIELD.fullmatch(path):
        return str((metadata.get(chosen[1]) or {}).get(chosen[2], ""))
    return str(metadata.get(path.removeprefix("metadata."), "")) if path in _METADATA_FIELDS else None


def key_ref(source: Object) -> KeyRef | None:
    """Return the key of an object that a `valueFrom` refers to; None where it refers to something else."""
    for field, kind in _KEYS.items():
        if wanted := source.get(field):
            return KeyRef(
                kind=kind, name=wanted.get("name") or "", key=wanted["key"], optional=bool(wanted.get("optional"))
            )
    return None


def whole_refs(item: Object) -> tuple[WholeRef, ...]:
    """Return the objects in a container's `envFrom`, in order."""
    return tuple(
        WholeRef(
            kind=kind, name=entry[field].get("name") or "", prefix=entry.get("prefix") or "",
            optional=bool(entry[field].get("optional")),
        )
        for entry in item.get("envFrom") or ()
        for field, kind in _WHOLE.items()
        if field in entry
    )  # fmt: skip


def resource_ref(reference: Object, items: Mapping[str, Object], own: str) -> ResourceRef:
    """Return the amount that a resourceFieldRef of container `own` refers to; `items`: the Pod's containers by name."""
    kind, _, resource = reference["resource"].partition(".")
    resources = (items.get(reference.get("containerName") or own) or {}).get("resources") or {}
    text = (resources.get(kind) or {}).get(resource)
    if kind == "requests" and text is None:
        text = (resources.get("limits") or {}).get(resource, "0")
    divisor = amounts.parse_quantity(str(reference.get("divisor") or "1")) or 1.0
    return ResourceRef(
        resource=resource, stated=None if text is None else amounts.parse_quantity(text), divisor=divisor
    )  # fmt: skip


def amount(ref: ResourceRef, node: Mapping[str, float]) -> str:
    """Return the amount in divisors, rounded up; a limit that is not set is the node's capacity, as in a kubelet.

    >>> amount(ResourceRef(resource="cpu", stated=1.5, divisor=1.0), {}), amount(
    ...     ResourceRef(resource="memory", stated=None, divisor=2.0**20), {"memory": 2.0**30})
    ('2', '1024')
    """
    value = node.get(ref.resource, 0.0) if ref.stated is None else ref.stated
    # Tolerance for rounding errors such as 0.3 / 0.1.
    return str(math.ceil(value / ref.divisor - 1e-6))


def mounts(item: Object, volumes: frozenset[str]) -> tuple[Mount, ...]:
    """Return the mounts of the Pod's own volumes in a container, the longest path first."""
    found = [
        Mount(volume=each["name"], path=each["mountPath"].rstrip("/"), sub_path=each.get("subPath") or "")
        for each in item.get("volumeMounts") or ()
        if each["name"] in volumes and each["mountPath"].strip("/")
    ]
    return tuple(sorted(found, key=lambda mount: -len(mount.path)))


def moved(text: str, places: Mapping[str, str]) -> str:
    """Return `text` with each mount path replaced by its directory on this machine; `places`: directory by path.

    There is no image file system to mount volumes into, so the command's arguments are changed instead.

    >>> moved("echo a > /cache/b; ls /cached /cache", {"/cache": "/n/v"})
    'echo a > /n/v/b; ls /cached /n/v'
    """
    if not places:
        return text
    either = "|".join(re.escape(path) for path in sorted(places, key=len, reverse=True))
    return re.sub(rf"(?<![\w./-])(?:{either})(?![\w.-])", lambda found: places[found[0]], text)
