"""The package says what each of its modules is."""

import pkgutil

import carico_scheduler


def test_every_module_is_on_the_map() -> None:
    said = carico_scheduler.__doc__ or ""
    modules = {each.name for each in pkgutil.iter_modules(carico_scheduler.__path__)} - {"__main__"}
    assert {name for name in modules if f"`{name}`" not in said} == set()
