"""The last quarter of an hour of each node, as the scheduler keeps it for a node's drill-down."""

import random
from typing import Any

from carico_core.runtime.process import clock as clocks
from carico_scheduler.answers import history
from carico_scheduler.rules import policy as policies
from carico_scheduler.state import node_state, state
from tests.unit.scheduler import objects

LEASE_S = 10.0


class Site:
    """Nodes whose advertisements the scheduler takes in, in fake time."""

    def __init__(self, *names: str) -> None:
        self.clock = clocks.FakeClock()
        self.state = state.State(policies.Policy(), random.Random(0))
        self.state.put_nodes([objects.make_node(name) for name in names])
        self.history = history.History(self.state.heard, lease_s=LEASE_S, clock=self.clock)

    def advertise(self, node: str, pods: int, **changed: Any) -> None:
        now_s = self.clock.monotonic_s()
        figures: dict[str, Any] = {"usage": {"cpu": 0.5, "memory": 0.25}, "parts": {"cpu.pressure": 0.125}}
        said = objects.make_advertisement(node, capacity=2.5, pods=pods)
        said = said._replace(capacity_sd=0.5, **(figures | changed))
        self.state.put_advertisement(node_state.Heard(advertisement=said, sampled_s=now_s), now_s)

    async def tick(self) -> None:
        await self.history.note()
        self.clock.advance(history.EVERY_S)


async def test_a_quarter_of_an_hour_is_kept_a_row_every_ten_seconds() -> None:
    site = Site("a", "b")
    for number in range(history.ROWS + 30):
        site.advertise("a", number)
        await site.tick()
    found = site.history.of("a")
    assert found["columns"] == ["age_s", "pods", "capacity", "capacity_sd", "cpu", "memory", "cpu.pressure"]
    rows = found["rows"]
    assert len(rows) == history.ROWS
    assert rows[0] == [900.0, 30.0, 2.5, 0.5, 0.5, 0.25, 0.125]
    assert rows[-1][:2] == [history.EVERY_S, history.ROWS + 29]
    assert site.history.of("b")["rows"] == site.history.of("unheard")["rows"] == []


async def test_while_a_node_is_silent_it_has_no_rows_and_what_was_before_stays() -> None:
    site = Site("a")
    for number in range(10):
        if number < 3 or number > 6:
            site.advertise("a", number)
        await site.tick()
    # The advertisement of the third tick is as old as the lease at the fourth, and counts there.
    assert [row[1] for row in site.history.of("a")["rows"]] == [0, 1, 2, 2, 7, 8, 9]


async def test_a_node_that_left_the_cluster_is_forgotten() -> None:
    site = Site("a", "b")
    for name in ("a", "b"):
        site.advertise(name, 1)
    await site.tick()
    site.state.remove_node("a")
    await site.tick()
    assert site.history.of("a")["rows"] == []
    assert len(site.history.of("b")["rows"]) == 2


async def test_other_dimensions_begin_again_and_no_number_is_too_large() -> None:
    site = Site("a")
    site.advertise("a", 1)
    await site.tick()
    site.advertise("a", 10**9, usage={"cpu": 0.5, "gpu": 0.75}, parts={})
    await site.tick()
    found = site.history.of("a")
    assert found["columns"] == ["age_s", "pods", "capacity", "capacity_sd", "cpu", "gpu"]
    assert [row[1] for row in found["rows"]] == [65504.0]
