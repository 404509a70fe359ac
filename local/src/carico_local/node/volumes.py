"""The volumes of a Pod that an emulated node knows: folders of its own, places of the machine, claims, API objects.

Source: kubernetes/pkg/volume/hostpath and pkg/kubelet/volumemanager/populator/desired_state_of_world_populator.go.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from carico_local.node import sources

Object = Mapping[str, Any]

# The API server mounts its token here by itself; commands that do not use it need not miss it.
TOKEN_VOLUME = "kube-api-access"
# Where a volume of one of these has the object's name; in a projected volume it is always `name`.
_OBJECTS = (("configMap", sources.CONFIG_MAP, "name"), ("secret", sources.SECRET, "secretName"))
# rw-r--r--: pkg/apis/core/v1/defaults.go
_FILES_MODE = 0o644


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EmptyDir:
    """A folder that comes and goes with the Pod."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostPath:
    """A place of the machine; `type` as the API has it, empty: whatever is there."""

    path: str
    type: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a PersistentVolumeClaim of the Pod's namespace is bound to. `is_own`: made for this Pod alone."""

    name: str
    read_only: bool = False
    is_own: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KeyFile:
    """The file of one key; `mode` None: the volume's."""

    key: str
    path: str
    mode: int | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ObjectFiles:
    """Files of a ConfigMap or a Secret: those of `items`, or of each key where there are none."""

    kind: str
    name: str
    items: tuple[KeyFile, ...]
    optional: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FieldFile:
    """The file of one field of the Pod, or of an amount of a container's resources."""

    path: str
    source: str | sources.ResourceRef
    mode: int | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FieldFiles:
    """Files of the Pod's own fields."""

    items: tuple[FieldFile, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Projected:
    """Files of objects and fields, together in one folder that containers cannot write to."""

    parts: tuple[ObjectFiles | FieldFiles, ...]
    mode: int

    @property
    def is_secret(self) -> bool:
        """True where files of a Secret are among them."""
        return any(isinstance(part, ObjectFiles) and part.kind == sources.SECRET for part in self.parts)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """What is not there, or not on an emulated node; `why` as a kubelet says it."""

    why: str


Source = EmptyDir | HostPath | Claim | Projected | Absent


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """One volume of a Pod."""

    name: str
    source: Source


def parse(spec: Object, *, pod: str, containers: Mapping[str, Object]) -> tuple[Volume, ...]:
    """The volumes of the Pod named `pod`; `containers`: the API's, by name."""
    found = [(str(volume.get("name", "")), _source(volume, pod, containers)) for volume in spec.get("volumes") or ()]
    return tuple(Volume(name=name, source=source) for name, source in found if source is not None)


def _source(volume: Object, pod: str, containers: Mapping[str, Object]) -> Source | None:
    name = str(volume.get("name", ""))
    if name.startswith(TOKEN_VOLUME):
        return None
    if "emptyDir" in volume:
        return EmptyDir()
    if place := volume.get("hostPath"):
        return HostPath(path=place["path"], type=place.get("type") or "")
    if claim := volume.get("persistentVolumeClaim"):
        return Claim(name=claim["claimName"], read_only=bool(claim.get("readOnly")))
    if "ephemeral" in volume:
        return Claim(name=f"{pod}-{name}", is_own=True)
    for key, kind, field in _OBJECTS:
        if key in volume:
            part = _object_files(volume[key], kind, field)
            return Projected(parts=(part,), mode=_mode(volume[key]))
    if "downwardAPI" in volume:
        return Projected(parts=(_field_files(volume["downwardAPI"], containers),), mode=_mode(volume["downwardAPI"]))
    if "projected" in volume:
        return _projected(name, volume["projected"], containers)
    kinds = ", ".join(key for key in volume if key != "name")
    return absent(name, f"an emulated node has no volumes of the kind {kinds}")


def _projected(name: str, projected: Object, containers: Mapping[str, Object]) -> Projected | Absent:
    parts: list[ObjectFiles | FieldFiles] = []
    for source in projected.get("sources") or ():
        known = list(_parts(source, containers))
        if source and not known:
            kinds = ", ".join(source)
            return absent(name, f"an emulated node has no projections of the kind {kinds}")
        parts += known
    return Projected(parts=tuple(parts), mode=_mode(projected))


def _parts(source: Object, containers: Mapping[str, Object]) -> Iterator[ObjectFiles | FieldFiles]:
    for key, kind, _ in _OBJECTS:
        if key in source:
            yield _object_files(source[key], kind, "name")
    if "downwardAPI" in source:
        yield _field_files(source["downwardAPI"], containers)


def _object_files(source: Object, kind: str, field: str) -> ObjectFiles:
    items = tuple(
        KeyFile(key=item["key"], path=item["path"], mode=item.get("mode")) for item in source.get("items") or ()
    )
    return ObjectFiles(
        kind=kind, name=source.get(field) or "", items=items, optional=bool(source.get("optional"))
    )  # fmt: skip


def _field_files(source: Object, containers: Mapping[str, Object]) -> FieldFiles:
    items = []
    for item in source.get("items") or ():
        if reference := item.get("resourceFieldRef"):
            found: str | sources.ResourceRef = sources.resource_ref(reference, containers, "")
        else:
            found = item["fieldRef"]["fieldPath"]
        items.append(FieldFile(path=item["path"], source=found, mode=item.get("mode")))
    return FieldFiles(items=tuple(items))


def _mode(source: Object) -> int:
    mode = source.get("defaultMode")
    return _FILES_MODE if mode is None else int(mode)


def absent(name: str, why: str) -> Absent:
    """What stands in for a volume that cannot be had, in the kubelet's words."""
    return Absent(why=f'MountVolume.SetUp failed for volume "{name}" : {why}')
