"""A whole job with security on: every service by its own token, TLS, and the callout in between."""

import asyncio
import json
import pathlib
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from carico_core.domain import decision
from carico_core.wire import roles, subjects
from carico_core.wire.messages import decision as wire
from tests.contract.kubernetes import control_planes
from tests.tools import service_process, waiting
from tests.tools.sites import security_site

AGENTS, PODS = 3, 10
WAIT_S = 90.0


class Services:
    """Processes of services, each with the token of its role in a file."""

    def __init__(self, site: security_site.Site) -> None:
        self._site = site
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, module: str, role: roles.Role, *flags: str, node: str | None = None) -> None:
        """Starts one."""
        name = f"{module}-{node or role.value}"
        token = self._site.root / f"{name}.token"
        token.write_text(self._site.tokens.token(security_site.ACCOUNTS[role], node=node))
        own = ("--bus-url", self._site.url, "--bus-tls-ca", str(self._site.ca), "--bus-token-file", str(token))
        self._processes[name] = service_process.start(self.log(name), module, *own, "--http-port", "-1", *flags)

    def run(self, name: str, *argv: str) -> int:
        """The process id of something else."""
        self._processes[name] = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
        return self._processes[name].pid

    def log(self, name: str) -> pathlib.Path:
        """What it wrote."""
        return self._site.root / f"{name}.log"

    def logs(self) -> str:
        """What all of them wrote."""
        return "\n".join(path.read_text() for path in sorted(self._site.root.glob("carico_*.log")))

    def end(self) -> None:
        """Ends all."""
        service_process.end(*self._processes.values())


@pytest.fixture
def site(tmp_path: pathlib.Path) -> Iterator[security_site.Site]:
    with security_site.running(tmp_path) as found:
        yield found


@pytest.fixture
def kube(tmp_path: pathlib.Path) -> Iterator[control_planes.KubeApi]:
    folder = tmp_path / "embedded"
    folder.mkdir()
    with control_planes.embedded(folder) as found:
        yield found


@pytest.fixture
def services(site: security_site.Site, kube: control_planes.KubeApi) -> Iterator[Services]:
    found = Services(site)
    try:
        idle = found.run("idle", "sleep", "600")
        found.start("carico_aggregator", roles.Role.AGGREGATOR)
        found.start("carico_scheduler", roles.Role.SCHEDULER, "--kubeconfig", str(kube.kubeconfig))
        for number in range(AGENTS):
            node = f"node-{number}"
            scope = ("--scope", "process", "--root-pid", str(idle), "--pod-events", "none", "--cores", "16")
            found.start("carico_agent", roles.Role.AGENT, "--node", node, *scope, node=node)
        yield found
    finally:
        found.end()


def create(kube: control_planes.KubeApi) -> None:
    """Nodes and Pods."""
    for number in range(AGENTS):
        size = {"cpu": "16", "memory": "8Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True", "reason": "Test"}
        node = {
            "metadata": {"name": f"node-{number}"},
            "status": {"capacity": size, "allocatable": size, "conditions": [ready]},
        }
        assert kube.request("POST", "/api/v1/nodes", node).code == 201
    for number in range(PODS):
        spec = {"schedulerName": "carico", "containers": [{"name": "c", "image": "none"}]}
        pod = {"metadata": {"name": f"pi-{number}"}, "spec": spec}
        assert kube.request("POST", "/api/v1/namespaces/default/pods", pod).code == 201


def bound(kube: control_planes.KubeApi) -> dict[str, str]:
    """The node of each Pod that has one."""
    items: list[Any] = kube.request("GET", "/api/v1/namespaces/default/pods").body["items"]
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in items if pod["spec"].get("nodeName")}


async def test_a_job_is_bound_with_security_on(
    site: security_site.Site, kube: control_planes.KubeApi, services: Services
) -> None:
    decided: list[decision.Decision] = []
    models: list[bytes] = []

    def on_decision(subject: str, payload: bytes) -> None:
        decided.append(wire.decode_decision(payload, subject=subject))

    async with site.joined(roles.Role.READER) as reader:
        await reader.subscribe(subjects.DECISION_ALL, on_decision)
        await reader.subscribe(subjects.MODEL, lambda _, payload: models.append(payload))
        create(kube)
        await asyncio.to_thread(
            waiting.until_now, lambda: len(bound(kube)) == PODS and models, within_s=WAIT_S, every_s=0.1,
            what=services.logs,
        )  # fmt: skip
        await waiting.until(lambda: len([each for each in decided if each.outcome is decision.Outcome.BOUND]) >= PODS)
        outcomes = {each.pod for each in decided if each.outcome is decision.Outcome.BOUND}
        assert outcomes == {f"pi-{number}" for number in range(PODS)}

        # People ask, and are answered by who they asked.
        async def ask(subject: str, question: bytes = b"") -> Any:
            return json.loads(await reader.request(subject, question, timeout_s=WAIT_S))

        assert (await ask(subjects.query("agent", "state.get", "node-1")))["node"] == "node-1"
        # The first model may be of the first node that reported.
        await waiting.answered(
            lambda: ask(subjects.query("aggregator", "nodes.list")),
            lambda listed: {each["node"] for each in listed["nodes"]} == {f"node-{number}" for number in range(AGENTS)},
        )
        # They also answer what streams keep.
        assert len(await waiting.answered(reader.latest_capacities, lambda kept: len(kept) == AGENTS)) == AGENTS
        assert await waiting.answered(reader.get_model)
        assert {
            subjects.pod_of(subject)[1] for subject, _ in await reader.recent_decisions(None, None, PODS)
        } == outcomes
        assert (await ask(subjects.query("scheduler", "decision.get"), b'{"pod":"pi-0"}'))["found"] is True
    # No request went beyond the role's rights.
    assert "violation" not in services.logs().lower()
    assert "Violation" not in (site.nats.directory / "nats.log").read_text()
