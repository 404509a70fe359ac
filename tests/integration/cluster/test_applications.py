"""The three applications over real sockets: every request is answered, also while Pods are replaced."""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Mapping

import pytest

from carico_local.applications import catalog, directory, network, program, roles, users
from carico_local.applications import work as works
from carico_local.workloads import pacing

LINK = network.Link(delay_s=0.002, bytes_per_s=125e6)


def address(node: int, number: int) -> str:
    """Return an address of this process alone: emulated nodes have 127.16 to 127.239."""
    block = os.getpid()
    return f"127.{240 + block % 14}.{block // 14 % 40 * 6 + node - 1}.{number}"


class Cluster:
    """Pods of all services, as tasks of this process. `node`: of every Pod; None: as the paper begins."""

    def __init__(self, *, node: int | None = None) -> None:
        self.node = node
        self.table: dict[str, list[str]] = {}
        self.server = directory.DirectoryServer()
        self.pods: dict[str, program.AppServer] = {}
        self.readers: set[str] = set()
        self.clients: list[network.Client] = []
        self._taken = 0
        self._following: list[asyncio.Task[None]] = []

    async def start(self, service: catalog.Service, *, node: int | None = None) -> str:
        """Start a Pod; return its address."""
        self._taken += 1
        own = address(node or self.node or service.node, self._taken)
        known = directory.Directory({})
        self._following.append(asyncio.create_task(known.follow("127.0.0.1", self.server.port)))
        client = network.Client(own=own, link=LINK, directory=known)
        self.clients.append(client)
        if service.kind is catalog.Kind.READER:
            self.readers.add(own)
        self.pods[own] = program.AppServer(service, client, works.Cores(scale=0.02, timer=pacing.ThreadTimer()))
        await self.pods[own].start(own)
        return own

    def publish(self, service: str, addresses: list[str]) -> None:
        self.table = {**self.table, service: addresses}
        self.server.publish(self.table)

    def counts(self) -> Mapping[str, int]:
        return {
            "near": sum(each.counts.near_bytes for each in self.clients),
            "far": sum(each.counts.far_bytes for each in self.clients),
        }

    async def end(self) -> None:
        for each in self._following:
            each.cancel()
        await asyncio.gather(*self._following, return_exceptions=True)
        # Readers first: each handles what it has read, for which it needs the others.
        for is_reader in (True, False):
            ending = (pod for own, pod in self.pods.items() if (own in self.readers) == is_reader)
            await asyncio.gather(*(pod.finish(linger_s=0.0) for pod in ending))
        for client in self.clients:
            client.close()
        self.server.close()


@contextlib.asynccontextmanager
async def running(*, node: int | None = None) -> AsyncIterator[tuple[Cluster, network.Client]]:
    cluster = Cluster(node=node)
    await cluster.server.start()
    known = directory.Directory({})
    following = asyncio.create_task(known.follow("127.0.0.1", cluster.server.port))
    client = network.Client(own="", link=network.Link(), directory=known)
    try:
        for service in catalog.SERVICES.values():
            cluster.publish(service.name, [await cluster.start(service)])
        await known.known.wait()
        while known.pick("hub-broker-2") is None:
            await asyncio.sleep(0.01)
        yield cluster, client
    finally:
        following.cancel()
        client.close()
        await cluster.end()
        await asyncio.gather(following, return_exceptions=True)


def run(scenario: object) -> list[users.Request]:
    with asyncio.Runner(loop_factory=network.event_loop) as runner:
        found: list[users.Request] = runner.run(scenario)  # type: ignore[arg-type]
        return found


LOAD = users.Load(name="test", browsers=2, planners=1, devices=3, pause_s=0.01)


async def used(client: network.Client, cluster: Cluster, meanwhile: object = None) -> list[users.Request]:
    people = users.Users(LOAD, client, now_s=time.monotonic)
    async with asyncio.timeout(60):
        work = asyncio.create_task(people.run())
        # Two whole visits of the shop, and events of every device.
        while len([each for each in people.requests if each.application == "boutique"]) < 40 or (
            sum(each.application == "hub" for each in people.requests) < 6
        ):
            assert not work.done()
            await asyncio.sleep(0.02)
        if meanwhile is not None:
            await meanwhile  # type: ignore[misc]
        people.end()
        await work
    return people.requests


def test_every_request_of_all_users_is_answered() -> None:
    async def scenario() -> list[users.Request]:
        async with running() as (cluster, client):
            found = await used(client, cluster)
            assert cluster.counts()["near"] == 0
            assert cluster.counts()["far"] > 100_000
            # What a Pod itself counts is asked for as any request.
            stats = await client.call_at(cluster.table["boutique-frontend"][0], {"route": roles.STATS})
            assert stats.head["far_bytes"] > 10_000
        return found

    found = run(scenario())
    assert [each.failed for each in found if each.failed] == []
    assert {each.application for each in found} == {"boutique", "vrp", "hub", "hub-query"}
    # A page needs two requests one after another to other nodes at least, each with two ways of 2 ms.
    assert min(each.took_s for each in found if each.application == "boutique") > 0.004


def test_pods_of_one_node_have_no_traffic_between_nodes() -> None:
    async def scenario() -> list[users.Request]:
        async with running(node=2) as (cluster, client):
            found = await used(client, cluster)
            assert cluster.counts()["far"] == 0
            assert cluster.counts()["near"] > 100_000
        return found

    assert not any(each.failed for each in run(scenario()))


def test_no_request_fails_where_a_new_pod_is_ready_before_the_old_one_ends() -> None:
    async def scenario() -> list[users.Request]:
        async with running() as (cluster, client):

            async def replace() -> None:
                for name in ("boutique-cart", "vrp-optimizer", "hub-streamer", "hub-streaming", "hub-ingest"):
                    old = cluster.table[name][0]
                    new = await cluster.start(catalog.SERVICES[name], node=2)
                    cluster.publish(name, [old, new])
                    await asyncio.sleep(0.1)
                    cluster.publish(name, [new])
                    await cluster.pods.pop(old).finish(linger_s=0.2)

            return await used(client, cluster, replace())

    found = run(scenario())
    assert [each.failed for each in found if each.failed] == []


def test_requests_fail_and_are_counted_where_a_service_has_no_pod() -> None:
    async def scenario() -> list[users.Request]:
        async with running() as (cluster, client):

            async def away() -> None:
                cluster.publish("boutique-redis", [])
                await asyncio.sleep(0.3)

            return await used(client, cluster, away())

    found = run(scenario())
    assert any("boutique-redis: no Pod is ready" in each.failed for each in found if each.application == "boutique")
    assert not any(each.failed for each in found if each.application == "vrp")


@pytest.mark.parametrize("how", ["refused", "closed"])
def test_a_pod_that_dies_fails_its_requests_at_once(how: str) -> None:
    async def scenario() -> list[users.Request]:
        own = address(1, 250)

        async def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        server = await asyncio.start_server(close, own, network.PORT) if how == "closed" else None
        client = network.Client(own="", link=network.Link(), directory=directory.Directory({"a": [own]}))
        try:
            with pytest.raises(network.Failed, match="a: "):
                await client.call("a", {"route": "/"})
        finally:
            if server is not None:
                server.close()
        return []

    run(scenario())


def test_a_pod_that_ends_answers_as_long_as_the_directory_has_it() -> None:
    async def scenario() -> list[users.Request]:
        own, server = address(1, 251), directory.DirectoryServer()
        await server.start()
        server.publish({"boutique-ad": [own]})
        client = network.Client(own="", link=network.Link(), directory=directory.Directory(server.table))
        workload = "import sys; from carico_local.workloads import main; sys.exit(main.main())"
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", workload, "--scale", "0.02", "app", "boutique-ad", "--address", own,
            "--directory", f"127.0.0.1:{server.port}", stdout=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            async with asyncio.timeout(60):
                while True:
                    with contextlib.suppress(network.Failed):
                        await client.call("boutique-ad", {"route": "/"})
                        break
                    await asyncio.sleep(0.05)
                process.terminate()
                # Longer than it lingers once the directory does not have it any more.
                await asyncio.sleep(network.LINGER_S + 1.0)
                await client.call("boutique-ad", {"route": "/"})
                server.publish({})
                assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            client.close()
            server.close()
        return []

    run(scenario())
