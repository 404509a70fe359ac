"""The specs' cluster of nodes that kwok plays: four of 16 cores, one in the first zone, three in the second.

Its agents are played, too, and leave more room than the specs need, so that Kubernetes' rules decide.
"""

import contextlib
import pathlib
import subprocess
from collections.abc import AsyncIterator, Iterator
from typing import Any

from carico_core.runtime.process import settings
from carico_local.control_plane import commands, standalone
from carico_local.played_nodes import nodes as played
from tests.tools import kubernetes
from tests.tools.sites import nats_site
from tests.upstream import suite_stage

NODES, CORES, PODS = 4, 16, 110
ZONES = ("a", "b", "b", "b")
# Specs start up to ten Pods a node that use nothing.
PODS_PER_CORE = 8


@contextlib.asynccontextmanager
async def started(scheduler: str, root: pathlib.Path) -> AsyncIterator[suite_stage.Stage]:
    """Run a cluster in which this one scheduler serves every Pod."""
    parts = set(standalone.ALL) - (set() if scheduler == suite_stage.KUBE else {commands.SCHEDULER})
    plane = standalone.Standalone(
        root / "plane", environ=settings.environment(), clock=suite_stage.CLOCK,
        found=kubernetes.programs(*standalone.ALL), parts=parts, name="upstream",
    )  # fmt: skip
    plane.start()
    try:
        api = await suite_stage.connect(plane.kubeconfig)
        try:
            for number in range(NODES):
                await api.request("POST", played.NODES_PATH, body=node(number))
            await suite_stage.prepare(api, played.names(NODES), image="pause")
        finally:
            await api.close()
        with contextlib.ExitStack() as stack:
            if scheduler == suite_stage.CARICO:
                stack.enter_context(_carico(plane, root))
            yield suite_stage.Stage(kubeconfig=plane.kubeconfig, nodes=NODES)
    finally:
        plane.stop()


def node(number: int) -> dict[str, Any]:
    """Return a Node that kwok plays, with what the specs require of one."""
    name = played.names(NODES)[number]
    amounts = {"cpu": str(CORES), "memory": "64Gi", "ephemeral-storage": "100Gi", "pods": str(PODS)}
    labels = {
        "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": ZONES[number],
    }  # fmt: skip
    addresses = [{"type": "InternalIP", "address": f"10.0.0.{number + 1}"}, {"type": "Hostname", "address": name}]
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "annotations": {commands.KWOK_ANNOTATION: "fake"}, "labels": labels},
        "status": {"capacity": amounts, "allocatable": amounts, "addresses": addresses},
    }  # fmt: skip


@contextlib.contextmanager
def _carico(plane: standalone.Standalone, root: pathlib.Path) -> Iterator[None]:
    """Run CARICO's scheduler, which serves every Pod, and what plays the agents of all nodes."""
    nats = nats_site.NatsServer(root / "nats").start()
    common = ["--bus-url", nats.url, "--kubeconfig", str(plane.kubeconfig), "--http-port", "-1"]
    size = ["--nodes", str(NODES), "--cores", str(CORES), "--pods-per-core", str(PODS_PER_CORE)]
    started: list[subprocess.Popen[bytes]] = []
    try:
        started.append(suite_stage.start_service(root, "carico_local.played_nodes", *common, *size))
        started.append(suite_stage.start_service(root, "carico_scheduler", *common, *suite_stage.IN_ITS_PLACE))
        yield
        ended = {each.args[2]: each.returncode for each in started if each.poll() is not None}  # type: ignore[index]
        assert not ended, ended
    finally:
        for each in started:
            each.kill()
            each.wait()
        nats.stop()
