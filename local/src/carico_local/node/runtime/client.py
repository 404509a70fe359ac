"""The node's client of the zygote: starts and ends containers, each in its own cgroup."""

import asyncio
import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from carico_core.runtime.observe import logs
from carico_core.runtime.process import settings
from carico_local import process_ids
from carico_local.cgroups import group as groups
from carico_local.cgroups import sweep
from carico_local.node.runtime import records as files
from carico_local.node.runtime import users

# One minute in total: an interpreter starts in 0.1 s, or in 10 s where many nodes start at once.
_CONNECT_TRIES = 2400
_CONNECT_PAUSE_S = 0.025
# The zygote normally ends within milliseconds of a request; after this time it is killed.
_END_MOST_S = 15.0
_log = logs.get("node.runtime")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """The exit of a container."""

    code: int
    signal: int
    finished_ns: int
    oom_killed: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ContainerCommand:
    """What a container runs, and where."""

    id: str
    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    directory: pathlib.Path
    group: groups.Group | None
    # The kernel's preference for killing it when memory runs out, -1000 to 1000.
    oom_score_adj: int = 0
    # None: the user of the node.
    user: users.Ids | None = None
    # Directories that the container's process creates, as its own user, where they do not exist.
    folders: Sequence[str] = ()


class StartFailed(Exception):
    """A container's command could not be run; the message gives the reason."""


class Runtime:
    """The zygote's client. If the zygote is killed, its containers end with an unknown exit code."""

    def __init__(
        self, root: pathlib.Path, *, runtime_group: groups.Group | None, closed: Sequence[str] = ()
    ) -> None:  # fmt: skip
        """`closed`: folders whose files no container may read."""
        self._root = root
        self._closed = list(closed)
        self._group = runtime_group
        self._writer: asyncio.StreamWriter | None = None
        self._starting: dict[str, asyncio.Future[int]] = {}
        self._exits: dict[str, asyncio.Future[Exit | None]] = {}
        self._running: asyncio.Future[frozenset[str]] | None = None
        # When each container began that the zygote knew of when it was reached; 0 where only its end is known.
        self._listed: dict[str, int] = {}
        # True where the zygote of an earlier node process was reached: what it does not list never began.
        self.is_inherited = False
        self._lock = asyncio.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._closing = False
        self._orphans: set[str] = set()

    async def connect(self) -> frozenset[str]:
        """Connect to the node's zygote, starting one if needed; return the ids of the containers that it runs."""
        with contextlib.suppress(OSError):
            found = await self._attach()
            self.is_inherited = True
            return found
        self.is_inherited = False
        await asyncio.to_thread(self._spawn)
        for _ in range(_CONNECT_TRIES):
            with contextlib.suppress(OSError):
                return await self._attach()
            if self._process is not None and self._process.poll() is not None:
                break
            await asyncio.sleep(_CONNECT_PAUSE_S)
        raise TimeoutError(f"the container runtime of {self._root} did not answer: see {self._root / 'runtime.log'}")

    def _spawn(self) -> None:
        procs: tuple[str, ...] = ()
        if self._group is not None:
            self._group.create()
            procs = self._group.procs_files
        arguments = [sys.executable, "-m", "carico_local.node.runtime.zygote", str(self._root)]
        arguments += [json.dumps(self._closed), *procs]
        with (self._root / "runtime.log").open("ab") as log:
            self._process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env=_zygote_environment(),
            )  # fmt: skip

    async def _attach(self) -> frozenset[str]:
        directory_fd = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            # Through the descriptor: a Unix socket's path is limited to 108 bytes, and the directory's may be longer.
            path = f"/proc/self/fd/{directory_fd}/{files.SOCKET}"
            reader, self._writer = await asyncio.open_unix_connection(path)
        finally:
            os.close(directory_fd)
        self._running = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read(reader), name="runtime")
        self._send(op="list")
        return await self._running

    async def _read(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):
            async for line in reader:
                self._take(json.loads(line))
        self._lose_all()
        if not self._closing:
            _log.warning("runtime_lost", note="the container runtime ended; its containers' exit codes are unknown")

    def _take(self, event: Mapping[str, Any]) -> None:
        name = event.get("id", "")
        match event["event"]:
            case "running" if self._running is not None and not self._running.done():
                self._listed = dict.fromkeys(event["exits"], 0) | event["started_ns"]
                for found in self._listed:
                    self._exits.setdefault(found, asyncio.get_running_loop().create_future())
                for found, document in event["exits"].items():
                    if not self._exits[found].done():
                        self._exits[found].set_result(exit_of(document))
                self._running.set_result(frozenset(event["started_ns"]))
            case "started" if name in self._starting:
                self._starting.pop(name).set_result(event["wall_ns"])
            case "start_failed" if name in self._starting:
                self._starting.pop(name).set_exception(StartFailed(event["message"]))
            case "exited" if name in self._exits:
                # Kept until `wait` asks for it: a short command ends before.
                if not self._exits[name].done():
                    self._exits[name].set_result(exit_of(event))

    def found_ns(self, container_id: str) -> int | None:
        """Return when a container began that the zygote knew of when it was reached; None for any other.

        A full disk may have kept its files from being written.
        """
        return self._listed.get(container_id)

    def _lose_all(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._writer = None
        if self._running is not None and not self._running.done():
            self._running.set_exception(ConnectionResetError("the container runtime ended before it listed anything"))
        for starting in self._starting.values():
            if not starting.done():
                starting.set_exception(StartFailed("the container runtime ended while the container was starting"))
        for ending in self._exits.values():
            if not ending.done():
                ending.set_result(None)
        self._starting.clear()

    def _send(self, **request: Any) -> None:
        if self._writer is not None:
            self._writer.write(json.dumps(request).encode() + b"\n")

    async def start(self, command: ContainerCommand) -> int:
        """Start the container; return its start time in Unix nanoseconds. Raises `StartFailed`."""
        async with self._lock:
            if self._writer is None:
                await self.connect()
        if self._writer is None:
            raise StartFailed("the container runtime ended right after connecting")
        loop = asyncio.get_running_loop()
        started: asyncio.Future[int] = loop.create_future()
        self._starting[command.id] = started
        self._exits[command.id] = loop.create_future()
        self._send(
            op="start",
            id=command.id,
            argv=list(command.argv),
            env=dict(command.env),
            cwd=command.cwd,
            directory=str(command.directory),
            procs=[] if command.group is None else list(command.group.procs_files),
            die_with_parent=command.group is None,
            oom_score_adj=command.oom_score_adj,
            user=None if command.user is None else dataclasses.asdict(command.user),
            folders=list(command.folders),
        )
        return await started

    async def wait(self, container_id: str, *, directory: pathlib.Path, group: groups.Group | None) -> Exit | None:
        """Wait until nothing of the container runs; return its exit, None where it was not seen."""
        found = self._exits.get(container_id)
        ended = None if found is None else await asyncio.shield(found)
        self._exits.pop(container_id, None)
        if ended is None:
            ended = await self._wait_orphan(container_id, directory)
        return await self.finish(ended, group)

    async def _wait_orphan(self, container_id: str, directory: pathlib.Path) -> Exit | None:
        """Wait for the process of a container whose zygote is gone; return the recorded exit, if any."""
        started = files.read_json(directory / files.STARTED)
        self._orphans.add(container_id)
        try:
            if started is not None and process_ids.is_alive(started):
                await _wait_gone(started["pid"])
        finally:
            self._orphans.discard(container_id)
        exited = files.read_json(directory / files.EXITED)
        return None if exited is None else exit_of(exited)

    async def finish(self, ended: Exit | None, group: groups.Group | None) -> Exit | None:
        """Kill what the container left running and remove its cgroup; return the exit, marked if memory ran out."""
        if group is None:
            return ended
        oom_killed = ended is not None and ended.signal == signal.SIGKILL and group.oom_kills() > 0
        if not group.try_remove():
            await asyncio.to_thread(group.destroy)
        return ended if ended is None else dataclasses.replace(ended, oom_killed=oom_killed)

    def signal(self, container_id: str, number: int, *, group: groups.Group | None) -> None:
        """Send a signal to the container's main process; SIGKILL goes to all of its processes."""
        whole = number == signal.SIGKILL
        if group is not None and whole:
            group.kill()
        elif group is not None and container_id in self._orphans:
            group.signal(number)
        else:
            self._send(op="signal", id=container_id, signal=number, group=whole)

    async def close(self, *, quit_runtime: bool) -> None:
        """Disconnect; with `quit_runtime`, end the zygote too."""
        self._closing = True
        if self._writer is None:
            if self._process is not None:
                self._process.poll()  # a runtime that was killed leaves no zombie
            return
        writer = self._writer
        if quit_runtime:
            self._send(op="quit")
        with contextlib.suppress(OSError):
            await writer.drain()
        if not quit_runtime:
            writer.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._reading), _END_MOST_S)
        writer.close()
        if quit_runtime and self._process is not None:
            try:
                await asyncio.to_thread(self._process.wait, _END_MOST_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                await asyncio.to_thread(self._process.wait)


def exit_of(record: Mapping[str, Any]) -> Exit:
    """Return the exit described by an event or an `exit.json`."""
    return Exit(code=record["code"], signal=record["signal"], finished_ns=record["wall_ns"])


async def _wait_gone(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return
    loop = asyncio.get_running_loop()
    gone = asyncio.Event()
    loop.add_reader(descriptor, gone.set)
    try:
        await gone.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _zygote_environment() -> dict[str, str]:
    # The image keeps its bytecode in a separate directory; without it a zygote starts a second later.
    kept = {} if sys.pycache_prefix is None else {"PYTHONPYCACHEPREFIX": sys.pycache_prefix}
    if (run := settings.environment().get(sweep.RUN_VARIABLE)) is not None:
        kept[sweep.RUNTIME_VARIABLE] = run
    return {
        **kept,
        "PATH": container_path(),
        "LANG": "C.UTF-8",
        # A process that forks must have one thread.
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def container_path() -> str:
    """Return the PATH of containers: the project's environment first, so that the workloads are found."""
    return f"{sys.prefix}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def kill_group(started: Mapping[str, Any]) -> None:
    """Kill the process group recorded in a `started.json`, if it still runs."""
    if process_ids.is_alive(started):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started["pid"], signal.SIGKILL)
