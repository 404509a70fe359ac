"""Garbage is looked for seldom for as long as a service runs, and as before afterwards."""

import gc

from carico_core.runtime.process import memory_use


def test_it_is_looked_for_seldom_and_then_as_before() -> None:
    before = gc.get_threshold()
    with memory_use.seldom_looked_for():
        assert gc.get_threshold()[0] > 10 * before[0]
    assert gc.get_threshold() == before
