"""Agents of a test, which end with it."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.agent import agent_site


@pytest.fixture
def rig() -> Iterator[agent_site.Make]:
    """Makes agents that are stopped when the test ends."""
    made: list[agent_site.Rig] = []

    def make(**chosen: Any) -> agent_site.Rig:
        made.append(agent_site.Rig(**chosen))
        return made[-1]

    yield make
    for one in made:
        one.stop()
