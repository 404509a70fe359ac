"""The live view, the words and the page, drawn from facts; and what Ctrl-C does to a command's end."""

import asyncio
import io
import pathlib
import re
from typing import Any

import click.testing
import orjson
import pytest
from rich import console

from carico_cli import application
from carico_cli.clusters import starting
from carico_cli.jobs import demo_page, live_view
from carico_cli.live import capacity_list, signals
from carico_cli.shell import exits, settings
from carico_cli.top.words import columns
from carico_core.domain import messages
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_local.cluster import folders, machine, plan, processes, state
from carico_local.jobs import facts, figures, observer
from carico_local.jobs import job as jobs
from tests.tools import advertised

MACHINE = machine.Machine(cpus=2.0, memory_available_bytes=2**35, processor="test", kernel="6.18")
PLAN = plan.make_plan(plan.Options(name="x", nodes=2), MACHINE)
JOB = jobs.Job(name="j", workload=jobs.Workload.PI, pods=4)


class Live:
    """What a demo's screen reads: signals heard by hand, and Pods."""

    def __init__(self) -> None:
        self.clock = clocks.FakeClock(wall_ns=100_000_000_000)
        self.observer = observer.Observer(clock=self.clock)
        self.signals = signals.Signals(clock=self.clock, lease_s=10.0)
        self.hear_list(*PLAN.node_names)

    def hear_list(self, *names: str) -> None:
        listed = orjson.dumps({"nodes": [{"node": name, "reserved": 0} for name in names]})
        self.signals.on_capacity_list(capacity_list.parse(listed))

    def hear(self, said: messages.Advertisement) -> None:
        self.signals.on_capacity(subjects.capacity(said.node), wire.encode_advertisement(said))

    def screen(self, *, submitted_s: float = 80.0) -> live_view.Screen:
        return live_view.Screen(
            lambda: self.signals.picture(jobs=(), links=()), self.observer, JOB, clock=self.clock,
            submitted_s=submitted_s,
        )  # fmt: skip


def advertisement(node: str) -> messages.Advertisement:
    return advertised.advertisement(
        node, room=2.25, boot="0" * 16, seq=1, at_ns=1, capacity_sd=0.5, signal=0.5, pods=3,
        usage={"cpu": 0.6, "memory": 0.1}, parts={"cpu.utilisation": 1.0, "cpu.pressure": 0.2},
    )  # fmt: skip


@pytest.fixture
def live() -> Live:
    return three_pods()


def three_pods() -> Live:
    """One has succeeded, one has failed, one runs."""
    found = Live()
    for number, phase in enumerate(("Succeeded", "Failed", "Running")):
        uid = f"u{number}"
        found.observer.pods[uid] = facts.PodFacts(
            uid=uid, name=f"j-{number}", workload="pi", created_s=0.0, phase=phase, nodes=["node-1"],
            running=phase == "Running", started_s=80.0, finished_s=86.0,
        )  # fmt: skip
        found.observer._jobs[uid] = "j"
    found.hear(advertisement("node-1"))
    return found


def drawn(screen: live_view.Screen, width: int = 110) -> str:
    out = console.Console(file=io.StringIO(), width=width, color_system=None)
    with out.capture() as captured:
        out.print(screen)
    return captured.get()


def test_the_view_shows_nodes_and_where_the_jobs_pods_are(live: Live) -> None:
    screen = live.screen()
    text = drawn(screen)
    (row,) = [line for line in text.splitlines() if "node-1" in line]
    assert re.search(r"100% .* 20% .* 10% +3 +2\.2 ± ?0\.5 .*measured", row)
    assert [line for line in text.splitlines() if "node-2" in line and "absent" in line]
    assert "pending 1   starting 0   running 1   done 2   failed 1" in text
    assert "2/4" in text
    assert "20 s, 20 s left" in text
    assert " ".join(screen.line().split()) == "20.0 s done 2/4 running 1 starting 0 pending 1 left 20 s"


@pytest.mark.parametrize("width", [60, 79, 80, 200])
def test_no_figure_is_cut_off_on_a_narrow_terminal(live: Live, width: int) -> None:
    said = advertisement("node-1")
    live.hear(said._replace(seq=2, capacity=12.25, capacity_sd=10.1, mode=messages.Mode.SATURATED, pods=110))
    lines = drawn(live.screen(), width).splitlines()
    assert max(map(len, lines)) <= width - len("^C"), "Ctrl-C begins no other line"
    (head,) = [line for line in lines if "pressure" in line]
    titles = ["Pods", "capacity", *(["reserved"] if width > 68 else []), "state"]
    assert head.split()[head.split().index("Pods") :][: len(titles)] == titles
    (row,) = [line for line in lines if "node-1" in line]
    reserved = r"0 +" if width > 68 else ""
    assert re.search(rf"100% .*20% .*10% +110 +12\.2 ±10\.1 +{reserved}fresh", row)
    assert ("██" in row) is (width - live_view.ECHO_COLUMNS >= columns.WIDE)


def test_an_old_advertisement_turns_stale(live: Live) -> None:
    live.clock.advance(7.0)
    assert "stale" in drawn(live.screen(submitted_s=0.0))


def test_nothing_seen_yet_is_drawn_as_unknown_and_not_as_zero() -> None:
    text = drawn(Live().screen(submitted_s=100.0))
    assert text.count("absent") == 2
    assert "? left" in text


def test_the_snapshot_is_a_picture(live: Live) -> None:
    svg = live_view.to_svg(live.screen())
    assert svg.lstrip().startswith("<svg")
    assert "node-1" in svg


def test_without_a_terminal_a_line_comes_every_five_seconds(live: Live, capsys: pytest.CaptureFixture[str]) -> None:
    screen = live.screen(submitted_s=100.0)
    clock = live.clock
    with live_view.drawing(screen, plain=True) as draw:
        for _ in range(13):
            draw()
            clock.advance(1.0)
    assert capsys.readouterr().out.count("\n") == 3


def some_report(live: Live) -> dict[str, Any]:
    setting = facts.Setting(
        nodes=PLAN.node_names, cores=4, scale=0.125, most_cores=12.0, memory_bytes=2**30, estimator="footprint",
        ceiling={"cpu": 0.9, "memory": 0.95}, workload="pi", pods=3, total_work_s=15.0, mean_work_s=5.0,
        machine={"cpus": 2.0, "processor": "<b>CPU</b>", "kernel": "6.18"}, versions={}, notes=("a & b",),
    )  # fmt: skip
    capacity = facts.AdvertisedCapacity(
        at_s=81.0, node="node-1", capacity=2.0, capacity_sd=0.5, pods=1, mode="measured", usage={"cpu": 0.5},
        parts={}, cost={"cpu": (1.0, 0.1), "memory": (1e6, 1e5)},
    )  # fmt: skip
    return figures.report(
        facts.Facts(
            setting=setting,
            submitted_s=80.0,
            ended_s=100.0,
            pods=live.observer.of_job("j"),
            placed=[],
            waits={},
            capacities=[capacity],
            crashes=[],
        )
    )


def test_the_words_say_plainly_what_was_missed(live: Live) -> None:
    words = demo_page.text(some_report(live))
    assert words.startswith("\n1 of 3 Pods succeeded in 20.0 s")
    assert "no scheduler can take less" not in words, "of a job that lost Pods nothing is known"
    whole = {**some_report(live), "succeeded": 3}
    assert "All 3 Pods succeeded in 20.0 s, where no scheduler can take less than 5.0 s" in demo_page.text(whole)
    assert "must be 0: failed 1, bound twice 0, never bound 0, without room 0" in words
    assert "(target at most 1.12: missed)" in words
    assert "(target at most 1.35: met)" in words
    assert max(map(len, words.splitlines())) <= 80


def test_the_page_contains_its_pictures_and_escapes_its_texts(live: Live) -> None:
    page = demo_page.page(some_report(live))
    assert page.count("<svg") == 5
    assert ">0.5<" not in page.partition("</svg>")[0], "there are no halves of Pods"
    assert "<b>CPU</b>" not in page
    assert "&lt;b&gt;CPU" in page
    assert "a &amp; b" in page
    ids = [part.split('"', 1)[0] for part in page.split(' id="')[1:]]
    assert len(ids) == len(set(ids)), "pictures in one page share no ids"


def test_the_page_begins_with_the_result_and_kube_scheduler_and_folds_the_rest(live: Live) -> None:
    report = {
        **some_report(live), "command": "carico demo --pods 3", "ended_at_ns": 1_795_446_245_000_000_000,
        "carico_version": "0.1.0",
        "kube_scheduler": [
            {"request_millicores": 500, "simulated": True, "job_s": 12.5, "pod_mean_s": 9.75},
            {"request_millicores": 100, "simulated": True, "job_s": None, "pod_mean_s": None},
        ],
    }  # fmt: skip
    page = demo_page.page(report)
    before, _, _ = page.partition("<details>")
    assert before.index('class="result"') < before.index("<svg"), "the result, then one picture"
    assert before.count("<svg") == 1
    assert "kube-scheduler would have taken 12.5 s with 9.75 s a Pod if each requests 500m CPU (simulated" in before
    assert "cannot be compared" not in page
    notes = [starting._busy_words("some avg10=88.00 avg60=20.00 avg300=9.00 total=1\n")]
    busy = demo_page.page({**report, "setting": {**report["setting"], "notes": notes}})
    assert "as on an idle machine; `carico demo --compare` runs it). This machine was busy: that cannot be" in busy
    assert "23 November 2026" in before and "CARICO 0.1.0; `carico demo --pods 3`" in before
    assert "kube-scheduler, 500m 12 s" in before and "kube-scheduler, 100m" not in before
    assert page.count("<details>") == 2 and "details:not([open]) { display: none }" in page
    assert "kube-scheduler would have taken" in " ".join(demo_page.text(report).split())
    # Without the twin's package nothing is claimed.
    assert "kube-scheduler" not in demo_page.page(some_report(live))


def test_with_compare_the_page_states_what_kube_scheduler_took(live: Live) -> None:
    ran = {"request_millicores": 500, "simulated": False, "job_s": 12.5, "pod_mean_s": 9.75, "failed": 0}
    report = {**some_report(live), "kube_scheduler": [ran, {**ran, "request_millicores": 100, "job_s": 11.0}]}
    took = "kube-scheduler took 12.5 s with 9.75 s a Pod if each requests 500m and 11.0 s with 9.75 s"
    assert took in demo_page.page(report) and took in " ".join(demo_page.text(report).split())
    assert "simulated" not in demo_page.page(report) and "failed)" not in demo_page.page(report)
    lost = {**some_report(live), "kube_scheduler": [{**ran, "failed": 2}]}
    assert "the same job on the same nodes, after it; 2 of its Pods failed)." in demo_page.page(lost)


def test_a_page_without_any_finished_pod_is_still_drawn() -> None:
    report = some_report(Live())
    assert report["pod_s"]["mean"] is None
    assert demo_page.page(report).count("<svg") == 5


@pytest.mark.parametrize(
    ("environ_term", "is_terminal", "plain"), [("xterm", True, False), ("dumb", True, True), ("xterm", False, True)]
)
def test_plain_lines_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, environ_term: str, is_terminal: bool, plain: bool
) -> None:
    monkeypatch.setenv("TERM", environ_term)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert settings.read(is_terminal=is_terminal).plain is plain


async def test_a_commands_end_is_finished_though_ctrl_c_comes_again() -> None:
    hurried: list[int] = []
    release = asyncio.Event()
    ended: list[str] = []

    async def end() -> None:
        await release.wait()
        ended.append("all")

    task = asyncio.ensure_future(exits.finished(end(), hurry=lambda: hurried.append(1)))
    for _ in range(3):
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
    release.set()
    await task
    assert ended == ["all"]
    assert len(hurried) == 3


async def test_an_end_that_fails_says_so() -> None:
    async def end() -> None:
        raise OSError("cgroup stays")

    with pytest.raises(OSError, match="cgroup stays"):
        await exits.finished(end(), hurry=lambda: None)


def test_env_prints_the_name_and_the_addresses_as_export_lines_that_a_shell_can_read(tmp_path: pathlib.Path) -> None:
    paths = folders.Paths(tmp_path / "carico" / "a-b")
    paths.root.mkdir(parents=True)
    paths.plan.write_text("{}")
    me = processes.ProcessId(pid=1, start_ticks=1)
    state.write(
        paths,
        state.ClusterState(
            plan=PLAN, phase=state.Phase.READY, supervisor=me, started_ns=1,
            nats_url="nats://127.0.0.1:1", api_url="http://127.0.0.1:2", services=(), crashes=(), notes=(),
            failure=None,
        ),
    )  # fmt: skip
    runner = click.testing.CliRunner(env={"XDG_STATE_HOME": str(tmp_path)})
    refused = runner.invoke(application.cli, ["env", "--name", "a-b"])
    assert "is not running" in str(refused.exception)
    with folders.acquire(paths):
        given = runner.invoke(application.cli, ["env", "--name", "a-b"])
    assert (
        given.output == "export CARICO_CLUSTER=a-b\n"
        f"export NATS_URL=nats://127.0.0.1:1\nexport KUBECONFIG={paths.kubeconfig}\n"
        "export KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false\nexport KUBECTL_PORT_FORWARD_WEBSOCKETS=false\n"
    )
