"""The part of the bus that a replica uses."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from carico_core.domain import errors
from carico_core.runtime.bus import port as buses

RETRY_S = 0.5

T = TypeVar("T")


class Bus(Protocol):
    """The part of the bus that a replica uses."""

    @property
    def connected(self) -> bool: ...

    async def publish(self, subject: str, payload: bytes) -> None: ...

    async def subscribe(self, subject: str, handler: buses.Handler) -> object: ...

    def pull(self) -> AsyncGenerator[list[buses.QueueItem], None]: ...

    async def acknowledge(self, items: Sequence[buses.QueueItem]) -> None: ...

    async def backlog(self) -> buses.Backlog: ...

    async def put_model(self, payload: bytes) -> None: ...

    async def get_model(self) -> bytes | None: ...

    async def put_usage(self, key: int, payload: bytes) -> None: ...

    async def get_usage(self, key: int) -> bytes | None: ...

    def on_reconnect(self, callback: Callable[[], None]) -> None: ...


async def until_taken(ask: Callable[[], Awaitable[T]]) -> T:
    """Call until the bus is available, and return its answer."""
    while True:
        try:
            return await ask()
        except errors.BusUnavailable:
            await asyncio.sleep(RETRY_S)
