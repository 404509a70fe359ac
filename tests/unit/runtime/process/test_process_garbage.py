"""Garbage is looked for seldom for as long as a service runs, and as before afterwards."""

import gc
from collections.abc import Iterator

import pytest

from carico_core.runtime.process import memory_use

BEFORE = (700, 10, 10)


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    """Start with Python's own."""
    found = gc.get_threshold()
    gc.set_threshold(*BEFORE)
    yield
    gc.set_threshold(*found)


def test_collections_are_rare_within_the_block_and_as_before_after_it() -> None:
    with memory_use.rare_collections():
        assert gc.get_threshold()[0] > 10 * BEFORE[0]
    assert gc.get_threshold() == BEFORE
