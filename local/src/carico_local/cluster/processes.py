"""Child processes of a cluster: started so that none outlives its supervisor, known by pid and start time."""

import asyncio
import collections
import ctypes
import dataclasses
import os
import pathlib
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping

_PR_SET_PDEATHSIG = 1  # prctl(2)
_LIBC = ctypes.CDLL(None, use_errno=True)

# A log is cut when it grows past this; the newest part is kept next to it, so that a service costs 10 MiB at most.
LOG_BOUND_BYTES = 5 * 2**20
_TAIL_BYTES = 64 * 2**10
# A crashed service is started again at once, then as the kubelet does it (CrashLoopBackOff):
# https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-policy : 10 s, 20 s, 40 s, ..., at most
# 300 s, and from the start again after 10 minutes without a crash.
CRASH_FIRST_S, CRASH_MOST_S, CRASH_FORGET_S = 10.0, 300.0, 600.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProcessId:
    """One process for good: a pid alone is given to another process later (starttime of proc_pid_stat(5))."""

    pid: int
    start_ticks: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """How a service is started. `environ` is the whole environment; output goes to `log`."""

    name: str
    argv: tuple[str, ...]
    environ: Mapping[str, str]
    log: pathlib.Path
    directory: pathlib.Path
    # What it gets when its supervisor is killed; a program that keeps nothing of others' may end at once.
    orphan_signal: signal.Signals = signal.SIGTERM


@dataclasses.dataclass(slots=True, kw_only=True)
class Child:
    """A started service."""

    command: Command
    process: asyncio.subprocess.Process
    id: ProcessId


async def start(command: Command) -> Child:
    """Return the started child, which gets its signal when the thread that calls this ends for any reason."""
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
    # Gone already: its start time is unknown, and nothing can be mistaken for it.
    return Child(command=command, process=process, id=identity or ProcessId(pid=process.pid, start_ticks=-1))


def end_with_parent(number: signal.Signals = signal.SIGTERM) -> Callable[[], None]:
    """Return what a child calls before its program, to get the signal when the thread that calls this ends.

    SIGTERM by default and not SIGKILL, so that a node still clears its Pods and their cgroups away.
    """
    parent_pid = os.getpid()

    def prepare() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, number)
        if os.getppid() != parent_pid:  # the parent ended before the line above
            os._exit(1)

    return prepare


async def stop(children: Iterable[Child], *, grace_s: float) -> None:
    """End all: SIGTERM to each, then SIGKILL to what is left after the grace."""
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
    """Return the identity of a living process; None where there is none or it is a zombie."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name in parentheses may hold blanks and parentheses: fields count from the last one. State is field 3,
    # starttime field 22.
    fields = stat.rpartition(")")[2].split()
    if fields[0] in "ZX":
        return None
    return ProcessId(pid=pid, start_ticks=int(fields[19]))


def identify_self() -> ProcessId:
    """Return the identity of this process."""
    found = identify(os.getpid())
    assert found is not None, "a running process is alive"
    return found


def is_alive(process: ProcessId) -> bool:
    """Return True where this very process still runs."""
    return identify(process.pid) == process


def marked(*marks: str) -> list[ProcessId]:
    """Return living processes of this user whose environment holds one of these lines: a cluster's, children too."""
    wanted = {mark.encode() for mark in marks}
    found = []
    for directory in pathlib.Path("/proc").iterdir():
        if not directory.name.isdigit() or int(directory.name) == os.getpid():
            continue
        try:
            if wanted.isdisjoint((directory / "environ").read_bytes().split(b"\0")):
                continue
        except OSError:  # ended meanwhile, or another user's
            continue
        identity = identify(int(directory.name))
        if identity is not None:
            found.append(identity)
    return found


def kill(process: ProcessId, number: signal.Signals) -> bool:
    """Return True where the signal was sent; a process that only bears the same pid is left alone."""
    return is_alive(process) and _signal(process.pid, number)


def _signal(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def exit_text(returncode: int) -> str:
    """Return an exit code in words: "exit code 1", "killed by SIGKILL"."""
    if returncode >= 0:
        return f"exit code {returncode}"
    try:
        return f"killed by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"killed by signal {-returncode}"


def last_lines(log: pathlib.Path, count: int) -> list[str]:
    """Return the last lines of a log, at most `count`; empty where there is none."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            text = file.read().decode("utf-8", errors="replace")
    except OSError:
        return []
    return list(collections.deque((line for line in text.splitlines() if line.strip()), maxlen=count))


def bound_log(log: pathlib.Path, bound_bytes: int = LOG_BOUND_BYTES) -> bool:
    """Return True where the log had outgrown its bound: what it held is now in `<log>.1`, and it is empty.

    The writer keeps its descriptor (opened for append), so the file is copied and cut, not renamed.
    """
    try:
        if log.stat().st_size <= bound_bytes:
            return False
        log.with_name(log.name + ".1").write_bytes(log.read_bytes())
        os.truncate(log, 0)
    except OSError:  # swept away meanwhile, or the disk is full: the cluster goes on
        return False
    return True


@dataclasses.dataclass(slots=True)
class CrashLoop:
    """The pauses of one service."""

    _crashes: int = 0

    def pause_s(self, *, ran_s: float) -> float:
        """Return seconds to wait before the next start, after a run of `ran_s`."""
        if ran_s >= CRASH_FORGET_S:
            self._crashes = 0
        self._crashes += 1
        if self._crashes == 1:
            return 0.0
        return float(min(CRASH_MOST_S, CRASH_FIRST_S * 2 ** (self._crashes - 2)))
