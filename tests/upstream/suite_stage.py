"""What a cluster offers to Kubernetes' own specs, and what both kinds of clusters prepare for them in the same way."""

import contextlib
import dataclasses
import pathlib
import signal
import subprocess
import sys
from collections.abc import Collection, Mapping
from typing import Any

from carico_core.domain import errors
from carico_core.runtime.kube import api_client
from carico_core.runtime.process import clock as clocks
from carico_local.cluster import processes
from carico_local.cluster.services import ready_nodes
from carico_local.control_plane import commands
from carico_local.played_nodes import nodes as played
from tests.tools import waiting

CARICO, KUBE = "carico", commands.SCHEDULER
SCHEDULERS = (CARICO, KUBE)
PROGRAM = "sched-e2e"
CLOCK = clocks.SystemClock()
# A scheduler in kube-scheduler's place, as docs/extender.md says.
IN_ITS_PLACE = (
    "--names", "carico,default-scheduler", "--profiles", "default-scheduler:preferences=1", "--no-leader-election",
)  # fmt: skip
# Without a Pod on each node whose name has all of these, each spec waits a minute for them (test/e2e/framework/node).
SYSTEM_POD = "kube-proxy-fluentd-elasticsearch-node-problem-detector"
SYSTEM_PODS = "/api/v1/namespaces/kube-system/pods"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A running cluster: how the suite reaches it, its number of nodes, and what else its environment must have."""

    kubeconfig: pathlib.Path
    nodes: int
    environ: Mapping[str, str] = dataclasses.field(default_factory=dict)


async def connect(kubeconfig: pathlib.Path) -> api_client.KubeClient:
    """Return a client of an administrator."""
    return await api_client.connect(
        api_client.KubeSettings(kubeconfig=str(kubeconfig)), clock=CLOCK, user_agent="test"
    )  # fmt: skip


async def prepare(api: api_client.KubeClient, names: Collection[str], *, image: str) -> None:
    """Wait until all nodes are ready, and create a Pod of the system on each; wait until these run."""
    await waiting.answered(lambda: api.request("GET", played.NODES_PATH), _are_ready)
    for name in names:
        await _system_pod(api, name, image)
    await waiting.answered(lambda: api.request("GET", SYSTEM_PODS), _run)


def start_service(root: pathlib.Path, module: str, *flags: str) -> "subprocess.Popen[bytes]":
    """Start a service of CARICO, whose log goes to `root`; the caller stops it."""
    with (root / f"{module}.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", module, *flags], stdout=log, stderr=log,
            preexec_fn=processes.end_with_parent(signal.SIGKILL),
        )  # fmt: skip


def _are_ready(found: Mapping[str, Any]) -> bool:
    return all(ready_nodes.is_ready(each) and not each["spec"].get("taints") for each in found["items"])


def _run(found: Mapping[str, Any]) -> bool:
    return all(each["status"].get("phase") == "Running" for each in found["items"])


async def _system_pod(api: api_client.KubeClient, node_name: str, image: str) -> None:
    """Create a Pod of the system and bind it: the specs require the condition PodScheduled of every Pod."""
    name = f"{SYSTEM_POD}-{node_name}"
    body = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "schedulerName": "none",
            "containers": [{"name": "main", "image": image, "imagePullPolicy": "IfNotPresent"}],
        },
    }  # fmt: skip

    async def create() -> bool:
        # Refused until a controller has created the namespace's ServiceAccount.
        with contextlib.suppress(errors.Forbidden, errors.NotFound):
            await api.request("POST", SYSTEM_PODS, body=body)
            return True
        return False

    await waiting.answered(create)
    target = {"apiVersion": "v1", "kind": "Node", "name": node_name}
    await api.request("POST", f"{SYSTEM_PODS}/{name}/binding", body={"metadata": {"name": name}, "target": target})
