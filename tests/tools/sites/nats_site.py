"""A NATS server with JetStream on loopback, as a process."""

import pathlib
import socket
import subprocess
import time
from collections.abc import Mapping
from typing import Any

from carico_core.domain import errors
from carico_local import nats_server
from carico_local.cluster import free_ports

# It listens within a tenth of a second, or within some where the machine is slow; one that failed ends at once.
START_TIMEOUT_S = 60.0
_LOOK_EVERY_S = 0.01


class NatsServer:
    """One server over `directory`; `start` after `kill` or `stop` goes on with the same port and store."""

    def __init__(
        self, directory: pathlib.Path, *, port: int | None = None, extra: Mapping[str, Any] | None = None
    ) -> None:
        self.directory = directory
        self.port = free_ports.choose_one() if port is None else port
        self._extra = extra
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"nats://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The server's process. Raises `RuntimeError` where it is not running."""
        if self._process is None:
            raise RuntimeError("the NATS server is not running")
        return self._process.pid

    def start(self) -> "NatsServer":
        """Return the server, listening. Raises `EnvironmentUnfit` with its last words where it does not come up."""
        self.directory.mkdir(parents=True, exist_ok=True)
        config = self.directory / "nats.conf"
        config.write_text(
            nats_server.configuration(store_dir=self.directory / "store", port=self.port, extra=self._extra),
            encoding="utf-8",
        )
        log = self.directory / "nats.log"
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [str(nats_server.binary()), "-c", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        for _ in range(int(START_TIMEOUT_S / _LOOK_EVERY_S)):
            if self._process.poll() is not None:
                break
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return self
            time.sleep(_LOOK_EVERY_S)
        self.kill()
        words = "; ".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-3:])
        raise errors.EnvironmentUnfit(f"nats-server did not come up on port {self.port}: {words}")

    def stop(self) -> None:
        """End the server in order (SIGTERM)."""
        if self._process is not None:
            self._process.terminate()
            self._end()

    def kill(self) -> None:
        """End the server at once (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._end()

    def _end(self) -> None:
        if self._process is not None:
            self._process.wait()
            self._process = None
