"""A real control plane by itself, started and stopped by its caller: compose's kubelet nodes, tests and benchmarks.

`carico up --control-plane real` runs the same commands under its supervisor.
"""

import http.client
import pathlib
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent import futures

from carico_core.domain import errors
from carico_core.runtime.process import clock as clocks
from carico_local.binaries import tools
from carico_local.cluster import free_ports, processes
from carico_local.cluster.services import readiness
from carico_local.control_plane import commands, identity

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0
_LOOK_EVERY_S = 0.02
_LAST_LINES = 3
# Started in this order and stopped in reverse: an API server without its etcd takes most of a minute to end.
ALL = (commands.ETCD, commands.API, commands.CONTROLLERS, commands.SCHEDULER, commands.KWOK)
DEFAULT = (commands.ETCD, commands.API, commands.CONTROLLERS)
_HEALTH = {
    commands.API: "/readyz",
    commands.CONTROLLERS: "/healthz",
    commands.SCHEDULER: "/healthz",
    commands.KWOK: "/healthz",
}


class Standalone:
    """One control plane over `directory`. After `stop`, `start` continues with the stored data on the same ports."""

    def __init__(
        self, directory: pathlib.Path, *, environ: Mapping[str, str], clock: clocks.Clock,
        found: Mapping[str, tools.Found], name: str = "standalone", parts: Iterable[str] = DEFAULT,
        users: Mapping[str, identity.User] | None = None, address: str = "127.0.0.1", hosts: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.directory = directory
        self._clock = clock
        self._environ = dict(environ)
        self._parts = [part for part in ALL if part in set(parts)]
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        # A child ends with the thread that started it: this thread lives as long as the program.
        self._parent = futures.ThreadPoolExecutor(1, thread_name_prefix="control-plane")
        directory.mkdir(parents=True, exist_ok=True)
        free = free_ports.choose(str(directory), len(ALL))
        self.network = commands.Listeners(
            ports=dict(zip(ALL, free, strict=True)), address=address, hosts=tuple(hosts)
        )  # fmt: skip
        self.identities = identity.Identities(directory / "identities", environ)
        self.plane = commands.CommandLines(
            binaries={part: str(found[part].path) for part in self._parts}, directory=directory,
            network=self.network, identities=self.identities,
        )  # fmt: skip
        self.plane.write_configuration(name, users=users or {})

    @property
    def url(self) -> str:
        """Where the API is reached."""
        return self.network.api_url

    @property
    def kubeconfig(self) -> pathlib.Path:
        """The administrator's kubeconfig."""
        return self.identities.kubeconfig(identity.ADMIN)

    def start(self) -> "Standalone":
        """Start the control plane and wait until it is ready. Raises `EnvironmentUnfit` with the last log lines."""
        starters: dict[str, Callable[[], tuple[str, ...]]] = {
            commands.ETCD: self.plane.etcd, commands.API: self.plane.api, commands.CONTROLLERS: self.plane.controllers,
            commands.SCHEDULER: self.plane.scheduler, commands.KWOK: self.plane.kwok,
        }  # fmt: skip
        try:
            for part in self._parts:
                self._start(part, starters[part]())
                # The others only wait for the API, and log a lot while they do.
                if part == commands.API:
                    self._await(part)
            for part in self._parts:
                self._await(part)
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """Stop everything in order; the stored data stays in the directory."""
        for part in reversed(self._parts):
            process = self._processes.pop(part, None)
            if process is None:
                continue
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def kill(self) -> None:
        """Kill everything at once, as a machine failure would."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
        self._processes.clear()

    def pid(self, part: str) -> int:
        """Return the process id of one part. Raises `KeyError` where it does not run."""
        return self._processes[part].pid

    def log(self, part: str) -> pathlib.Path:
        """Return the path of a part's log."""
        return self.directory / f"{part}.log"

    def _start(self, part: str, argv: tuple[str, ...]) -> None:
        def start() -> "subprocess.Popen[bytes]":
            with self.log(part).open("ab") as log:
                return subprocess.Popen(
                    argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environ, cwd=self.directory,
                    preexec_fn=processes.end_with_parent(signal.SIGKILL),
                )  # fmt: skip

        self._processes[part] = self._parent.submit(start).result()

    def _await(self, part: str) -> None:
        path = _HEALTH.get(part)
        if path is None:
            return
        deadline_s = self._clock.monotonic_s() + START_TIMEOUT_S
        while not self._is_healthy(part, path):
            ended = self._processes[part].poll() is not None
            if ended or self._clock.monotonic_s() > deadline_s:
                last = "; ".join(processes.last_lines(self.log(part), _LAST_LINES))
                raise errors.EnvironmentUnfit(f"{part} {'ended by itself' if ended else 'is not ready'}: {last}")
            time.sleep(_LOOK_EVERY_S)

    def _is_healthy(self, part: str, path: str) -> bool:
        address = self.network.address if part == commands.API else "127.0.0.1"
        port = self.network.ports[part]
        connection = http.client.HTTPConnection(address, port, timeout=2.0)
        if part != commands.KWOK:
            connection = http.client.HTTPSConnection(address, port, timeout=2.0, context=readiness.unverified())
        try:
            connection.request("GET", path)
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()
