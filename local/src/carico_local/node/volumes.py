"""The volumes of a Pod that an emulated node knows: folders of its own, places of the machine, claims on either.

Source: kubernetes/pkg/volume/hostpath and pkg/kubelet/volumemanager/populator/desired_state_of_world_populator.go.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from carico_local.node import sources

Object = Mapping[str, Any]

# The API server mounts its token here by itself; commands that do not use it need not miss it.
TOKEN_VOLUME = "kube-api-access"
_OBJECTS = (("configMap", "configmap", "name"), ("secret", "secret", "secretName"))


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
class Absent:
    """What is not there, or not on an emulated node; `why` as a kubelet says it."""

    why: str


Source = EmptyDir | HostPath | Claim | Absent


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """One volume of a Pod."""

    name: str
    source: Source


def parse(spec: Object, *, pod: str) -> tuple[Volume, ...]:
    """The volumes of the Pod named `pod`; those that are optional and not there are left out."""
    found = [(str(volume.get("name", "")), _source(volume, pod)) for volume in spec.get("volumes") or ()]
    return tuple(Volume(name=name, source=source) for name, source in found if source is not None)


def _source(volume: Object, pod: str) -> Source | None:
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
            return (
                None
                if volume[key].get("optional")
                else absent(name, sources.not_read(kind, volume[key].get(field, "")))
            )
    kinds = ", ".join(key for key in volume if key != "name")
    return absent(name, f"an emulated node has no volumes of the kind {kinds}")


def absent(name: str, why: str) -> Absent:
    """What stands in for a volume that cannot be had, in the kubelet's words."""
    return Absent(why=f'MountVolume.SetUp failed for volume "{name}" : {why}')
