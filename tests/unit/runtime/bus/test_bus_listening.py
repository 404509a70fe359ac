"""A node that sends without end is left out of what the server sends, and all others are heard."""

import pytest

from carico_core.domain import errors
from carico_core.runtime.bus import listening
from carico_core.runtime.process import clock as clocks
from carico_core.wire import subjects
from tests.tools.memory import memory_bus

NODES = ("a", "b", "c.example")
ALLOWED = listening.Allowance(most=20, of_strangers=50, window_s=10.0)


class World:
    """A bus, what is heard of it, and who is left out."""

    def __init__(self, *names: str) -> None:
        self.bus = memory_bus.MemoryBus()
        self.clock = clocks.FakeClock()
        self.names = list(names)
        self.heard: list[tuple[str, bytes]] = []
        self.drops: list[tuple[str, str]] = []
        self.listening = listening.Listening(
            lambda subject, payload: self.heard.append((subject, payload)), subject=subjects.CAPACITY_ALL,
            allowed=ALLOWED, names=lambda: list(self.names),
            on_drop=lambda subject, reason, _: self.drops.append((subject, reason)), clock=self.clock,
        )  # fmt: skip

    @property
    def subscribed(self) -> set[str]:
        """What the bus sends."""
        return {subject for subject, _ in self.bus.hub.subscriptions}

    async def arrange(self) -> None:
        """Keep the subscriptions as they should be."""
        await self.listening.arrange(self.bus)

    async def flood(self, node: str, count: int = ALLOWED.most + 1) -> None:
        """Send that many messages in one moment."""
        for _ in range(count):
            await self.bus.publish(subjects.capacity(node), b"x")


async def test_all_nodes_are_heard_by_one_subscription() -> None:
    world = World(*NODES)
    await world.arrange()
    await world.flood("a", ALLOWED.most)
    await world.arrange()
    assert world.subscribed == {subjects.CAPACITY_ALL}
    assert len(world.heard) == ALLOWED.most and not world.drops


async def test_a_node_that_floods_is_left_out_and_all_others_are_heard() -> None:
    world = World(*NODES)
    await world.arrange()
    await world.flood("a")
    assert world.drops == [(subjects.capacity("a"), errors.Drop.FLOOD)]
    await world.arrange()
    assert world.subscribed == {subjects.capacity("b"), subjects.capacity("c.example")}
    world.heard.clear()
    for node in NODES:
        await world.bus.publish(subjects.capacity(node), b"y")
    assert world.heard == [(subjects.capacity("b"), b"y"), (subjects.capacity("c.example"), b"y")]


async def test_nothing_more_of_a_flood_is_taken_before_the_server_knows_of_it() -> None:
    world = World(*NODES)
    await world.arrange()
    await world.flood("a", 3 * ALLOWED.most)
    assert len(world.heard) == ALLOWED.most and len(world.drops) == 1


async def test_what_is_sent_over_a_longer_time_is_no_flood() -> None:
    world = World(*NODES)
    await world.arrange()
    for _ in range(3):
        await world.flood("a", ALLOWED.most)
        world.clock.advance(ALLOWED.window_s)
    assert not world.drops


async def test_a_node_that_has_flooded_is_heard_again_after_a_while() -> None:
    world = World(*NODES)
    await world.arrange()
    await world.flood("a")
    await world.arrange()
    world.clock.advance(listening.REFUSED_S)
    await world.arrange()
    assert world.subscribed == {subjects.CAPACITY_ALL}
    world.heard.clear()
    await world.bus.publish(subjects.capacity("a"), b"y")
    assert world.heard == [(subjects.capacity("a"), b"y")]


async def test_two_that_flood_are_both_left_out() -> None:
    world = World(*NODES)
    await world.arrange()
    await world.flood("a")
    await world.arrange()
    await world.flood("b")
    await world.arrange()
    assert world.subscribed == {subjects.capacity("c.example")}


async def test_a_node_that_appears_while_another_one_floods_is_heard() -> None:
    world = World(*NODES)
    await world.arrange()
    await world.flood("a")
    await world.arrange()
    world.names = ["a", "b", "new"]
    await world.arrange()
    assert world.subscribed == {subjects.capacity("b"), subjects.capacity("new")}


async def test_a_flood_in_the_names_of_many_that_are_no_nodes_is_left_out() -> None:
    world = World(*NODES)
    await world.arrange()
    for number in range(ALLOWED.of_strangers + 1):
        await world.bus.publish(subjects.capacity(f"made-up-{number}"), b"x")
    assert world.drops == [(subjects.CAPACITY_ALL, errors.Drop.FLOOD)]
    await world.arrange()
    assert world.subscribed == set(map(subjects.capacity, NODES))


@pytest.mark.parametrize("subject", [subjects.USAGE_ALL, subjects.PODS_ALL, subjects.TRAFFIC_ALL])
async def test_each_kind_of_report_has_its_own_subjects(subject: str) -> None:
    bus = memory_bus.MemoryBus()
    heard: list[str] = []
    one = listening.Listening(
        lambda subject, _: heard.append(subject), subject=subject, allowed=ALLOWED, names=lambda: list(NODES),
        on_drop=lambda *_: None, clock=clocks.FakeClock(),
    )  # fmt: skip
    await one.arrange(bus)
    assert {each for each, _ in bus.hub.subscriptions} == {subject}
    for _ in range(ALLOWED.most + 1):
        await bus.publish(subjects.of_node(subject, "a"), b"x")
    await one.arrange(bus)
    assert {each for each, _ in bus.hub.subscriptions} == {subjects.of_node(subject, each) for each in NODES[1:]}
    assert len(heard) == ALLOWED.most


async def test_the_first_reports_of_many_nodes_before_the_list_of_nodes_are_no_flood() -> None:
    world = World()
    await world.arrange()
    for number in range(ALLOWED.of_strangers + 1):
        await world.bus.publish(subjects.capacity(f"node-{number}"), b"x")
    assert not world.drops and len(world.heard) == ALLOWED.of_strangers + 1


async def test_a_flood_before_the_first_nodes_are_known_is_left_out_until_they_are() -> None:
    world = World()
    await world.arrange()
    for _ in range(ALLOWED.most + 1):
        await world.bus.publish(subjects.capacity("made-up"), b"x")
    await world.bus.publish(subjects.capacity("a"), b"x")
    assert world.drops == [(subjects.capacity("made-up"), errors.Drop.FLOOD)]
    assert len(world.heard) == ALLOWED.most + 1
    world.names = list(NODES)
    await world.arrange()
    assert world.subscribed == set(map(subjects.capacity, NODES))
