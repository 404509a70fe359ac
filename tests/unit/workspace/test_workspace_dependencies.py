"""Each member declares what it imports: one shared environment would hide it, a service installed alone would not."""

import ast
import functools
import importlib.metadata
import pathlib
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence

import pytest

from tests.tools.docker import images

ROOT = pathlib.Path(__file__).parents[3]
MEMBERS = sorted(
    p.parent
    for pattern in ("libs/*", "services/*", "local", "twin", "cli")
    for p in ROOT.glob(f"{pattern}/pyproject.toml")
)


def declared(member: pathlib.Path) -> set[str]:
    """Distribution names that a member asks for, in its extras too, following the workspace's own members."""
    project = tomllib.loads((member / "pyproject.toml").read_text())["project"]
    wanted = list(project.get("dependencies", []))
    for extra in project.get("optional-dependencies", {}).values():
        wanted += extra
    names = {re.split(r"[\[;<>= ]", text)[0].lower().replace("_", "-") for text in wanted}
    own = {tomllib.loads((m / "pyproject.toml").read_text())["project"]["name"]: m for m in MEMBERS}
    for name in sorted(names & own.keys()):
        names |= declared(own[name])
    return names | {project["name"]}


@functools.cache
def providers() -> Mapping[str, Sequence[str]]:
    """The distributions that have each top-level module."""
    return importlib.metadata.packages_distributions()


def imported(member: pathlib.Path) -> Iterator[tuple[pathlib.Path, str]]:
    """(file, top-level module) of each import below a member's src."""
    for path in sorted(member.glob("src/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from ((path, alias.name.split(".")[0]) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield path, node.module.split(".")[0]


def test_all_members_are_found() -> None:
    assert [m.relative_to(ROOT).as_posix() for m in MEMBERS] == [
        "cli", "libs/carico_core", "local", "services/agent", "services/aggregator", "services/auth",
        "services/recommender", "services/rescheduler", "services/scheduler", "services/web", "twin",
    ]  # fmt: skip


@pytest.mark.parametrize("member", MEMBERS, ids=lambda m: m.name)
def test_every_import_is_declared(member: pathlib.Path) -> None:
    wanted = declared(member)
    undeclared = set()
    for path, module in imported(member):
        if module in sys.stdlib_module_names:
            continue
        names = {name.lower().replace("_", "-") for name in providers().get(module, [module.replace("_", "-")])}
        if not names & wanted:
            undeclared.add(f"{path.relative_to(ROOT)} imports {module}")
    assert not undeclared


def test_the_image_of_the_services_has_each_service() -> None:
    services = {path.relative_to(ROOT).as_posix() for path in MEMBERS if path.parent.name == "services"}
    # The test of arm64 goes by the same names.
    assert set(images.MEMBERS) == services | {"libs/carico_core"}
