"""Two programs under one first process: restarted after crashes, orphans reaped, stopped in order. No event loop.

Containers outlive a kubelet that crashes, so the kubelet is restarted next to them; a container engine could only end
them all. The first process of a container also inherits all orphans and must reap each of them.

Each program is a fork of this process, which has imported what both need: a node has half a CPU, and two interpreters
that each import for themselves double the start time (docs/measurements.md). No thread may run here.
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
# Returns the exit code of its process.
Program = Callable[[], int]
_ENDING = (signal.SIGTERM, signal.SIGINT)
_log = logs.get("contained")


class Pair:
    """Kubelet and agent: on a request to stop, the kubelet ends first and its exit code is the container's."""

    def __init__(self, *, kubelet: Program, agent: Program, pause: Callable[[float], None]) -> None:
        self._programs = {"kubelet": kubelet, "agent": agent}
        self._pause = pause
        self._pids: dict[str, int] = {}
        self._stopping = False

    def run(self) -> int:
        """Return the exit code of the container, once both programs have ended."""
        for number in _ENDING:
            signal.signal(number, self._on_signal)
        # The collector of a child never touches the present objects, so their memory stays shared with this process.
        # Nearly all are modules: a collection now would take 50 ms of each start and free next to nothing.
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
                # It has reported what the user has to fix; another start would only report it again.
                self._end("kubelet")
                self._end("agent")
                return code
            if not (self._stopping and name == "agent"):
                _log.error("program_ended", program=name, code=code, note="restarting it")
                self._pause(RESTART_PAUSE_S)
                self._start(name)

    def _start(self, name: str) -> None:
        # Between fork and the child's own signal handlers, a signal would run this process's handler in the child.
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
        # A second signal ends the kubelet at once, as outside of containers.
        self._stopping = True
        if "kubelet" in self._pids:
            os.kill(self._pids["kubelet"], signal.SIGTERM)


def exit_on_signals() -> None:
    """Exit at once on SIGTERM or SIGINT, until a pair runs.

    The kernel delivers to the first process of a container only signals for which it has a handler. Without one, the
    engine would wait for its whole stop timeout while the process still imports.
    """
    for number in _ENDING:
        signal.signal(number, lambda *_: os._exit(tasks.EXIT_OK))


def fork(program: Program) -> int:
    """Fork a process that runs `program`, and return its id."""
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
