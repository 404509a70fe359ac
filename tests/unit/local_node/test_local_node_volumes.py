"""Where the volumes of a Pod are, and in which words a kubelet says that they are not."""

import pathlib
import socket
from typing import Any

import pytest

from carico_core.domain import errors
from carico_local.node import config_objects, mounting, podspec, projection, read_only

PREFIX = 'MountVolume.SetUp failed for volume "v" : '


class Api:
    """Claims and PersistentVolumes by path; whatever else is not there."""

    def __init__(self, **objects: Any) -> None:
        self.objects = {
            f"/api/v1/{'' if kind == 'persistentvolumes' else 'namespaces/n/'}{kind}/{name}": found
            for kind, named in objects.items()
            for name, found in named.items()
        }

    async def request(self, method: str, path: str, *, timeout_s: float = 10.0) -> Any:
        """The object."""
        if path not in self.objects:
            raise errors.NotFound(404, method, path, "not found")
        return self.objects[path]


def pod(volume: dict[str, Any], *, kept: bool = False) -> podspec.PodSpec:
    mounts = [{"name": "v", "mountPath": "/data", "readOnly": kept}]
    container = {"name": "c", "command": ["a"], "volumeMounts": mounts}
    return podspec.parse(
        {
            "metadata": {"name": "p", "namespace": "n", "uid": "u"},
            "spec": {"nodeName": "node", "containers": [container], "volumes": [{"name": "v", **volume}]},
        }
    )


async def look(spec: podspec.PodSpec, api: Api | None = None) -> mounting.Folder | str:
    """The folder of the one volume, or why there is none."""
    api, root = api or Api(), pathlib.Path("root")
    projector = projection.Projector(
        config_objects.Objects(api, "n"), root=root, metadata=dict, node={}, stamp=lambda: "1"
    )
    try:
        return (await mounting.folders(spec, root=root, api=api, projector=projector))["v"]
    except* mounting.NotMounted as failed:
        (error,) = failed.exceptions
        said = str(error)
    return said


@pytest.mark.parametrize("kind", ["", "DirectoryOrCreate"])
async def test_a_folder_is_made_where_that_is_asked_for(tmp_path: pathlib.Path, kind: str) -> None:
    path = tmp_path / "a" / "b"
    found = await look(pod({"hostPath": {"path": str(path), "type": kind}}))
    assert found == mounting.Folder(path=str(path))
    assert path.is_dir()


async def test_a_file_is_made_but_not_its_folder(tmp_path: pathlib.Path) -> None:
    await look(pod({"hostPath": {"path": str(tmp_path / "f"), "type": "FileOrCreate"}}))
    assert (tmp_path / "f").is_file()
    missing = tmp_path / "x" / "f"
    said = await look(pod({"hostPath": {"path": str(missing), "type": "FileOrCreate"}}))
    assert said == f"{PREFIX}no such file or directory: {missing}"


async def test_what_is_there_must_be_what_it_is_said_to_be(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        said = {
            kind: await look(pod({"hostPath": {"path": str(tmp_path / name), "type": kind}}))
            for kind, name in (
                ("Directory", "file"), ("DirectoryOrCreate", "file"), ("File", "gone"), ("BlockDevice", "socket"),
                ("Folder", "file"),
            )
        }  # fmt: skip
        assert await look(pod({"hostPath": {"path": str(tmp_path / "socket"), "type": "Socket"}})) == mounting.Folder(
            path=str(tmp_path / "socket")
        )
    plug = tmp_path / "socket"
    not_one = f"{PREFIX}hostPath type check failed: {file} is not a directory, it's a File"
    assert said == {
        "Directory": not_one,
        "DirectoryOrCreate": not_one,
        "File": f"{PREFIX}hostPath {tmp_path / 'gone'} doesn't exist",
        "BlockDevice": f"{PREFIX}hostPath type check failed: {plug} is not a block device, it's a Socket",
        "Folder": f"{PREFIX}Folder is an invalid volume type",
    }


def bound(**more: Any) -> dict[str, Any]:
    return {"metadata": more, "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}}


CLAIM = {"persistentVolumeClaim": {"claimName": "disk", "readOnly": False}}


async def test_a_bound_claim_is_its_volumes_place(tmp_path: pathlib.Path) -> None:
    for source in ("hostPath", "local"):
        volume = {"metadata": {"name": "pv"}, "spec": {source: {"path": str(tmp_path)}}}
        api = Api(persistentvolumeclaims={"disk": bound()}, persistentvolumes={"pv": volume})
        assert await look(pod(CLAIM), api) == mounting.Folder(path=str(tmp_path))


@pytest.mark.parametrize(
    ("claim", "volume", "words"),
    [
        (None, None, 'failed to fetch PVC from API server: persistentvolumeclaims "disk" not found'),
        ({"metadata": {}, "spec": {}, "status": {"phase": "Pending"}}, None, "PVC is not bound"),
        (bound(deletionTimestamp="2026-01-01T00:00:00Z"), None, "can't start pod because PVC is being deleted"),
        (bound(), None, 'failed to fetch PV from API server: "pv" not found'),
        (bound(), {"local": {"path": "/no/such"}}, 'volume "pv" : path "/no/such" does not exist'),
        (bound(), {"csi": {"driver": "d"}}, "persistent volumes of hostPath and local alone"),
    ],
)
async def test_claims_that_cannot_be_had_say_why(
    claim: dict[str, Any] | None, volume: dict[str, Any] | None, words: str
) -> None:
    api = Api(
        persistentvolumeclaims={} if claim is None else {"disk": claim},
        persistentvolumes={} if volume is None else {"pv": {"metadata": {"name": "pv"}, "spec": volume}},
    )
    said = await look(pod(CLAIM), api)
    assert isinstance(said, str)
    assert words in said


async def test_a_claim_made_for_another_pod_is_refused(tmp_path: pathlib.Path) -> None:
    volume = {"metadata": {"name": "pv"}, "spec": {"hostPath": {"path": str(tmp_path)}}}
    for uid, expected in (("u", True), ("other", False)):
        claim = bound(ownerReferences=[{"uid": uid, "controller": True}])
        api = Api(persistentvolumeclaims={"p-v": claim}, persistentvolumes={"pv": volume})
        assert isinstance(await look(pod({"ephemeral": {}}), api), mounting.Folder) is expected


async def test_what_may_not_be_written_is_not_had_where_nobody_can_see_to_that(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_only, "is_possible", lambda: False)
    place = {"hostPath": {"path": str(tmp_path)}}
    said = await look(pod(place, kept=True))
    assert isinstance(said, str)
    assert "CAP_SYS_ADMIN" in said
    assert isinstance(await look(pod(place)), mounting.Folder)
    # Its own folder hurts nobody.
    assert isinstance(await look(pod({"emptyDir": {}}, kept=True)), mounting.Folder)
    assert mounting.protected([("/a", True)]) == ()
    monkeypatch.setattr(read_only, "is_possible", lambda: True)
    assert mounting.protected([("/a", True), ("/b", False), ("/a", True)]) == ("/a",)


async def test_it_looks_again_ever_later_until_all_is_there_or_nobody_wants_it() -> None:
    pauses: list[float] = []
    said: list[str] = []
    folder = {"v": mounting.Folder(path="/")}

    async def fails() -> dict[str, mounting.Folder]:
        if len(pauses) < 10:
            raise ExceptionGroup("volumes", [mounting.NotMounted("why")])
        return folder

    async def pause(seconds: float) -> bool:
        pauses.append(seconds)
        return len(pauses) > 10

    assert await mounting.until_there(fails, tell=said.append, pause=pause) == folder
    assert pauses == [0.5, 1, 2, 4, 8, 16, 32, 64, 122, 122]
    assert said == ["why"] * 10
    pauses.clear()
    pauses.extend([0.0] * 9)

    async def given_up(seconds: float) -> bool:
        return True

    assert await mounting.until_there(fails, tell=said.append, pause=given_up) is None


def test_places_survive_a_node_process() -> None:
    found = {"v": mounting.Folder(path="/a", read_only=True), "w": mounting.Folder(path="/b", is_own=True)}
    assert mounting.from_json(mounting.to_json(found)) == found
