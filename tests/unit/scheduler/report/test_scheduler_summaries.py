"""Summaries of the cluster: what they count, which events they carry, and who writes them."""

import random
from typing import Any

from carico_core.domain import errors, messages, names
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_scheduler.report import summaries
from carico_scheduler.rules import policy as policies
from carico_scheduler.state import node_state, state
from tests.unit.scheduler import objects


class Bus:
    """A bus that keeps what was published."""

    def __init__(self) -> None:
        self.sent: list[messages.ClusterSummary] = []
        self.connected = True

    async def publish(self, subject: str, payload: bytes) -> None:
        if not self.connected:
            raise errors.BusUnavailable("away")
        self.sent.append(wire.decode_summary(payload, subject=subject))


class Site:
    """A state with nodes, and its summaries."""

    def __init__(self, nodes: int = 3, *, is_shared: bool = False) -> None:
        self.clock = clocks.FakeClock(monotonic_s=100.0, wall_ns=10**18)
        self.state = state.State(policies.Policy(), random.Random(0))
        self.names = [f"node-{number}" for number in range(nodes)]
        self.state.put_nodes([objects.make_node(name) for name in self.names])
        self.leads = True
        self.lost: list[None] = []
        self.bus = Bus()
        self.summaries = summaries.Summaries(
            self.state, boot=objects.BOOT, clock=self.clock, is_writer=lambda: self.leads, is_shared=is_shared,
            leader=lambda: "host-1", on_drop=lambda: self.lost.append(None),
        )  # fmt: skip

    async def after(self, seconds: float = summaries.EVERY_S, *, silent: tuple[str, ...] = ()) -> None:
        """Publish what is due after a time, in which all nodes advertise but those that are silent."""
        self.clock.advance(seconds)
        for number, name in enumerate(self.names):
            if name not in silent:
                self.advertise(name, usage={"cpu": 0.1 * number}, pods=number)
        await self.summaries.publish_due(self.bus)

    def advertise(self, node: str, **changes: Any) -> None:
        now_s = self.clock.monotonic_s()
        heard = node_state.Heard(advertisement=objects.make_advertisement(node, **changes), sampled_s=now_s)
        self.state.put_advertisement(heard, now_s)

    def put(self, name: str, **changes: Any) -> str:
        """The Pod is shown; return its UID."""
        values = {"created_at_s": self.clock.wall_ns() / 1e9, **changes}
        self.state.put_pod(objects.make_pod(name, **values), self.clock.monotonic_s())
        return f"uid-{name}"

    def events(self) -> list[tuple[str, str, str]]:
        return [(each.kind, each.about, each.state) for each in self.bus.sent[-1].events]


async def test_a_summary_counts_nodes_pods_room_and_usage() -> None:
    site = Site(nodes=21)
    await site.after()
    await site.after()
    last = site.bus.sent[-1]
    assert last.seq == 2
    assert last.span_s == summaries.EVERY_S
    assert last.nodes == {"fresh": 21}
    assert (last.pods, last.capacity) == (sum(range(21)), 21 * 4.0)
    assert abs(last.capacity_sd - 0.5 * 21**0.5) < 1e-3
    # Node 20 reports twice as much as there is: a share is at most 1.
    assert last.usage == {"cpu": messages.Percentiles(0.1, 1.0, 1.0)}


async def test_waiting_and_placed_pods_are_counted_with_the_longest_wait() -> None:
    site = Site()
    await site.after()
    early, late = site.put("early"), site.put("late")
    site.clock.advance(3.0)
    attempt = site.state.assume(objects.make_waiting(objects.make_pod("early"), 100.0), "node-0", 103.0)
    site.state.confirm(early, attempt)
    await site.after()
    first = site.bus.sent[-1]
    assert (first.placed, first.waiting) == (1, 1)
    assert first.oldest_s == 8.0
    site.put("late", node_name="node-1")
    await site.after()
    second = site.bus.sent[-1]
    assert (second.placed, second.waiting, second.oldest_s) == (1, 0, 0.0)
    assert second.placed_waited_s == 8.0
    # It is covered, shown again, and counted once.
    site.advertise("node-1", covers=frozenset({late}))
    site.put("late", node_name="node-1", phase="Running")
    await site.after()
    assert site.bus.sent[-1].placed == 0


async def test_pods_that_ran_before_the_scheduler_began_and_those_of_others_are_not_placed_by_it() -> None:
    site = Site()
    await site.after()
    site.put("older", node_name="node-0")
    site.put("other", scheduler_name="default-scheduler")
    site.put("other", scheduler_name="default-scheduler", node_name="node-0")
    await site.after()
    assert (site.bus.sent[-1].placed, site.bus.sent[-1].waiting) == (0, 0)


async def test_of_schedulers_that_share_the_work_one_counts_the_pods_of_all() -> None:
    site = Site(is_shared=True)
    site.state.is_mine = lambda pod: pod.name == "mine"
    await site.after()
    site.put("mine")
    site.put("theirs")
    site.put("foreign", scheduler_name="default-scheduler")
    site.clock.advance(2.0)
    await site.after()
    assert (site.bus.sent[-1].waiting, site.bus.sent[-1].oldest_s) == (2, 7.0)
    site.put("theirs", node_name="node-0")
    await site.after()
    assert (site.bus.sent[-1].placed, site.bus.sent[-1].waiting) == (1, 1)


async def test_nodes_that_come_go_fall_silent_and_return_are_events() -> None:
    site = Site()
    await site.after()
    assert site.events() == [("leader", "host-1", "leads")]
    await site.after()
    assert site.events() == []
    await site.after(3.0, silent=("node-1",))
    assert site.events() == [], "an ageing advertisement is no event"
    await site.after(4.0, silent=("node-1",))
    assert site.events() == [("node", "node-1", "stale")]
    await site.after(5.0, silent=("node-1",))
    assert site.events() == [("node", "node-1", "absent")]
    assert site.bus.sent[-1].nodes == {"fresh": 2, "absent": 1}
    site.state.put_node(objects.make_node("node-2", unschedulable=True))
    site.state.remove_node("node-0")
    site.state.put_node(objects.make_node("node-9", ready=False))
    await site.after()
    assert sorted(site.events()) == [
        ("node", "node-0", "gone"), ("node", "node-1", "ready"), ("node", "node-2", "cordon"),
        ("node", "node-9", "joined"),
    ]  # fmt: skip


async def test_an_eviction_is_an_event() -> None:
    site = Site()
    await site.after()
    site.summaries.evicted(objects.make_pod("victim", node_name="node-1"))
    await site.after()
    assert site.events() == [("evicted", "default/victim", "node-1")]


async def test_a_new_replica_of_a_move_is_an_event_with_its_node() -> None:
    site = Site()
    await site.after()
    surge = {"labels": {names.SURGE_LABEL: "abc"}}
    site.put("moved", **surge)
    site.put("moved", node_name="node-2", **surge)
    await site.after()
    assert site.events() == [("moved", "default/moved", "node-2")]
    assert site.bus.sent[-1].placed == 1


async def test_a_standby_writes_nothing_and_starts_over_when_it_leads() -> None:
    site = Site()
    site.leads = False
    await site.after()
    site.summaries.evicted(objects.make_pod("victim", node_name="node-1"))
    await site.after()
    assert site.bus.sent == []
    site.leads = True
    await site.after()
    assert site.events() == [("leader", "host-1", "leads")], "what happened in the term of another was reported there"
    assert site.bus.sent[-1].span_s == 0.0


async def test_what_a_standby_sees_right_before_it_leads_is_counted_by_the_one_that_led() -> None:
    site = Site()
    site.leads = False
    await site.after()
    site.put("web")
    site.put("web", node_name="node-0")
    site.summaries.evicted(objects.make_pod("victim", node_name="node-1"))
    site.leads = True
    await site.after()
    assert site.events() == [("leader", "host-1", "leads")]
    assert site.bus.sent[-1].placed == 0


async def test_a_bus_that_is_away_costs_a_summary_and_events_are_bounded() -> None:
    site = Site()
    await site.after()
    site.bus.connected = False
    for _ in range(2 * summaries.EVENTS_MOST):
        site.summaries.evicted(objects.make_pod("victim", node_name="node-1"))
    await site.after()
    assert len(site.lost) == 1
    site.bus.connected = True
    for _ in range(summaries.EVENTS_MOST + 5):
        site.summaries.evicted(objects.make_pod("victim", node_name="node-1"))
    await site.after()
    last = site.bus.sent[-1]
    assert len(last.events) + last.left_off == summaries.EVENTS_MOST + 5
    assert len(wire.encode_summary(last)) < 64 * 1024
    assert subjects.SUMMARY == "carico.v1.summary"


async def test_readers_take_what_any_nodes_advertise() -> None:
    """A summary that they refuse would be a gap in the history of all."""
    site = Site(nodes=3)
    site.clock.advance(1.0)
    for number, name in enumerate(site.names):
        odd = {f"odd-{number}-{each}": 0.1 for each in range(30)}
        site.advertise(name, usage={"cpu": 0.5, **odd}, capacity=9e5, pods=900_000)
    await site.summaries.publish_due(site.bus)
    (found,) = site.bus.sent
    assert (found.pods, found.capacity) == (2_700_000, 2.7e6)
    assert len(found.usage) == summaries.DIMS_MOST
    assert found.usage["cpu"].median == 0.5, "what most nodes report is kept"


async def test_events_name_nodes_of_any_length() -> None:
    site = Site()
    await site.after()
    node = ".".join(["n" * 63] * 3)
    site.summaries.evicted(objects.make_pod("web", node_name=node))
    await site.after()
    assert site.events() == [("evicted", "default/web", node)]
