"""Moves at a real API server with Kubernetes' own controllers, with the rights that deploy/k8s gives and no others."""

import asyncio
import contextlib
import json
import pathlib
import signal
import subprocess
from collections.abc import AsyncIterator
from typing import Any

import orjson
import yaml

from carico_core.domain import errors, pod_telemetry
from carico_core.runtime.kube import api_actions
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_core.wire.kubernetes import instants
from carico_local.control_plane import standalone
from tests.integration import extender_site
from tests.tools import kubernetes, service_process, waiting

ROOT = pathlib.Path(__file__).parents[3]
NAMESPACE = ROOT / "deploy/k8s/base/namespace.yaml"
RBAC = ROOT / "deploy/k8s/components/rescheduler/rbac.yaml"
NODES = ("resched-a", "resched-b")
SURGE = "carico.dev/surge-template-hash"
CLOCK = clocks.SystemClock()


class Site:
    """An application of three replicas on two nodes, whose kubelets and agents the test is."""

    def __init__(self, site: extender_site.Site, kubeconfig: pathlib.Path) -> None:
        self.site = site
        self.kubeconfig = kubeconfig
        # The tasks of each Pod by its node, and whether new Pods become ready.
        self.tasks = dict.fromkeys(NODES, 3.0)
        self.gets_ready = True
        self.fewest_ready = 3
        self.most_pods = 0
        self._seq = 0
        self._boot = clocks.boot_id(CLOCK)

    def start(self, module: str, *flags: str) -> "subprocess.Popen[bytes]":
        """A service on the site's bus."""
        own = ("--bus-url", self.site.nats.url, "--http-port", "-1")
        return service_process.start(self.site.root / f"{module}.log", module, *own, *flags)

    def start_rescheduler(self) -> "subprocess.Popen[bytes]":
        """A rescheduler with the rights of its component, which moves on request."""
        return self.start(
            "carico_rescheduler", "--kubeconfig", str(self.kubeconfig), "--leader-namespace", "carico",
            "--no-automatic", "--least-age-s", "0", "--search-s", "0.05", "--every-s", "1",
            "--leader-lease-s", "3", "--leader-renew-s", "2", "--leader-retry-s", "0.5",
        )  # fmt: skip

    async def act_forever(self) -> None:
        """Start Pods as kubelets do, end those that are deleted, and report loads as agents do."""
        while True:
            with contextlib.suppress(errors.ApiError, errors.ApiUnavailable, errors.BusUnavailable):
                await self._act()
            await asyncio.sleep(0.1)

    async def _act(self) -> None:
        pods = await self.site.pods()
        for pod in pods:
            metadata = pod["metadata"]
            if metadata.get("deletionTimestamp"):
                path = f"{self.site.pods_path}/{metadata['name']}"
                await self.site.client.request("DELETE", path, body={"gracePeriodSeconds": 0})
            elif pod["spec"].get("nodeName") and not is_ready(pod) and (self.gets_ready or SURGE not in labels(pod)):
                now = instants.format_time(CLOCK.wall_ns())
                ready = [{"type": "Ready", "status": "True", "lastTransitionTime": now}]
                await api_actions.patch_pod_status(
                    self.site.client, namespace=self.site.namespace, name=metadata["name"], uid=metadata["uid"],
                    status={"phase": "Running", "conditions": ready},
                )  # fmt: skip
        counted = [pod for pod in pods if is_ready(pod) and not pod["metadata"].get("deletionTimestamp")]
        if len(counted) >= 3:
            self.most_pods = max(self.most_pods, len(pods))
        if self.most_pods:
            self.fewest_ready = min(self.fewest_ready, len(counted))
        self._seq += 1
        for node in NODES:
            mine = [pod for pod in pods if pod["spec"].get("nodeName") == node]
            uids = {pod["metadata"]["uid"] for pod in mine}
            self.site.covered[node] = frozenset(uids)
            load = pod_telemetry.PodLoad("*", self.tasks[node], 0.0, 2.0**20)
            report = pod_telemetry.PodLoads(
                node=node, boot=self._boot, seq=self._seq, ts_ns=CLOCK.wall_ns(), loads=dict.fromkeys(uids, load)
            )
            await self.site.bus.publish(subjects.pods(node), wire.encode_loads(report))

    async def ask(self, verb: str) -> dict[str, Any]:
        """Ask the rescheduler; empty while none leads."""
        with contextlib.suppress(errors.BusUnavailable):
            subject = subjects.query("rescheduler", verb)
            answer: dict[str, Any] = orjson.loads(await self.site.bus.request(subject, b"{}", timeout_s=5.0))
            return answer
        return {}

    async def until_planned(self) -> dict[str, Any]:
        """A plan with a move: loads are smoothed, and a new leader lists the cluster first."""

        async def planned() -> list[dict[str, Any]]:
            with contextlib.suppress(errors.BusError):
                plan = (await self.ask("plan.get")).get("plan")
                return [plan] if plan and plan["moves"] else []
            return []

        return (await waiting.answered(planned))[0]

    async def until_begun(self) -> dict[str, Any]:
        """Have a plan carried out, and wait until its new Pod has a node."""
        await self.until_planned()

        async def begun() -> list[dict[str, Any]]:
            surges = [pod for pod in await self.site.pods() if SURGE in labels(pod)]
            if not surges:
                # The plan is made now, and on a busy machine the loads that it needs may be too old at this moment.
                await self.ask("control.apply")
            return [pod for pod in surges if pod["spec"].get("nodeName")]

        return (await waiting.answered(begun))[0]

    async def until_at_rest(self, on: list[int]) -> None:
        """Wait until so many Pods are on each node, and nothing of a move is left."""

        async def rests() -> bool:
            pods = await self.site.pods()
            where = [sum(pod["spec"].get("nodeName") == node for pod in pods) for node in NODES]
            return where == on and not any(is_marked(pod) for pod in pods)

        await waiting.answered(rests)


def labels(pod: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = pod["metadata"].get("labels") or {}
    return found


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def is_marked(pod: dict[str, Any]) -> bool:
    return SURGE in labels(pod) or "carico.dev/leaves-for" in (pod["metadata"].get("annotations") or {})


def account(plane: standalone.Standalone, root: pathlib.Path) -> pathlib.Path:
    """A kubeconfig of the component's ServiceAccount."""
    admin = plane.kubeconfig
    kubernetes.kubectl("apply", "--server-side", "--filename", str(NAMESPACE), kubeconfig=admin)
    kubernetes.kubectl("apply", "--namespace", "carico", "--filename", str(RBAC), kubeconfig=admin)
    token = kubernetes.kubectl("create", "token", "carico-rescheduler", "--namespace", "carico", kubeconfig=admin)
    document = yaml.safe_load(admin.read_text(encoding="utf-8"))
    document["users"] = [{"name": each["name"], "user": {"token": token.strip()}} for each in document["users"]]
    path = root / "rescheduler.kubeconfig"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


@contextlib.asynccontextmanager
async def running(plane: standalone.Standalone, root: pathlib.Path) -> AsyncIterator[Site]:
    """A site with a scheduler, and three replicas on the first node."""
    async with extender_site.running(plane, root, "resched") as site, contextlib.AsyncExitStack() as stack:
        made = Site(site, account(plane, root))
        for node, capacity in zip(NODES, (8.0, 0.0), strict=True):
            await site.create_node(node, capacity)
        scheduler = made.start("carico_scheduler", "--kubeconfig", str(plane.kubeconfig), "--no-leader-election")
        stack.callback(service_process.end, scheduler)
        app = {"app": "web"}
        spec = {
            "schedulerName": "carico", "nodeSelector": {"site": site.namespace}, "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "pi"}],
        }  # fmt: skip
        deployment = {
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {
                "replicas": 3, "selector": {"matchLabels": app},
                "template": {"metadata": {"labels": app}, "spec": spec},
            },
        }  # fmt: skip
        path = f"/apis/apps/v1/namespaces/{site.namespace}/deployments"
        await site.client.request("POST", path, body=deployment)
        acting = asyncio.create_task(made.act_forever())
        await site.until_bound(3)
        site.capacities[NODES[1]] = 4.0
        yield made
        # First what would create Pods again.
        await site.client.request("DELETE", f"{path}/web", body={"propagationPolicy": "Foreground"})
        await waiting.answered(site.pods, lambda found: found == [])
        acting.cancel()
        await asyncio.gather(acting, return_exceptions=True)


async def test_a_move_survives_its_process_and_loses_no_replica(
    real_control_plane: standalone.Standalone, tmp_path: pathlib.Path
) -> None:
    async with running(real_control_plane, tmp_path) as made, contextlib.AsyncExitStack() as stack:
        first = made.start_rescheduler()
        stack.callback(service_process.end, first)
        # Nine tasks on four cores.
        plan = await made.until_planned()
        (move,) = plan["moves"]
        assert (move["from"], move["to"]) == NODES
        made.gets_ready = False
        surge = await made.until_begun()
        service_process.end(first)
        made.gets_ready = True
        # The ReplicaSet has not adopted the new Pod, which is ready: no controller, and one owner.
        (owner,) = surge["metadata"]["ownerReferences"]
        assert not owner["controller"] and surge["spec"]["nodeName"] == NODES[1]
        second = made.start_rescheduler()
        stack.callback(service_process.end, second)
        await made.until_at_rest([2, 1])
        (moved,) = [pod for pod in await made.site.pods() if pod["spec"]["nodeName"] == NODES[1]]
        assert moved["metadata"]["uid"] == surge["metadata"]["uid"]
        assert [each["controller"] for each in moved["metadata"]["ownerReferences"]] == [True]
        assert "pod-template-hash" in labels(moved)
        assert (made.fewest_ready, made.most_pods) == (3, 4)

        # A service that is asked to stop undoes what it has begun.
        made.tasks = dict(zip(NODES, (4.0, 1.0), strict=True))
        made.gets_ready = False
        await made.until_begun()
        second.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(second.wait, waiting.WAIT_S) == 0
        await made.until_at_rest([2, 1])
        assert (made.fewest_ready, made.most_pods) == (3, 4)
