"""Variables of ConfigMaps and Secrets on an emulated node: what is read, and what a missing one is called."""

import base64
import os
import pathlib
import stat
from typing import Any

import pytest

from carico_core.domain import errors
from carico_local.node.containers import config_objects, variables
from carico_local.node.spec import pod as podspec

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


def pod(container: dict[str, Any]) -> podspec.PodSpec:
    item = {"name": "c", "command": ["a"], **container}
    return podspec.parse(
        {
            "metadata": {"name": "p", "namespace": "n", "uid": "u"},
            "spec": {"nodeName": "node", "containers": [item]},
        }
    )


FORBIDDEN = errors.Forbidden(403, "Forbidden", "no relationship found", "GET")


async def test_an_object_that_the_node_may_not_read_yet_is_asked_for_again() -> None:
    api = Api(FORBIDDEN, FORBIDDEN)
    api.configmaps["m"] = {"data": {"k": "v"}, "binaryData": {"b": "/w=="}}
    found = await objects(api).find("configmap", "m")
    assert found == config_objects.Content(values={"k": b"v"})
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
