"""Whether the disk that a local cluster writes to has room: its services end where they cannot write."""

import pathlib
import shutil

from carico_core.domain import amounts
from carico_local.cluster import full_disk

# Told before services end, with a few minutes of logs, decisions and objects to go.
LEAST_BYTES = full_disk.ROOM_BYTES


def lack(folder: pathlib.Path) -> str | None:
    """That the disk of `folder` is full, in words; None where it is not."""
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes >= LEAST_BYTES:
        return None
    free = amounts.text("memory", free_bytes)
    return f"the disk of {folder} is full ({free} free): services end where they cannot write"
