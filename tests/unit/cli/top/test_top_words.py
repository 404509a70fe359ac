"""What `carico top` says without a screen: columns, orders, the words about a node, the picture once."""

import asyncio
import dataclasses
import json
import math
import pathlib
import subprocess
import sys
from typing import Any

import orjson
import pytest

from carico_cli.live import loads as live_loads
from carico_cli.live import node_answers, signals
from carico_cli.live import picture as pictures
from carico_cli.live import reader as readers
from carico_cli.top import command, once, view
from carico_cli.top.words import columns, member_words, node_words, panels, spans
from carico_core.domain import decision, errors, messages, pod_telemetry
from carico_core.runtime.process import clock as clocks
from carico_core.wire import freshness, subjects
from carico_core.wire import messages as wire
from tests.fixtures.golden import records
from tests.tools import carico_cli, waiting
from tests.unit.cli import fake_cluster


def node(name: str = "node-1", **changed: Any) -> pictures.Node:
    said = fake_cluster.advertisement(name, at_ns=1, **changed)
    return pictures.Node(
        name=name, advertisement=said, age_s=0.4, freshness=freshness.Freshness.FRESH, reserved=1, free=1.1
    )


SILENT = pictures.Node(
    name="silent", advertisement=None, age_s=None, freshness=freshness.Freshness.ABSENT, reserved=None, free=None
)


RUNNING = pictures.Pod(
    uid="uid-runs", namespace="shop", name="runs", scheduler="carico", job="job", state=pictures.PodState.RUNNING,
    node="node-1", created_s=0.0, since_s=0.0, priority=0, pod_class="app/shop/web", why="",
)  # fmt: skip
LOAD = pod_telemetry.PodLoad("app/shop/web", 0.5024, 0.25, 11.5e6)


def picture(*nodes: pictures.Node, **changed: Any) -> pictures.Picture:
    found = pictures.Picture(
        taken_ns=1, nodes=nodes, jobs=(), decisions=(), services=(), model=None, links=(), backlog=None,
        heard_per_s=3.0, dropped={},
    )  # fmt: skip
    return dataclasses.replace(found, **changed)


@pytest.mark.parametrize("width", [60, 80, 92, 104, 112, 120, 200])
@pytest.mark.parametrize(
    "shown",
    [
        node(), SILENT, node("ip-10-0-0-17.eu-central-1.compute.internal"),
        node(pods=110, capacity=1000.0, capacity_sd=123.4, parts={}, usage={}),
    ],
    ids=["usual", "silent", "long-name", "large"],
)  # fmt: skip
def test_a_row_is_as_wide_as_its_titles_whatever_is_in_it(width: int, shown: pictures.Node) -> None:
    chosen = columns.shown(width, longest=len(shown.name))
    header = spans.plain(columns.header(chosen, sorted_by="capacity", descending=True))
    row = spans.plain(columns.row(shown, chosen))
    assert len(row) == len(header) <= width
    # The name takes what it needs, where that is there, and no more.
    others = sum(column.width + 1 for column in chosen[1:])
    assert chosen[0].width == min(max(len("node") + 1, len(shown.name)), width - others)
    assert width < 80 or chosen[0].width >= 12 or chosen[0].width >= len(shown.name)
    for column in chosen[1:]:
        assert "…" not in spans.plain(column.draw(shown))
        assert len(spans.plain(column.draw(shown))) <= column.width


def test_numbers_are_sorted_from_the_largest_and_what_is_not_known_comes_last() -> None:
    nodes = [node("a", pods=1), SILENT, node("b", pods=5), node("c", pods=5)]
    order = view.View().sorted_by_next(["node", "Pods"])
    assert [each.name for each in order.rows(nodes)] == ["b", "c", "a", "silent"]
    assert [each.name for each in order.reversed().rows(nodes)] == ["a", "b", "c", "silent"]
    assert order.sorted_by_next(["node", "Pods"]) == view.View(sorted_by="node", descending=False)
    # A column that a narrower terminal no longer shows.
    assert order.sorted_by_next(["node", "state"]).sorted_by == "node"


@pytest.mark.parametrize(
    ("words", "expected"),
    [("", 3), ("NODE", 2), ("absent", 1), ("cpu", 1), ("node saturated", 1), ("measured cpu", 1), ("nothing", 0)],
)
def test_a_filter_looks_into_name_state_mode_and_bottleneck(words: str, expected: int) -> None:
    nodes = [node("node-1"), node("node-2", mode=messages.Mode.SATURATED, bottleneck="memory"), SILENT]
    assert len(view.View().filtered(words).rows(nodes)) == expected


DETAIL = node_answers.parse_detail(orjson.dumps(fake_cluster.STATE))


def words(shown: pictures.Node, **known: Any) -> str:
    found = node_words.lines(node_words.Known(node=shown, **known), width=100)
    return "\n".join(map(spans.plain, found))


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, "capacity = headroom / cautious cost of a Pod = 2.75 tasks / 1.31 tasks = 2.1"),
        ({"capacity": 0.0, "headroom": {"cpu": -0.5, "memory": 1e9}}, "cpu limits it: usage and reservations"),
        ({"capacity": 1.0, "pods": 0, "headroom": {"cpu": -0.5, "memory": 1e9}}, "an empty node still takes one Pod"),
        (
            {"bottleneck": None, "capacity": 5.0, "limit": 8},
            "capacity = limit - Pods = 8 - 3: the growth of unmeasured",
        ),
        ({"bottleneck": None, "capacity": 5.0, "limit": None}, "the cap on an agent's capacity does"),
        ({"mode": messages.Mode.WARMING}, "warming: nothing measured here yet"),
        ({"headroom": None, "classes": None, "bottleneck": "signal", "cost": {}}, "signal limits it"),
        ({"classes": {"?": messages.ClassCapacity(cost_plus={"cpu": 2.0}, pods=0)}}, "class new: 0 Pods"),
    ],
)
def test_why_a_capacity_is_what_it_is(changed: dict[str, Any], expected: str) -> None:
    assert expected in words(node(**changed), detail=DETAIL)


def test_every_dimension_has_its_cost_with_its_uncertainty() -> None:
    (cpu,) = [line for line in words(node(), detail=DETAIL).splitlines() if line.startswith("cpu  ") and "%   " in line]
    assert cpu.split() == [
        "cpu",
        "52%",
        "74%",
        "2.75",
        "tasks",
        "1.22",
        "±0.09",
        "tasks",
        "2.1",
        "Pods",
        "limits",
        "it",
    ]
    (memory,) = [line for line in words(node(), detail=DETAIL).splitlines() if "80 Pods" in line]
    assert memory.split() == ["memory", "11%", "95%", "900", "MB", "9.8", "±1.5", "MB", "80", "Pods"]


def test_a_node_that_has_never_advertised_is_shown_as_such() -> None:
    assert "no advertisement: does its agent run?" in words(SILENT)
    assert "its agent does not answer" in words(node())


def test_what_the_scheduler_makes_of_a_node() -> None:
    answer = {
        "known": True, "refused_by": {"stage": "suspect", "means": "suspect", "detail": "40 s uncovered"},
        "bounds": [{"what": "cpu", "pods": 1.05, "detail": "2.75 free, 1.31 of it reserved, 1.31 a Pod"}],
        "trust": {"is_suspect": True}, "reserved_by": [{"pod": f"default/p{number}"} for number in range(5)],
    }  # fmt: skip
    said = words(node(), standing=node_answers.parse_standing(orjson.dumps(answer)))
    for line in (
        "takes no Pod now: suspect: 40 s uncovered", "suspect: its advertisements have not covered",
        "scheduler: cpu allows 1.1 more: 2.75 free", "reserved by default/p0, default/p1, default/p2 and 2 more",
    ):  # fmt: skip
        assert line in said or line.replace("1.1", "1.0") in said
    assert node_answers.parse_standing(b'{"known": false, "node": "x"}') is None
    with pytest.raises(errors.MessageError):
        node_answers.parse_standing(b'{"known": true}')


def test_what_a_node_advertises_now_ends_its_history() -> None:
    table = {"columns": ["age_s", "pods", "capacity", "cpu"], "rows": [[18.0, 2, 4.5, 0.3], [8.0, 1, 1.0, 0.64]]}
    answer: dict[str, Any] = {
        "known": True, "refused_by": None, "bounds": [], "trust": {"is_suspect": False}, "reserved_by": [],
        "history": table,
    }  # fmt: skip
    standing = node_answers.parse_standing(orjson.dumps(answer))
    lines = words(node(capacity=0.0, pods=3, usage={"cpu": 0.79}), standing=standing).splitlines()
    begin = lines.index("the last 18.0 s") + 1
    assert [" ".join(line.split()[-4:]) for line in lines[begin : begin + 3]] == [
        "3 now, most 3", "0 now, most 4.5", "79% now, most 79%",
    ]  # fmt: skip
    silent = words(SILENT, standing=standing).splitlines()
    assert "1 last, most 4.5" in silent[begin + 1] and "64% last, most 64%" in silent[begin + 2]


@pytest.mark.parametrize("width", [60, 80])
def test_why_a_capacity_is_what_it_is_is_continued_on_the_next_line(width: int) -> None:
    detail = "2 Pods of at most 16 a core on 4 cores, one of which another scheduler has reserved"
    answer = {
        "known": True, "refused_by": None, "bounds": [{"what": "pods_per_core", "pods": 62.0, "detail": detail}],
        "trust": {"is_suspect": False}, "reserved_by": [],
    }  # fmt: skip
    known = node_words.Known(node=node(), standing=node_answers.parse_standing(orjson.dumps(answer)))
    lines = [spans.plain(line) for line in node_words.lines(known, width=width)]
    assert max(map(len, lines)) <= width
    begin = next(index for index, line in enumerate(lines) if line.startswith("scheduler: pods_per_core"))
    assert lines[begin + 1].startswith("  ")
    assert " ".join(map(str.strip, lines[begin:])).startswith(f"scheduler: pods_per_core allows 62.0 more: {detail}")


def member(**changed: Any) -> messages.Heartbeat:
    one = records.HEARTBEAT_REPORT
    assert one.report is not None
    report = dataclasses.replace(one.report, orphans=0, **changed)
    return dataclasses.replace(one, is_leaving=bool(report.why_not), report=report)


def test_members_state_their_part_of_the_claims_and_why_they_take_no_pods() -> None:
    found = picture(members=(
        member(recent=1), member(recent=3, has_lease=False), member(why_not="not connected to NATS", recent=0),
        dataclasses.replace(records.HEARTBEAT_CORRECTIONS, report=None),
    ))  # fmt: skip
    first, *said = [spans.plain(line) for line in member_words.lines(found)]
    assert first == "3 of 4 decide; 4 claims/min, 0.2% conflicts; 1 Pod to correct; room held for 1"
    assert [" 25% " in said[0], " 75% " in said[1]] == [True, True]
    assert [line.endswith("Lease") for line in said] == [True, False, False, False]
    assert said[2].endswith("takes no Pods: not connected to NATS")
    assert said[3].endswith("does not report")
    alone = picture(members=(member(recent=0, stored=0, conflicts=0, has_lease=False),))
    assert spans.plain(member_words.lines(alone)[0]) == "1 of 1 decide; 0 claims/min; none holds the Lease"
    (row,) = once.as_json(alone, name="c")["schedulers"]
    assert (row["share"], row["last_minute"], row["conflicts"], row["lease"]) == (1.0, 0, 0, False)
    assert "SCHEDULER" in once.as_text(alone, name="c")
    assert "SCHEDULER" not in once.as_text(picture(), name="c")


def test_services_that_are_silent_or_late_are_named() -> None:
    late = dataclasses.replace(node(), age_s=4.0, freshness=freshness.Freshness.AGEING)
    said = "\n".join(map(spans.plain, panels.services(picture(late, SILENT, backlog=3, dropped={"replayed": 2}))))
    for line in (
        "scheduler: none answers", "aggregator: none answers", "1 advertise; median age 4.0 s", "1 not fresh",
        "none received yet", "3 messages/s; 3 wait for the aggregators", "dropped messages: 2 replayed",
    ):  # fmt: skip
        assert line in said


def test_services_that_had_no_time_to_answer_yet_are_not_called_silent() -> None:
    said = [spans.plain(line) for line in panels.services(picture(node(), services=None))]
    assert said[0] == "asking scheduler and aggregator"
    assert not any("none answers" in line for line in said)
    seen = signals.Signals(clock=clocks.FakeClock(), lease_s=10.0).picture(jobs=(), links=())
    assert seen.services is None
    assert once.as_json(seen, name="c")["services"] == []


LONG_NODE = "ip-10-0-0-17.eu-central-1.compute.internal"
LONG_POD = "a-team/nightly-recommendations-training-of-everything-7f9c6d5b48-x2x7k"


@pytest.mark.parametrize("width", [80, 200])
def test_long_names_give_way_to_numbers(width: int) -> None:
    named = dataclasses.replace(node(LONG_NODE), freshness=freshness.Freshness.STALE)
    (head, *_) = node_words.lines(node_words.Known(node=named), width=width)
    assert spans.plain(head).endswith("capacity 2.1 ±0.4  reserved 1  free 1.1")
    namespace, name = LONG_POD.split("/")
    placed = fake_cluster.placed(name, namespace=namespace, node=LONG_NODE, waited_s=61.5)
    (line,) = panels.decisions(picture(decisions=(placed,)), width)
    said = spans.plain(line)
    assert len(said) <= width
    assert said.endswith(", room for 2.1, waited 61.5 s")
    assert (LONG_POD in said, LONG_NODE in said) == (width == 200, width == 200)
    assert "-x2x7k" in said and "internal" in said
    job = pictures.Job(name=name, created_s=-math.inf, pending=1, starting=0, running=2, succeeded=3, failed=4)
    (line,) = panels.jobs(picture(jobs=(job,)), width)
    assert (name in spans.plain(line)) == (width == 200)
    assert "pending 1  starting 0  running 2" in spans.plain(line)[: 80 if width == 80 else 200]


def test_the_json_is_complete_and_the_same_for_every_node() -> None:
    heard = signals.Signals(clock=clocks.FakeClock(wall_ns=10**18), lease_s=10.0)
    found = fake_cluster.placed()
    heard.on_decision(subjects.decision("default", found.pod), wire.encode_decision(found))
    heard.on_model(subjects.MODEL, wire.encode_model(fake_cluster.model(at_ns=10**18)))
    seen = heard.picture(jobs=(), links=(pictures.Link(name="NATS", trouble="away"),))
    seen = dataclasses.replace(seen, nodes=(node(), SILENT))
    shown = json.loads(orjson.dumps(once.as_json(seen, name="test")))
    first, second = shown["nodes"]
    assert first.keys() == second.keys()
    assert first["cost"]["cpu"] == {"mean": 1.22, "sd": 0.09}
    assert second["capacity"] is None
    assert shown["decisions"][0]["node"] == "node-1"
    assert shown["model"]["contributors"] == 2
    assert shown["links"] == [{"name": "NATS", "trouble": "away"}]
    assert shown["v"] == once.SCHEMA_VERSION


def test_pods_are_listed_with_what_they_use_where_that_is_asked_for() -> None:
    waits = RUNNING._replace(
        uid="uid-waits", name="waits", state=pictures.PodState.WAITING, node=None, why="no \x1broom"
    )
    new = RUNNING._replace(uid="uid-new", name="new", since_s=-float("inf"))
    loads = {"node-1": {RUNNING.uid: LOAD}}
    seen = picture(node(), pods=(waits, RUNNING, new), loads=loads, taken_ns=90 * 10**9)
    assert once.as_json(seen, name="test")["pods"] is None
    first, second, third = once.as_json(seen, name="test", with_pods=True)["pods"]
    assert first.keys() == second.keys() == third.keys()
    assert (first["state"], first["before"], first["why"], first["uses"]) == ("waiting", 0, "no \x1broom", None)
    assert (first["class_cost"], second["class_cost"]) == (None, {"cpu": 1.31, "memory": 1.13e7})
    assert second["uses"] == {"cores": 0.5024, "waiting_tasks": 0.25, "memory_bytes": 11.5e6}
    assert (second["for_s"], second["node"], second["class"]) == (90.0, "node-1", "app/shop/web")
    # Not 0: there is no reading of it yet.
    assert (third["uses"], third["for_s"]) == (None, None)
    assert "shop/" not in once.as_text(seen, name="test")
    text = once.as_text(seen, name="test", with_pods=True)
    assert text.isascii() and "\x1b" not in text
    rows = [line.split() for line in text.splitlines() if line.startswith("shop/")]
    assert rows == [
        ["shop/waits", "waiting", "90.0", "s", "-", "-", "-", "no", "?room"],
        ["shop/runs", "running", "90.0", "s", "node-1", "502m", "11.5", "MB", "-"],
        ["shop/new", "running", "-", "node-1", "-", "-", "-"],
    ]


def test_the_picture_once_waits_until_agents_have_said_what_pods_use(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # What comes from a bus is given by hand.
    clusters = [fake_cluster.Cluster() for _ in range(3)]
    for each in clusters:
        each.hub.set_away(True)
    made = [each.reader for each in clusters]
    known: live_loads.Loads
    heard_after_s = 0.01

    def reader(*_: object, **__: object) -> readers.Reader:
        nonlocal known
        known = made[-1].loads
        monkeypatch.setattr(made[-1], "picture", taken)
        return made.pop()

    def taken() -> pictures.Picture:
        loads = {"node-1": {RUNNING.uid: LOAD}} if known.asked.is_set() else {}
        return picture(node(), pods=(RUNNING,), loads=loads)

    async def listen(*_: object) -> pictures.Picture:
        asyncio.get_running_loop().call_later(heard_after_s, known.asked.set)
        return taken()

    def pods(*flags: str) -> Any:
        argv = ("top", "--once", "--nats-url", "nats://127.0.0.1:1", "--json", *flags)
        assert carico_cli.run(monkeypatch, *argv) == 0
        return json.loads(capsys.readouterr().out)["pods"], known._subject

    monkeypatch.setattr("carico_cli.live.reader.Reader", reader)
    monkeypatch.setattr(command, "_listen", listen)
    monkeypatch.setattr(command, "LOADS_MOST_S", waiting.WAIT_S)
    assert pods() == (None, None)
    (found,), subject = pods("--pods")
    assert (found["uses"]["cores"], subject) == (0.5024, subjects.PODS_ALL)
    # Without a bus they are not asked.
    monkeypatch.setattr(command, "LOADS_MOST_S", 0.01)
    heard_after_s = 60.0
    (found,), _ = pods("--pods")
    assert found["uses"] is None


def test_the_table_is_plain_text() -> None:
    waits = fake_cluster.placed(
        outcome=decision.Outcome.UNSCHEDULABLE, node=None, free=None, message="no\x1b[2J → room"
    )
    text = once.as_text(picture(node(), SILENT, decisions=(waits,)), name="test")
    assert text.isascii()
    assert "\x1b" not in text
    (row,) = [line for line in text.splitlines() if line.startswith("node-1")]
    assert row.split() == ["node-1", "95%", "9%", "11%", "3", "2.1", "0.4", "1", "fresh", "measured"]
    head, first, second = once.as_text(picture(node(), SILENT), name="test", wide=True).splitlines()[2:5]
    assert [line.split("  ")[-1].strip() for line in (head, first, second)] == ["AGE", "400 ms", "-"]


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--json"], "-o json needs --once"),
        (["--pods"], "--pods needs --once"),
        (["--once", "--pods", "--svg", "x.svg"], "got --pods and --svg, expected one of them"),
        (["--once", "--node", "node-1"], "--node needs the live screen or --svg"),
        (["--once", "--json", "--svg", "x.svg"], "got -o json and --svg, expected one of them"),
        (["--every", "0"], "--every: got 0, expected 0.2 to 60 seconds"),
        (["--every", "x"], "'x' is not a valid float"),
        (["--nmae", "x"], "No such option '--nmae'"),
        (["--nats-url", "nats://"], "--nats-url: got 'nats://', expected an address such as nats://127.0.0.1:4222"),
        (["--nats-url", "http://x"], "--nats-url: got 'http://x'"),
        (["--name", "nobody"], "no cluster named 'nobody'"),
    ],
)
def test_wrong_arguments_give_one_line_and_exit_code_2(
    argv: list[str], expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert carico_cli.run(monkeypatch, "top", *argv) == 2
    said = capsys.readouterr().err
    assert expected in said
    assert said.count("\n") == 1


def test_a_bus_that_is_not_there_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("carico_cli.live.reader.CONNECT_S", 0.3)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert carico_cli.run(monkeypatch, "top", "--once", "--nats-url", "nats://127.0.0.1:1") == 1
    said = capsys.readouterr().err
    assert "NATS: nats://127.0.0.1:1 does not answer; check the address" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("term", ["xterm", "dumb", ""])
def test_without_a_terminal_nothing_is_drawn(term: str) -> None:
    assert command.undrawable(term) == ""


def test_no_command_waits_for_what_only_the_screen_needs() -> None:
    code = "import sys, carico_cli.top.command; sys.exit('textual' in sys.modules or 'rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_of_an_absent_node_nothing_counts_and_nothing_shines() -> None:
    gone = dataclasses.replace(node("node-2"), freshness=freshness.Freshness.ABSENT)
    summary = spans.plain(panels.summary(picture(node(), gone), name="test", paused_s=None, shown=2))
    assert "1/2 nodes fresh  3 Pods  capacity 2  reserved 2" in summary
    styles = {style for text, style in columns.row(gone, columns.shown(80)) if text.strip() not in ("", "absent")}
    assert styles == {"dim"}


def test_a_node_that_is_not_ready_is_seen_wherever_nodes_are() -> None:
    down = dataclasses.replace(node("node-2"), ready=False, schedulable=True)
    shut = dataclasses.replace(node("node-3"), ready=True, schedulable=False)
    seen = picture(node(), down, shut)
    summary = spans.plain(panels.summary(seen, name="test", paused_s=None, shown=3))
    assert "1/3 nodes fresh  9 Pods  capacity 2  reserved 3" in summary
    assert ("unready", "red") in [(text.strip(), style) for text, style in columns.row(down, columns.shown(80))]
    assert ("cordon", "yellow") in [(text.strip(), style) for text, style in columns.row(shut, columns.shown(80))]
    assert "node-2   unready, 0.4 s old" in words(down)
    text = once.as_text(seen, name="test")
    assert [line.split()[8] for line in text.splitlines()[3:6]] == ["fresh", "unready", "cordon"]
    assert [each["state"] for each in once.as_json(seen, name="test")["nodes"]] == ["fresh", "unready", "cordon"]
    worst_first = view.View(sorted_by="state", descending=True)
    assert [each.name for each in worst_first.rows(seen.nodes)] == ["node-2", "node-1", "node-3"]
    assert [each.name for each in view.View(filter="unready").rows(seen.nodes)] == ["node-2"]


@pytest.mark.parametrize("no_color", ["", "1"])
def test_the_screen_becomes_a_picture_that_loads_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], no_color: str
) -> None:
    if no_color:
        monkeypatch.setenv("NO_COLOR", no_color)
    else:
        monkeypatch.delenv("NO_COLOR", raising=False)
    cluster = fake_cluster.Cluster()

    async def listen(*_: object) -> pictures.Picture:
        await cluster.advertise()
        await waiting.until(lambda: cluster.reader.picture().nodes)
        return cluster.reader.picture()

    monkeypatch.setattr("carico_cli.live.reader.Reader", lambda *_, **__: cluster.reader)
    monkeypatch.setattr(command, "_listen", listen)
    path = tmp_path / "top.svg"
    argv = ["--once", "--nats-url", "nats://127.0.0.1:1", "--svg", path, "--node", "node-1"]
    assert carico_cli.run(monkeypatch, "top", *argv) == 0
    assert str(path) in capsys.readouterr().out
    drawn = path.read_text()
    assert "headroom" in drawn
    assert "url(" not in drawn.replace("url(#", "")
    assert carico_cli.run(monkeypatch, "top", *argv[:-1], "node-9") == 2
    assert "--node: got 'node-9', expected a node of the cluster, such as node-1" in capsys.readouterr().err
    assert carico_cli.run(monkeypatch, "top", *argv[:-4], "--svg", tmp_path / "none" / "x.svg") == 2
    assert "cannot be written" in capsys.readouterr().err


def test_the_schema_is_documented_to_the_last_field() -> None:
    text = (pathlib.Path(__file__).parents[4] / "docs/top.md").read_text()
    service = pictures.Service(
        name="x", instance="y", version="", answered_s=0.1, requests=1, errors=0, last_error="", processing_s=None
    )
    job = pictures.Job(name="j", created_s=-math.inf, pending=0, starting=0, running=1, succeeded=0, failed=0)
    model = pictures.Model(replica="r", contributors=1, age_s=0.0, magnitude={"cpu": 0.5})
    seen = once.as_json(
        picture(
            node(), jobs=(job,), services=(service,), model=model, decisions=(fake_cluster.placed(),),
            links=(pictures.Link(name="NATS", trouble=None),), summaries=(records.SUMMARY,), pods=(RUNNING,),
            loads={"node-1": {RUNNING.uid: LOAD}},
        ),
        name="test", with_pods=True,
    )  # fmt: skip
    fields = set(seen) | set(seen["model"]) | set(seen["bus"]) | set(seen["pods"][0]["uses"])
    for rows in ("links", "nodes", "pods", "jobs", "decisions", "services", "history"):
        fields |= set(seen[rows][0])
    assert [name for name in sorted(fields) if f"`{name}`" not in text and f"`{name}[]`" not in text] == []
