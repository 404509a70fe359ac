"""Agents of a test, which end with it."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.agent import agent_rig


@pytest.fixture
def rig() -> Iterator[agent_rig.Make]:
    """Makes agents that are stopped when the test ends."""
    made: list[agent_rig.Rig] = []

    def make(**chosen: Any) -> agent_rig.Rig:
        made.append(agent_rig.Rig(**chosen))
        return made[-1]

    yield make
    for one in made:
        one.stop()
