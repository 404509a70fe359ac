"""Rosters: sent when a Pod is placed, when an agent starts and every minute, by the one scheduler that leads."""

import asyncio
import random

from carico_core.domain import cluster, errors, messages, names, usage
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_scheduler.report import rosters
from carico_scheduler.rules import policy as policies
from carico_scheduler.state import node_state, state
from tests.unit.scheduler import objects


class Bus:
    """A bus that keeps what was published."""

    def __init__(self) -> None:
        self.sent: list[messages.Roster] = []
        self.connected = True

    async def publish(self, subject: str, payload: bytes) -> None:
        if not self.connected:
            raise errors.BusUnavailable("away")
        self.sent.append(wire.decode_roster(payload, subject=subject))

    def taken(self) -> dict[str, dict[str, str | None]]:
        """Return what was sent since the last call, by node."""
        sent, self.sent = self.sent, []
        return {each.node: dict(each.pods) for each in sent}


class Site:
    """A state with two nodes, and its rosters."""

    def __init__(self) -> None:
        self.clock = clocks.FakeClock(monotonic_s=100.0)
        self.state = state.State(policies.Policy(), random.Random(0))
        self.state.put_nodes([objects.make_node("node-0"), objects.make_node("node-1")])
        self.leads = self.advertising = True
        self.drops: list[None] = []
        self.bus = Bus()
        self.rosters = rosters.Rosters(
            self.state, boot=objects.BOOT, clock=self.clock, is_writer=lambda: self.leads,
            on_drop=lambda: self.drops.append(None),
        )  # fmt: skip

    async def after(self, seconds: float = 0.1) -> dict[str, dict[str, str | None]]:
        """Return what is sent after a time."""
        self.clock.advance(seconds)
        for node in self.state.fleet.names() if self.advertising else ():
            self.advertise(node)
        await self.rosters.publish_due(self.bus)
        return self.bus.taken()

    def advertise(self, node: str) -> None:
        advertisement, now_s = objects.make_advertisement(node), self.clock.monotonic_s()
        self.state.put_advertisement(node_state.Heard(advertisement=advertisement, sampled_s=now_s), now_s)

    def put(self, pod: cluster.Pod) -> None:
        self.state.put_pod(pod, self.clock.monotonic_s())


async def test_every_node_gets_a_roster_at_first_and_then_each_minute() -> None:
    site = Site()
    both: dict[str, dict[str, str | None]] = {"node-0": {}, "node-1": {}}
    assert await site.after() == both
    assert await site.after(rosters.REPEAT_S - 2.0) == {}
    assert await site.after(2.0) == both


async def test_a_pod_that_is_placed_is_reported_with_its_class_and_one_that_goes_costs_no_message() -> None:
    site = Site()
    await site.after()
    pod = objects.make_pod("a")
    site.put(pod)
    site.state.assume(objects.make_waiting(pod, 0.0), "node-1", 100.0)
    found = await site.after()
    assert found == {"node-1": {pod.uid: names.class_of(pod)}}
    site.put(pod._replace(node_name="node-1"))
    site.put(pod._replace(node_name="node-1", phase="Running"))
    assert await site.after() == {}
    site.state.remove_pod(pod.uid)
    assert await site.after() == {}
    other = objects.make_pod("b")._replace(node_name="node-1")
    site.put(other)
    assert list((await site.after())["node-1"]) == [other.uid]


async def test_the_ids_of_containers_follow_once_they_are_known() -> None:
    site = Site()
    await site.after()
    pod = objects.make_pod("a")._replace(node_name="node-1")
    site.put(pod)
    await site.after()
    running = pod._replace(phase="Running", containers=(("0123456789ab", "main"), ("ba9876543210", "proxy")))
    site.put(running)
    site.clock.advance(0.1)
    await site.rosters.publish_due(site.bus)
    (sent,) = site.bus.sent
    assert sent.containers == {pod.uid: {"0123456789ab": "main", "ba9876543210": "proxy"}}
    site.bus.taken()
    site.put(running._replace(resource_version="9"))
    assert await site.after() == {}


async def test_pods_that_belong_to_the_node_have_no_class_and_static_ones_their_runtimes_uid() -> None:
    site = Site()
    await site.after()
    static = objects.make_pod("etcd")._replace(node_name="node-0", is_mirror=True, static_uid="d1")
    owner = cluster.Owner(kind="DaemonSet", name="proxy", uid="ds")
    proxy = objects.make_pod("proxy")._replace(node_name="node-0", owner=owner)
    site.put(static)
    site.put(proxy)
    found = (await site.after())["node-0"]
    assert found["d1"] is None
    assert found[proxy.uid] is not None
    site.state.demands.put_daemon_sets([cluster.DaemonSet(namespace="default", uid="ds")], 0.0)
    assert (await site.after())["node-0"] == {"d1": None, proxy.uid: None}


async def test_a_node_that_does_not_advertise_gets_its_roster_every_second() -> None:
    site = Site()
    site.advertising = False
    both: dict[str, dict[str, str | None]] = {"node-0": {}, "node-1": {}}
    assert await site.after() == both
    assert await site.after(0.5) == {}
    assert await site.after(0.5) == both
    site.advertise("node-1")
    assert list(await site.after(rosters.CHECK_S)) == ["node-0"]
    assert list(await site.after(rosters.SILENT_AFTER_S)) == ["node-0", "node-1"]


async def test_a_standby_sends_nothing_and_a_new_leader_everything() -> None:
    site = Site()
    site.leads = False
    assert await site.after() == {}
    site.leads = True
    assert len(await site.after()) == 2
    site.leads = False
    site.put(objects.make_pod("a")._replace(node_name="node-0"))
    assert await site.after() == {}
    site.leads = True
    assert len(await site.after()) == 2


async def test_what_the_bus_does_not_take_is_counted_and_comes_with_the_next_repetition() -> None:
    site = Site()
    site.bus.connected = False
    assert await site.after() == {}
    assert len(site.drops) == 2
    site.bus.connected = True
    assert len(await site.after(rosters.REPEAT_S)) == 2


async def test_a_large_cluster_gets_them_in_parts() -> None:
    site = Site()
    site.state.put_nodes([objects.make_node(f"node-{number}") for number in range(rosters.AT_ONCE + 10)])
    assert [len(await site.after()) for _ in range(3)] == [rosters.AT_ONCE, 10, 0]
    site.state.remove_node("node-5")
    assert "node-5" not in await site.after(rosters.REPEAT_S)


async def test_a_pod_that_fails_is_reported_for_a_while() -> None:
    site = Site()
    template = usage.Template(image="1", containers=("main",), requests={})
    pod = objects.make_pod("a")._replace(node_name="node-0", template=template)
    site.put(pod)
    await site.after()
    site.put(pod._replace(phase="Failed", has_failed=True))
    site.put(pod._replace(phase="Failed", has_failed=True))
    site.clock.advance(0.1)
    await site.rosters.publish_due(site.bus)
    assert [(each.failed, each.templates) for each in site.bus.sent] == [({pod.uid}, {pod.uid: template})]
    site.bus.sent.clear()
    await site.after(rosters.FAILED_S)
    site.put(objects.make_pod("b")._replace(node_name="node-0"))
    assert list((await site.after())["node-0"]) == ["uid-b"]


async def test_a_pod_that_was_resized_in_place_is_reported_as_it_is_now() -> None:
    site = Site()
    await site.after()
    before = usage.Template(image="1", containers=("main",), requests={"cpu": 0.1})
    after = usage.Template(image="1", containers=("main",), requests={"cpu": 1.0})
    pod = objects.make_pod("a")._replace(node_name="node-0", template=before)
    site.put(pod)
    site.put(pod._replace(template=after))
    await site.rosters.publish_due(site.bus)
    assert [each.templates for each in site.bus.sent] == [{pod.uid: after}]


async def test_a_pod_whose_container_ran_out_of_memory_stays_and_is_reported_as_failed() -> None:
    site = Site()
    pod = objects.make_pod("a")._replace(node_name="node-0", phase="Running")
    site.put(pod)
    await site.after()
    site.put(pod._replace(has_failed=True))
    site.clock.advance(0.1)
    await site.rosters.publish_due(site.bus)
    assert [(set(each.pods), each.failed) for each in site.bus.sent] == [({pod.uid}, {pod.uid})]


async def test_failed_pods_of_a_node_are_bounded() -> None:
    site = Site()
    for number in range(rosters.FAILED_MOST + 10):
        pod = objects.make_pod(f"p{number}")._replace(node_name="node-0")
        site.put(pod)
        site.put(pod._replace(phase="Failed", has_failed=True))
    found = (await site.after())["node-0"]
    assert len(found) == rosters.FAILED_MOST
    assert f"uid-p{rosters.FAILED_MOST + 9}" in found


async def test_other_work_runs_between_two_rosters_and_none_is_sent_after_the_term() -> None:
    site = Site()

    async def depose() -> None:
        site.leads = False

    other = asyncio.create_task(depose())
    assert len(await site.after()) < 2
    await other
    assert await site.after() == {}
    site.leads = True
    assert len(await site.after()) == 2
