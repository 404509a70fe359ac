"""The Pods of `carico top`: their table at 80x24, the texts about one, and those of a node."""

import calendar
import time
from typing import Any

import pytest
from textual import widgets

from carico_cli.explain import command as explaining
from carico_cli.live import picture as pictures
from carico_cli.top.words import panels, pod_words, spans
from carico_core.domain import messages, pod_telemetry
from carico_core.runtime.kube import list_watch
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from tests.tools import waiting
from tests.unit.cli import fake_cluster
from tests.unit.cli.top import test_top_screen, test_top_words

LOG = "/api/v1/namespaces/default/pods/runs/log"
NOW_NS = 1_795_255_210 * 10**9


def record(number: int, state: str = "waiting", **changed: Any) -> pictures.Pod:
    found = pictures.Pod(
        uid=f"uid-{number}", namespace="default", name=f"job-{number}", scheduler="carico", job="job",
        state=pictures.PodState(state), node=None, created_s=1_795_255_200.0, since_s=1_795_255_200.0, priority=0,
        pod_class="app/default/pi", why="",
    )  # fmt: skip
    return found._replace(**changed)


def seen_of(*pods: pictures.Pod, **changed: Any) -> pictures.Picture:
    return test_top_words.picture(test_top_words.node(), pods=pods, taken_ns=NOW_NS, **changed)


def test_the_table_at_80_cells() -> None:
    costs = {"app/default/pi": messages.ClassCapacity(cost_plus={"cpu": 3.71, "memory": 1.18e7}, pods=1)}
    node = test_top_words.node(classes=costs)
    pods = (
        record(0, why="0/3 nodes fit: 3 at capacity (node-2: -0.15 free)"),
        record(1, name="a-name-that-is-far-too-long"),
        record(2, "starting", node="node-1", why="ImagePullBackOff"), record(3, "running", node="node-1"),
        record(4, "running", node="gone", namespace="shop"),
        record(6, "running", node="node-1", why="CrashLoopBackOff"),
        record(5, "succeeded", node="node-1", since_s=-float("inf")),
    )  # fmt: skip
    # The last report of a node may still have what has ended.
    used = {3: (0.5024, 1.153e7), 5: (1.0, 1e6), 6: (12.3, 9.994e8)}
    loads = {
        "node-1": {f"uid-{number}": pod_telemetry.PodLoad("*", each[0], 0.1, each[1]) for number, each in used.items()}
    }
    table = pod_words.PodTable(test_top_words.picture(node, pods=pods, taken_ns=NOW_NS, loads=loads))
    lines = [spans.plain(pod_words.head(80)), *(spans.plain(table.line(pod, 80)).rstrip() for pod in pods)]
    assert lines == [
        "Pod              state         for queue, node  why, or uses  its class costs",
        "job-0            waiting    10.0 s next         3 at capacity (node-2: -0.15 fr…",
        "a-name-t…oo-long waiting    10.0 s 1 before",
        "job-2            starting   10.0 s node-1       ImagePullBackOff",
        "job-3            running    10.0 s node-1        502m 11.5 MB 3.71 tasks 11.8 MB",
        # No reading is not 0.
        "shop/job-4       running    10.0 s gone                     -",
        "job-6            running    10.0 s node-1       12300m  999 MB CrashLoopBackOff",
        "job-5            succeeded       - node-1",
    ]
    for width in (60, 80, 130, 200):
        assert all(len(spans.plain(table.line(pod, width))) <= width for pod in pods)
    of_node = [spans.plain(line).split()[0] for line in table.of_node("node-1", 80)]
    assert of_node == ["Pod", "job-2", "job-3", "job-6"]
    assert table.of_node("node-9", 80) == []


def test_the_first_line_counts_those_that_wait() -> None:
    line = spans.plain(panels.summary(seen_of(*map(record, range(27))), name="test", paused_s=None, shown=1))
    assert "3 Pods  27 waiting (10.0 s)  capacity 2" in line
    assert "waiting" not in spans.plain(panels.summary(seen_of(), name="test", paused_s=None, shown=1))


@pytest.mark.parametrize(("width", "ends"), [(60, "3000 Pods"), (80, "capacity 2100"), (130, "reserved 1000")])
def test_the_first_line_of_a_large_cluster_is_cut_between_its_parts(width: int, ends: str) -> None:
    nodes = tuple(test_top_words.node(f"node-{number}") for number in range(1000))
    seen = test_top_words.picture(*nodes, pods=tuple(map(record, range(10_000))), taken_ns=NOW_NS)
    line = spans.plain(panels.summary(seen, name="large", paused_s=None, shown=1000, width=width))
    assert len(line) <= width
    assert line.startswith(" large  1000/1000 nodes fresh") and line.endswith(ends)


@pytest.mark.parametrize(("words", "count"), [("", 3), ("WAITING", 2), ("node-1 runn", 1), ("capacity", 2), ("x", 0)])
def test_a_filter_takes_words_of_all_that_is_shown(words: str, count: int) -> None:
    pods = (record(0), record(1), record(2, "running", node="node-1"))
    table = pod_words.PodTable(seen_of(*pods, refusals={"job": "at capacity"}))
    assert len(table.matching(words)) == count


async def test_pods_on_the_screen_at_80x24(monkeypatch: pytest.MonkeyPatch) -> None:
    """From a fixed state: every line is whole, and each key shows what it says."""
    async with test_top_screen.staged() as stage:
        pending = [fake_cluster.pod(f"waits-{number:02}", phase="Pending", node=None) for number in range(30)]
        stage.cluster.api.events.put_nowait(
            list_watch.Listed(objects=[fake_cluster.pod("runs"), *pending], resource_version="2")
        )
        await stage.shows("30 waiting")
        await stage.keys.press("P")
        await stage.shows("waits-00")
        # The line of keys is drawn by itself.
        await stage.shows("Explain")
        lines = stage.text.splitlines()
        assert len(lines) == 24 and max(map(len, lines)) <= 80
        assert lines[1].split() == [
            "Pod",
            "state",
            "for",
            "queue,",
            "node",
            "why,",
            "or",
            "uses",
            "its",
            "class",
            "costs",
        ]
        assert lines[2].startswith("waits-00         waiting") and "next" in lines[2]
        assert "20 before" in lines[22]
        for key in ("Explain", "Log", "Describe", "Filter", "Pause", "Nodes", "Help", "Quit"):
            assert key in lines[-1], lines[-1]
        await stage.keys.press("p")
        await stage.shows("paused")
        await stage.keys.press("p", "end")
        await stage.shows("runs ")
        stage.cluster.api.answers[LOG] = "a log of words " * 6 + "\n"
        await stage.keys.press("l")
        await stage.shows("a log")
        # Lines are continued between words.
        assert [line for line in stage.text.splitlines() if line and "Back" not in line][1:] == [
            "a log of words " * 5 + "a log", "of words",
        ]  # fmt: skip
        await stage.keys.press("escape")
        stage.cluster.api.answers[LOG] = "first\n\x1b[2Jlast " + "x" * 90 + "\n"
        await stage.keys.press("l")
        await stage.shows("xxxx")
        # What moves a terminal's cursor is removed, and a long line is continued.
        assert [line for line in stage.text.splitlines() if line and "Back" not in line][1:] == [
            "first", " [2Jlast " + "x" * 71, "x" * 19,
        ]  # fmt: skip
        await stage.keys.press("escape", "d")
        await stage.shows("GET /api/v1/namespaces/default/pods/runs: 404")
        api = stage.cluster.api.answers
        api["/api/v1/namespaces/default/pods/runs"] = {"metadata": {"name": "runs"}, "status": {"phase": "Running"}}
        event = {"type": "Normal", "reason": "Started", "message": "ok", "lastTimestamp": "2026-11-21T10:00:00Z"}
        at_s = calendar.timegm((2026, 11, 21, 10, 0, 0))
        local = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_s))
        api["/api/v1/namespaces/default/events"] = {"items": [event]}
        await stage.keys.press("r")
        await stage.shows(f"{local}  Normal  Started: ok")
        await stage.shows("phase: Running")

        async def explained(*_: object) -> dict[str, Any]:
            return {"namespace": "default", "pod": "runs", "state": "gated", "why": "its gate", "decision": None}

        monkeypatch.setattr(explaining, "explain_pod", explained)
        await stage.keys.press("escape", "enter")
        await stage.shows("Pod default/runs is gated")
        await stage.keys.press("escape", "question_mark")
        await stage.shows("N before: how many")
        await stage.keys.press("x", "escape")
        await stage.shows("CPU used")


async def test_what_is_wrong_stands_above_the_pods_too() -> None:
    async with test_top_screen.staged() as stage:
        pods = [fake_cluster.pod(f"runs-{number:02}") for number in range(30)]
        stage.cluster.api.events.put_nowait(list_watch.Listed(objects=pods, resource_version="2"))
        await stage.keys.press("P")
        await stage.shows("runs-00")
        stage.cluster.hub.set_away(True)
        await stage.shows("NATS: nats://127.0.0.1:4222 is away")
        assert len(stage.text.splitlines()) == 24
        stage.cluster.hub.set_away(False)
        await waiting.until(lambda: "is away" not in stage.text)


async def test_a_filter_of_pods_is_taken_back_before_the_screen_is_left() -> None:
    async with test_top_screen.staged() as stage:
        pods = [fake_cluster.pod(name) for name in ("one", "two")]
        stage.cluster.api.events.put_nowait(list_watch.Listed(objects=pods, resource_version="2"))
        await stage.keys.press("P")
        await stage.shows("one ")
        await stage.keys.press("slash", *"two", "enter")
        await waiting.until(lambda: "two " in stage.text and "one " not in stage.text)
        await stage.keys.press("slash", *"x", "escape")
        assert not stage.top.screen.query_one("#filter", widgets.Input).display
        await stage.shows("one ")
        await stage.keys.press("slash", *"nothing", "enter")
        await stage.shows("no Pod matches")
        await stage.keys.press("escape")
        await stage.shows("one ")
        await stage.keys.press("escape")
        await stage.shows("CPU used")


async def test_of_ten_thousand_pods_only_the_visible_are_formatted(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    line = pod_words.PodTable.line

    def counted(table: pod_words.PodTable, pod: pictures.Pod, width: int) -> spans.Line:
        drawn.append(pod.name)
        return line(table, pod, width)

    monkeypatch.setattr(pod_words.PodTable, "line", counted)
    async with test_top_screen.staged() as stage:
        await stage.keys.press("p")
        stage.top.shown = seen_of(*map(record, range(10_000)))
        await stage.keys.press("P")
        await stage.shows("job-0 ")
        await stage.keys.press("end")
        await stage.shows("9999 before")
        assert 0 < len(set(drawn)) <= 2 * 24


async def test_the_view_of_a_node_ends_with_its_pods_and_says_that_there_is_more() -> None:
    async with test_top_screen.staged() as stage:
        stage.cluster.api.events.put_nowait(list_watch.Listed(objects=[fake_cluster.pod("runs")], resource_version="2"))
        # The view goes to the end of what it has then.
        await waiting.until(lambda: stage.top.shown.pods)
        await stage.keys.press("enter")
        await stage.shows(" more below)")
        await stage.keys.press(*["pagedown"] * 3)
        await stage.shows("runs             running")
        assert "more below" not in stage.text
        assert stage.text.splitlines()[-2].startswith("runs             running")


async def test_what_pods_use_is_listened_to_while_a_view_shows_it() -> None:
    def heard() -> list[str]:
        return [each for each, _ in stage.cluster.hub.subscriptions if each.startswith("carico.v1.pods.")]

    async def report(seq: int, cores: float) -> None:
        loads = {"uid-runs": pod_telemetry.PodLoad("*", cores, 0.0, 8.1e6)}
        found = pod_telemetry.PodLoads(node="node-1", boot=fake_cluster.BOOT, seq=seq, ts_ns=1, loads=loads)
        await stage.cluster.own.publish(subjects.pods("node-1"), wire.encode_loads(found))

    async with test_top_screen.staged() as stage:
        stage.cluster.api.events.put_nowait(list_watch.Listed(objects=[fake_cluster.pod("runs")], resource_version="2"))
        await waiting.until(lambda: stage.top.shown.pods)
        assert heard() == []
        await stage.keys.press("P")
        await stage.shows("            - 1.31 tasks 11.3 MB")
        await waiting.until(lambda: heard() == [subjects.PODS_ALL])
        await report(1, 0.25)
        await stage.shows(" 250m  8.1 MB 1.31 tasks 11.3 MB")
        await stage.keys.press("escape")
        await waiting.until(lambda: heard() == [])
        await stage.keys.press("enter")
        await waiting.until(lambda: heard() == [subjects.pods("node-1")])
        await report(2, 0.75)
        await stage.keys.press(*["pagedown"] * 3)
        await stage.shows(" 750m  8.1 MB")
        await stage.keys.press("right")
        await waiting.until(lambda: heard() == [subjects.pods("node-2")])
        await stage.keys.press("escape")
        await waiting.until(lambda: heard() == [])
