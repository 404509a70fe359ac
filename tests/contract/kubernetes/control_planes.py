"""The control planes that the contract suite runs against, each behind one record."""

import contextlib
import dataclasses
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import urllib3

from carico_local.api import access
from carico_local.control_plane import identity, standalone
from tests.tools import waiting

STARTUP_S = waiting.WAIT_S
PROGRAM = ("-m", "carico_local.api")


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What the API answered."""

    code: int
    body: Any
    headers: Any


@dataclasses.dataclass(kw_only=True)
class KubeApi:
    """A running API: how to reach it, and what may be done to it."""

    kind: str
    url: str
    kubeconfig: pathlib.Path
    token: str = ""
    # Kills the control plane and starts it on what it had kept; None where that is not the suite's to do.
    kill_and_restart: Callable[[], None] | None = None
    # Certificate and key for a kubelet of the suite's own; None where the API speaks plain HTTP to kubelets.
    kubelet_pair: tuple[pathlib.Path, pathlib.Path] | None = None
    kubectl: str | None = dataclasses.field(default_factory=lambda: shutil.which("kubectl"))
    pool: urllib3.PoolManager = dataclasses.field(default_factory=lambda: urllib3.PoolManager(retries=False))

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
        raw: bytes | None = None,
        **query: Any,
    ) -> Answer:
        """One request and its whole answer."""
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        headers = self._headers(accept) | ({} if data is None else {"Content-Type": content_type})
        answer = self.pool.request(
            method, self._address(path, query), body=data, headers=headers, timeout=waiting.WAIT_S
        )
        try:
            decoded: Any = json.loads(answer.data)
        except ValueError:
            decoded = answer.data.decode()
        return Answer(answer.status, decoded, answer.headers)

    @contextlib.contextmanager
    def watch(self, path: str, *, accept: str = "application/json", **query: Any) -> Iterator[Iterator[Any]]:
        """The events of a watch, as they come; a silence of half a minute is a failure."""
        address = self._address(path, {"watch": "true", "timeoutSeconds": 60} | query)
        timeout = urllib3.Timeout(connect=30.0, read=30.0)
        answer = self.pool.request(
            "GET", address, headers=self._headers(accept), preload_content=False, timeout=timeout
        )
        try:
            yield _lines(answer)
        finally:
            answer.close()

    def _address(self, path: str, query: dict[str, Any]) -> str:
        return f"{self.url}{path}" + (f"?{urllib.parse.urlencode(query)}" if query else "")

    def _headers(self, accept: str) -> dict[str, str]:
        return {"Accept": accept} | ({"Authorization": f"Bearer {self.token}"} if self.token else {})


def _lines(answer: urllib3.BaseHTTPResponse) -> Iterator[Any]:
    rest = b""
    for chunk in answer.stream(amt=None):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (json.loads(line) for line in lines if line)


class _EmbeddedProcess:
    """The embedded API as a process of its own."""

    def __init__(self, directory: pathlib.Path, *flags: str, program: Sequence[str]) -> None:
        self._directory = directory
        self._program = program
        self._flags = flags
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> int:
        """The port, once the API answers on it."""
        port_file = self._directory / "port"
        port_file.unlink(missing_ok=True)
        command = [sys.executable, *self._program, "--data", str(self._directory / "data")]
        command += ["--port", str(self._port), "--port-file", str(port_file), "--scheduler-names=contract"]
        command += self._flags
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline_s = time.monotonic() + STARTUP_S
        while not port_file.exists():
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                raise RuntimeError(f"the API did not start: {(self._directory / 'log').read_text()}")
            time.sleep(0.02)
        self._port = int(port_file.read_text())
        return self._port

    def stop(self, number: signal.Signals) -> int:
        """The exit code of the process."""
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(timeout=waiting.WAIT_S)

    def restart(self) -> None:
        """Kill it, and start it on the same port."""
        self.stop(signal.SIGKILL)
        self.start()


@contextlib.contextmanager
def embedded(directory: pathlib.Path, *flags: str, program: Sequence[str] = PROGRAM) -> Iterator[KubeApi]:
    """The embedded API, from its start to its stop by SIGTERM. `program`: Python's arguments that run it."""
    process = _EmbeddedProcess(directory, *flags, program=program)
    url = f"http://127.0.0.1:{process.start()}"
    kubeconfig, token = directory / "kubeconfig", access.obtain_token(directory / "data" / "token")
    access.write_kubeconfig(kubeconfig, name="contract", url=url, token=token)
    try:
        yield KubeApi(
            kind="embedded",
            url=url,
            kubeconfig=kubeconfig,
            token=token,
            kill_and_restart=process.restart,
        )
    finally:
        code = process.stop(signal.SIGTERM)
        assert code == 0, (directory / "log").read_text()


def real(plane: standalone.Standalone, kubectl: pathlib.Path | None) -> KubeApi:
    """A running real control plane, which stays as it is."""

    def kill_and_restart() -> None:
        plane.kill()
        plane.start()

    authority = plane.identities.authority
    pair = authority.issue("contract-kubelet", user="contract-kubelet", hosts=("127.0.0.1",))
    return KubeApi(
        kind="real",
        url=plane.url,
        kubeconfig=plane.kubeconfig,
        token=plane.identities.token(identity.COMPONENTS[identity.ADMIN]),
        kill_and_restart=kill_and_restart,
        kubelet_pair=(pair.certificate, pair.key),
        kubectl=None if kubectl is None else str(kubectl),
        pool=urllib3.PoolManager(retries=False, ca_certs=str(authority.pair.certificate)),
    )


CONTROL_PLANES = ("embedded", "real")
