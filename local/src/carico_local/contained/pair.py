"""Two programs under one first process: kept running, orphans reaped, ended in order. Without an event loop.

The kubelet's containers outlive a kubelet that crashes, so it is started again next to them; a container engine could
only end them all. The first process of a container also inherits every orphan in it, and must wait for each.

Each program is a fork of this process, which has imported what both need: a node has half a CPU, and two interpreters
that import for themselves take twice the time until it is at work (docs/measurements.md). No thread runs here, nor may.
"""

import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable
from types import FrameType

from carico_core.runtime.observe import logs
from carico_core.runtime.process import tasks

RESTART_PAUSE_S = 1.0
# Its result is the exit code of the process that it is given.
Program = Callable[[], int]
_ENDING = (signal.SIGTERM, signal.SIGINT)
_log = logs.get("contained")


class Pair:
    """`kubelet` ends the container when it was asked to end; `agent` follows it."""

    def __init__(self, *, kubelet: Program, agent: Program, pause: Callable[[float], None]) -> None:
        self._programs = {"kubelet": kubelet, "agent": agent}
        self._pause = pause
        self._pids: dict[str, int] = {}
        self._stopping = False

    def run(self) -> int:
        """Return the exit code of the container, once both programs have ended."""
        for number in _ENDING:
            signal.signal(number, self._on_signal)
        # What is there now is never looked at in a child: its memory stays shared with this process. It is modules: to
        # collect what little is garbage among them would take 50 ms of each start.
        gc.freeze()
        gc.enable()
        for name in self._programs:
            self._start(name)
        while True:
            name, code = self._wait()
            if name == "kubelet" and self._stopping:
                self._end("agent")
                return code
            if code == tasks.EXIT_USER_ERROR:
                # It has reported what a user has to fix; another start would report it again.
                self._end("kubelet")
                self._end("agent")
                return code
            if not (self._stopping and name == "agent"):
                _log.error("program_ended", program=name, code=code, note="it is started again")
                self._pause(RESTART_PAUSE_S)
                self._start(name)

    def _start(self, name: str) -> None:
        # A signal of between fork and the child's own handling of signals would be taken for this process's.
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        self._pids[name] = pid = fork(self._programs[name])
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        if self._stopping:
            os.kill(pid, signal.SIGTERM)

    def _wait(self) -> tuple[str, int]:
        """Return the name and exit code of the next program to end; orphans are reaped."""
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


def heed() -> None:
    """End this process as soon as it is asked to, until a pair runs.

    The kernel hands the first process of a container no signal that it has not asked for: ending a container that
    still imports would wait for all of the engine's patience.
    """
    for number in _ENDING:
        signal.signal(number, lambda *_: os._exit(tasks.EXIT_OK))


def fork(program: Program) -> int:
    """Return the id of a process in which `program` runs to its end."""
    pid = os.fork()
    if pid == 0:
        for number in _ENDING:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        os._exit(_code(program))
    return pid


def _code(program: Program) -> int:
    """Return the exit code of a program, however it ends: no exception may reach the parent's code."""
    try:
        return program()
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else tasks.EXIT_FAILED
    except BaseException:
        traceback.print_exc()
        return tasks.EXIT_FAILED
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
