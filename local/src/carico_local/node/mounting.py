"""Where the volumes of a Pod are on the machine: looked for, checked and made as a kubelet does before it starts one.

A container is a process without a filesystem of its own: what it names below a mount's path is read as the place
found here (`sources.moved`). Read-only mounts are kept so by a mount namespace, which needs CAP_SYS_ADMIN.

Source: kubernetes/pkg/volume/hostpath/host_path.go (checkType), pkg/volume/local, volumemanager/populator.
"""

import dataclasses
import os
import pathlib
import stat
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol

from carico_core.domain import errors
from carico_local.node import config_objects, podspec, projection, read_only, volumes

# What a kubelet calls each kind of file, and what it says that it expected.
_KINDS = {
    stat.S_IFDIR: ("Directory", "directory"),
    stat.S_IFREG: ("File", "file"),
    stat.S_IFSOCK: ("Socket", "socket file"),
    stat.S_IFCHR: ("CharDevice", "character device"),
    stat.S_IFBLK: ("BlockDevice", "block device"),
}
# kubelet: the first retry comes after half a second, each further one twice as late.
RETRY_FIRST_S, RETRY_MOST_S = 0.5, 122.0
_DESCRIPTIONS = dict(_KINDS.values())


class Api(Protocol):
    """What is needed of the Kubernetes API."""

    async def request(self, method: str, path: str) -> Any:
        """The decoded answer."""
        ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """Where a volume is. `is_own`: of the Pod alone, so that nobody else is hurt by what is written there."""

    path: str
    read_only: bool = False
    is_own: bool = False


Look = Callable[[], Awaitable[dict[str, Folder]]]


class NotMounted(Exception):
    """A volume cannot be had now; the text says why, as the kubelet's Event does."""


async def until_there(
    look: Look, *, tell: Callable[[str], None], pause: Callable[[float], Awaitable[bool]]
) -> dict[str, Folder] | None:
    """What `look` finds once nothing is missing any more; None where `pause` says that it is not wanted any more."""
    wait_s = RETRY_FIRST_S
    while True:
        try:
            return await look()
        except* NotMounted as failed:
            for error in failed.exceptions:
                tell(str(error))
        if await pause(wait_s):
            return None
        wait_s = min(2.0 * wait_s, RETRY_MOST_S)


async def folders(
    spec: podspec.PodSpec, *, root: pathlib.Path, api: Api, projector: projection.Projector
) -> dict[str, Folder]:
    """The place of each volume by name; emptyDir volumes are below `root`. Raises a group of `NotMounted`."""
    found: dict[str, Folder] = {}
    failed: list[NotMounted] = []
    for volume in spec.volumes:
        try:
            folder = await _folder(volume, spec, root=root, api=api, projector=projector)
            _check_read_only(volume.name, folder, spec)
            found[volume.name] = folder
        except NotMounted as error:
            failed.append(error)
    if failed:
        raise ExceptionGroup(f"volumes of {spec.key}", failed)
    return found


async def project(spec: podspec.PodSpec, projector: projection.Projector) -> None:
    """Nothing; the files of objects and fields are as the API has them now. Raises a group of `NotMounted`."""
    failed: list[NotMounted] = []
    for volume in spec.volumes:
        try:
            if isinstance(volume.source, volumes.Projected):
                await _projected(volume.name, volume.source, projector)
        except NotMounted as error:
            failed.append(error)
    if failed:
        raise ExceptionGroup(f"volumes of {spec.key}", failed)


async def _projected(name: str, source: volumes.Projected, projector: projection.Projector) -> Folder:
    """As in a kubelet, nobody but the node writes there."""
    try:
        return Folder(path=str(await projector.put(name, source)), read_only=True, is_own=True)
    except (config_objects.Unread, OSError, ValueError) as error:
        raise NotMounted(volumes.absent(name, str(error)).why) from error


async def _folder(
    volume: volumes.Volume, spec: podspec.PodSpec, *, root: pathlib.Path, api: Api, projector: projection.Projector
) -> Folder:
    match volume.source:
        case volumes.EmptyDir():
            # Made when the first container starts: until then the node keeps nothing of the Pod.
            return Folder(path=str(root / volume.name), is_own=True)
        case volumes.Projected() as source:
            return await _projected(volume.name, source, projector)
        case volumes.HostPath() as source:
            return Folder(path=_host_path(volume.name, source))
        case volumes.Claim() as source:
            persistent = await _bound(volume, source, spec, api=api)
            return Folder(path=_persistent(persistent), read_only=source.read_only)
        case volumes.Absent(why=why):
            raise NotMounted(why)


def _host_path(name: str, source: volumes.HostPath) -> str:
    """The path, once it is what it is said to be."""
    path = pathlib.Path(source.path)
    try:
        if source.type in ("", "DirectoryOrCreate") and not path.exists():
            # Without a type it is the container runtime that makes it (containerd: WithMounts).
            path.mkdir(mode=0o755, parents=True, exist_ok=True)
        elif source.type == "FileOrCreate" and not path.exists():
            path.touch(mode=0o644)
        if why := _mismatch(path, source.type.removesuffix("OrCreate")):
            raise NotMounted(volumes.absent(name, why).why)
    except OSError as error:
        why = f"{(error.strerror or str(error)).lower()}: {source.path}"
        raise NotMounted(volumes.absent(name, why).why) from error
    return str(path)


def _mismatch(path: pathlib.Path, expected: str) -> str:
    """Why the place is not of the expected type; empty where it is. Raises `OSError`."""
    if not expected:
        return ""
    if not path.exists():
        return f"hostPath {path} doesn't exist"
    found, _ = _KINDS.get(stat.S_IFMT(path.stat().st_mode), ("", ""))
    if found == expected:
        return ""
    described = _DESCRIPTIONS.get(expected)
    if described is None:
        return f"{expected} is an invalid volume type"
    return f"hostPath type check failed: {path} is not a {described}, it's a {found}"


async def _bound(volume: volumes.Volume, claim: volumes.Claim, spec: podspec.PodSpec, *, api: Api) -> Any:
    """The PersistentVolume that the Pod's claim is bound to."""
    path = f"/api/v1/namespaces/{spec.namespace}/persistentvolumeclaims/{claim.name}"
    try:
        found = await _get(api, path, f'failed to fetch PVC from API server: persistentvolumeclaims "{claim.name}"')
        told = found["metadata"]
        if told.get("deletionTimestamp"):
            raise NotMounted("can't start pod because PVC is being deleted")
        owners = {owner.get("uid") for owner in told.get("ownerReferences") or () if owner.get("controller")}
        if claim.is_own and spec.uid not in owners:
            raise NotMounted(f"PVC {spec.namespace}/{claim.name} was not created for pod {spec.key}")
        name = found["spec"].get("volumeName")
        if not name or (found.get("status") or {}).get("phase") != "Bound":
            raise NotMounted("PVC is not bound")
        if found["spec"].get("volumeMode") == "Block":
            raise NotMounted("an emulated node has no block volumes")
        return await _get(api, f"/api/v1/persistentvolumes/{name}", f'failed to fetch PV from API server: "{name}"')
    except NotMounted as error:
        raise NotMounted(
            f"Unable to attach or mount volumes: unmounted volumes=[{volume.name}], unattached volumes=[], failed to "
            f"process volumes=[{volume.name}]: error processing PVC {spec.namespace}/{claim.name}: {error}"
        ) from None


async def _get(api: Api, path: str, what: str) -> Any:
    try:
        return await api.request("GET", path)
    except errors.NotFound:
        raise NotMounted(f"{what} not found") from None
    except (errors.ApiError, errors.ApiUnavailable) as error:
        raise NotMounted(f"{what}: {error}") from error


def _persistent(volume: Mapping[str, Any]) -> str:
    """Where a PersistentVolume of this machine is."""
    name, spec = volume["metadata"]["name"], volume["spec"]
    if place := spec.get("hostPath"):
        return _host_path(name, volumes.HostPath(path=place["path"], type=place.get("type") or ""))
    if place := spec.get("local"):
        if not os.path.exists(place["path"]):
            why = f'path "{place["path"]}" does not exist'
            raise NotMounted(f'MountVolume.NewMounter initialization failed for volume "{name}" : {why}')
        return str(place["path"])
    raise NotMounted(volumes.absent(name, "an emulated node has persistent volumes of hostPath and local alone").why)


def _check_read_only(name: str, folder: Folder, spec: podspec.PodSpec) -> None:
    """Nothing. Raises `NotMounted` where others' files could be written against the Pod's word."""
    containers = (*spec.init_containers, *spec.containers)
    wanted = folder.read_only or any(
        mount.read_only and mount.volume == name for each in containers for mount in each.mounts
    )
    if wanted and not folder.is_own and not read_only.is_possible():
        why = "it is read-only, and this node may not keep a process from writing to it (that takes CAP_SYS_ADMIN)"
        raise NotMounted(volumes.absent(name, why).why)


def to_json(found: Mapping[str, Folder]) -> dict[str, Any]:
    """The folders as JSON types."""
    return {name: dataclasses.asdict(folder) for name, folder in found.items()}


def from_json(document: Mapping[str, Any]) -> dict[str, Folder]:
    """The folders that `to_json` wrote."""
    return {name: Folder(**fields) for name, fields in document.items()}


def protected(places: Iterable[tuple[str, bool]]) -> tuple[str, ...]:
    """The paths among (path, read-only) that a process is to be kept from writing to, where that can be done."""
    return tuple(dict.fromkeys(path for path, kept in places if kept)) if read_only.is_possible() else ()
