"""An embedded API and one emulated node as processes, for the node's integration tests."""

import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from carico_local.api import access
from carico_local.cgroups import layout, node_group, sweep
from carico_local.node.runtime import records
from tests.tools import service_process, waiting

PODS = "/api/v1/namespaces/default/pods"
NODE = "node-1"


def why_no_cgroups() -> str:
    """Why cgroups cannot be written here; empty where they can."""
    name = f"probe-{os.getpid()}"
    found = layout.read_layout()
    opened = node_group.open_node(found, cluster=name, node=NODE, cores=0.5, memory_bytes=2**26, period_us=10_000)
    sweep.sweep(name)
    return opened.reason if opened.group is None else ""


class NodeSite:
    """The processes, their state below `root`, and a plain client of the API."""

    def __init__(self, root: pathlib.Path, *flags: str) -> None:
        self.root = root
        self.cluster = f"test-{uuid.uuid4().hex[:8]}"
        self.flags = flags
        # For files that a Pod's commands share with a test: any user may write here.
        self.marks = pathlib.Path(tempfile.mkdtemp(prefix="carico-marks-"))
        self.marks.chmod(0o777)
        self.port = 0
        self.token = ""
        self.api: subprocess.Popen[bytes] | None = None
        self.node: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts both and waits until the node is Ready."""
        self.start_api()
        self.start_node()

    def start_api(self) -> None:
        """Starts the API, on the port it had."""
        port_file = self.root / "port"
        port_file.unlink(missing_ok=True)
        flags = ["--data", str(self.root / "api"), "--port-file", str(port_file), "--port", str(self.port)]
        self.api = service_process.start(self.root / "api.log", "carico_local.api", *flags)
        self.until(port_file.exists, "the API's port")
        self.port = int(port_file.read_text())
        self.token = access.obtain_token(self.root / "api" / "token")
        url = f"http://127.0.0.1:{self.port}"
        access.write_kubeconfig(self.root / "kubeconfig", name="c", url=url, token=self.token)

    def start_node(self) -> dict[str, Any]:
        """What the node's ready file says."""
        ready = self.root / "ready"
        ready.unlink(missing_ok=True)
        flags = [
            "--name", NODE, "--cluster", self.cluster, "--kubeconfig", str(self.root / "kubeconfig"),
            "--root", str(self.root / "node"), "--ready-file", str(ready), *self.flags,
        ]  # fmt: skip
        self.node = service_process.start(self.root / "node.log", "carico_local.node", *flags)
        self.until(lambda: ready.exists() or self.node is None or self.node.poll() is not None, "the node")
        assert ready.exists(), (self.root / "node.log").read_text()
        found: dict[str, Any] = json.loads(ready.read_text())
        return found

    def kill(self, process: subprocess.Popen[bytes] | None) -> None:
        """kill -9."""
        assert process is not None
        process.kill()
        process.wait(waiting.WAIT_S)

    def stop(self) -> None:
        """Ends both and whatever is left of the cluster."""
        for process in (self.node, self.api):
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in (self.node, self.api):
            if process is not None:
                try:
                    process.wait(waiting.WAIT_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        sweep.sweep(self.cluster, state_dirs=[self.root / "node"])
        records.remove_pod_files(self.root / "node")
        shutil.rmtree(self.marks)

    def request(self, method: str, path: str, body: Any = None, *, kind: str = "application/json") -> Any:
        """The decoded answer, or the text where it is not JSON; 404 is None."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=waiting.WAIT_S)
        try:
            headers = {"Content-Type": kind, "Authorization": f"Bearer {self.token}"}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            data = response.read()
        finally:
            connection.close()
        if response.status == 404:
            return None
        assert response.status < 300, data
        return json.loads(data) if "json" in response.headers["Content-Type"] else data.decode()

    def patch(self, path: str, body: Any) -> Any:
        """The object after a merge patch."""
        return self.request("PATCH", path, body, kind="application/merge-patch+json")

    def run(self, name: str, *command: str, **spec: Any) -> dict[str, Any]:
        """Creates a Pod that is bound to the node; `container` adds to its container, the rest to its spec."""
        container = {"name": "main", "image": "none", "command": list(command), **spec.pop("container", {})}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"nodeName": NODE, "restartPolicy": "Never", "containers": [container], **spec},
        }
        created: dict[str, Any] = self.request("POST", PODS, body)
        return created

    def pod(self, name: str) -> dict[str, Any] | None:
        """The Pod now, or None."""
        found: dict[str, Any] | None = self.request("GET", f"{PODS}/{name}")
        return found

    def status(self, name: str) -> dict[str, Any]:
        """The Pod's status."""
        pod = self.pod(name)
        assert pod is not None
        status: dict[str, Any] = pod["status"]
        return status

    def until_phase(self, name: str, *phases: str, within_s: float = waiting.WAIT_S) -> dict[str, Any]:
        """The status once the Pod is in one of these phases."""
        self.until(lambda: self.status(name).get("phase") in phases, f"{name} to be {phases}", within_s=within_s)
        return self.status(name)

    def until(self, holds: Callable[[], bool], what: str, *, within_s: float = waiting.WAIT_S) -> None:
        """Returns once `holds`; fails after a time far beyond what it takes."""
        end_s = time.monotonic() + within_s
        while not holds():
            if time.monotonic() > end_s:
                logs = [path.read_text()[-2000:] for path in (self.root / "node.log",) if path.exists()]
                raise AssertionError(f"waited {within_s} s for {what}\n" + "\n".join(logs))
            time.sleep(0.03)

    def cgroups(self) -> list[pathlib.Path]:
        """Directories of the cluster in any tree."""
        roots = layout.read_layout().roots
        return [root / node_group.cluster_path(self.cluster) for root in roots if self._exists(root)]

    def _exists(self, root: pathlib.Path) -> bool:
        return (root / node_group.cluster_path(self.cluster)).exists()


@contextlib.contextmanager
def running(root: pathlib.Path, *flags: str) -> Iterator[NodeSite]:
    """A site that has started; nothing of it is left."""
    found = NodeSite(root, *flags)
    try:
        found.start()
        yield found
    finally:
        found.stop()
    assert found.cgroups() == []


def terminated(status: dict[str, Any], index: int = 0) -> dict[str, Any]:
    """The terminated state of a container."""
    found: dict[str, Any] = status["containerStatuses"][index]["state"]["terminated"]
    return found
