"""How the `carico` command ends: its exit codes, and Ctrl-C while Python still imports modules.

During imports Ctrl-C ends the process at once: nothing has begun that would need an orderly end. As an exception it
would be lost now and then (one time in 150, measured): in a callback of importlib, CPython prints "Exception ignored"
and goes on, so that `carico web` never ended. Modules in C crashed as often.
"""

import os
import signal
import types

FAILED = 1
USER_ERROR = 2
# 128 + SIGINT, as shells report it.
INTERRUPTED = 130
INTERRUPTED_LINE = "carico: interrupted"


def end_at_once() -> None:
    """Let Ctrl-C end this process with its one line, also where a script's `carico ... &` has it ignored."""
    signal.signal(signal.SIGINT, _end)


def restore_interrupts() -> None:
    """Make Ctrl-C a `KeyboardInterrupt` again, where `end_at_once` was called."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: types.FrameType | None) -> None:
    os.write(2, INTERRUPTED_LINE.encode() + b"\n")
    os._exit(INTERRUPTED)
