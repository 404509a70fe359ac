"""What commands do with a cluster: start its supervisor, read its events, stop it, remove leftovers."""

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
from carico_local.cluster import events, folders, machine, processes, state
from carico_local.cluster import plan as plans
from carico_local.cluster.services import kubelet_nodes
from carico_local.node.runtime import records

# A supervisor stops its services in order, each within a few seconds.
DOWN_TIMEOUT_S = 60.0
_LOOK_EVERY_S = 0.05
_KILL_GRACE_S = 2.0
# A machine that swaps or stalls is slow to end even a killed process.
_KILLED_WITHIN_S = 30.0
# A crash has up to 64 KiB of a log, of which JSON may make six times as much.
_EVENT_BYTES = 2**20


class Launched:
    """A supervisor that was just started, and its events.

    Not an asyncio process: those are killed when their transport is collected, but the supervisor of `carico up`
    outlives the command.
    """

    def __init__(self, process: subprocess.Popen[bytes], paths: folders.Paths) -> None:
        self._process = process
        self._output: asyncio.StreamReader | None = None
        self.paths = paths

    async def follow(self) -> AsyncIterator[events.Event]:
        """Yield the supervisor's events until it ends."""
        if self._output is None:
            self._output = asyncio.StreamReader(limit=_EVENT_BYTES)
            protocol = asyncio.StreamReaderProtocol(self._output)
            await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, self._process.stdout)
        while line := await self._output.readline():
            with contextlib.suppress(ValueError):
                yield events.decode(line)

    async def until_up(self) -> AsyncIterator[events.Event]:
        """Yield the events of the start, up to and including `UP`. Raises `EnvironmentUnfit` where the start fails."""
        async for event in self.follow():
            yield event
            if event.kind is events.Kind.UP:
                return
            if event.kind is events.Kind.FAILED:
                raise errors.EnvironmentUnfit(f"cluster {self.paths.name} did not start: {event.text}")
        await self._ended()
        if not self.paths.plan.exists():
            raise errors.EnvironmentUnfit(f"cluster {self.paths.name} was stopped by another command during its start")
        last = "; ".join(processes.last_lines(self.paths.log("supervisor"), 3))
        raise errors.EnvironmentUnfit(f"the supervisor of {self.paths.name} ended right after its start: {last}")

    async def stop(self) -> None:
        """Stop the cluster."""
        self._process.terminate()
        await self._ended()

    async def remove(self, *, keep_logs: bool = False) -> None:
        """Stop the cluster, and remove its files."""
        await self.stop()
        await down(self.paths, keep_logs=keep_logs)

    def kill(self) -> None:
        """Kill the supervisor at once; its children get SIGTERM, and `down` removes what is left."""
        self._process.kill()

    async def _ended(self) -> None:
        await asyncio.to_thread(self._process.wait)


async def launch(
    options: plans.Options, *, home: pathlib.Path, environ: Mapping[str, str], restart: bool, lifeline: bool,
    fresh: bool, binaries: Mapping[str, str] | None = None,
) -> Launched:  # fmt: skip
    """Start a cluster. Raises `SettingsError` for invalid options, or where it runs already.

    Raises `EnvironmentUnfit` where its files cannot be written.
    binaries: paths of the programs in `plan.programs`.
    fresh: remove the data of an earlier cluster of this name whose supervisor was killed; do not continue with it.
    """
    plan = plans.make_plan(options, machine.read_machine(), binaries)
    paths = folders.Paths(home / plan.name)
    # Held from here on, and passed to the supervisor: of two concurrent starts, one fails before it can remove what the
    # other has started.
    with _taken(paths) as lock:
        await clear(paths)
        # The state of a killed supervisor is outdated, and would be taken for the new one's.
        paths.state.unlink(missing_ok=True)
        if fresh:
            folders.empty(paths)
        _write_plan(paths, plan)
        flags = (["--restart"] if restart else []) + (["--lifeline"] if lifeline else [])
        return Launched(_start(paths, flags, environ, lock, lifeline=lifeline), paths)


def _taken(paths: folders.Paths) -> IO[bytes]:
    with _unfit(paths):
        paths.root.mkdir(parents=True, exist_ok=True)
        # Only this user may read kubeconfig, keys, state and logs.
        paths.root.chmod(0o700)
        try:
            return folders.acquire(paths)
        except errors.SettingsError as error:
            raise errors.SettingsError(f"{error}, or choose another --name") from None


def _write_plan(paths: folders.Paths, plan: plans.Plan) -> None:
    with _unfit(paths):
        paths.logs.mkdir(parents=True, exist_ok=True)
        # On a full disk, services end without a message: their logs are on it.
        if shutil.disk_usage(paths.root).free < machine.LEAST_FREE_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        paths.plan.write_bytes(orjson.dumps(plans.to_json(plan)))


@contextlib.contextmanager
def _unfit(paths: folders.Paths) -> Iterator[None]:
    """Translate errors of the file system."""
    try:
        yield
    except OSError as error:
        raise errors.EnvironmentUnfit(
            f"cannot write the cluster's files to {paths.root} ({error.strerror}): "
            "set XDG_STATE_HOME to a folder of yours with at least 16 MiB free"
        ) from error


def _start(
    paths: folders.Paths, flags: list[str], environ: Mapping[str, str], lock: IO[bytes], *, lifeline: bool
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
            # The command handles a Ctrl-C at the terminal and stops the services in order.
            start_new_session=True,
        )


async def down(paths: folders.Paths, *, keep_logs: bool) -> None:
    """Stop a cluster, or what is left of it, and remove its files. Raises `EnvironmentUnfit` where that fails."""
    signalled: set[processes.ProcessId] = set()
    for _ in range(int(DOWN_TIMEOUT_S / _LOOK_EVERY_S)):
        if not folders.is_running(paths):
            break
        # Read each time: a supervisor that just starts has not written its identity yet.
        supervisor = state.read_supervisor(paths)
        if supervisor is not None and supervisor not in signalled:
            processes.kill(supervisor, signal.SIGTERM)
            signalled.add(supervisor)
        await asyncio.sleep(_LOOK_EVERY_S)
    else:
        for supervisor in signalled:
            processes.kill(supervisor, signal.SIGKILL)
    with contextlib.ExitStack() as held:
        # With the lock, no other command starts it meanwhile. Continue without where a supervisor does not end.
        with contextlib.suppress(errors.SettingsError, OSError):
            held.enter_context(folders.acquire(paths))
        await clear(paths)
        for node in (paths.data / "nodes").glob("*"):
            records.remove_pod_files(node)
        folders.remove(paths, keep_logs=keep_logs)


async def clear(paths: folders.Paths) -> None:
    """End processes and remove cgroups that a killed supervisor left. Raises `EnvironmentUnfit` where some remain."""
    mark, runtimes_mark = (f"{name}={paths.root}" for name in (sweep.RUN_VARIABLE, sweep.RUNTIME_VARIABLE))
    await _end_marked(mark, number=signal.SIGTERM, within_s=_KILL_GRACE_S)
    if left := await _end_marked(mark, runtimes_mark, number=signal.SIGKILL, within_s=_KILLED_WITHIN_S):
        pids = ", ".join(str(process.pid) for process in left)
        raise errors.EnvironmentUnfit(f"processes of {paths.name} were killed but do not end: {pids}")
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
    signalled: set[processes.ProcessId] = set()
    for _ in range(int(within_s / _LOOK_EVERY_S)):
        # A process that is ending has lost its environment, and so its mark, before it is gone.
        ending = [process for process in signalled if processes.is_alive(process)]
        left = sorted({*processes.marked(*marks), *ending}, key=lambda process: process.pid)
        if not left:
            break
        # A process may start others until it has ended, so look again each time. Signal each only once: on a second
        # SIGTERM a service aborts its shutdown.
        for process in left:
            if process not in signalled:
                processes.kill(process, number)
        signalled.update(left)
        await asyncio.sleep(_LOOK_EVERY_S)
    return left
