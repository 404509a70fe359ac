"""The cluster of docker-compose.yml on an engine of the tests' own, with images built here: one for all tests."""

import contextlib
import dataclasses
import datetime
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from carico_local.cluster import free_ports
from tests.tools import kubernetes
from tests.tools.docker import docker_engine, images

# From nothing: packages, a base image, the compose plugin and the nats CLI; on a machine half as fast.
COLD_TIMEOUT_S = kubernetes.BUILD_TIMEOUT_S
# Issue: a first Pod within 20 s of `up`, a new node at work within 5 s. Asserted at four times that.
FIRST_POD_MOST_S = 4 * 20.0
NEW_NODE_MOST_S = 4 * 5.0
LOOK_EVERY_S = 0.25
NODES = 4
# Waits of tests that are not about time, on a machine that others use too.
PATIENCE_S = 300.0
_UP_TIMEOUT_S = 600.0
# What a node's log says on its way, by who says it.
_STEPS = {
    ("contained", "node"): "the first process has its settings",
    ("carico-agent", "started"): "the agent is forked",
    ("node", "ready"): "the Node is Ready",
    ("carico-agent", "connected"): "the agent is connected",
    ("carico-agent", "update"): "the first advertisement",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """A project folder whose images are built, and what a person types in it."""

    running: docker_engine.Running
    folder: pathlib.Path
    environ: dict[str, str]

    @property
    def api_url(self) -> str:
        """The Kubernetes API as this machine sees it."""
        return f"http://127.0.0.1:{self.environ['CARICO_COMPOSE_API_PORT']}"

    @property
    def kubeconfig(self) -> pathlib.Path:
        """What docs/compose.md has people copy."""
        return self.folder / "compose" / "kubeconfig" / "host.yaml"

    def attempt(self, *words: str, timeout_s: float = _UP_TIMEOUT_S) -> "subprocess.CompletedProcess[str]":
        """`docker compose words`, however it ends."""
        return subprocess.run(
            [self.running.engine.command, "compose", *words], cwd=self.folder, env=dict(self.environ), text=True,
            stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=timeout_s,
        )  # fmt: skip

    def compose(self, *words: str, timeout_s: float = _UP_TIMEOUT_S) -> str:
        """What `docker compose words` printed; its own words where it failed."""
        done = self.attempt(*words, timeout_s=timeout_s)
        assert done.returncode == 0, f"docker compose {' '.join(words)}: {done.stdout[-1500:]} {done.stderr[-1500:]}"
        return done.stdout

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """`docker compose words`, under way, its output in one pipe."""
        return subprocess.Popen(
            [self.running.engine.command, "compose", *words], cwd=self.folder, env=dict(self.environ), text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def submit(self, job: str, *, pods: int, seconds: float) -> "subprocess.Popen[str]":
        """A job as a person submits it, under way."""
        words = ("pi", "--pods", str(pods), "--seconds", f"{seconds:g}", "--job", job)
        return self.start("run", "--rm", "-T", "submit", *words)

    def leader(self) -> list[str]:
        """The containers of schedulers that the holder of the Lease is in: one."""
        leases = self.get("/apis/coordination.k8s.io/v1/leases")["items"]
        lease = next(lease for lease in leases if lease["metadata"]["name"] == "carico-scheduler")
        holder = lease["spec"]["holderIdentity"]
        found = [each for each in self.inspected("scheduler") if holder.startswith(each["Config"]["Hostname"])]
        return [str(each["Name"]).lstrip("/") for each in found]

    def containers(self, service: str = "") -> list[str]:
        """Names of the running containers of a service, or of all."""
        listed = self.compose("ps", "--format", "{{.Name}}", *([service] if service else []))
        return sorted(listed.split())

    def kill(self, names: Sequence[str]) -> None:
        """Kill the first process of each container, as when a part crashes: the engine does not learn who did it."""
        for each in self.running.engine.inspect(*names):
            os.kill(each["State"]["Pid"], signal.SIGKILL)

    def inspected(self, service: str = "") -> list[dict[str, Any]]:
        """What the engine knows of them."""
        return self.running.engine.inspect(*self.containers(service))

    def start_of(self, node: str) -> dict[str, float]:
        """Seconds from the making of the container of a node (node-5) to each step of its last start."""
        (name,) = (each for each in self.containers("node") if each.endswith(f"-{node}"))
        (found,) = self.running.engine.inspect(name)
        made_s = _instant_s(found["Created"])
        steps = {"the container runs": _instant_s(found["State"]["StartedAt"]) - made_s}
        for line in self.compose("logs", "--no-log-prefix", "--index", node.rpartition("-")[2], "node").splitlines():
            said = json.loads(line) if line.startswith("{") else {}
            step = _STEPS.get((said.get("service", ""), said.get("event", "")))
            if step is not None:
                steps.setdefault(step, _instant_s(said["timestamp"]) - made_s)
        return steps

    def starts_of(self, nodes: Iterable[str]) -> str:
        """Those steps in a line each, the median over nodes."""
        starts = [self.start_of(node) for node in nodes]
        medians = {step: statistics.median(start[step] for start in starts if step in start) for step in starts[0]}
        return "\n".join(f"  {at_s:5.2f} s after a node's container was made: {step}" for step, at_s in medians.items())

    def says(self, word: str, *words: str) -> str:
        """Return the output of `docker compose words` in lower case, once it has `word`: services may answer late."""
        said = ""

        def is_said() -> bool:
            nonlocal said
            done = self.attempt(*words)
            said = (done.stdout + done.stderr).lower()
            return word in said

        self.until(f"{word!r} by {' '.join(words)}", is_said)
        return said

    def get(self, path: str) -> Any:
        """An object, a list or a log of the Kubernetes API."""
        return self._ask(path)

    @contextlib.contextmanager
    def cordoned(self, nodes: Iterable[str]) -> Iterator[None]:
        """These nodes take no Pods meanwhile."""
        paths = [f"/api/v1/nodes/{node}" for node in nodes]
        for path in paths:
            self._ask(path, "PATCH", {"spec": {"unschedulable": True}})
        try:
            yield
        finally:
            for path in paths:
                self._ask(path, "PATCH", {"spec": {"unschedulable": False}})

    def _ask(self, path: str, method: str = "GET", patch: dict[str, Any] | None = None) -> Any:
        headers = {"Authorization": f"Bearer {self.token()}", "Content-Type": "application/merge-patch+json"}
        body = None if patch is None else json.dumps(patch).encode()
        asked = urllib.request.Request(self.api_url + path, method=method, headers=headers, data=body)
        with urllib.request.urlopen(asked, timeout=10.0) as answer:
            return json.load(answer)

    def token(self) -> str:
        """The API's token, fetched once as docs/compose.md says."""
        if not self.kubeconfig.exists():
            self.compose("cp", "api:/access/host.yaml", str(self.kubeconfig))
        found = json.loads(self.kubeconfig.read_bytes())
        assert found["clusters"][0]["cluster"]["server"].endswith(self.api_url.removeprefix("http://"))
        return str(found["users"][0]["user"]["token"])

    def pods(self, job: str) -> list[dict[str, Any]]:
        """The Pods of a job; none while the API is away."""
        with contextlib.suppress(OSError):
            found: list[dict[str, Any]] = self.get(f"/api/v1/pods?labelSelector=carico.dev/job={job}")["items"]
            return found
        return []

    def nodes(self) -> dict[str, dict[str, Any]]:
        """The Nodes by name."""
        return {node["metadata"]["name"]: node for node in self.get("/api/v1/nodes")["items"]}

    def until(self, what: str, holds: Callable[[], Any], timeout_s: float = PATIENCE_S) -> float:
        """How long it took until `holds`."""
        began_s = time.monotonic()
        while not holds():
            assert time.monotonic() - began_s < timeout_s, f"not within {timeout_s:.0f} s: {what}"
            time.sleep(LOOK_EVERY_S)
        return time.monotonic() - began_s


def _instant_s(text: str) -> float:
    return datetime.datetime.fromisoformat(text).timestamp()


def phases(pods: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many Pods are in which phase."""
    found: dict[str, int] = {}
    for pod in pods:
        phase = pod.get("status", {}).get("phase", "Pending")
        found[phase] = found.get(phase, 0) + 1
    return found


@contextlib.contextmanager
def built(found: docker_engine.Running, folder: pathlib.Path) -> Iterator[Stack]:
    """A project whose images are built; everything of it is gone afterwards. Raises `EnvironmentUnfit`."""
    programs = kubernetes.programs("docker-compose", "nats")
    images.write_context(folder)
    shutil.copytree(images.ROOT / "compose", folder / "compose", dirs_exist_ok=True)
    shutil.copytree(images.ROOT / "deploy" / "observe", folder / "deploy" / "observe")
    shutil.copy2(images.ROOT / "docker-compose.yml", folder)
    shutil.copy2(programs["nats"].path, folder / "compose" / "nats-cli" / "nats")
    plugins = pathlib.Path(found.environ["DOCKER_CONFIG"]) / "cli-plugins"
    plugins.mkdir(parents=True)
    (plugins / "docker-compose").symlink_to(programs["docker-compose"].path)
    stack = Stack(running=found, folder=folder, environ=_environ(found))
    # The first builds what the others build on: at once, the classic builder would do all of it twice.
    for services in (["api"], []):
        stack.compose("--profile", "tools", "build", *services, timeout_s=COLD_TIMEOUT_S)
    try:
        yield stack
    finally:
        stack.attempt("kill")
        stack.attempt("--profile", "*", "down", "--volumes", "--remove-orphans", "--timeout", "5")


def _environ(found: docker_engine.Running) -> dict[str, str]:
    ports = {name: str(free_ports.choose_one()) for name in ("API", "NATS", "WEBSOCKET", "WEB", "PROMETHEUS", "TRACES")}
    return {
        **{name: value for name, value in found.environ.items() if not name.startswith(("CARICO_", "COMPOSE_"))},
        **images.WITHOUT_NETWORK,
        **{f"CARICO_COMPOSE_{name}_PORT": port for name, port in ports.items()},
        "CARICO_COMPOSE_BASE": docker_engine.base_image(found, *images.BASE_PACKAGES),
        "COMPOSE_FILE": f"docker-compose.yml{os.pathsep}compose/local-images.yml",
    }
