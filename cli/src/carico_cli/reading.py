"""Ctrl-C while Python reads modules: the end at once, since nothing has begun that would have to be ended in order.

As an exception it would be lost now and then (one time in 150, measured): in a callback of importlib's own CPython says
"Exception ignored in" and goes on, so that `carico web` went on for ever. Modules in C crashed of it as often.
"""

import os
import signal
import types

from carico_cli import exits


def end_at_once() -> None:
    """From now on Ctrl-C ends this process with its one line, also where a script's `carico ... &` has it ignored."""
    signal.signal(signal.SIGINT, _end)


def is_over() -> None:
    """From now on Ctrl-C is a `KeyboardInterrupt`, where `end_at_once` had been called."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: types.FrameType | None) -> None:
    os.write(2, exits.INTERRUPTED_LINE.encode() + b"\n")
    os._exit(exits.INTERRUPTED)
