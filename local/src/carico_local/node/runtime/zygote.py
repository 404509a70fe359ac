"""The parent of a node's containers: a small single-threaded process that forks them, reaps them and writes their logs.

It has imported the workloads and numpy before it forks, so that the start of an interpreter does not look like
contention on the node. It outlives the node's process, as a containerd shim outlives the kubelet. On the socket
`runtime.sock` in the node's directory it exchanges lines of JSON: requests `start`, `signal`, `list`, `quit`; events
`started`, `start_failed`, `exited`, `running`. It also writes files (`started.json`, `exit.json`) for a node process
that was not running at the time; what a full disk did not take is in `running`, the answer to `list`.
"""

import contextlib
import dataclasses
import errno
import gc
import json
import os
import pathlib
import selectors
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from carico_core.runtime.process import clock as clocks
from carico_local import process_ids
from carico_local.node.runtime import child as container_child
from carico_local.node.runtime import landlock
from carico_local.node.runtime import logs as container_logs
from carico_local.node.runtime import records as files

# Without a client and without containers it ends after this time, so that a node that never returns leaves nothing.
IDLE_S = 60.0
_RETRY_S = 1.0
_READ_BYTES = 65536


@dataclasses.dataclass(slots=True)
class Container:
    """A process that was forked for a container."""

    id: str
    pid: int
    directory: pathlib.Path
    log: container_logs.LogFile
    output_fd: int
    status_fd: int | None
    started_ns: int
    # True without a cgroup: then the process group has to be killed, since there is no cgroup to remove.
    owns_group: bool


class Zygote:
    """The event loop. It has one thread only, so that it may fork at any time."""

    def __init__(self, root: pathlib.Path, closed: Sequence[str], clock: clocks.Clock) -> None:
        self._root = root
        self._closed = closed
        self._clock = clock
        self._selector = selectors.DefaultSelector()
        self._containers: dict[str, Container] = {}
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._peer: socket.socket | None = None
        self._pending = b""
        # Records that a full disk did not take, each with the id of its container.
        self._unwritten: dict[pathlib.Path, tuple[str, dict[str, Any]]] = {}
        self._quit = False

    def run(self) -> None:
        """Serve until asked to quit, or idle for too long."""
        self._listen()
        wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(wake_read, selectors.EVENT_READ, lambda: os.read(wake_read, 512))
        # A child never collects objects from before the fork, so their memory stays shared.
        gc.collect()
        gc.freeze()
        idle_since_s = self._clock.monotonic_s()
        while not self._quit:
            for key, _ in self._selector.select(timeout=_RETRY_S if self._unwritten else IDLE_S / 4):
                # Handling one event may have closed the file of another.
                if key.fd in self._selector.get_map():
                    key.data()
            self._reap()
            for path in list(self._unwritten):
                self._record(path, *self._unwritten.pop(path))
            if self._peer is not None or self._containers:
                idle_since_s = self._clock.monotonic_s()
            self._quit = self._quit or self._clock.monotonic_s() - idle_since_s > IDLE_S

    def _listen(self) -> None:
        # A relative name: the path of a Unix socket is limited to 108 bytes.
        os.chdir(self._root)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(files.SOCKET)
        self._listener.bind(files.SOCKET)
        self._listener.listen(8)
        pid = os.getpid()
        self._record(self._root / files.RUNTIME, "", {"pid": pid, "start_ticks": process_ids.start_ticks(pid)})
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def _accept(self) -> None:
        peer, _ = self._listener.accept()
        self._drop_peer()
        # A node that does not read at once is gone: the loop must not block on it.
        peer.settimeout(5.0)
        self._peer = peer
        self._pending = b""
        self._selector.register(peer, selectors.EVENT_READ, self._receive)

    def _drop_peer(self) -> None:
        if self._peer is not None:
            self._selector.unregister(self._peer)
            self._peer.close()
            self._peer = None

    def _receive(self) -> None:
        assert self._peer is not None
        try:
            data = self._peer.recv(_READ_BYTES)
        except OSError:
            data = b""
        if not data:
            self._drop_peer()
            return
        *lines, self._pending = (self._pending + data).split(b"\n")
        for line in lines:
            self._handle(json.loads(line))

    def _handle(self, request: Mapping[str, Any]) -> None:
        match request["op"]:
            case "start":
                self._start(request)
            case "signal":
                container = self._containers.get(request["id"])
                if container is not None:
                    # Not reaped yet, so the id cannot be another process's.
                    send = os.killpg if request.get("group") else os.kill
                    with contextlib.suppress(ProcessLookupError):
                        send(container.pid, request["signal"])
            case "list":
                running = {name: container.started_ns for name, container in sorted(self._containers.items())}
                exits = dict(kept for path, kept in self._unwritten.items() if path.name == files.EXITED)
                self._send(event="running", started_ns=running, exits=exits)
            case "quit":
                self._quit = True

    def _send(self, **event: Any) -> None:
        if self._peer is None:
            return
        try:
            self._peer.sendall(json.dumps(event).encode() + b"\n")
        except OSError:
            self._drop_peer()

    def _record(self, path: pathlib.Path, name: str, document: dict[str, Any]) -> None:
        """Write a record, or keep it until the disk has room: a runtime that ended would take all containers along."""
        try:
            files.write_json(path, document)
        except OSError:
            # The directory of a Pod that was removed does not come back.
            if path.parent.exists():
                self._unwritten[path] = (name, document)

    def _start(self, request: Mapping[str, Any]) -> None:
        try:
            self._fork(request)
        except OSError as error:
            # No room on the disk, or for another process or file: the other containers go on.
            where = f"{error.filename}: " if error.filename else ""
            self._send(event="start_failed", id=request["id"], message=f"{where}{error.strerror}")

    def _fork(self, request: Mapping[str, Any]) -> None:
        """Fork the process of a container, and follow it. Raises `OSError`."""
        directory = pathlib.Path(request["directory"])
        with contextlib.ExitStack() as opened:
            log = container_logs.LogFile(directory / files.LOG)
            opened.callback(log.close, wall_ns=0)
            output_read, output_write = _pipe(opened)
            status_read, status_write = _pipe(opened)
            pid = os.fork()
            if pid == 0:
                # By what the zygote was started with, not by the request: any process of this user may ask for a
                # container.
                container_child.run(
                    request, closed=self._closed, still_open=(files.shared_in(self._root),), output_fd=output_write,
                    status_fd=status_write,
                )  # fmt: skip
            opened.pop_all()
        os.close(output_write)
        os.close(status_write)
        container = Container(
            id=request["id"],
            pid=pid,
            directory=directory,
            log=log,
            output_fd=output_read,
            status_fd=status_read,
            started_ns=self._clock.wall_ns(),
            owns_group=request["die_with_parent"],
        )
        self._containers[container.id] = container
        self._selector.register(output_read, selectors.EVENT_READ, lambda: self._copy_output(container))
        self._selector.register(status_read, selectors.EVENT_READ, lambda: self._read_status(container))

    def _read_status(self, container: Container) -> None:
        """Report whether the command could be run: the status pipe closes at exec, or contains the reason."""
        if container.status_fd is None:
            return
        try:
            reason = os.read(container.status_fd, 4096).decode(errors="replace")
        except BlockingIOError:
            return
        self._selector.unregister(container.status_fd)
        os.close(container.status_fd)
        container.status_fd = None
        if reason:
            self._record(container.directory / files.FAILED, container.id, {"message": reason})
            self._send(event="start_failed", id=container.id, message=reason)
            return
        started = {
            "pid": container.pid,
            "start_ticks": process_ids.start_ticks(container.pid),
            "wall_ns": container.started_ns,
        }
        self._record(container.directory / files.STARTED, container.id, started)
        self._send(event="started", id=container.id, **started)

    def _copy_output(self, container: Container) -> bool:
        """Return True where there was something to copy."""
        try:
            data = os.read(container.output_fd, _READ_BYTES)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
            return False
        if not data:
            self._close_output(container)
            return False
        # A full disk costs lines, never the container.
        with contextlib.suppress(OSError):
            container.log.write(data, wall_ns=self._clock.wall_ns())
        return True

    def _close_output(self, container: Container) -> None:
        if container.output_fd >= 0:
            self._selector.unregister(container.output_fd)
            os.close(container.output_fd)
            container.output_fd = -1

    def _reap(self) -> None:
        for container in list(self._containers.values()):
            pid, status = os.waitpid(container.pid, os.WNOHANG)
            if pid:
                self._finish(container, status)

    def _finish(self, container: Container, status: int) -> None:
        wall_ns = self._clock.wall_ns()
        del self._containers[container.id]
        if container.owns_group:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(container.pid, signal.SIGKILL)
        self._read_status(container)
        # At most one pipe buffer: descendants that keep the pipe open and still write must not block the loop.
        for _ in range(2):
            if container.output_fd < 0 or not self._copy_output(container):
                break
        self._close_output(container)
        with contextlib.suppress(OSError):
            container.log.close(wall_ns=wall_ns)
        code = os.waitstatus_to_exitcode(status)
        exited = {"code": code if code >= 0 else 128 - code, "signal": max(0, -code), "wall_ns": wall_ns}
        self._record(container.directory / files.EXITED, container.id, exited)
        self._send(event="exited", id=container.id, **exited)


def _pipe(opened: contextlib.ExitStack) -> tuple[int, int]:
    """Return the ends of a pipe, which the stack closes; reading from it does not block."""
    read, write = os.pipe2(os.O_CLOEXEC)
    for descriptor in (read, write):
        opened.callback(os.close, descriptor)
    os.set_blocking(read, False)
    return read, write


def serve(root: pathlib.Path, closed: Sequence[str]) -> None:
    """Run the zygote of a node's directory until asked to quit or idle for too long.

    `closed`: the folders whose files no container may read, except those that it shares with the node.
    """
    if closed and not landlock.version():
        print(f"containers may read {', '.join(closed)}: no Landlock", file=sys.stderr)
    # The supervisor handles Ctrl-C, and containers end in the node's order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Zygote(root, closed, clocks.SystemClock()).run()


def main() -> NoReturn:
    """Run `python -m carico_local.node.runtime.zygote ROOT CLOSED [CGROUP_PROCS_FILE...]`; CLOSED: JSON."""
    root, closed, procs = pathlib.Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3:]
    for name in procs:
        pathlib.Path(name).write_text("0", encoding="ascii")
    serve(root, closed)
    sys.exit(0)


if __name__ == "__main__":
    main()
