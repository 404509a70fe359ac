"""What services say of themselves on the bus."""

import pathlib
import tomllib

from carico_core.runtime.bus import port as buses

ROOT = pathlib.Path(__file__).parents[4]


def test_services_say_the_version_that_all_packages_have() -> None:
    found = [ROOT / "libs/carico_core/pyproject.toml", *sorted((ROOT / "services").glob("*/pyproject.toml"))]
    assert len(found) == 8
    for each in found:
        assert tomllib.loads(each.read_text())["project"]["version"] == buses.VERSION, each
