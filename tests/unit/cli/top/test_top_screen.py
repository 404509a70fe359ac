"""The screen of `carico top`, by its keys, on a cluster in memory; nothing is clipped at 80x24."""

import contextlib
import dataclasses
from collections.abc import AsyncIterator
from typing import Any

import pytest
from textual import events, pilot, widgets

from carico_cli.live import members
from carico_cli.top import command, overlays, screen
from carico_cli.top import widgets as own
from carico_core.domain import messages
from carico_core.runtime.kube import list_watch
from carico_core.runtime.observe import logs as log_setup
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from tests.fixtures.golden import records
from tests.tools import waiting
from tests.unit.cli import fake_cluster

Pilot = pilot.Pilot[int]


class Stage:
    """A screen over a reader that runs."""

    def __init__(self, cluster: fake_cluster.Cluster, top: screen.Top, keys: Pilot) -> None:
        self.cluster = cluster
        self.top = top
        self.keys = keys

    @property
    def text(self) -> str:
        """All that is drawn now."""
        size = self.top.size
        lines = self.top.screen._compositor.render_strips()
        return "\n".join(strip.text.rstrip() for strip in lines[: size.height])

    @property
    def names(self) -> list[str]:
        """The nodes, as they are sorted and filtered."""
        return [node.name for node in self.top.screen_stack[0].query_one(own.Nodes).rows]

    async def shows(self, text: str) -> None:
        """Returns once it is drawn."""
        await waiting.until(lambda: text in self.text)


@contextlib.asynccontextmanager
async def staged(
    *, nodes: int = 3, size: tuple[int, int] = (80, 24), cluster: fake_cluster.Cluster | None = None, **changed: Any
) -> AsyncIterator[Stage]:
    """The screen, as soon as it shows the first node."""
    found = fake_cluster.Cluster(nodes) if cluster is None else cluster
    await found.serve()
    async with found.running():
        await found.advertise(**changed)
        top = screen.Top(found.reader, name="test", clock=found.clock, every_s=0.05)
        async with top.run_test(size=size) as keys:
            stage = Stage(found, top, keys)
            await waiting.until(lambda: stage.names)
            yield stage


async def load(stage: Stage, *, seq: int = 2, **by_node: float) -> None:
    """Nodes with so much CPU in use."""
    for index, used in by_node.items():
        name = index.replace("_", "-")
        found = fake_cluster.advertisement(
            name, at_ns=stage.cluster.clock.wall_ns(), seq=seq, parts={"cpu.utilisation": used}, pods=int(used * 10)
        )
        stage.cluster.reader._signals.on_capacity(f"carico.v1.capacity.{name}", wire.encode_advertisement(found))


async def test_at_80x24_every_column_is_whole_and_so_are_the_keys() -> None:
    async with staged() as stage:
        await stage.shows("reserved 3")
        await stage.shows("Quit")
        lines = stage.text.splitlines()
        assert len(lines) == 24
        (titles,) = [line for line in lines if line.startswith("node▲")]
        expected = ["node▲", "CPU", "used", "pressure", "memory", "Pods", "capacity", "reserved", "state"]
        assert titles.split() == expected
        assert max(map(len, lines)) <= 80
        (row,) = [line for line in lines if line.startswith("node-2")]
        assert row.split() == [
            "node-2", "████", "95%", "░░░░", "9%", "░░░░", "11%", "3", "2.1", "±0.4", "1", "fresh",
        ]  # fmt: skip
        for key in ("Sort", "Reverse", "Filter", "Pause", "Node", "Panel", "Help", "Quit"):
            assert key in lines[-1], lines[-1]
        assert "…" not in stage.text


async def test_a_wide_and_high_terminal_shows_more_columns_and_all_panels() -> None:
    async with staged(size=(130, 45)) as stage:
        await stage.shows("bottleneck")
        for title in ("mode", "free", "age", "decisions ─", "jobs ─", "services ─", "history ─"):
            assert title in stage.text


async def test_keys_sort_by_the_next_column_and_the_other_way_around() -> None:
    async with staged() as stage:
        await load(stage, node_1=0.2, node_2=0.9, node_3=0.5)
        await stage.keys.press("s")
        await stage.shows("CPU used▼")
        await waiting.until(lambda: stage.names == ["node-2", "node-3", "node-1"])
        await stage.keys.press("r")
        assert stage.names == ["node-1", "node-3", "node-2"]
        await stage.keys.press("S")
        await stage.shows("node▲")
        assert stage.names == ["node-1", "node-2", "node-3"]


async def test_the_cursor_stays_with_its_node_when_the_order_changes() -> None:
    async with staged() as stage:
        await load(stage, node_1=0.9, node_2=0.2, node_3=0.5)
        await stage.keys.press("s", "down")
        nodes = stage.top.screen.query_one(own.Nodes)
        await waiting.until(lambda: nodes.chosen == "node-3")
        await load(stage, seq=3, node_3=0.1)
        await waiting.until(lambda: stage.names == ["node-1", "node-2", "node-3"])
        assert nodes.chosen == "node-3"


async def test_a_cursor_that_was_not_moved_stays_at_the_top() -> None:
    async with staged() as stage:
        await load(stage, node_1=0.9, node_2=0.2, node_3=0.5)
        await stage.keys.press("s")
        nodes = stage.top.screen.query_one(own.Nodes)
        await waiting.until(lambda: nodes.chosen == "node-1")
        await load(stage, seq=3, node_1=0.1)
        await waiting.until(lambda: stage.names == ["node-3", "node-2", "node-1"])
        assert nodes.chosen == "node-3"


async def test_a_filter_takes_words_and_escape_takes_it_back() -> None:
    async with staged(nodes=12) as stage:
        await stage.keys.press("slash", *"node-1", "enter")
        assert stage.names == ["node-1", "node-10", "node-11", "node-12"]
        await stage.shows("4 shown")
        await stage.keys.press("slash", *" stale")
        assert stage.names == []
        await stage.shows("no node matches")
        await stage.keys.press("escape")
        assert len(stage.names) == 12
        assert not stage.top.query_one("#filter", widgets.Input).display


@pytest.mark.parametrize("first", [(), ("P",)])
async def test_what_is_typed_at_once_is_for_the_filter(first: tuple[str, ...]) -> None:
    async with staged() as stage:
        await stage.keys.press(*first)
        shown = stage.top.screen
        # As a terminal sends it where the screen is late: nothing waits until a key has had its effect.
        for character in "/hq/p 3":
            stage.top.post_message(events.Key({"/": "slash", " ": "space"}.get(character, character), character))
        await waiting.until(lambda: shown.query_one("#filter", widgets.Input).value == "hq/p 3")
        assert stage.top.screen is shown


async def test_letters_that_are_keys_are_letters_in_the_filter() -> None:
    async with staged() as stage:
        await stage.keys.press("slash", *"sqrph", "enter")
        assert stage.top.query_one("#filter", widgets.Input).value == "sqrph"
        assert stage.top.is_running
        assert not stage.top.is_paused


async def test_a_pause_holds_the_picture_and_goes_on() -> None:
    async with staged() as stage:
        await stage.keys.press("p")
        await stage.shows("paused")
        await stage.cluster.advertise(seq=2, pods=9)
        await stage.keys.pause(0.2)
        assert {node.advertisement.pods for node in stage.top.shown.nodes if node.advertisement} == {3}
        await stage.keys.press("space")
        await waiting.until(lambda: "27 Pods" in stage.text)
        assert "paused" not in stage.text


async def test_a_node_is_looked_into_and_its_neighbours() -> None:
    async with staged() as stage:
        await stage.keys.press("enter")
        await stage.shows("the last 15 min")
        assert isinstance(stage.top.screen, overlays.NodeScreen)
        for text in (
            "1.22 ±0.09 tasks", "9.8 ±1.5 MB", "limits it",
            "cautious cost of a Pod = 2.75 tasks / 1.31 tasks = 2.1", "temporary limit: 8 Pods", "note: no PSI",
        ):  # fmt: skip
            assert text in stage.top.screen.query_one(own.Lines).text
        await stage.keys.press("right")
        await stage.shows("its agent does not answer")
        assert "node-2" in stage.text
        await stage.keys.press("left", "escape")
        await stage.shows("CPU used")


async def test_a_small_cluster_leaves_room_for_three_panels_at_80x24() -> None:
    async with staged(nodes=2) as stage:
        for title in ("node-2", "decisions ─", "jobs ─", "services ─", "Quit"):
            await stage.shows(title)
        assert len(stage.text.splitlines()) == 24


async def test_a_look_into_a_node_that_is_longer_than_the_screen_is_scrolled() -> None:
    async with staged(size=(80, 14)) as stage:
        await stage.keys.press("enter")
        await stage.shows("the last 15 min")
        assert "note: no PSI" not in stage.text
        await stage.keys.press("pagedown", "pagedown")
        await stage.shows("note: no PSI")
        await stage.keys.press("pageup", "pageup", "up")
        await stage.shows("the last 15 min")


async def test_history_is_there_from_the_start_and_continues() -> None:
    async with staged(nodes=2, size=(100, 48)) as stage:
        bus = stage.cluster.own
        for number in range(12):
            waits = 27 if number > 5 else 0
            kept = dataclasses.replace(
                records.SUMMARY, seq=number, ts_ns=10**18 + number * 5 * 10**9, waiting=waits,
                oldest_s=min(3.0 * number, waits),
                events=(messages.ClusterEvent(10**18, "node", "node-3", "absent"),) if number == 3 else (), left_off=0,
            )  # fmt: skip
            await bus.publish(subjects.SUMMARY, wire.encode_summary(kept))
        await stage.shows("27, the first for 27.0 s (most 27)")
        await stage.shows("node-3 no longer reports")
        await stage.shows("27 Pods wait for a node")


async def test_tab_shows_decisions_jobs_services_and_history_in_turn() -> None:
    async with staged(nodes=12) as stage:
        await stage.cluster.decide(fake_cluster.placed())
        await stage.shows("hello-0 → node-1, room for 2.1, waited 4 ms")
        pods = [fake_cluster.pod("a"), fake_cluster.pod("b", phase="Succeeded")]
        stage.cluster.api.events.put_nowait(list_watch.Listed(objects=pods, resource_version="1"))
        await stage.keys.press("tab")
        await stage.shows("hello            ██████░░░░░░  50%  1/2  pending 0  starting 0  running 1")
        await stage.keys.press("tab")
        await stage.shows("scheduler")
        await stage.shows("12 advertise; median age")
        assert "decisions ─" not in stage.text
        await stage.keys.press("tab")
        await stage.shows("no summary yet")
        await stage.keys.press("tab")
        await stage.shows("decisions ─")


async def test_schedulers_that_share_the_work_have_a_panel_while_they_do() -> None:
    async with staged(nodes=12) as stage:
        take, clock = stage.cluster.reader._signals.on_heartbeat, stage.cluster.clock
        one = records.HEARTBEAT_REPORT
        assert one.report is not None
        for index in range(2):
            made = dataclasses.replace(
                one,
                replica=f"scheduler-{index}-{one.boot}",
                report=dataclasses.replace(one.report, recent=300 * (index + 1)),
            )
            take(subjects.member(made.replica), wire.encode_heartbeat(made))
        await stage.keys.press("tab", "tab")
        await stage.shows("schedulers ─")
        await stage.shows("2 of 2 decide; 900 claims/min, 0.2% conflicts; 1 claim without a Pod")
        await stage.shows("scheduler-1    ████░░  67%   600/min   12 conflicts   3 waits, view 250 ms Lease")
        assert "…" not in stage.text
        assert max(map(len, stage.text.splitlines())) <= 80
        clock.advance(members.GONE_S)
        await waiting.until(lambda: "schedulers ─" not in stage.text)


async def test_the_help_names_every_key_and_any_key_goes_back() -> None:
    async with staged() as stage:
        await stage.keys.press("question_mark")
        await stage.shows("Any key goes back")
        assert max(map(len, stage.text.splitlines())) <= 80
        assert "…" not in stage.text
        await stage.keys.press("q")
        await stage.shows("reserved")
        assert stage.top.is_running


@pytest.mark.parametrize(("key", "code"), [("q", 0), ("ctrl+c", 130)])
async def test_it_ends_by_its_keys_also_where_a_node_is_looked_into(key: str, code: int) -> None:
    async with staged() as stage:
        await stage.keys.press("enter", key)
        await waiting.until(lambda: not stage.top.is_running)
        assert stage.top.return_value == code


async def test_a_cluster_that_is_gone_is_one_line_and_it_recovers() -> None:
    async with staged() as stage:
        stage.cluster.hub.set_away(True)
        await stage.shows("NATS: nats://127.0.0.1:4222 is away")
        assert len(stage.names) == 3
        await stage.keys.press("s")
        await stage.shows("CPU used▼")
        stage.cluster.hub.set_away(False)
        await waiting.until(lambda: "is away" not in stage.text)


@pytest.mark.parametrize("size", [(80, 24), (60, 12)])
async def test_lines_of_trouble_and_the_filter_take_their_room_from_the_panels(size: tuple[int, int]) -> None:
    async with staged(size=size) as stage:
        stage.top.log_line = lambda: "a line of the log"
        stage.cluster.hub.set_away(True)
        await stage.shows("is away")
        await stage.shows("a line of the log")
        await stage.keys.press("slash", *"node", "enter")
        await stage.shows("tab Panel")
        # Nothing is left to scroll to: no bar takes cells from the columns.
        assert stage.top.screen.max_scroll_y == 0


def test_a_line_of_the_log_is_shown_while_it_is_new() -> None:
    clock = clocks.FakeClock()
    log = command.LastLine(clock)
    log_setup.setup(service="carico", json=False, level="error", stream=log)
    log_setup.get("bus").error("refused by NATS")
    assert "refused by NATS" in log.line() and "\x1b" not in log.line()
    clock.advance(command.LOGGED_S)
    assert log.line() == ""


async def test_a_terminal_too_small_says_so_and_is_whole_again() -> None:
    async with staged() as stage:
        await stage.keys.resize_terminal(40, 10)
        await stage.shows("40x10: too small")
        assert "node-3" not in stage.text
        await stage.keys.resize_terminal(80, 24)
        await stage.shows("node-3")


async def test_a_thousand_nodes_are_moved_through() -> None:
    async with staged(nodes=1000) as stage:
        assert len(stage.names) == 1000
        await stage.keys.press("end")
        await stage.shows("node-1000")
        await stage.keys.press("home", "pagedown")
        await stage.shows("node-15")
        assert "1000/1000 nodes fresh" in stage.text


async def test_control_characters_in_a_decision_are_not_sent_to_the_terminal() -> None:
    cluster = fake_cluster.Cluster(1)
    cluster.own.hub.services.clear()
    async with staged(cluster=cluster, bottleneck="cpu") as stage:
        evil = fake_cluster.placed(node=None, free=None, message="no\x1b[2Jroom\r\n")
        stage.cluster.reader._signals._decisions.append(evil)
        await stage.shows("no [2Jroom")
        assert "\x1b" not in stage.text


async def test_the_help_opens_over_a_node_as_well() -> None:
    async with staged() as stage:
        await stage.keys.press("enter")
        await stage.shows("the last 15 min")
        await stage.keys.press("question_mark")
        await stage.shows("left right")
        # Of its own keys: those of the list of nodes do nothing here.
        assert "choose a node" not in stage.text and "esc enter  back" in stage.text
        assert max(map(len, stage.text.splitlines())) <= 80
        assert "…" not in stage.text
        await stage.keys.press("x")
        await stage.shows("the last 15 min")
        assert isinstance(stage.top.screen, overlays.NodeScreen)
