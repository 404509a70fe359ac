"""Wait for conditions."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from carico_core.domain import errors

_T = TypeVar("_T")
# Ends a hanging test; not a requirement: a slow machine may stall for seconds, and need ten to start interpreters.
WAIT_S = 60.0


async def until(condition: Callable[[], object], *, within_s: float = WAIT_S) -> None:
    """Return once the condition holds. Raises TimeoutError."""
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
    """Return once the condition holds, for tests without a loop. Fails with the result of `what`."""
    deadline_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {within_s:g} s: {what()}"
        time.sleep(every_s)


async def answered(
    ask: Callable[[], Awaitable[_T]],
    enough: Callable[[_T], object] = bool,
    *,
    within_s: float = WAIT_S,
    every_s: float = 0.05,
) -> _T:
    """Ask until an answer is enough, and return it: a stream stores a message after its subscribers have received it.

    An unavailable service is asked again. Raises TimeoutError where no answer is enough.
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
                # Leave time for the service's other work.
                await asyncio.sleep(every_s)
    except TimeoutError:
        raise TimeoutError(f"no answer was enough within {within_s:g} s") from said
