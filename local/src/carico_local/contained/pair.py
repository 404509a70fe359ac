"""Two programs under one first process: kept running, orphans reaped, ended in order. Without an event loop.

The kubelet's containers outlive a kubelet that crashes, so it is started anew beside them; a container engine could
only end them all. The first process of a container also inherits every orphan in it, and must wait for each.
"""

import os
import signal
from collections.abc import Callable, Sequence
from types import FrameType

from carico_core.runtime import logs, tasks

RESTART_PAUSE_S = 1.0
_log = logs.get("contained")


class Pair:
    """`first` ends the container when it was asked to end; `second` follows it."""

    def __init__(self, first: Sequence[str], second: Sequence[str], *, pause: Callable[[float], None]) -> None:
        self._argv = {"kubelet": tuple(first), "agent": tuple(second)}
        self._pause = pause
        self._pids: dict[str, int] = {}
        self._stopping = False

    def run(self) -> int:
        """The exit code of the container, once both programs have ended."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        for name in self._argv:
            self._start(name)
        while True:
            name, code = self._wait()
            if name == "kubelet" and self._stopping:
                self._end("agent")
                return code
            if code == tasks.EXIT_USER_ERROR:
                # It has said what a person has to mend; another start would say it again.
                self._end("kubelet")
                self._end("agent")
                return code
            if not (self._stopping and name == "agent"):
                _log.error("program_ended", program=name, code=code, note="it is started again")
                self._pause(RESTART_PAUSE_S)
                self._start(name)

    def _start(self, name: str) -> None:
        argv = self._argv[name]
        self._pids[name] = os.posix_spawn(argv[0], argv, os.environ)  # noqa: TID251  # the engine's, handed on
        if self._stopping:
            os.kill(self._pids[name], signal.SIGTERM)

    def _wait(self) -> tuple[str, int]:
        """The name and exit code of the next program to end; processes that nobody else waits for are reaped."""
        while True:
            pid, status = os.wait()
            for name, known in self._pids.items():
                if known == pid:
                    del self._pids[name]
                    return name, os.waitstatus_to_exitcode(status)

    def _end(self, name: str) -> None:
        if name in self._pids:
            os.kill(self._pids[name], signal.SIGTERM)
            while name in self._pids:
                self._wait()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        # A second one ends the kubelet at once, as it does outside of containers.
        self._stopping = True
        if "kubelet" in self._pids:
            os.kill(self._pids["kubelet"], signal.SIGTERM)
