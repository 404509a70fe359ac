"""Services of ours as processes of a test."""

import pathlib
import subprocess
import sys


def start(log: pathlib.Path, module: str, *flags: str) -> "subprocess.Popen[bytes]":
    """Start `python -m MODULE FLAGS`, whose output is appended to `log`; the caller ends it."""
    with log.open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-m", module, *flags], stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )  # fmt: skip


def end(*processes: "subprocess.Popen[bytes]") -> None:
    """End processes at once, also those that a signal has stopped or that have ended."""
    for process in processes:
        process.kill()
    for process in processes:
        process.wait()
