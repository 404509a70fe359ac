"""A process that has started leaves what lives then to itself."""

import gc

from carico_core.runtime import process_memory


def test_what_lives_is_no_longer_looked_at() -> None:
    before = gc.get_freeze_count()
    try:
        process_memory.settle()
        assert gc.get_freeze_count() > before
    finally:
        gc.unfreeze()
