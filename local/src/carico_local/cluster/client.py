"""What a person's shell does with a cluster: start its supervisor, hear its events, end it, clear leftovers away."""

import asyncio
import contextlib
import errno
import os
import pathlib
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import IO

import orjson

from carico_core.domain import errors
from carico_core.runtime.process import settings
from carico_local.cgroups import sweep
from carico_local.cluster import events, machine, processes, state
from carico_local.cluster import plan as plans
from carico_local.cluster.services import kubelet_nodes

# A supervisor ends its services in order, a few seconds each at most.
DOWN_TIMEOUT_S = 60.0
_LOOK_EVERY_S = 0.05
_KILL_GRACE_S = 2.0
# A machine that swaps or stalls is slow to end even a killed process.
_KILLED_WITHIN_S = 30.0
# A job of some minutes writes a few MB (measured); no start fits into less than one.
LEAST_FREE_BYTES = 16 * 2**20


class Launched:
    """A supervisor that was just started, and what it says.

    Not a process of asyncio's: those are killed when their transport is collected, and a supervisor that `carico up`
    started outlives the command.
    """

    def __init__(self, process: subprocess.Popen[bytes], paths: state.Paths) -> None:
        self._process = process
        self._said: asyncio.StreamReader | None = None
        self.paths = paths

    async def heard(self) -> AsyncIterator[events.Event]:
        """Yield what happens, until the supervisor ends."""
        if self._said is None:
            self._said = asyncio.StreamReader()
            protocol = asyncio.StreamReaderProtocol(self._said)
            await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, self._process.stdout)
        while line := await self._said.readline():
            with contextlib.suppress(ValueError):
                yield events.decode(line)

    async def until_up(self) -> AsyncIterator[events.Event]:
        """Yield the events of the start; `UP` is the last of a good one. Raises `EnvironmentUnfit` where it fails."""
        async for event in self.heard():
            yield event
            if event.kind is events.Kind.UP:
                return
            if event.kind is events.Kind.FAILED:
                raise errors.EnvironmentUnfit(f"cluster {self.paths.name} did not start: {event.text}")
        await self._ended()
        if not self.paths.plan.exists():
            raise errors.EnvironmentUnfit(f"cluster {self.paths.name} was ended by another command while it started")
        last = "; ".join(processes.last_lines(self.paths.log("supervisor"), 3))
        raise errors.EnvironmentUnfit(f"the supervisor of {self.paths.name} ended at once: {last}")

    async def stop(self) -> None:
        """End the cluster."""
        self._process.terminate()
        await self._ended()

    def kill(self) -> None:
        """Kill the supervisor at once; its children get SIGTERM, and `down` removes what is left."""
        self._process.kill()

    async def _ended(self) -> None:
        await asyncio.to_thread(self._process.wait)


async def launch(
    wish: plans.Wish, *, home: pathlib.Path, environ: Mapping[str, str], restart: bool, lifeline: bool, fresh: bool,
    binaries: Mapping[str, str] | None = None,
) -> Launched:  # fmt: skip
    """Start a cluster. Raises `SettingsError` for a request without sense, or where it runs already.

    Raises `EnvironmentUnfit` where nothing can be written about it.
    binaries: where the programs of `plan.programs` are.
    fresh: what an earlier cluster of this name left (its supervisor was killed) is removed, not gone on with.
    """
    plan = plans.make_plan(wish, machine.read_machine(), binaries)
    paths = state.Paths(home / plan.name)
    # Held from here on, and passed to the supervisor: of two commands that start it at once, one fails before it
    # could clear away, or give up, what the other has started.
    with _taken(paths) as lock:
        await clear(paths)
        # Of whom a killed supervisor has written is no longer true, and would be taken for the new one's word.
        paths.state.unlink(missing_ok=True)
        if fresh:
            state.empty(paths)
        _write_plan(paths, plan)
        flags = (["--restart"] if restart else []) + (["--lifeline"] if lifeline else [])
        return Launched(_start(paths, flags, environ, lock, lifeline=lifeline), paths)


def _taken(paths: state.Paths) -> IO[bytes]:
    with _unfit(paths):
        paths.root.mkdir(parents=True, exist_ok=True)
        try:
            return state.acquire(paths)
        except errors.SettingsError as error:
            raise errors.SettingsError(f"{error}, or choose another --name") from None


def _write_plan(paths: state.Paths, plan: plans.Plan) -> None:
    with _unfit(paths):
        paths.logs.mkdir(parents=True, exist_ok=True)
        # Services on a full disk end without a word: their logs are on it.
        if shutil.disk_usage(paths.root).free < LEAST_FREE_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        paths.plan.write_bytes(orjson.dumps(plans.to_json(plan)))


@contextlib.contextmanager
def _unfit(paths: state.Paths) -> Iterator[None]:
    """Translate what the file system refuses."""
    try:
        yield
    except OSError as error:
        raise errors.EnvironmentUnfit(
            f"what a cluster keeps cannot be written to {paths.root} ({error.strerror}): "
            "set XDG_STATE_HOME to a folder of yours, with 16 MiB free at the least"
        ) from error


def _start(
    paths: state.Paths, flags: list[str], environ: Mapping[str, str], lock: IO[bytes], *, lifeline: bool
) -> "subprocess.Popen[bytes]":
    with paths.log("supervisor").open("ab") as log:
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "carico_local.cluster",
                "--root",
                str(paths.root),
                "--lock",
                str(lock.fileno()),
                *flags,
            ],
            pass_fds=(lock.fileno(),),
            stdin=subprocess.PIPE if lifeline else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            env=dict(environ),
            # A Ctrl-C at the terminal is the shell's to handle, in order; not every service's at once.
            start_new_session=True,
        )


async def down(paths: state.Paths, *, keep_logs: bool) -> None:
    """End a cluster, running or left behind, and remove what it wrote. Raises `EnvironmentUnfit` where that fails."""
    told: set[processes.ProcessId] = set()
    for _ in range(int(DOWN_TIMEOUT_S / _LOOK_EVERY_S)):
        if not state.is_running(paths):
            break
        # Read each time: one that just starts has not written its identity yet.
        supervisor = state.read_supervisor(paths)
        if supervisor is not None and supervisor not in told:
            processes.kill(supervisor, signal.SIGTERM)
            told.add(supervisor)
        await asyncio.sleep(_LOOK_EVERY_S)
    else:
        for supervisor in told:
            processes.kill(supervisor, signal.SIGKILL)
    with contextlib.ExitStack() as held:
        # Nothing starts it meanwhile. A supervisor that does not end even so holds it; the rest is done all the same.
        with contextlib.suppress(errors.SettingsError, OSError):
            held.enter_context(state.acquire(paths))
        await clear(paths)
        state.remove(paths, keep_logs=keep_logs)


async def clear(paths: state.Paths) -> None:
    """End processes and remove cgroups that a killed supervisor left. Raises `EnvironmentUnfit` where some stay."""
    mark, runtimes_mark = (f"{name}={paths.root}" for name in (sweep.RUN_VARIABLE, sweep.RUNTIME_VARIABLE))
    await _end_marked(mark, number=signal.SIGTERM, within_s=_KILL_GRACE_S)
    if left := await _end_marked(mark, runtimes_mark, number=signal.SIGKILL, within_s=_KILLED_WITHIN_S):
        pids = ", ".join(str(process.pid) for process in left)
        raise errors.EnvironmentUnfit(f"processes of {paths.name} do not end although they were killed: {pids}")
    if (paths.data / "kubelets").exists():
        await asyncio.to_thread(kubelet_nodes.clear, paths, settings.environment())
    roots = sorted((paths.data / "nodes").glob("*"))
    ready = sorted(paths.run.glob("*.ready.json"))
    swept = await asyncio.to_thread(sweep.sweep, paths.name, state_dirs=roots, ready_files=ready)
    if swept.remaining:
        raise errors.EnvironmentUnfit(
            f"cgroups of {paths.name} could not be removed: {', '.join(swept.remaining)}; remove them as their owner"
        )


async def _end_marked(*marks: str, number: signal.Signals, within_s: float) -> list[processes.ProcessId]:
    told: set[processes.ProcessId] = set()
    for _ in range(int(within_s / _LOOK_EVERY_S)):
        left = processes.marked(*marks)
        if not left:
            break
        # A process may start another until it has ended, so each look is acted upon; a service that gets a second
        # SIGTERM breaks off.
        for process in left:
            if process not in told:
                processes.kill(process, number)
        told.update(left)
        await asyncio.sleep(_LOOK_EVERY_S)
    return left
