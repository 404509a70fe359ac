"""One run: Pods are placed as in the paper, users send requests, Pods are moved, users go on (section 5.3.2)."""

import asyncio
import collections
import dataclasses
import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from carico_core.runtime.kube import api_actions
from carico_core.runtime.process import clock as clocks
from carico_local.applications import catalog, directory, manifests, network, roles, users
from carico_local.compare import testbed as testbeds
from carico_local.compare.applications import contender as contenders
from carico_local.compare.applications import pods as podlists
from carico_local.compare.applications import result

READY_MOST_S = 180.0
# So long, informers may not know yet that a node is closed.
CLOSED_S = 0.5
# Agents learn what a class of Pods costs from Pods that start one after another.
APART_S = 4.0
NAMESPACE = "default"
_DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"


class Api(podlists.Api, api_actions.BindApi, Protocol):
    """What is needed from the Kubernetes API."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """Seconds of a run: until users' requests count, before and after Pods move, and until they have settled."""

    warm_s: float = 30.0
    before_s: float = 60.0
    settle_s: float = 10.0
    after_s: float = 60.0


QUICK = Spans(warm_s=15.0, before_s=20.0, settle_s=5.0, after_s=20.0)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationTestbed:
    """The cluster. `move`: moves the Pods of a contender; returns how many, and why no more (empty: not known)."""

    api: Api
    clock: clocks.Clock
    nodes: Sequence[str]
    node_cores: float
    node_memory_bytes: float
    pods: podlists.Pods
    server: directory.DirectoryServer
    move: Callable[[contenders.PlacementContender], Awaitable[tuple[int, str]]]
    delay_ms: float
    rate_mbit: float


async def run(
    testbed: ApplicationTestbed, contender: contenders.PlacementContender, load: users.Load, spans: Spans
) -> result.Run:
    """Run the applications under a contender, and delete them. Raises `EnvironmentUnfit`."""
    try:
        await _place(testbed, contender)
        return await _measure(testbed, contender, load, spans)
    finally:
        await _clear(testbed)


async def _place(testbed: ApplicationTestbed, contender: contenders.PlacementContender) -> None:
    """Create the Deployments. Where Pods begin as in the paper, bind them while all nodes are closed to schedulers."""
    if not contender.is_placed:
        await _create(testbed, contender)
        await testbed.pods.until_ready(list(catalog.SERVICES), READY_MOST_S)
        return
    try:
        for node in testbed.nodes:
            await _close(testbed, node, closed=True)
        await asyncio.sleep(CLOSED_S)
        await _create(testbed, contender)
        count = len(catalog.SERVICES)
        await testbed.pods.until(lambda: len(testbed.pods.found) == count, READY_MOST_S, "not all Pods are created")
        waiting: dict[int, list[podlists.AppPod]] = collections.defaultdict(list)
        for pod in testbed.pods.found.values():
            waiting[(catalog.SERVICES[pod.service].node - 1) % len(testbed.nodes)].append(pod)
        for together in itertools.zip_longest(*waiting.values()):
            await _bind(testbed, [each for each in together if each is not None])
    finally:
        for node in testbed.nodes:
            await _close(testbed, node, closed=False)


async def _bind(testbed: ApplicationTestbed, pods: Sequence[podlists.AppPod]) -> None:
    """Bind Pods, at most one to each node, and wait until they are ready and their node knows what they take."""
    for pod in pods:
        node = testbed.nodes[(catalog.SERVICES[pod.service].node - 1) % len(testbed.nodes)]
        await api_actions.bind(testbed.api, namespace=NAMESPACE, name=pod.name, uid=pod.uid, node=node)
    await testbed.pods.until_ready([each.service for each in pods], READY_MOST_S)
    await asyncio.sleep(APART_S)


async def _close(testbed: ApplicationTestbed, node: str, *, closed: bool) -> None:
    """Let no new Pod onto a node (`kubectl cordon`), or let them again."""
    await api_actions.patch_node(testbed.api, node=node, patch={"spec": {"unschedulable": closed or None}})


async def _create(testbed: ApplicationTestbed, contender: contenders.PlacementContender) -> None:
    choice = manifests.Choice(
        namespace=NAMESPACE, scheduler_name=contender.scheduler_name,
        node_cores=testbed.node_cores if contender.requests else None, node_memory_bytes=testbed.node_memory_bytes,
        directory=f"127.0.0.1:{testbed.server.port}", delay_ms=testbed.delay_ms, rate_mbit=testbed.rate_mbit,
    )  # fmt: skip
    for each in catalog.SERVICES.values():
        await testbed.api.request("POST", _DEPLOYMENTS, body=manifests.deployment(each, choice))


async def _measure(
    testbed: ApplicationTestbed, contender: contenders.PlacementContender, load: users.Load, spans: Spans
) -> result.Run:  # fmt: skip
    client = network.Client(own="", link=network.Link(), directory=directory.Directory({}))
    known = asyncio.create_task(client.directory.follow("127.0.0.1", testbed.server.port))
    try:
        await client.directory.known.wait()
        people = users.Users(load, client, now_s=testbed.clock.monotonic_s)
        using = asyncio.create_task(people.run())
        try:
            await _sleep(spans.warm_s, using)
            before = await _watch(testbed, client, using, spans.before_s)
            moves, rests = await testbed.move(contender)
            await testbed.pods.until_ready(list(catalog.SERVICES), READY_MOST_S)
            await _sleep(spans.settle_s, using)
            after = await _watch(testbed, client, using, spans.after_s)
            people.end()
            await using
        finally:
            using.cancel()
            await asyncio.gather(using, return_exceptions=True)
    finally:
        known.cancel()
        client.close()
        await asyncio.gather(known, return_exceptions=True)
    failed = [each.failed for each in people.requests if each.failed]
    return result.Run(
        contender=contender.name, load=load.name, before=before.with_times(people.requests),
        after=after.with_times(people.requests), moves=moves, rests=rests, requests=len(people.requests),
        failed=len(failed), failures=sorted(set(failed))[:10],
    )  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Watched:
    """A span that has ended: its time on the clock, the traffic between nodes, and the node of each service."""

    from_s: float
    until_s: float
    bytes_per_s: float
    nodes: Mapping[str, str]

    def with_times(self, requests: Sequence[users.Request]) -> result.Span:
        """Return the span with the times of requests that began in it; the last answers come after its end."""
        times = {
            name: users.summarize(requests, name, from_s=self.from_s, until_s=self.until_s)
            for name in catalog.APPLICATIONS
        }
        return result.Span(times=times, bytes_per_s=self.bytes_per_s, nodes=self.nodes)


async def _watch(
    testbed: ApplicationTestbed, client: network.Client, using: "asyncio.Task[None]", span_s: float
) -> _Watched:
    """Let users send requests for so long; return the traffic between nodes meanwhile."""
    began_s, far = testbed.clock.monotonic_s(), await _far_bytes(testbed, client)
    await _sleep(span_s, using)
    ended_s, later = testbed.clock.monotonic_s(), await _far_bytes(testbed, client)
    more = sum(later[uid] - far[uid] for uid in later.keys() & far.keys())
    return _Watched(
        from_s=began_s, until_s=ended_s, bytes_per_s=more / (ended_s - began_s), nodes=testbed.pods.nodes()
    )  # fmt: skip


async def _far_bytes(testbed: ApplicationTestbed, client: network.Client) -> Mapping[str, int]:
    """Return the bytes that each Pod has exchanged with Pods of other nodes, as it counts them."""

    async def ask(pod: podlists.AppPod) -> tuple[str, int]:
        answer: Any = await client.call_at(pod.address, {"route": roles.STATS}, name=pod.service)
        return pod.uid, int(answer.head["far_bytes"])

    found: dict[str, int] = {}
    for each in await asyncio.gather(*map(ask, testbed.pods.serving()), return_exceptions=True):
        # One that ends meanwhile counts in neither of two readings.
        if not isinstance(each, BaseException):
            found[each[0]] = each[1]
    return found


async def _sleep(seconds: float, using: "asyncio.Task[None]") -> None:
    """Sleep, but not longer than the users."""
    done, _ = await asyncio.wait((using,), timeout=seconds)
    for each in done:
        each.result()


async def _clear(testbed: ApplicationTestbed) -> None:
    """Delete the Deployments, and wait until their Pods are gone."""
    await testbeds.delete_all(testbed.api, _DEPLOYMENTS, manifests.APPLICATION_LABEL, within_s=READY_MOST_S)
    await testbed.pods.until(lambda: not testbed.pods.found, READY_MOST_S, "the Pods of the applications are not gone")
