"""Each package's docstring is a map of its modules."""

import importlib
import pkgutil

import pytest

import carico_scheduler

ROOMS = [
    "carico_scheduler",
    *(f"carico_scheduler.{each.name}" for each in pkgutil.iter_modules(carico_scheduler.__path__) if each.ispkg),
]


@pytest.mark.parametrize("name", ROOMS)
def test_every_module_is_on_its_packages_map(name: str) -> None:
    package = importlib.import_module(name)
    modules = {each.name for each in pkgutil.iter_modules(package.__path__)} - {"__main__"}
    assert {module for module in modules if f"`{module}`" not in (package.__doc__ or "")} == set()


def test_rooms_were_found() -> None:
    assert len(ROOMS) == 15
