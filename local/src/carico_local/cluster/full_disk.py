"""When a disk that was full has room again: what has to be restarted then, since it takes no more by itself."""

import asyncio
import pathlib
import shutil

from carico_core.domain import amounts
from carico_local.cluster import client

LOOKED_AT_EVERY_S = 5.0
# Twice what a start asks for; below it the commands say that the disk is full. What comes and goes between is one time.
ROOM_BYTES = 2 * client.LEAST_FREE_BYTES


async def over(folder: pathlib.Path) -> None:
    """Wait until the disk of a folder was seen full and has room again; what happens between two looks is not seen."""
    was_full = False
    while True:
        await asyncio.sleep(LOOKED_AT_EVERY_S)
        try:
            free_bytes = shutil.disk_usage(folder).free
        except OSError:
            # It was removed, or its disk: its state is unknown, and nothing else has to end for that.
            continue
        was_full = was_full or free_bytes < client.LEAST_FREE_BYTES
        if was_full and free_bytes >= ROOM_BYTES:
            return


def shortage(folder: pathlib.Path) -> str | None:
    """Say in a line that the disk of `folder` is full; None where it has room.

    Said before services end, while a few minutes of logs, decisions and objects still fit.
    """
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes >= ROOM_BYTES:
        return None
    free = amounts.text("memory", free_bytes)
    return f"the disk of {folder} is full ({free} free): services end where they cannot write"
