"""Joins the bus of a cluster, for a command that asks and ends."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from carico_cli.live import where as places
from carico_core.domain import errors
from carico_core.runtime import clock as clocks
from carico_core.runtime import nats_bus
from carico_core.wire import roles


@contextlib.asynccontextmanager
async def bus(
    at: places.Address, clock: clocks.Clock, *, name: str, within_s: float
) -> AsyncIterator[nats_bus.NatsBus]:  # fmt: skip
    """The bus there, left with the block. Raises `BusUnavailable` where nothing lets us in in time, with what to do."""
    try:
        async with asyncio.timeout(within_s):
            joined = await nats_bus.connect(
                at.bus, name=name, clock=clock, owns_streams=False, inbox=roles.inbox(roles.Role.CLI)
            )
    except TimeoutError:
        raise errors.BusUnavailable(
            f"NATS at {at.url}: nothing that lets us in within {within_s:g} s; {at.look}"
        ) from None
    try:
        yield joined
    finally:
        await joined.close()
