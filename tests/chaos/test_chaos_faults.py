"""An API, a bus, nodes and clocks that fail in mid-job: every Pod is bound once, or an Event says why not."""

import asyncio
import collections
import contextlib
import json
import pathlib
import random
from collections.abc import AsyncIterator

from carico_core.domain import errors
from tests.chaos import fake_api
from tests.tools import tcp_proxy, waiting
from tests.tools.sites import scheduler_site

PODS = 60
LEASE_S = 2.0


@contextlib.asynccontextmanager
async def faulty(
    root: pathlib.Path, *, bind_timeout_s: float = 1.0
) -> AsyncIterator[tuple[scheduler_site.Site, fake_api.FaultyApi]]:
    """A site whose scheduler comes to the API by a way on which faults can happen."""
    async with behind_faults(root) as (site, api):
        kubeconfig = root / "faulty.kubeconfig"
        site.write_kubeconfig(kubeconfig, api.url)
        site.start_scheduler("--bind-timeout-s", f"{bind_timeout_s:g}", kubeconfig=kubeconfig)
        yield site, api


@contextlib.asynccontextmanager
async def behind_faults(root: pathlib.Path) -> AsyncIterator[tuple[scheduler_site.Site, fake_api.FaultyApi]]:
    """A site without a scheduler, and the way to its API on which faults can happen."""
    async with contextlib.AsyncExitStack() as stack:
        site = await stack.enter_async_context(scheduler_site.running(root, room=8.0))
        api = fake_api.FaultyApi(f"http://127.0.0.1:{site.api_port}", token=site.token)
        await stack.enter_async_context(api.running())
        yield site, api


def once_each(api: fake_api.FaultyApi, pods: int) -> None:
    """Each Pod was bound once, by the API's own answers."""
    counts = collections.Counter(api.bound)
    assert len(counts) == pods
    assert set(counts.values()) == {1}


async def test_bursts_of_429_and_5xx(tmp_path: pathlib.Path) -> None:
    async with faulty(tmp_path) as (site, api):
        api.fault = fake_api.overloaded(random.Random(7), 0.4)
        await site.create_pods(PODS)
        await site.until_succeeded(PODS // 2)
        # Of 60 binds and whatever else is asked two in five: it comes to that before all is done.
        await waiting.until(lambda: api.faults >= 20)
        api.fault = lambda request: None
        await site.until_succeeded(PODS)
        once_each(api, PODS)
        site.check(PODS)


async def test_binds_that_land_while_their_answer_is_lost(tmp_path: pathlib.Path) -> None:
    async with faulty(tmp_path) as (site, api):
        rng = random.Random(3)
        api.loses_answer = lambda bind: rng.random() < 0.3
        await site.create_pods(PODS)
        await site.until_succeeded(PODS)
        assert len(api.lost) >= 5
        once_each(api, PODS)
        # Those too are recorded as bound, by what the watch has shown.
        await waiting.until(lambda: len({each.uid for each in site.bound}) == PODS)


async def test_watches_that_are_too_old_in_mid_job(tmp_path: pathlib.Path) -> None:
    async with faulty(tmp_path) as (site, api):
        await site.create_pods(PODS)
        for done in (5, 15, 30, 45):
            await site.until_succeeded(done)
            api.expire_watches()
        await site.until_succeeded(PODS)
        assert api.faults >= 8
        once_each(api, PODS)
        site.check(PODS)


async def test_a_token_that_is_rotated_and_one_that_has_expired(tmp_path: pathlib.Path) -> None:
    token = tmp_path / "token"
    token.write_text("first")
    valid = "first"
    async with behind_faults(tmp_path) as (site, api):
        api.fault = fake_api.wants_token(lambda: valid)
        kubeconfig = tmp_path / "tokens.kubeconfig"
        site.write_kubeconfig(kubeconfig, api.url)
        document = json.loads(kubeconfig.read_text())
        document["users"][0]["user"] = {"tokenFile": str(token)}
        kubeconfig.write_text(json.dumps(document))
        site.start_scheduler(kubeconfig=kubeconfig)
        await site.create_pods(PODS)
        await site.until_succeeded(15)
        # Rotated: the old one is refused from now on, and the file has the new one.
        token.write_text("second")
        valid = "second"
        api.expire_watches()
        await site.until_succeeded(35)
        # Expired: no connection is accepted until there is another.
        valid = "third"
        api.expire_watches()
        await asyncio.sleep(1.0)
        token.write_text("third")
        await site.until_succeeded(PODS)
        once_each(api, PODS)
        site.check(PODS)


async def test_a_network_policy_that_cuts_nats(tmp_path: pathlib.Path) -> None:
    async with contextlib.AsyncExitStack() as stack:
        site = await stack.enter_async_context(scheduler_site.running(tmp_path, room=8.0, lease_s=LEASE_S))
        wire = await stack.enter_async_context(tcp_proxy.Proxy(site.nats.port).running())
        flags = ("--bus-lease-s", f"{LEASE_S:g}", "--event-after-s", "0.5")
        site.start_scheduler(*flags, bus_url=f"nats://127.0.0.1:{wire.port}")
        await site.create_pods(PODS // 2)
        await site.until_succeeded(PODS // 2)
        wire.is_open = False
        # Past the lease nothing is known of any node.
        await asyncio.sleep(LEASE_S + 1.0)
        await site.create_pods(PODS // 2, prefix="late")
        said = await event_of(site, "late-0", "FailedScheduling")
        assert "advertise" in said or "heard" in said, said
        late = [pod for pod in site.pods.values() if "late" in pod["metadata"]["name"]]
        assert not any(pod["spec"].get("nodeName") for pod in late)
        wire.is_open = True
        await site.until_succeeded(PODS)
        # Decision records written meanwhile are lost with the bus; the API's word is not.
        assert all(len(site.nodes_of[uid]) == 1 for uid in site.pods)
        assert max(site.largest.values()) <= site.room


async def test_a_node_that_is_deleted_with_pods_on_it(tmp_path: pathlib.Path) -> None:
    async with faulty(tmp_path) as (site, api):
        await site.create_pods(PODS)
        await site.until_succeeded(10)
        await site.client.request("DELETE", "/api/v1/nodes/node-2")
        await waiting.answered(lambda: site.ask("capacity.list"), lambda told: "node-2" not in str(told["nodes"]))
        # What was decided before the scheduler heard of it has landed, and is seen here too.
        await waiting.answered(
            lambda: site.ask("reservations.list"),
            lambda told: not any(each["node"] == "node-2" and each["binding"] for each in told["reservations"]),
        )
        await waiting.until(lambda: not api.held)
        await waiting.until(lambda: set(api.bound) <= bound_as_seen(site))
        before = {uid for uid, nodes in site.nodes_of.items() if "node-2" in nodes}
        await site.until_succeeded(PODS)
        after = {uid for uid, nodes in site.nodes_of.items() if "node-2" in nodes}
        assert after == before, "a node that is gone got Pods"
        once_each(api, PODS)


async def test_pods_deleted_between_decision_and_bind(tmp_path: pathlib.Path) -> None:
    # Binds are held for as long as a slow machine takes to delete their Pods; none is given up and sent again.
    async with faulty(tmp_path, bind_timeout_s=60.0) as (site, api):
        api.lets_binds_pass.clear()
        await site.create_pods(PODS)
        await waiting.until(lambda: len(api.held) >= 12)
        doomed = api.held[:6]
        for name in doomed:
            await site.client.request(
                "DELETE", f"{scheduler_site.PODS_PATH}/{name}", params={"gracePeriodSeconds": "0"}
            )
        api.lets_binds_pass.set()
        await site.until_succeeded(PODS - len(doomed))
        assert not set(doomed) & set(api.bound)
        once_each(api, PODS - len(doomed))
        # The room that was held for them is free again: one more Pod fits at once.
        await site.create_pods(1, prefix="more")
        await site.until_succeeded(PODS - len(doomed) + 1)


async def test_clocks_of_nodes_a_minute_off(tmp_path: pathlib.Path) -> None:
    async with scheduler_site.running(tmp_path, room=5.0) as site:
        minute_ns = 60 * 10**9
        site.clock_off_ns.update({"node-1": minute_ns, "node-2": -minute_ns})
        site.start_scheduler()
        await site.create_pods(PODS)
        await site.until_succeeded(PODS)
        site.check(PODS)
        used = collections.Counter(node for nodes in site.nodes_of.values() for node in nodes)
        assert set(used) == set(scheduler_site.NODES), "a node was left out for its clock"
        assert min(used.values()) >= PODS // 10


def bound_as_seen(site: scheduler_site.Site) -> set[str]:
    """The Pods that have a node as the watch shows them."""
    return {pod["metadata"]["name"] for pod in site.pods.values() if pod["spec"].get("nodeName")}


async def event_of(site: scheduler_site.Site, pod: str, reason: str) -> str:
    """The message of a Pod's Event, once it is there."""
    async with asyncio.timeout(waiting.WAIT_S):
        while True:
            with contextlib.suppress(errors.ApiUnavailable):
                found = await site.client.request("GET", "/api/v1/namespaces/default/events")
                for each in found["items"]:
                    if each["involvedObject"]["name"] == pod and each["reason"] == reason:
                        return str(each["message"])
            await asyncio.sleep(0.1)
