"""Child processes of a cluster: none outlives its supervisor, and each is identified by pid and start time."""

import asyncio
import collections
import ctypes
import dataclasses
import os
import pathlib
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping

from carico_core.numerics import backoff
from carico_core.runtime.process import clock as clocks
from carico_local import process_ids

_PR_SET_PDEATHSIG = 1  # prctl(2)
_LIBC = ctypes.CDLL(None, use_errno=True)

# A log that grows past this is moved to `<log>.1`, so that a service takes at most 10 MiB.
LOG_BOUND_BYTES = 5 * 2**20
_TAIL_BYTES = 64 * 2**10
# A crashed service is restarted at once, then as in a kubelet (CrashLoopBackOff):
# https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-policy : after 10 s, 20 s, 40 s, ..., at
# most 300 s; reset after 10 minutes without a crash.
CRASH_FIRST_S, CRASH_MOST_S, CRASH_FORGET_S = 10.0, 300.0, 600.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """Identity of one process: a pid alone may be reused later (starttime of proc_pid_stat(5))."""

    pid: int
    start_ticks: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """How a service is started. `environ` is its whole environment; its output goes to `log`."""

    name: str
    argv: tuple[str, ...]
    environ: Mapping[str, str]
    log: pathlib.Path
    directory: pathlib.Path
    # The signal it gets when its supervisor is killed; SIGKILL for a program that has nothing to clean up.
    orphan_signal: signal.Signals = signal.SIGTERM


@dataclasses.dataclass(slots=True, kw_only=True)
class Child:
    """A started service."""

    command: Command
    process: asyncio.subprocess.Process
    id: ProcessId


async def start(command: Command) -> Child:
    """Start a child, which gets its `orphan_signal` when the calling thread ends for any reason."""
    with command.log.open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *command.argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=dict(command.environ),
            cwd=command.directory,
            preexec_fn=end_with_parent(command.orphan_signal),
        )
    identity = identify(process.pid)
    # A child that has ended already has no start time; -1 matches no other process.
    return Child(command=command, process=process, id=identity or ProcessId(pid=process.pid, start_ticks=-1))


def end_with_parent(number: signal.Signals = signal.SIGTERM) -> Callable[[], None]:
    """Return a `preexec_fn` with which a child gets the signal when the calling thread ends.

    The default is SIGTERM rather than SIGKILL, so that a node can still remove its Pods and their cgroups.
    """
    parent_pid = os.getpid()

    def prepare() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, number)
        if os.getppid() != parent_pid:  # the parent ended before the line above
            os._exit(1)

    return prepare


async def stop(children: Iterable[Child], *, grace_s: float) -> None:
    """Send SIGTERM to all, then SIGKILL to those left after the grace period; wait for their end."""
    living = [child for child in children if child.process.returncode is None]
    for child in living:
        _signal(child.process.pid, signal.SIGTERM)
    waits = [asyncio.ensure_future(child.process.wait()) for child in living]
    if not waits:
        return
    _, late = await asyncio.wait(waits, timeout=grace_s)
    for child in living:
        if child.process.returncode is None:
            _signal(child.process.pid, signal.SIGKILL)
    if late:
        await asyncio.wait(late)


def identify(pid: int) -> ProcessId | None:
    """Return the identity of a running process; None where there is none or it is a zombie."""
    ticks = process_ids.start_ticks(pid)
    return None if ticks is None else ProcessId(pid=pid, start_ticks=ticks)


def is_stopped(pid: int) -> bool:
    """Return whether a signal has stopped the process, as SIGSTOP does: it exists, and does nothing."""
    fields = process_ids.stat(pid)
    return fields is not None and fields[0] in "Tt"


def age_s(process: ProcessId) -> float | None:
    """Return how long a process has run; None where it has ended."""
    fields = process_ids.stat(process.pid)
    if fields is None or int(fields[19]) != process.start_ticks:
        return None
    return clocks.BootClock().monotonic_s() - process.start_ticks / os.sysconf("SC_CLK_TCK")


def identify_self() -> ProcessId:
    """Return the identity of this process."""
    found = identify(os.getpid())
    assert found is not None, "a running process is alive"
    return found


def is_alive(process: ProcessId) -> bool:
    """Return True where the process still runs, and its pid has not been reused."""
    return identify(process.pid) == process


def marked(*marks: str) -> list[ProcessId]:
    """Return running processes of this user whose environment contains one of the marks: a cluster's, with children."""
    wanted = {mark.encode() for mark in marks}
    found = []
    for directory in pathlib.Path("/proc").iterdir():
        if not directory.name.isdigit() or int(directory.name) == os.getpid():
            continue
        try:
            if wanted.isdisjoint((directory / "environ").read_bytes().split(b"\0")):
                continue
        except OSError:  # it ended meanwhile, or belongs to another user
            continue
        identity = identify(int(directory.name))
        if identity is not None:
            found.append(identity)
    return found


def kill(process: ProcessId, number: signal.Signals) -> bool:
    """Send a signal; return False where the process has ended, even if another one has its pid now."""
    return is_alive(process) and _signal(process.pid, number)


def _signal(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
        if number is signal.SIGTERM:
            # One that a signal has stopped could not end by itself.
            os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        return False
    return True


def exit_text(returncode: int) -> str:
    """Return a description of an exit code: "exit code 1", "killed by SIGKILL"."""
    if returncode >= 0:
        return f"exit code {returncode}"
    try:
        return f"killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"killed by signal {-returncode}"


def last_lines(log: pathlib.Path, count: int) -> list[str]:
    """Return at most `count` last lines of a log; none where it does not exist."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            text = file.read().decode("utf-8", errors="replace")
    except OSError:
        return []
    return list(collections.deque((line for line in text.splitlines() if line.strip()), maxlen=count))


def bound_log(log: pathlib.Path, bound_bytes: int = LOG_BOUND_BYTES) -> bool:
    """Move the content of a log above the bound to `<log>.1`, and return True; return False for a smaller one.

    The writer keeps its descriptor (opened for append), so the file is copied and truncated, not renamed.
    """
    try:
        if log.stat().st_size <= bound_bytes:
            return False
        log.with_name(log.name + ".1").write_bytes(log.read_bytes())
        os.truncate(log, 0)
    except OSError:  # removed meanwhile, or the disk is full: the cluster keeps running
        return False
    return True


@dataclasses.dataclass(slots=True)
class CrashLoop:
    """Back-off of one service."""

    _crashes: int = 0

    def pause_s(self, *, ran_s: float) -> float:
        """Return the seconds to wait before the next start, after a run of `ran_s`."""
        if ran_s >= CRASH_FORGET_S:
            self._crashes = 0
        self._crashes += 1
        if self._crashes == 1:
            return 0.0
        return backoff.doubled_s(self._crashes - 2, first_s=CRASH_FIRST_S, most_s=CRASH_MOST_S)
