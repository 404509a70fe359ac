"""compose/kube: the compose file with a real control plane and real kubelets in place of the emulated ones."""

import dataclasses
import json
import os
import pathlib
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from carico_local.cluster import free_ports
from carico_local.kubelets import configuration
from tests.e2e.kubernetes import kubelet_site
from tests.tools import debian, kubernetes, waiting
from tests.tools.docker import images

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(kubernetes.BUILD_TIMEOUT_S),
    pytest.mark.skipif(debian.allowed() is not None, reason=str(debian.allowed())),
]
FILES = ("docker-compose.yml", "compose/local-images.yml", "compose/kube/compose.yml")
PROJECT = "carico-kube"
WITHIN_S = 240.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """The stack as it is started from the project's folder."""

    program: pathlib.Path
    environ: Mapping[str, str]
    profiles: tuple[str, ...] = ("kube",)

    def run(self, *words: str) -> str:
        """What `docker compose WORDS` printed; its own words where it failed."""
        done = self.attempt(*words)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout

    def attempt(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """What came of `docker compose WORDS`."""
        files = [word for file in FILES for word in ("--file", file)]
        profiles = [word for each in self.profiles for word in ("--profile", each)]
        return subprocess.run(
            [self.program, *files, "--project-name", PROJECT, *profiles, *words], env=dict(self.environ),
            cwd=images.ROOT, capture_output=True, text=True, check=False, timeout=WITHIN_S,
        )  # fmt: skip


@pytest.fixture(scope="module")
def stack(site_images: kubelet_site.Images) -> Iterator[Stack]:
    """The images, and a stack that is not up yet; nothing of it is left."""
    programs = kubernetes.programs(*images.KUBE_PROGRAMS, "kubectl", "docker-compose")
    found = site_images.running
    images.build_kube(found, {name: program.path for name, program in programs.items()})
    nats, websocket, api = free_ports.choose(PROJECT, 3)
    published = {"NATS": nats, "WEBSOCKET": websocket, "API": api}
    environ = {
        **found.environ, "KUBECTL": str(programs["kubectl"].path),
        **{f"CARICO_COMPOSE_{name}_PORT": str(port) for name, port in published.items()},
    }  # fmt: skip
    made = Stack(program=programs["docker-compose"].path, environ=environ)
    try:
        yield made
    finally:
        dataclasses.replace(made, profiles=("kube", "rescheduler")).run("down", "--volumes", "--timeout", "10")
        # As compose/kube/README.md says: a node that was scaled away left its volumes.
        found.engine.run("volume", "prune", "--force")
        assert found.engine.run("volume", "ls", "--quiet") == ""


def test_a_job_runs_on_real_kubelets_and_a_node_that_leaves_is_gone(stack: Stack, tmp_path: pathlib.Path) -> None:
    stack.run("up", "--detach", "--wait", "--wait-timeout", str(round(WITHIN_S)))
    said = stack.run("run", "--rm", "submit", "pi", "--pods", "6", "--seconds", "0.3", "--job", "six")
    assert "6 of 6 done" in said
    kubeconfig = tmp_path / "host.yaml"
    stack.run("cp", "api:/kube/host.yaml", str(kubeconfig))
    shown = json.loads(_kubectl(stack, kubeconfig, "get", "nodes,pods", "--output", "json"))["items"]
    pods = [each for each in shown if each["kind"] == "Pod"]
    assert {pod["spec"]["nodeName"] for pod in pods} == {"node-1", "node-2"}
    assert {pod["spec"]["schedulerName"] for pod in pods} == {"carico"}
    versions = [each["status"]["nodeInfo"]["containerRuntimeVersion"] for each in shown if each["kind"] == "Node"]
    assert len(versions) == 2
    assert all(version.startswith("containerd://") for version in versions)
    providers = {each["spec"].get("providerID") for each in shown if each["kind"] == "Node"}
    assert providers == {f"{configuration.COMPOSE_PROVIDER}node-{number}" for number in (1, 2)}
    assert '"workload": "pi"' in _kubectl(stack, kubeconfig, "logs", pods[0]["metadata"]["name"])
    stack.run("up", "--detach", "--wait", "--scale", "node=1")
    waiting.until_now(
        lambda: _kubectl(stack, kubeconfig, "get", "nodes", "--output", "name").split() == ["node/node-1"],
        within_s=WITHIN_S,
    )


@pytest.mark.upstream
def test_the_rescheduler_of_its_profile_plans_for_the_pods_of_a_deployment(
    stack: Stack, tmp_path: pathlib.Path
) -> None:
    profiled = dataclasses.replace(stack, profiles=("kube", "rescheduler"))
    profiled.run("up", "--detach", "--wait", "--wait-timeout", str(round(WITHIN_S)), "--scale", "node=2")
    profiled.run("run", "--rm", "submit", "pi", "--pods", "1", "--seconds", "0.3", "--job", "one")
    kubeconfig, nodes = tmp_path / "host.yaml", {"node-1", "node-2"}
    stack.run("cp", "api:/kube/host.yaml", str(kubeconfig))
    image = _kubectl(stack, kubeconfig, "get", "pods", "--output", "jsonpath={.items[0].spec.containers[0].image}")
    deployment = {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "schedulerName": "carico",
                    "containers": [
                        {
                            "name": "main", "image": image, "imagePullPolicy": "Never",
                            "command": ["carico-workload", "server"],
                        }
                    ],
                },
            },
        },
    }  # fmt: skip
    file = kubeconfig.with_name("web.json")
    file.write_text(json.dumps(deployment), encoding="utf-8")
    _kubectl(stack, kubeconfig, "apply", "--filename", str(file))

    def asked() -> dict[str, Any]:
        done = profiled.attempt("run", "--rm", "carico", "reschedule", "--dry-run", "--json")
        plan: dict[str, Any] = json.loads(done.stdout)["plan"] if done.returncode == 0 else {}
        return plan

    def is_planned() -> bool:
        # Younger than ten minutes, it stays: so it is known as one that could move.
        plan = asked()
        return bool(plan) and {each["node"] for each in plan["nodes"]} == nodes and "young" in plan["skipped_pods"]

    waiting.until_now(is_planned, what=asked, within_s=WITHIN_S)


def _kubectl(stack: Stack, kubeconfig: pathlib.Path, *arguments: str) -> str:
    environ = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    done = subprocess.run(
        [stack.environ["KUBECTL"], *arguments], env=environ, capture_output=True, text=True, check=False, timeout=60.0
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
