"""Waiting for what comes by itself."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from carico_core.domain import errors

_T = TypeVar("_T")
# Of what hangs, and of no requirement: a slow machine may stand still for seconds, and start interpreters for ten.
WAIT_S = 60.0


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
    """The first answer that is enough: a stream takes a message in after its subscribers have heard it.

    Who does not answer is asked again. Raises TimeoutError where no answer is enough.
    """
    said: errors.CaricoError | None = None
    try:
        async with asyncio.timeout(within_s):
            while True:
                try:
                    if enough(answer := await ask()):
                        return answer
                except (errors.BusUnavailable, errors.ApiUnavailable) as error:
                    said = error
                # Whoever is asked has other work too.
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise TimeoutError(f"no answer was enough within {within_s:g} s") from said
