"""How the `carico` command ends: its exit codes, and Ctrl-C.

While Python imports modules, Ctrl-C ends the process at once: nothing has begun that would need an orderly end. As an
exception it would sometimes be lost (one time in 150, measured): raised in a callback of importlib, CPython prints
"Exception ignored" and continues, so that `carico web` never ended. Modules in C crashed as often.

While a command runs, the first Ctrl-C ends it in order, and each further one makes it hurry; either way nothing is
left.
"""

import contextlib
import os
import signal
import types
from collections.abc import Callable, Coroutine
from typing import Any

FAILED = 1
USER_ERROR = 2
# 128 + SIGINT, as shells report it.
INTERRUPTED = 130
INTERRUPTED_LINE = "carico: interrupted"
# A terminal that closes is as final as Ctrl-C.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def end_at_once() -> None:
    """Let Ctrl-C end this process with one line, even in a script's `carico ... &`, where it is ignored."""
    signal.signal(signal.SIGINT, _end)


def restore_interrupts() -> None:
    """Make Ctrl-C a `KeyboardInterrupt` again if `end_at_once` was called."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: types.FrameType | None) -> None:
    os.write(2, INTERRUPTED_LINE.encode() + b"\n")
    os._exit(INTERRUPTED)


def cancel_on_signals() -> None:
    """Cancel the current task on each Ctrl-C, SIGTERM and SIGHUP."""
    # Imported here and below: `main` imports this module before it handles Ctrl-C, and asyncio takes 50 ms.
    import asyncio

    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, task.cancel)


def cancelled() -> type[BaseException]:
    """Return what a task raises that `cancel_on_signals` has cancelled."""
    import asyncio

    return asyncio.CancelledError


async def finished(work: Coroutine[Any, Any, None], *, hurry: Callable[[], None]) -> None:
    """Wait for `work` to end, however often Ctrl-C comes; call `hurry` each time it does."""
    import asyncio

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
