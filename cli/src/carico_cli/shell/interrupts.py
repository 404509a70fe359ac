"""Ctrl-C: the first ends a command in order, the next ones make its end quick; nothing stays either way."""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine
from typing import Any

# A terminal that closes is as final as Ctrl-C.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def cancel_on_signals() -> None:
    """Make each signal cancel the current task, each time it comes."""
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, task.cancel)


async def finished(work: Coroutine[Any, Any, None], *, hurry: Callable[[], None]) -> None:
    """Wait for `work` to end, however often Ctrl-C comes; call `hurry` each time it does."""
    task = asyncio.ensure_future(work)
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                return
            with contextlib.suppress(ProcessLookupError):
                hurry()
    task.result()
