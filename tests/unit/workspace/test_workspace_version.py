"""One version of CARICO: packages, images, manifests and the chart are of the same release."""

import pathlib
import re
import tomllib
from typing import Any

import pytest

from carico_core.runtime.bus import port

ROOT = pathlib.Path(__file__).parents[3]
VERSION = port.VERSION
PROJECTS = sorted(
    path
    for pattern in ("libs/*", "services/*", "local", "twin", "cli", "distribution")
    for path in ROOT.glob(f"{pattern}/pyproject.toml")
)
# How other files name it.
NAMED = {
    "Dockerfile": r"^ARG VERSION=(\S+)",
    "deploy/helm/carico/Chart.yaml": r"^(?:version|appVersion): (\S+)",
    "deploy/extender/kustomization.yaml": r"name: carico,.* newTag: (\S+)}",
    "CHANGELOG.md": r"\A(?:.*?^## (?!Unreleased)(\d+\.\d+\.\d+))",
}
# carico:0.1.0, carico-compose:0.1.0, ...
IMAGE = re.compile(r"\bcarico[a-z/-]*:(\d+\.\d+\.\d+)")
IMAGES_IN = ("Dockerfile", "docker-compose.yml", "compose/**/*", "deploy/**/*", "tests/tools/docker/images.py")


def project(path: pathlib.Path) -> Any:
    """What pyproject.toml says of its package."""
    return tomllib.loads(path.read_text(encoding="utf-8"))["project"]


@pytest.mark.parametrize("path", PROJECTS, ids=lambda path: path.parent.name)
def test_a_package_has_the_version_and_needs_others_of_the_same(path: pathlib.Path) -> None:
    found = project(path)
    assert found["version"] == VERSION
    own = {project(each)["name"] for each in PROJECTS}
    wanted = [*found.get("dependencies", []), *(one for extra in found.get("optional-dependencies", {}).values()
                                                for one in extra)]  # fmt: skip
    inside = [text for text in wanted if re.split(r"[\[=]", text)[0] in own]
    # Without the pin, pip would keep an old carico-core under a new carico-cli.
    assert [text for text in inside if not text.endswith(f"=={VERSION}")] == []


@pytest.mark.parametrize("path", NAMED)
def test_a_file_names_the_version(path: str) -> None:
    found = re.findall(NAMED[path], (ROOT / path).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert found
    assert set(found) == {VERSION}


def test_images_are_of_the_version() -> None:
    files = [path for pattern in IMAGES_IN for path in ROOT.glob(pattern) if path.is_file()]
    named = {path.relative_to(ROOT).as_posix(): set(IMAGE.findall(_text(path))) for path in files}
    found = {path: versions for path, versions in named.items() if versions}
    assert {"docker-compose.yml", "deploy/k8s/base/agent.yaml"} <= found.keys()
    assert {path: versions for path, versions in found.items() if versions != {VERSION}} == {}


def _text(path: pathlib.Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
