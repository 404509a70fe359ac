"""A node that sends without end is left out of what the server sends, and all others are heard."""

from carico_core.runtime.process import clock as clocks
from carico_core.wire import subjects
from carico_scheduler.intake import listening
from tests.tools.memory import memory_bus

NODES = ("a", "b", "c.example")


class World:
    """A bus, what is heard of it, and who is left out."""

    def __init__(self, *names: str) -> None:
        self.bus = memory_bus.MemoryBus()
        self.clock = clocks.FakeClock()
        self.names = list(names)
        self.heard: list[tuple[str, bytes]] = []
        self.drops: list[tuple[str, str]] = []
        self.listening = listening.Listening(
            lambda subject, payload: self.heard.append((subject, payload)), names=lambda: list(self.names),
            on_drop=lambda subject, reason, _: self.drops.append((subject, reason)), clock=self.clock,
        )  # fmt: skip

    @property
    def subscribed(self) -> set[str]:
        """What the bus sends."""
        return {subject for subject, _ in self.bus.hub.subscriptions}

    async def arrange(self) -> None:
        """Keep the subscriptions as they should be."""
        await self.listening.arrange(self.bus)

    async def flood(self, node: str, count: int = listening.MOST_MESSAGES + 1) -> None:
        """Send that many messages in one moment."""
        for _ in range(count):
            await self.bus.publish(subjects.capacity(node), b"x")


async def test_all_nodes_are_heard_by_one_subscription() -> None:
    world = World(*NODES)
    await world.arrange()
    await world.flood("a", listening.MOST_MESSAGES)
    await world.arrange()
    assert world.subscribed == {subjects.CAPACITY_ALL}
    assert len(world.heard) == listening.MOST_MESSAGES and not world.drops


async def test_a_node_that_floods_is_left_out_and_all_others_are_heard() -> None:
    world = World(*NODES)
    await world.arrange()
    await world.flood("a")
    assert world.drops == [(subjects.capacity("a"), listening.FLOOD)]
    await world.arrange()
    assert world.subscribed == {subjects.capacity("b"), subjects.capacity("c.example")}
    world.heard.clear()
    for node in NODES:
        await world.bus.publish(subjects.capacity(node), b"y")
    assert world.heard == [(subjects.capacity("b"), b"y"), (subjects.capacity("c.example"), b"y")]


async def test_nothing_more_of_a_flood_is_taken_before_the_server_knows_of_it() -> None:
    world = World(*NODES)
    await world.arrange()
    await world.flood("a", 3 * listening.MOST_MESSAGES)
    assert len(world.heard) == listening.MOST_MESSAGES and len(world.drops) == 1


async def test_what_is_sent_over_a_longer_time_is_no_flood() -> None:
    world = World(*NODES)
    await world.arrange()
    for _ in range(3):
        await world.flood("a", listening.MOST_MESSAGES)
        world.clock.advance(listening.WINDOW_S)
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
    for number in range(listening.MOST_MESSAGES + 1):
        await world.bus.publish(subjects.capacity(f"made-up-{number}"), b"x")
    assert world.drops == [(listening.STRANGERS, listening.FLOOD)]
    await world.arrange()
    assert world.subscribed == set(map(subjects.capacity, NODES))


async def test_the_first_reports_of_many_nodes_before_the_list_of_nodes_are_no_flood() -> None:
    world = World()
    await world.arrange()
    for number in range(listening.MOST_MESSAGES + 1):
        await world.bus.publish(subjects.capacity(f"node-{number}"), b"x")
    assert not world.drops and len(world.heard) == listening.MOST_MESSAGES + 1
