"""A cluster autoscaler, which simulates by requests, sees what CARICO fills as full once Pods have learnt requests.

CARICO serves the Pods on nodes that kwok plays; the webhook gives them requests on a real API server. Each node of four
cores advertises room for eight Pods by measurement. The learnt request, 581m, leaves room for six.
"""

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from carico_core.domain import amounts, errors
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import api_client
from carico_core.runtime.process import clock as clocks
from carico_local.cluster import processes
from carico_local.control_plane import standalone
from carico_local.played_nodes import agents, nodes, service
from tests.integration.services import fake_cluster_autoscaler
from tests.tools import service_process, waiting
from tests.tools.sites import recommender_site

CLOCK = clocks.SystemClock()
NAMESPACE = "/api/v1/namespaces/vpa-shop"
DEPLOYMENTS = "/apis/apps/v1/namespaces/vpa-shop/deployments"
CORES, MEASURED, GROUP, BEGIN = 4, 8, 5, 2
PODS = 20


@contextlib.contextmanager
def scheduler(folder: pathlib.Path, url: str, kubeconfig: pathlib.Path) -> Iterator[None]:
    """CARICO's scheduler as a process."""
    flags = ["--bus-url", url, "--kubeconfig", str(kubeconfig), "--http-port", "-1", "--no-leader-election"]
    flags += ["--event-after-s", "0.2"]
    log = folder / "scheduler.log"
    process = service_process.start(log, "carico_scheduler", *flags)
    try:
        yield
        assert process.poll() is None, processes.last_lines(log, 5)
    finally:
        service_process.end(process)


@contextlib.asynccontextmanager
async def played(url: str, api: api_client.KubeClient) -> AsyncIterator[None]:
    """The agents of the whole group; those of Nodes that do not exist are ignored."""
    bus = await nats_bus.connect(buses.BusSettings(url=url), name="played", clock=CLOCK, owns_streams=False)
    kept = agents.Agents(nodes.names(GROUP), capacity=MEASURED)
    fleet = service.PlayedAgents(kept, bus, clock=CLOCK, boot=clocks.boot_id(CLOCK))
    works = [asyncio.ensure_future(work) for work in (fleet.follow(api), fleet.publish_changes(), fleet.publish_all())]
    try:
        yield
    finally:
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
        await bus.close()


class Shop:
    """One Deployment of the namespace vpa-shop."""

    def __init__(self, api: api_client.KubeClient) -> None:
        self._api = api

    async def create(self, replicas: int) -> None:
        labels = {"app": "web"}
        spec = {"containers": [{"name": "main", "image": "i"}], "automountServiceAccountToken": False}
        spec |= {"schedulerName": "carico", "terminationGracePeriodSeconds": 0}
        template = {"metadata": {"labels": labels}, "spec": spec}
        body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
        body["spec"] = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        await self._api.request("POST", DEPLOYMENTS, body=body)

    async def scale(self, replicas: int) -> None:
        await self._api.request(
            "PATCH", f"{DEPLOYMENTS}/web", body={"spec": {"replicas": replicas}},
            content_type="application/merge-patch+json",
        )  # fmt: skip

    async def pods(self) -> list[dict[str, Any]]:
        found = (await self._api.request("GET", f"{NAMESPACE}/pods"))["items"]
        return [each for each in found if fake_cluster_autoscaler.is_live(each)]

    async def counts(self) -> tuple[int, int]:
        """Return how many Pods have a node, and how many ask for one."""
        found = await self.pods()
        placed = sum(bool(each["spec"].get("nodeName")) for each in found)
        return placed, sum(map(fake_cluster_autoscaler.is_unschedulable, found))

    async def clear(self) -> None:
        with contextlib.suppress(Exception):
            await self._api.request("DELETE", f"{DEPLOYMENTS}/web")
        await waiting.answered(self.pods, lambda found: not found)


@pytest.fixture(scope="module")
def kubeconfig(
    real_control_plane: standalone.Standalone, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[pathlib.Path]:
    """A kubeconfig of the recommender's ServiceAccount."""
    folder = tmp_path_factory.mktemp("recommender")
    with recommender_site.installed(real_control_plane.kubeconfig, folder) as path:
        yield path


@pytest.fixture
async def autoscaler(real_api: api_client.KubeClient) -> AsyncIterator[fake_cluster_autoscaler.FakeClusterAutoscaler]:
    """An autoscaler of a group with two nodes at first."""
    await nodes.create(real_api, BEGIN, cores=CORES, pods=110)
    sizes = fake_cluster_autoscaler.sizes(GROUP, cores=CORES, pods=110)
    yield fake_cluster_autoscaler.FakeClusterAutoscaler(real_api, sizes, least=1)
    await real_api.request("DELETE", nodes.NODES_PATH, params={"labelSelector": f"{nodes.FLEET_LABEL}=kwok"})


async def test_without_requests_a_full_cluster_looks_empty(
    real_control_plane: standalone.Standalone, real_api: api_client.KubeClient, kubeconfig: pathlib.Path,
    autoscaler: fake_cluster_autoscaler.FakeClusterAutoscaler, tmp_path: pathlib.Path,
) -> None:  # fmt: skip
    shop = Shop(real_api)
    async with recommender_site.learning(tmp_path) as (_, url), played(url, real_api):
        with scheduler(tmp_path, url, real_control_plane.kubeconfig):
            await shop.create(PODS)
            try:
                # As many as are measured to fit; the others ask for a node.
                await waiting.answered(shop.counts, lambda found: found == (BEGIN * MEASURED, PODS - BEGIN * MEASURED))
                assert await autoscaler.add() == []
                # Busy as they are.
                assert await autoscaler.unneeded() == nodes.names(BEGIN)
            finally:
                await shop.clear()


async def test_with_learnt_requests_nodes_are_added_and_removed_as_pods_need_them(
    real_control_plane: standalone.Standalone, real_api: api_client.KubeClient, kubeconfig: pathlib.Path,
    autoscaler: fake_cluster_autoscaler.FakeClusterAutoscaler, tmp_path: pathlib.Path,
) -> None:  # fmt: skip
    admin = real_control_plane.kubeconfig
    shop = Shop(real_api)

    async def is_given() -> bool:
        metadata = {"name": "probe", "labels": {"pod-template-hash": "x"}, "ownerReferences": [OWNER]}
        body: dict[str, Any] = {"metadata": metadata}
        body["spec"] = {"containers": [{"name": "m", "image": "i"}], "automountServiceAccountToken": False}
        with contextlib.suppress(errors.Forbidden):  # until a controller has created the namespace's ServiceAccount
            found = await real_api.request("POST", f"{NAMESPACE}/pods", body=body, params={"dryRun": "All"})
            return bool(found["spec"]["containers"][0]["resources"])
        return False

    async with recommender_site.learning(tmp_path) as (aggregator, url), played(url, real_api):
        aggregator.by_name["ReplicaSet/vpa-shop/web"] = 0.54
        with (
            recommender_site.admitting(admin, tmp_path) as flags,
            recommender_site.recommender(tmp_path, url, kubeconfig, *flags),
            scheduler(tmp_path, url, admin),
        ):
            await waiting.answered(is_given)
            await shop.create(PODS)
            try:
                each = int(CORES / amounts.parse_quantity("581m"))
                await waiting.answered(shop.counts, lambda found: found == (BEGIN * each, PODS - BEGIN * each))
                # Full in the simulation, too, by as much as CARICO could not place.
                assert await autoscaler.unneeded() == []
                assert await autoscaler.add() == ["node-3", "node-4"]
                # Before the new nodes are ready the Pods still wait; the simulation knows that they fit.
                assert await autoscaler.add() == []
                await waiting.answered(shop.counts, lambda found: found == (PODS, 0))
                assert await autoscaler.add() == []
                # Three Pods need one node: the others go, and no Pod stays without a node.
                await shop.scale(3)
                await waiting.answered(shop.counts, lambda found: found == (3, 0))
                removed = []
                while (name := await autoscaler.remove()) is not None:
                    removed.append(name)
                    await waiting.answered(shop.counts, lambda found: found == (3, 0))
                assert len(removed) == 3
                left = set(nodes.names(4)) - set(removed)
                await waiting.answered(shop.pods, lambda found: {each["spec"]["nodeName"] for each in found} == left)
            finally:
                await shop.clear()


OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-x", "uid": "u", "controller": True}
