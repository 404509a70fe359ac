"""A stock kube-scheduler with CARICO as its extender, on a real control plane; kubelets and agents are the test's."""

import asyncio
import contextlib
import itertools
import pathlib
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import yaml

from carico_core.domain import errors
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import api_actions, api_client
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_core.wire.kubernetes import instants
from carico_local.cluster import free_ports, processes
from carico_local.cluster.services import readiness
from carico_local.control_plane import commands, identity, standalone
from tests.tools import advertised, waiting
from tests.tools import kubernetes as programs
from tests.tools.sites import nats_site

CONFIGURATION = pathlib.Path(__file__).parents[2] / "deploy/extender/kube-scheduler-configuration.yaml"
PROFILE = "kube-carico"
# Beyond what the tests take where nothing is late.
_CHANGE_EVERY_S = 5.0
CLOCK = clocks.SystemClock()


class Site:
    """The parts at work. Nodes advertise what `capacities` says, and cover what `covered` says."""

    def __init__(self, plane: standalone.Standalone, root: pathlib.Path, namespace: str) -> None:
        self.plane = plane
        self.root = root
        self.namespace = namespace
        self.capacities: dict[str, float] = {}
        self.covered: dict[str, frozenset[str]] = {}
        # Cores below the ceiling, of nodes that state this too; each Pod costs one.
        self.headroom_cores: dict[str, float] = {}
        self.nats = nats_site.NatsServer(root / "nats")
        self.extender_port = free_ports.choose_one()
        self.health_port = free_ports.choose_one()
        self.client: api_client.KubeClient
        self.bus: nats_bus.NatsBus
        self._boot = clocks.boot_id(CLOCK)
        self._seq = 0
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def pods_path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def start_extender(self, *flags: str) -> None:
        """Starts CARICO's scheduler as an extender, and with these flags."""
        options = [
            "--bus-url", self.nats.url, "--kubeconfig", str(self.plane.kubeconfig), "--http-port",
            str(self.health_port), "--extender", "--extender-port", str(self.extender_port),
            *flags,
        ]  # fmt: skip
        self._start("extender", [sys.executable, "-m", "carico_scheduler", *options])

    def start_scheduler(self, *flags: str) -> None:
        """Starts a CARICO scheduler that serves no kube-scheduler."""
        options = ["--bus-url", self.nats.url, "--kubeconfig", str(self.plane.kubeconfig), "--http-port", "-1", *flags]
        self._start("scheduler", [sys.executable, "-m", "carico_scheduler", *options])

    def start_kube_scheduler(self, url: str | None = None, **extender: Any) -> None:
        """Starts kube-scheduler with the project's own configuration, changed as `extender` says."""
        document = yaml.safe_load(CONFIGURATION.read_text())
        document["clientConnection"] = {"kubeconfig": str(self.plane.identities.kubeconfig(identity.SCHEDULER))}
        document["leaderElection"] = {"leaderElect": False}
        document["podInitialBackoffSeconds"] = document["podMaxBackoffSeconds"] = 1
        (only,) = document["extenders"]
        only |= {"urlPrefix": url or f"http://127.0.0.1:{self.extender_port}"} | extender
        document["extenders"] = [{name: value for name, value in only.items() if value is not None}]
        path = self.root / "kube-scheduler.yaml"
        path.write_text(yaml.safe_dump(document))
        binary = programs.control_plane_programs()[commands.SCHEDULER].path
        self._start("kube-scheduler", [str(binary), f"--config={path}", "--secure-port=0", "--v=2"])

    def _start(self, name: str, argv: list[str]) -> None:
        with (self.root / f"{name}.log").open("ab") as log:
            self._processes.append(
                subprocess.Popen(
                    argv, stdout=log, stderr=log, cwd=self.root, preexec_fn=processes.end_with_parent(signal.SIGKILL)
                )
            )

    def end_all(self) -> None:
        """Ends every process."""
        for process in self._processes:
            process.kill()
            process.wait()
        self.nats.kill()

    async def create_node(self, name: str, capacity: float) -> None:
        """A ready Node which advertises."""
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"site": self.namespace}}}
        await self.client.request("POST", "/api/v1/nodes", body=body)
        await self._heartbeat(name)
        self.capacities[name] = capacity
        async with asyncio.timeout(waiting.WAIT_S):
            while not _is_ready(await self.client.request("GET", f"/api/v1/nodes/{name}")):
                await asyncio.sleep(0.1)

    async def _heartbeat(self, node: str) -> None:
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        now = instants.format_time(CLOCK.wall_ns())
        ready = {
            "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "test", "lastHeartbeatTime": now,
        }  # fmt: skip
        status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
        await api_actions.patch_node_status(self.client, node=node, status=status)

    async def create_pods(self, count: int, prefix: str = "pi", **spec: Any) -> None:
        """Pods for kube-scheduler's profile, on this site's nodes."""
        for index in range(count):
            body = {
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{prefix}-{index}"},
                "spec": {
                    "schedulerName": PROFILE, "nodeSelector": {"site": self.namespace},
                    "containers": [{"name": "main", "image": "pi"}], **spec,
                },
            }  # fmt: skip
            await self.client.request("POST", self.pods_path, body=body)

    async def pods(self) -> list[dict[str, Any]]:
        """All Pods of the site's namespace."""
        found: list[dict[str, Any]] = (await self.client.request("GET", self.pods_path))["items"]
        return found

    async def bound(self) -> dict[str, str]:
        """Pod name -> node, of those bound."""
        return {
            pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in await self.pods() if pod["spec"].get("nodeName")
        }

    async def until_bound(self, count: int) -> dict[str, str]:
        """Pod name -> node, once so many are bound."""
        async with self._changing_nodes():
            return await waiting.answered(self.bound, lambda found: len(found) >= count)

    @contextlib.asynccontextmanager
    async def _changing_nodes(self) -> AsyncIterator[None]:
        """Nodes change now and then, upon which kube-scheduler looks again at what was refused.

        Where the machine stood still, that was perhaps since all advertisements were late.
        """

        async def change() -> None:
            for turn in itertools.count():
                await asyncio.sleep(_CHANGE_EVERY_S)
                for node in list(self.capacities):
                    patch = {"metadata": {"labels": {"turn": str(turn)}}}
                    with contextlib.suppress(errors.ApiUnavailable):
                        await api_actions.patch_node(self.client, node=node, patch=patch)

        changing = asyncio.create_task(change())
        try:
            yield
        finally:
            changing.cancel()
            await asyncio.gather(changing, return_exceptions=True)

    async def until_told(self, pod: str, text: str) -> str:
        """The first Event about a Pod with `text` in it."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"

        async def said() -> list[str]:
            events = (await self.client.request("GET", path))["items"]
            notes = (str(event.get("note", "")) for event in events if event["regarding"]["name"] == pod)
            return [note for note in notes if text in note]

        async with self._changing_nodes():
            return (await waiting.answered(said))[0]

    async def advertise_forever(self) -> None:
        """Advertise each node's room five times a second, and renew its kubelet's Lease, until cancelled."""
        for turn in itertools.count():
            if turn % 25 == 24:
                # The API may be away; then the next ones count.
                with contextlib.suppress(errors.ApiUnavailable):
                    await asyncio.gather(*map(self._heartbeat, self.capacities))
            for node, capacity in self.capacities.items():
                self._seq += 1
                made = advertised.advertisement(
                    node, room=capacity, cores=self.headroom_cores.get(node), boot=self._boot, seq=self._seq,
                    at_ns=CLOCK.wall_ns(), covers=self.covered.get(node, frozenset()),
                )  # fmt: skip
                with contextlib.suppress(errors.BusUnavailable):
                    await self.bus.publish(subjects.capacity(node), wire.encode_advertisement(made))
            await asyncio.sleep(0.2)

    async def until_ready(self) -> None:
        """Once the extender is ready."""
        async with asyncio.timeout(waiting.WAIT_S):
            await readiness.wait(readiness.Http(port=self.health_port))

    async def metric(self, name: str) -> str:
        """The lines of a metric of the extender."""
        answer = await readiness.get(self.health_port, "/metrics")
        assert answer is not None
        return "\n".join(line for line in answer.body.decode().splitlines() if line.startswith(name))


@contextlib.asynccontextmanager
async def running(plane: standalone.Standalone, root: pathlib.Path, namespace: str) -> AsyncIterator[Site]:
    """A site with NATS, and nodes that advertise once they are created; schedulers are the test's to start."""
    site = Site(plane, root, namespace)
    advertising: asyncio.Task[None] | None = None
    try:
        site.nats.start()
        wanted = api_client.KubeSettings(kubeconfig=str(plane.kubeconfig))
        site.client = await api_client.connect(wanted, clock=CLOCK, user_agent="test")
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await site.client.request("POST", "/api/v1/namespaces", body=body)
        await _until_account(site)
        site.bus = await nats_bus.connect(buses.BusSettings(url=site.nats.url), name="test", clock=CLOCK)
        advertising = asyncio.create_task(site.advertise_forever())
        yield site
        assert not advertising.done(), advertising
    finally:
        if advertising is not None:
            advertising.cancel()
            await asyncio.gather(advertising, return_exceptions=True)
            await site.bus.close()
        site.end_all()
        # The session's control plane is shared: what is left behind would be in the way of others.
        for pod in await site.pods():
            # No kubelet ends it.
            path = f"{site.pods_path}/{pod['metadata']['name']}"
            await site.client.request("DELETE", path, body={"gracePeriodSeconds": 0})
        for node in site.capacities:
            await site.client.request("DELETE", f"/api/v1/nodes/{node}")
        await site.client.request("DELETE", f"/api/v1/namespaces/{namespace}")
        await site.client.close()


async def _until_account(site: Site) -> None:
    """Once Pods can be created: each needs its namespace's default ServiceAccount."""
    async with asyncio.timeout(waiting.WAIT_S):
        while True:
            with contextlib.suppress(errors.NotFound):
                await site.client.request("GET", f"/api/v1/namespaces/{site.namespace}/serviceaccounts/default")
                return
            await asyncio.sleep(0.05)


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node["status"].get("conditions", [])
    is_ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return is_ready and not node["spec"].get("taints")
