"""Garbage is looked for seldom for as long as a service runs, and as before afterwards."""

import gc

from carico_core.runtime.process import memory_use


def test_collections_are_rare_within_the_block_and_as_before_after_it() -> None:
    before = gc.get_threshold()
    with memory_use.rare_collections():
        assert gc.get_threshold()[0] > 10 * before[0]
    assert gc.get_threshold() == before
