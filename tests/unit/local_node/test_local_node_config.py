"""ConfigMaps and Secrets on an emulated node: what is read of them, as variables and as files, and what is said."""

import base64
import os
import pathlib
import stat
from typing import Any

import pytest

from carico_core.domain import errors
from carico_local.node import (
    atomic_files,
    config_objects,
    mounting,
    podspec,
    projection,
    variables,
)

PREFIX = 'MountVolume.SetUp failed for volume "v" : '
NOT_TEXT = b"\xff\x00\xfe"


class Api:
    """Objects by kind and name; `fails` come first, one a request."""

    def __init__(self, *fails: Exception) -> None:
        self.configmaps: dict[str, Any] = {}
        self.secrets: dict[str, Any] = {}
        self.fails = list(fails)
        self.asked: list[str] = []

    async def request(self, method: str, path: str, *, timeout_s: float = 10.0) -> Any:
        """The object."""
        self.asked.append(path)
        if self.fails:
            raise self.fails.pop(0)
        assert (method, path.split("/")[:5]) == ("GET", ["", "api", "v1", "namespaces", "n"])
        kind, name = path.split("/")[5:]
        named = self.configmaps if kind == "configmaps" else self.secrets
        if name not in named:
            raise errors.NotFound(404, "NotFound", "not found", path)
        return named[name]


def secret(**values: bytes) -> dict[str, Any]:
    return {"data": {key.replace("_", "."): base64.b64encode(value).decode() for key, value in values.items()}}


def objects(api: Api) -> config_objects.Objects:
    return config_objects.Objects(api, "n", pauses_s=(0.0, 0.0))


def pod(container: dict[str, Any] | None = None, **volume: Any) -> podspec.PodSpec:
    item = {"name": "c", "command": ["a"], "resources": {"limits": {"cpu": "1500m"}}, **(container or {})}
    declared = [{"name": "v", **volume}] if volume else []
    return podspec.parse(
        {
            "metadata": {"name": "p", "namespace": "n", "uid": "u"},
            "spec": {"nodeName": "node", "containers": [item], "volumes": declared},
        }
    )


FORBIDDEN = errors.Forbidden(403, "Forbidden", "no relationship found", "GET")


async def test_an_object_that_the_node_may_not_read_yet_is_asked_for_again() -> None:
    api = Api(FORBIDDEN, FORBIDDEN)
    api.configmaps["m"] = {"data": {"k": "v"}, "binaryData": {"b": "/w=="}}
    found = await objects(api).find("configmap", "m")
    assert found == config_objects.Content(texts={"k": b"v"}, binaries={"b": b"\xff"})
    assert len(api.asked) == 3
    with pytest.raises(config_objects.Unread, match='failed to get configmap "m": no relationship found'):
        await objects(Api(*[FORBIDDEN] * 3)).find("configmap", "m")


async def test_what_was_read_stands_in_while_the_api_is_away_and_not_once_it_is_gone() -> None:
    api = Api()
    api.secrets["s"] = secret(k=b"v")
    known = objects(api)
    first = await known.find("secret", "s")
    api.fails = [errors.ApiUnavailable("away")]
    assert await known.find("secret", "s") == first
    del api.secrets["s"]
    assert await known.find("secret", "s") is None
    api.fails = [errors.ApiUnavailable("away")]
    with pytest.raises(config_objects.Unread, match="away"):
        await known.find("secret", "s")


async def test_an_immutable_object_is_read_once() -> None:
    api = Api()
    api.configmaps["m"] = {"data": {"k": "v"}, "immutable": True}
    known = objects(api)
    for _ in range(3):
        assert await known.find("configmap", "m") is not None
    assert len(api.asked) == 1


async def environment(container: dict[str, Any], api: Api) -> dict[str, str]:
    spec = pod(container)
    found = await variables.read(spec.containers[0], objects(api))
    return variables.environment(
        spec, spec.containers[0], base={"PATH": "/bin"}, pod_ip="", host_ip="", objects=found
    )  # fmt: skip


def key(kind: str, name: str, of: str, **more: Any) -> dict[str, Any]:
    return {"valueFrom": {f"{kind}KeyRef": {"name": name, "key": of, **more}}}


async def test_variables_of_whole_objects_come_first_and_every_key_is_one() -> None:
    api = Api()
    api.configmaps["m"] = {"data": {"log.level": "info", "0-th": "x", "A": "of map"}, "binaryData": {"B": "/w=="}}
    api.secrets["s"] = secret(A=b"of secret", word=b"pass word")
    refs = [
        {"configMapRef": {"name": "m"}}, {"secretRef": {"name": "s"}, "prefix": "S_"},
        {"secretRef": {"name": "none", "optional": True}},
    ]  # fmt: skip
    env = [
        {"name": "A", "value": "own"}, {"name": "URL", "value": "$(S_word)@$(log.level)"},
        {"name": "ONE", **key("secret", "s", "word")}, {"name": "TWO", "value": "<$(ONE)>"},
        {"name": "LEFT", **key("configMap", "m", "none", optional=True)},
        {"name": "OUT", **key("secret", "none", "k", optional=True)},
    ]  # fmt: skip
    assert await environment({"envFrom": refs, "env": env}, api) == {
        "PATH": "/bin", "log.level": "info", "0-th": "x", "A": "own", "S_A": "of secret", "S_word": "pass word",
        "URL": "pass word@info", "ONE": "pass word", "TWO": "<pass word>",
    }  # fmt: skip
    # One request for each object, however often it is named.
    assert sorted(set(api.asked)) == sorted(api.asked)


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ({"envFrom": [{"configMapRef": {"name": "x"}}]}, 'configmap "x" not found'),
        ({"env": [{"name": "E", **key("secret", "x", "k")}]}, 'secret "x" not found'),
        ({"env": [{"name": "E", **key("secret", "s", "x")}]}, "couldn't find key x in Secret n/s"),
        ({"env": [{"name": "E", **key("configMap", "m", "b")}]}, "couldn't find key b in ConfigMap n/m"),
    ],
)
async def test_what_is_missing_is_said_as_a_kubelet_says_it(container: dict[str, Any], words: str) -> None:
    api = Api()
    api.secrets["s"], api.configmaps["m"] = secret(k=b"v"), {"binaryData": {"b": "/w=="}}
    with pytest.raises(config_objects.Unread) as caught:
        await environment(container, api)
    assert str(caught.value) == words


async def test_what_was_read_is_kept_for_its_owner_alone_byte_by_byte(tmp_path: pathlib.Path) -> None:
    api = Api()
    api.secrets["s"] = secret(k=NOT_TEXT)
    found = await variables.read(pod({"envFrom": [{"secretRef": {"name": "s"}}]}).containers[0], objects(api))
    path = tmp_path / "variables.json"
    variables.save(path, found)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert variables.load(path) == found
    assert os.fsencode(variables.load(path).whole["k"]) == NOT_TEXT
    assert variables.load(tmp_path / "none") == variables.NOTHING_READ


class Volume:
    """One volume of objects and fields, in a folder."""

    def __init__(self, root: pathlib.Path, api: Api, **volume: Any) -> None:
        self.spec = pod(None, **volume)
        self.metadata: dict[str, Any] = {"name": "p", "labels": {"b": 'say "b"', "a": "1"}}
        self.folder = root / "v"
        self._number = 0
        self._projector = projection.Projector(
            objects(api), root=root, metadata=lambda: self.metadata, node={"cpu": 4.0}, stamp=self._stamp
        )

    def _stamp(self) -> str:
        self._number += 1
        return str(self._number)

    async def put(self) -> str:
        """Why its files could not be put there; empty where they were."""
        try:
            await mounting.project(self.spec, self._projector)
        except* mounting.NotMounted as failed:
            said = [str(error) for error in failed.exceptions]
        else:
            said = [""]
        return said[0]

    def files(self) -> dict[str, bytes]:
        """What a program finds."""
        shown = [path for path in self.folder.iterdir() if not path.name.startswith("..")]
        paths = [each for path in shown for each in ([path] if path.is_file() else path.rglob("*")) if each.is_file()]
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in paths}

    def mode(self, path: str) -> int:
        return stat.S_IMODE((self.folder / path).stat().st_mode)


async def test_files_of_keys_have_their_modes_and_follow_the_object(tmp_path: pathlib.Path) -> None:
    api = Api()
    api.configmaps["m"] = {"data": {"a.conf": "1", "old": "x"}, "binaryData": {"b": "/w=="}}
    volume = Volume(tmp_path, api, configMap={"name": "m", "defaultMode": 0o640})
    assert await volume.put() == ""
    assert volume.files() == {"a.conf": b"1", "old": b"x", "b": b"\xff"}
    assert (volume.mode("a.conf"), volume.mode(".")) == (0o640, 0o755)
    before = os.readlink(volume.folder / "..data")
    with (volume.folder / "a.conf").open("rb") as held:
        api.configmaps["m"] = {"data": {"a.conf": "2", "new": "y"}}
        assert await volume.put() == ""
        # Whoever has the file open reads on in what he opened.
        assert held.read() == b"1"
    assert volume.files() == {"a.conf": b"2", "new": b"y"}
    assert not (volume.folder / before).exists()
    now = os.readlink(volume.folder / "..data")
    assert await volume.put() == ""
    assert os.readlink(volume.folder / "..data") == now
    del api.configmaps["m"]
    assert await volume.put() == f'{PREFIX}configmap "m" not found'
    assert volume.files() == {"a.conf": b"2", "new": b"y"}


async def test_items_choose_keys_paths_and_modes(tmp_path: pathlib.Path) -> None:
    api = Api()
    api.secrets["s"] = secret(tls_key=b"key", tls_crt=b"crt", other=b"x")
    items = [{"key": "tls.key", "path": "tls/deep/key", "mode": 0o400}, {"key": "tls.crt", "path": "tls/crt"}]
    volume = Volume(tmp_path, api, secret={"secretName": "s", "items": items})
    assert await volume.put() == ""
    assert volume.files() == {"tls/deep/key": b"key", "tls/crt": b"crt"}
    assert (volume.mode("tls/deep/key"), volume.mode("tls/crt")) == (0o400, 0o644)
    # Secrets' folders are their owner's alone: they are on the disk.
    assert volume.mode(".") == 0o700
    api.secrets["s"] = secret(tls_key=b"key")
    assert await volume.put() == f"{PREFIX}references non-existent secret key: tls.crt"


async def test_what_is_optional_is_left_out_until_it_is_there(tmp_path: pathlib.Path) -> None:
    api = Api()
    volume = Volume(tmp_path, api, configMap={"name": "m", "optional": True, "items": [{"key": "k", "path": "f"}]})
    assert await volume.put() == ""
    assert volume.files() == {}
    for data, expected in (({"k": "v"}, {"f": b"v"}), ({"other": "v"}, {}), ({"k": "w"}, {"f": b"w"})):
        api.configmaps["m"] = {"data": data}
        assert await volume.put() == ""
        assert volume.files() == expected


async def test_projected_volumes_join_their_sources_and_name_all_that_is_missing(tmp_path: pathlib.Path) -> None:
    api = Api()
    parts = [
        {"configMap": {"name": "m"}}, {"secret": {"name": "s", "items": [{"key": "k", "path": "secret/k"}]}},
        {"downwardAPI": {"items": [
            {"path": "pod/labels", "fieldRef": {"fieldPath": "metadata.labels"}},
            {"path": "pod/name", "fieldRef": {"fieldPath": "metadata.name"}, "mode": 0o600},
            {"path": "pod/b", "fieldRef": {"fieldPath": "metadata.labels['b']"}},
            {"path": "cpu", "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu", "divisor": "1m"}},
        ]}},
    ]  # fmt: skip
    volume = Volume(tmp_path, api, projected={"sources": parts})
    assert await volume.put() == f'{PREFIX}[configmap "m" not found, secret "s" not found]'
    api.configmaps["m"], api.secrets["s"] = {"data": {"a": "1"}}, secret(k=b"v")
    assert await volume.put() == ""
    assert volume.files() == {
        "a": b"1", "secret/k": b"v", "pod/labels": b'a="1"\nb="say \\"b\\""', "pod/name": b"p", "pod/b": b'say "b"',
        "cpu": b"1500",
    }  # fmt: skip
    assert (volume.mode("pod/name"), volume.mode(".")) == (0o600, 0o700)
    volume.metadata["labels"] = {}
    assert await volume.put() == ""
    assert volume.files()["pod/labels"] == b""


@pytest.mark.parametrize("path", ["../out", "a/../../out", "/etc/out", "..data", "..x", "", "a" * 256])
def test_no_path_leaves_its_folder(tmp_path: pathlib.Path, path: str) -> None:
    folder = tmp_path / "v"
    folder.mkdir()
    with pytest.raises(ValueError, match="invalid path"):
        atomic_files.write(folder, {path: atomic_files.File(data=b"", mode=0o644)}, stamp="1")
    assert list(tmp_path.rglob("*")) == [folder]


async def test_paths_that_exclude_each_other_leave_what_was_there(tmp_path: pathlib.Path) -> None:
    api = Api()
    api.configmaps["m"] = {"data": {"k": "v"}}
    items = [{"key": "k", "path": "a"}, {"key": "k", "path": "a/b"}]
    volume = Volume(tmp_path, api, configMap={"name": "m", "items": items})
    assert (await volume.put()).startswith(PREFIX)
    assert list(volume.folder.iterdir()) == []


def test_a_write_that_was_cut_off_is_no_obstacle(tmp_path: pathlib.Path) -> None:
    files = {"f": atomic_files.File(data=b"1", mode=0o644)}
    (tmp_path / "..data_tmp").symlink_to("nowhere")
    assert atomic_files.write(tmp_path, files, stamp="1")
    (tmp_path / "f").unlink()
    # Killed before the names were there.
    assert not atomic_files.write(tmp_path, files, stamp="2")
    assert (tmp_path / "f").read_bytes() == b"1"
