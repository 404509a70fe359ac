"""A cluster of real kubelets with the project's own images, for the tests of deploy/k8s: one for the whole session."""

import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import yaml

from carico_core.runtime.process import clock as clocks
from carico_local.cluster import machine
from carico_local.control_plane import commands, standalone
from carico_local.kubelets import (
    configuration,
    image_archive,
    instructions,
    launcher,
    network,
    node_cgroups,
    programs,
)
from carico_local.kubelets import images as node_images
from tests.tools import debian, kubernetes, waiting
from tests.tools.docker import docker_command, docker_engine, images

# From nothing: packages, two base images, the control plane's programs; on a machine half as fast.
COLD_TIMEOUT_S = kubernetes.BUILD_TIMEOUT_S
CLUSTER = "tests"
NAMESPACE = "carico"
NODES = 2
# Two of these are more than a machine of two CPUs has: they are quick to start, and no figure is taken from them.
NODE_CPUS, NODE_MEMORY_BYTES = 1.5, 2 * 2**30
K8S = images.ROOT / "deploy" / "k8s"
SMALL = K8S / "overlays" / "small"
# A shell and a few commands, which every node has.
BUSYBOX = configuration.SANDBOX_IMAGE
LOOK_EVERY_S = 0.3
# Nodes of a busy machine take one Pod at a time.
WITHIN_S = 300.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """An engine that holds the project's images."""

    running: docker_engine.Running


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A control plane, two kubelets that hold the project's images, and kubectl."""

    plane: standalone.Standalone
    nodes: Sequence[configuration.Node]
    environ: Mapping[str, str]
    folder: pathlib.Path

    def kubectl(self, *arguments: str, given: str | None = None, timeout_s: float = 120.0) -> str:
        """What kubectl printed; its own words where it failed."""
        done = subprocess.run(
            [self.environ["KUBECTL"], *arguments], env=dict(self.environ), input=given, capture_output=True, text=True,
            check=False, timeout=timeout_s,
        )  # fmt: skip
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr.strip()[-2000:]}"
        return done.stdout

    def helm(self, *arguments: str) -> str:
        """What helm printed of CARICO's namespace; its own words where it failed."""
        done = subprocess.run(
            [kubernetes.programs("helm")["helm"].path, *arguments, "--namespace", NAMESPACE], env=dict(self.environ),
            capture_output=True, text=True, check=False, timeout=2 * WITHIN_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def get(self, *arguments: str) -> Any:
        """The objects as JSON."""
        return json.loads(self.kubectl("get", *arguments, "--output", "json"))

    def apply(self, document: Mapping[str, Any]) -> None:
        """Apply the object."""
        self.kubectl("apply", "--filename", "-", given=json.dumps(document))

    def make_secrets(self) -> None:
        """Make namespace, identities and certificates, by the script that an operator uses."""
        made = subprocess.run(
            [str(K8S / "secrets.sh"), str(self.folder / "identities")], env=dict(self.environ), capture_output=True,
            text=True, check=True,
        )  # fmt: skip
        self.kubectl("apply", "--filename", "-", given=made.stdout)

    def deploy(self, overlay: pathlib.Path) -> None:
        """Apply the overlay, and wait until every part is ready."""
        self.make_secrets()
        self.kubectl("apply", "--kustomize", str(overlay))
        self.rolled_out()

    def rolled_out(self) -> None:
        """Wait until every part is up to date and ready."""
        for part in PARTS:
            self.kubectl("--namespace", NAMESPACE, "rollout", "status", part, "--timeout", "300s", timeout_s=310.0)

    def folder_of(self, node: configuration.Node) -> pathlib.Path:
        """What the node sees as /var/lib/kubelet."""
        return self.folder / "data" / node.name / "kubelet"

    def until(self, what: str, holds: Callable[[], bool], *, seen: Callable[[], object] = lambda: "") -> None:
        """Wait until `holds`. `seen`: what a failure shows."""
        waiting.until_now(holds, within_s=WITHIN_S, every_s=LOOK_EVERY_S, what=lambda: f"{what} {seen()}".rstrip())

    def audited(self) -> Iterator[Mapping[str, Any]]:
        """What the API server has logged of requests by CARICO's service accounts, and of all bindings.

        Without requests for no object, as kube-scheduler's for what the API has.
        """
        for line in self.plane.plane.audit_log.read_text(encoding="utf-8").splitlines():
            event = json.loads(line)
            if "objectRef" in event:
                yield event


PARTS = (
    "statefulset/carico-nats",
    "deployment/carico-aggregator",
    "deployment/carico-auth",
    "deployment/carico-scheduler",
    "daemonset/carico-agent",
)


def built_images(found: docker_engine.Running) -> Images:
    """An engine with everything built. Raises `EnvironmentUnfit`."""
    base = docker_engine.base_image(found, *images.BASE_PACKAGES)
    for target in images.TARGETS:
        images.build(found, base=base, target=target)
    return Images(running=found)


@contextlib.contextmanager
def started(found: Images, folder: pathlib.Path) -> Iterator[Site]:
    """A running site; nothing of it is left. Raises `EnvironmentUnfit`."""
    kube = kubernetes.programs(*standalone.DEFAULT, commands.SCHEDULER, *programs.KUBERNETES, "kubectl")
    engine, environ = found.running.engine, {**os.environ, **debian.node_environ(folder / "commands")}
    own = programs.find(environ)
    members = [
        configuration.Node(name=f"node-{number}", number=number, cpus=NODE_CPUS, memory_bytes=NODE_MEMORY_BYTES)
        for number in range(1, NODES + 1)
    ]
    reached = network.ensure(own.commands["ip"], CLUSTER)
    plane = standalone.Standalone(
        folder / "plane", environ=found.running.environ, clock=clocks.SystemClock(), found=kube, name=CLUSTER,
        parts=(*standalone.DEFAULT, commands.SCHEDULER), users=instructions.users(members), address=reached.gateway,
    )  # fmt: skip
    _audit_services(folder / "plane" / "audit-policy.json")
    site = Site(
        plane=plane, nodes=members, folder=folder,
        environ={
            **os.environ, "KUBECONFIG": str(plane.kubeconfig), "KUBECTL": str(kube["kubectl"].path),
            "CARICO": str(_carico()), "HOME": str(folder),
        },
    )  # fmt: skip
    started_nodes: list[subprocess.Popen[bytes]] = []
    try:
        plane.start()
        on = machine.read_machine()
        instructions.write(
            folder / "nodes", nodes=members, network=reached.addresses, cluster=CLUSTER, identities=plane.identities,
            url=plane.url, machine=configuration.HostSize(cpus=on.cpus, memory_bytes=on.memory_available_bytes),
            plugins=launcher.PLUGINS,
        )  # fmt: skip
        archives = [
            node_images.ensure_sandbox(own.commands["busybox"], environ),
            _kube_scheduler_image(kube[commands.SCHEDULER].path, folder / "kube-scheduler.tar"),
            _saved(engine, folder / "services.tar"),
        ]
        used = {**own.commands, **{name: kube[name].path for name in programs.KUBERNETES}}
        for node in members:
            told = launcher.Launch(
                cluster=CLUSTER, name=node.name, number=node.number, cpus=node.cpus, memory_bytes=node.memory_bytes,
                gateway=reached.gateway, prefix=reached.addresses.prefixlen, config=str(folder / "nodes" / node.name),
                data=str(folder / "data" / node.name), ready=str(folder / f"{node.name}.ready"),
                plugins=str(own.plugins), images=list(map(str, archives)),
                commands=programs.commands({name: str(path) for name, path in used.items()}),
            )  # fmt: skip
            started_nodes.append(_launched(told, folder, environ))
        site.until("every node Ready", lambda: ready_nodes(site) == {node.name for node in members})
        yield site
    finally:
        # First, and at once: asked to end after its network has gone, it waits for itself there, 10 s twice.
        plane.kill()
        for process in started_nodes:
            process.kill()
            process.wait()
        node_cgroups.remove(CLUSTER)
        network.remove(own.commands["ip"], CLUSTER)


def _launched(node: launcher.Launch, folder: pathlib.Path, environ: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    written = folder / f"{node.name}.json"
    written.write_text(json.dumps(dataclasses.asdict(node)), encoding="utf-8")
    with (folder / f"{node.name}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "carico_local.kubelets.launcher", str(written)], env=dict(environ), stdout=log,
            stderr=log, stdin=subprocess.DEVNULL,
        )  # fmt: skip


def _saved(engine: docker_command.Engine, target: pathlib.Path) -> pathlib.Path:
    """The archive of the project's images."""
    with engine.saved(list(images.TARGETS.values())) as saving, target.open("wb") as archive:
        assert saving.stdout is not None
        shutil.copyfileobj(saving.stdout, archive)
    return target


def _kube_scheduler_image(program: pathlib.Path, target: pathlib.Path) -> pathlib.Path:
    """The image that deploy/extender names, of the program that this machine has."""
    kustomization = (K8S.parent / "extender" / "kustomization.yaml").read_text(encoding="utf-8")
    image = yaml.safe_load(kustomization)["images"][0]
    made = image_archive.Image(
        tag=f"{image['name']}:{image['newTag']}",
        files={"/usr/local/bin/kube-scheduler": program, **image_archive.shared_libraries([program])},
        environ={"PATH": "/usr/local/bin"},
    )
    image_archive.write(made, target)
    return target


def ready_nodes(site: Site) -> set[str]:
    """The names of the nodes that are Ready."""
    return {
        node["metadata"]["name"]
        for node in site.get("nodes")["items"]
        for condition in node["status"].get("conditions", [])
        if condition["type"] == "Ready" and condition["status"] == "True"
    }


def job(name: str, pods: int, *, turns: int = 60_000, scheduler: str = "carico", namespace: str = "default") -> Any:
    """A Job of Pods that each count up to `turns` in a shell: 60,000 take about 0.2 s of a CPU."""
    script = f"i=0; while [ $i -lt {turns} ]; do i=$((i+1)); done"
    container = {
        "name": "count", "image": BUSYBOX, "imagePullPolicy": "Never", "command": ["sh", "-c", script],
    }  # fmt: skip
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "completions": pods,
            "parallelism": pods,
            "backoffLimit": 0,
            "template": {"spec": {"schedulerName": scheduler, "restartPolicy": "Never", "containers": [container],
                                  "terminationGracePeriodSeconds": 1}},
        },
    }  # fmt: skip


def succeeded(site: Site, name: str, namespace: str = "default") -> int:
    """How many Pods of a Job have succeeded."""
    found = site.get("job", name, "--namespace", namespace)
    return int(found["status"].get("succeeded", 0))


def pods_of(site: Site, name: str) -> Sequence[Mapping[str, Any]]:
    """The Pods of a Job."""
    items: Sequence[Mapping[str, Any]] = site.get("pods", "--selector", f"job-name={name}")["items"]
    return items


def _audit_services(path: pathlib.Path) -> None:
    """Adds to the control plane's policy, which is of bindings alone: whatever CARICO's service accounts ask for."""
    policy = json.loads(path.read_text(encoding="utf-8"))
    rule = {"level": "Metadata", "userGroups": [f"system:serviceaccounts:{NAMESPACE}"]}
    policy["rules"].insert(-1, rule)
    path.write_text(json.dumps(policy), encoding="utf-8")


def _carico() -> pathlib.Path:
    return pathlib.Path(sys.executable).with_name("carico")
