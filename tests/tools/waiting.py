"""Waiting for what comes by itself."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

_T = TypeVar("_T")
WAIT_S = 20.0


async def until(condition: Callable[[], object], *, within_s: float = WAIT_S) -> None:
    """Returns once the condition holds. Raises TimeoutError where it does not come to hold."""
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.01)


def until_now(
    condition: Callable[[], object],
    *,
    within_s: float = WAIT_S,
    every_s: float = 0.02,
    what: Callable[[], object] = str,
) -> None:
    """Returns once the condition holds, for tests without a loop. Fails with what `what` gives where it does not."""
    deadline_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {within_s:g} s: {what()}"
        time.sleep(every_s)


async def answered(
    ask: Callable[[], Awaitable[_T]], enough: Callable[[_T], object] = bool, *, within_s: float = WAIT_S
) -> _T:
    """The first answer that is enough: a stream takes a message in after its subscribers have heard it."""
    async with asyncio.timeout(within_s):
        while not enough(answer := await ask()):
            # Whoever is asked has other work too.
            await asyncio.sleep(0.05)
    return answer
