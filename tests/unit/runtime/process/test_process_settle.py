"""A process that has started leaves what lives then to itself."""

import gc

from carico_core.runtime.process import memory_use


def test_what_lives_is_no_longer_looked_at() -> None:
    before = gc.get_freeze_count()
    try:
        memory_use.settle()
        assert gc.get_freeze_count() > before
    finally:
        gc.unfreeze()
