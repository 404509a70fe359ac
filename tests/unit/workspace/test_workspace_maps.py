"""The map of each package, in the docstring of its `__init__.py`, names every room in it."""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[3]
PACKAGES = sorted(
    path.parent
    for member in ("cli", "libs", "local", "services", "twin")
    for path in (ROOT / member).glob("**/src/**/__init__.py")
)


def _rooms(package: pathlib.Path) -> set[str]:
    modules = {path.stem for path in package.glob("*.py")} - {"__init__", "__main__"}
    return modules | {path.parent.name for path in package.glob("*/__init__.py")}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: ".".join(path.relative_to(ROOT).parts[-3:]))
def test_a_package_says_what_each_of_its_rooms_is_for(package: pathlib.Path) -> None:
    told = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    assert _rooms(package) - set(re.findall(r"\w+", told)) == set()
