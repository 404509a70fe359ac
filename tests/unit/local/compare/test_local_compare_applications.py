"""The comparison of service times: contenders, Pods as clients see them, the descheduler's policy, and the report."""

import asyncio
import dataclasses
import itertools
from typing import Any, Literal

import pytest

from carico_cli.jobs import compare_applications, compare_applications_page
from carico_core.domain import errors
from carico_core.runtime.kube import list_watch
from carico_local.applications import catalog, directory, manifests, users
from carico_local.compare.applications import contender, descheduler, experiment, pods, published, result


def pod(name: str, service: str, *, ready: bool = True, ending: bool = False, node: str = "node-1") -> dict[str, Any]:
    """A Pod as the API has it."""
    return {
        "metadata": {
            "uid": f"uid-{name}", "name": name, "labels": {"app.kubernetes.io/name": service},
            **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if ending else {}),
        },
        "spec": {"nodeName": node},
        "status": {"podIP": f"127.20.1.{name}", "conditions": [{"type": "Ready", "status": str(ready)}]},
    }  # fmt: skip


def listed(objects: list[dict[str, Any]]) -> list_watch.Listed:
    return list_watch.Listed(objects=objects, resource_version="1")


def changed(kind: Literal["MODIFIED", "DELETED"], found: dict[str, Any]) -> list_watch.Changed:
    return list_watch.Changed(type=kind, object=found)


def test_clients_get_the_addresses_of_pods_that_are_ready_and_stay() -> None:
    server = directory.DirectoryServer()
    known = pods.Pods(server)
    known.on_event(listed([pod("1", "a"), pod("2", "a", ready=False), pod("3", "b")]))
    assert server.table == {"a": ["127.20.1.1"], "b": ["127.20.1.3"]}
    known.on_event(changed("MODIFIED", pod("2", "a", node="node-2")))
    assert server.table["a"] == ["127.20.1.1", "127.20.1.2"]
    known.on_event(changed("MODIFIED", pod("1", "a", ending=True)))
    assert server.table["a"] == ["127.20.1.2"] and known.nodes() == {"a": "node-2", "b": "node-1"}
    known.on_event(changed("DELETED", pod("1", "a", ending=True)))
    assert len(known.found) == 2


def test_waiting_in_vain_says_which_pods_are_not_ready() -> None:
    known = pods.Pods(directory.DirectoryServer())
    known.on_event(listed([pod("1", "a"), pod("2", "b", ready=False)]))
    asyncio.run(known.until_ready(["a"], 1.0))
    with pytest.raises(errors.EnvironmentUnfit, match="b: not ready on node-1"):
        asyncio.run(known.until_ready(["a", "b"], 0.01))


def test_each_contender_has_its_scheduler_and_what_moves_its_pods() -> None:
    found = {name: contender.parse(name) for name in contender.NAMES}
    assert [name for name, each in found.items() if each.requests] == ["kube-scheduler", "descheduler"]
    assert [name for name, each in found.items() if not each.is_placed] == ["kube-scheduler"]
    assert {each.algorithm for each in found.values()} - {""} == {"carico", *contender.PAPER}
    assert len(contender.PAPER) == 4
    with pytest.raises(errors.SettingsError, match="got 'yarn', expected one of none, kube-scheduler"):
        contender.parse("yarn")


def test_the_descheduler_leaves_pods_alone_that_stay_for_all() -> None:
    (profile,) = descheduler.policy()["profiles"]
    evictor = next(each["args"] for each in profile["pluginConfig"] if each["name"] == "DefaultEvictor")
    terms = {each["key"]: each for each in evictor["labelSelector"]["matchExpressions"]}
    assert terms[manifests.APPLICATION_LABEL]["operator"] == "Exists"
    assert set(terms["app.kubernetes.io/name"]["values"]) == {
        each.name for each in catalog.SERVICES.values() if each.stays
    }


def span(ms: float | None, bytes_per_s: float) -> result.Span:
    summary = users.Summary(count=10, failed=0, mean_ms=ms, p50_ms=ms, p95_ms=ms, p99_ms=ms)
    return result.Span(
        times=dict.fromkeys(catalog.APPLICATIONS, summary), bytes_per_s=bytes_per_s, nodes={"a": "node-1"}
    )


def run(name: str, *, load: str = "low", after_ms: float | None = 70.0, failed: int = 0) -> result.Run:
    return result.Run(
        contender=name, load=load, before=span(100.0, 1000.0), after=span(after_ms, 200.0), moves=3, rests="",
        requests=50, failed=failed, failures=["a: no Pod is ready"] * bool(failed),
    )  # fmt: skip


class Ticks:
    """A clock that is a second later at each look."""

    def __init__(self) -> None:
        self.at_s = 0.0

    def monotonic_s(self) -> float:
        self.at_s += 1.0
        return self.at_s


class SlowUser:
    """Sends one request in the last span, and has its answer after it."""

    def __init__(self, load: users.Load, client: object, *, now_s: Any) -> None:
        self.requests: list[users.Request] = []
        self._now_s = now_s
        self._ending = asyncio.Event()

    async def run(self) -> None:
        await self._ending.wait()

    def end(self) -> None:
        self.requests.append(users.Request(application="vrp", at_s=self._now_s() - 1.5, took_s=3.0))
        self._ending.set()


def test_a_request_counts_in_the_span_in_which_it_began_however_long_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "Users", SlowUser)

    async def nothing(_: contender.PlacementContender) -> tuple[int, str]:
        return 0, ""

    async def scenario() -> result.Run:
        api: Any = None
        clock: Any = Ticks()
        known = pods.Pods(server := directory.DirectoryServer())
        await server.start()
        known.on_event(listed([pod(str(index), name) for index, name in enumerate(catalog.SERVICES)]))
        testbed = experiment.ApplicationTestbed(
            api=api, clock=clock, nodes=(), node_cores=1.0, node_memory_bytes=1.0, pods=known, server=server,
            move=nothing, delay_ms=0.0, rate_mbit=0.0,
        )  # fmt: skip
        spans = experiment.Spans(warm_s=0.0, before_s=0.0, settle_s=0.0, after_s=0.0)
        try:
            return await experiment._measure(testbed, contender.parse("none"), contender.LOADS["low"], spans)
        finally:
            server.close()

    found = asyncio.run(scenario())
    assert (found.before.times["vrp"].count, found.after.times["vrp"].count) == (0, 1)
    assert found.after.times["vrp"].mean_ms == 3000.0


SETTING = {
    "nodes": 6, "cores": 4, "scale": 0.125, "delay_ms": 0.5, "rate_mbit": 1000.0, "notes": ["busy <machine>"],
    "node_memory_bytes": 2.0**30, "repeats": 1, "spans_s": {"before_s": 60.0, "after_s": 60.0},
    "loads": {name: dataclasses.asdict(each) for name, each in contender.LOADS.items()},
}  # fmt: skip


def test_targets_are_of_ours_alone_and_a_failed_request_misses_one() -> None:
    found = result.report([run("none"), run("carico", failed=2)], [], SETTING)
    verdicts = {each["what"]: each["verdict"] for each in found["targets"]}
    assert verdicts == {
        "boutique": "met", "vrp": "met", "hub": "met", "traffic": "met", "failed requests": "missed",
    }  # fmt: skip
    assert found["runs"][0]["applications"]["hub"]["improvement"] == pytest.approx(0.3)
    high = result.report([run("carico", load="high", after_ms=None)], [], SETTING)
    assert {each["verdict"] for each in high["targets"]} == {"unknown", "met"}


def test_of_several_runs_medians_count_and_the_worst_is_compared_with_the_worst_without_moves() -> None:
    still = [run("none", after_ms=after) for after in (98.0, 103.0, 101.0)]
    moved = [run("carico", after_ms=after) for after in (60.0, 104.0, 70.0)]
    found = result.report([*still, *moved, run("none", load="high", after_ms=500.0)], [], SETTING)
    of_vrp = [each for each in found["targets"] if each["what"] == "vrp"]
    assert [(each["value"], each["bound"], each["verdict"]) for each in of_vrp] == [
        (pytest.approx(0.3), 0.05, "met"), (pytest.approx(-0.04), pytest.approx(-0.03), "missed"),
    ]  # fmt: skip
    assert {each["runs"] for each in found["targets"]} == {3} and {each["load"] for each in found["targets"]} == {"low"}
    said = compare_applications_page.text(found)
    assert "met     low load: median service time of vrp in 3 runs +30.0 % (target: at least +5.0 %)" in said
    worst = "missed  low load: worst service time of vrp in 3 runs -4.0 % (target: no worse than the worst of 3 runs "
    assert worst + "without moves, -3.0 %)" in said
    page = compare_applications_page.page({**found, "ended_at_ns": 10**18})
    assert "low load, carico 2" in page and "high load, none<" in page
    better = result.report([*still, run("carico", after_ms=99.0)], [], SETTING)
    assert [each["verdict"] for each in better["targets"] if each["without"] == 3] == ["met"] * 3


def test_requests_and_nodes_at_the_start_are_the_papers() -> None:
    assert published.TABLE_10_NODES.keys() == catalog.SERVICES.keys()
    for name, each in catalog.SERVICES.items():
        row, nodes = published.resources(name), published.TABLE_10_NODES[name]
        assert (each.cores, each.memory_gb, each.node) == (row.cores, row.memory_gb, nodes[0]), name
        assert not each.stays or len(set(nodes)) == 1
    # Kubernetes' own Pods of the paper's cluster request some per cent of each node as well.
    ours = result.node_requests()
    assert ours["CPU"][3] == pytest.approx(100.0 * 6.6 / 24.0) and ours["CPU"][3] < published.TABLE_11["CPU"][3]
    assert [each > descheduler.OVER_PERCENT for each in ours["CPU"]] == [False] * 3 + [True] + [False] * 2


def test_the_report_shows_every_run_next_to_the_published() -> None:
    found = {**result.report([run("carico"), run("descheduler", load="high")], [], SETTING), "ended_at_ns": 10**18}
    text = compare_applications_page.text(found)
    assert "emulated by the applications' clients" in text.replace("\n", " ")
    assert text.startswith("Under low load, 3 moves of our rescheduler changed the traffic between nodes")
    assert next(line.split() for line in text.splitlines() if line.startswith("low   carico")) == [
        "low", "carico", "boutique", "100.00", "70.00", "+30.0", "%", "70.00", "0",
    ]  # fmt: skip
    # (7.56 - 5.97) / 7.56 of table 10; the worst of table 12.
    assert "+21.0 %" in text and "-93.0 % to +1.2 %" in text and "+87.5 %" in text
    # Of table 9: a twelfth of four cores; of tables 8 and 11: users, and what is requested of node 4.
    lines = [line.split() for line in text.splitlines()]
    assert ["vrp", "plotter", "333m", "21Mi", "2", "0.5", "24"] in lines and ["vrp", "1", "6", "8", "30"] in lines
    assert ["CPU", "published", "2.5", "4.3", "2.6", "29.2", "7.9", "3.8"] in lines
    assert ["high", "descheduler:", "1", "run", "vrp", "+30.0", "%", "to", "+30.0", "%"] in lines
    page = compare_applications_page.page(found)
    assert "busy &lt;machine&gt;" in page and "node-1" in page and page.count("<table>") == 7 and "<svg" in page
    none_answered = compare_applications_page.page(result.report([run("carico", after_ms=None)], [], SETTING))
    assert "not known" in none_answered and "not ended" not in none_answered


def test_the_report_says_how_many_users_a_load_has() -> None:
    text = compare_applications_page.text(result.report([run("carico")], [], SETTING)).replace("\n", " ")
    assert "low load: 2 browsers of boutique, 1 planner of vrp, 6 devices of hub; high load: 6 browsers" in text
    assert "the next request 0.1 s after an answer, devices an event each 1 s" in text


def test_a_run_that_fails_is_named_with_its_reason_and_the_others_are_kept() -> None:
    wanted = compare_applications.Asked(
        contenders=[contender.parse(name) for name in ("none", "descheduler", "carico")], loads=("low", "high"),
        repeats=1, spans=experiment.QUICK, delay_ms=0.5,
    )  # fmt: skip

    async def one(chosen: contender.PlacementContender, load: str) -> result.Run:
        if chosen.name == "descheduler":
            raise errors.EnvironmentUnfit("the descheduler has <not> ended after 120 s")
        return run(chosen.name, load=load)

    runs, missing = asyncio.run(compare_applications.all_of(wanted, one))
    assert [(each.contender, each.load) for each in runs] == [
        ("none", "low"), ("carico", "low"), ("none", "high"), ("carico", "high"),
    ]  # fmt: skip
    found = result.report(runs, missing, SETTING)
    assert [(each["contender"], each["load"]) for each in found["missing"]] == [
        ("descheduler", "low"), ("descheduler", "high"),
    ]  # fmt: skip
    said = "No result of descheduler under high load: the descheduler has {} ended after 120 s."
    assert said.format("<not>") in compare_applications_page.text(found).replace("\n", " ")
    assert said.format("&lt;not&gt;") in compare_applications_page.page({**found, "ended_at_ns": 10**18})
    assert compare_applications_page.text(result.report([], missing, SETTING)).startswith("0 runs")
    assert "<html" in compare_applications_page.page(result.report([], missing, SETTING))


def test_ctrl_c_keeps_the_runs_that_have_ended() -> None:
    wanted = compare_applications.Asked(
        contenders=[contender.parse(name) for name in ("none", "carico", "none")], loads=("low",),
        repeats=1, spans=experiment.QUICK, delay_ms=0.5,
    )  # fmt: skip

    async def main(*, ended: int) -> tuple[list[str], list[tuple[str, str]]]:
        made = itertools.count()

        async def one(chosen: contender.PlacementContender, load: str) -> result.Run:
            if next(made) == ended:
                await asyncio.Event().wait()
            return run(chosen.name, load=load)

        task = asyncio.ensure_future(compare_applications.all_of(wanted, one))
        await asyncio.sleep(0)
        task.cancel()
        runs, missing = await task
        return [each.contender for each in runs], [(each.contender, each.why) for each in missing]

    assert asyncio.run(main(ended=1)) == (["none"], [("carico", "interrupted"), ("none", "interrupted")])
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main(ended=0))


@pytest.mark.parametrize(
    ("load", "quick", "expected"),
    [
        (None, False, ("low", "high")),
        (None, True, ("low",)),
        ("both", True, ("low", "high")),
        ("high", True, ("high",)),
    ],
)
def test_a_load_may_be_chosen(load: str | None, quick: bool, expected: tuple[str, ...]) -> None:
    given = {"quick": quick, "load": load, "chosen": (), "delay_ms": None, "repeats": None}
    assert compare_applications.asked(given).loads == expected


def test_each_contender_runs_so_often_in_turn() -> None:
    given = {"quick": True, "load": "both", "chosen": ("none", "carico"), "delay_ms": 0.5, "repeats": 2}

    async def one(chosen: contender.PlacementContender, load: str) -> result.Run:
        return run(chosen.name, load=load)

    runs, missing = asyncio.run(compare_applications.all_of(compare_applications.asked(given), one))
    assert [(each.load, each.contender) for each in runs] == [
        (load, name) for load in ("low", "high") for name in ("none", "carico") * 2
    ]
    assert missing == []
