"""Services of docker-compose.yml and compose/kube: each that has a key of the bus is given it, and no other one."""

import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[3]
FILES = ("docker-compose.yml", "compose/kube/compose.yml")
KEY = "CARICO_BUS_NKEY"


class Loader(yaml.SafeLoader):
    """Takes the tags of compose (`!override`, `!reset`) for what they are on."""


def plain(loader: Loader, suffix: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    assert isinstance(node, yaml.ScalarNode)
    return loader.construct_scalar(node)


Loader.add_multi_constructor("!", plain)


def services() -> Iterator[tuple[str, dict[str, Any]]]:
    for file in FILES:
        found = yaml.load((ROOT / file).read_text(encoding="utf-8"), Loader)
        yield from found["services"].items()


def keyed() -> dict[str, str]:
    """The role of each service that has a key of its own, by the service."""
    found = {}
    for name, service in services():
        path = (service.get("environment") or {}).get(KEY)
        if path is not None:
            role = pathlib.PurePath(path).parent.name
            assert path == f"/bus/{role}/{role}.nk"
            found[name] = role
    return found


def mounts(service: dict[str, Any]) -> set[str]:
    return {each.removesuffix(":ro") for each in service.get("volumes") or ()}


@pytest.mark.parametrize("name", ["aggregator", "scheduler", "auth", "rescheduler", "submit", "carico"])
def test_a_service_with_a_key_has_the_volume_of_its_role_alone(name: str) -> None:
    role = keyed()[name]
    of_all = [service for each, service in services() if each == name and KEY in (service.get("environment") or {})]
    for service in of_all:
        assert {each for each in mounts(service) if each.startswith("bus-")} == {f"bus-{role}:/bus/{role}"}
    (keys,) = [service for each, service in services() if each == "keys"]
    assert f"bus-{role}:/bus/{role}" in mounts(keys)


def test_the_keys_of_these_roles_are_given_and_the_image_has_their_folders() -> None:
    script = (ROOT / "compose/image/carico-bus-keys").read_text(encoding="utf-8")
    image = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    given = re.search(r"for role in ([a-z ]+); do", script)
    folders = re.search(r"for name in ([a-z ]+); do mkdir -p \"/bus/", image)
    assert given is not None and folders is not None
    roles = set(keyed().values())
    assert roles <= set(given[1].split()) <= set(folders[1].split()) and "rescheduler" in roles
