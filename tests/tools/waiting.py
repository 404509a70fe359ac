"""Waiting for what comes by itself."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

_T = TypeVar("_T")
WAIT_S = 20.0


async def until(condition: Callable[[], object], *, within_s: float = WAIT_S) -> None:
    """Returns once the condition holds. Raises TimeoutError where it does not come to hold."""
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.01)


async def answered(
    ask: Callable[[], Awaitable[_T]], enough: Callable[[_T], object] = bool, *, within_s: float = WAIT_S
) -> _T:
    """The first answer that is enough: a stream takes a message in after its subscribers have heard it."""
    async with asyncio.timeout(within_s):
        while not enough(answer := await ask()):
            await asyncio.sleep(0.01)
    return answer
