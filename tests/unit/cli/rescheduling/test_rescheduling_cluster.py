"""`carico reschedule` on a running cluster: the plan in 80 columns or more, moves as they end, and mistakes."""

import asyncio
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from carico_cli.live import addresses, service_queries
from carico_cli.rescheduling import cluster, cluster_text
from carico_core.domain import errors
from carico_core.numerics.rescheduling.containers import carico as search
from carico_core.numerics.rescheduling.containers import gains
from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import api_client
from carico_rescheduler import answers
from carico_rescheduler.context import cluster as clusters
from carico_rescheduler.context import problem as contexts
from carico_rescheduler.plan import decision, planning
from tests.tools import carico_cli
from tests.unit.rescheduler import cluster_objects as world
from tests.unit.scheduler import objects as parts

AT = addresses.Address(name="here", bus=buses.BusSettings(), kube=api_client.KubeSettings(), is_local=True)
STANDING = {
    "mode": "surge", "automatic": True, "paused": "", "rests": "no move pays", "boot": "0000000000000001", "rounds": 1,
}  # fmt: skip


def planned(*, overloaded: bool = True) -> dict[str, Any]:
    """What a rescheduler answers: its own plan for a node of nine tasks that is saturated at six."""
    known = world.make({"node-a": 0.0, "node-b": 8.0})
    world.deploy(known, "web", ["node-a"] * (9 if overloaded else 3), tasks=1.0)
    world.put(known, parts.make_pod("alone", node_name="node-b", phase="Running"))
    return {"plan": answers.describe(made_of(known)), **STANDING}


def made_of(known: clusters.Cluster) -> decision.Plan:
    """The plan for a cluster, of at most two moves."""
    context = contexts.build(world.judge(known), world.CEILINGS)
    weights = gains.Weights(task_bytes=1e7)
    rule = decision.Rule(least_bytes=1e5, least_tasks=1.0, most_moves=2, weights=weights)
    asked = planning.PlanRequest(effort=search.Effort(proposals=2000), seed=1, rule=rule, budget=9, at_ns=0)
    return planning.make(context, asked)


def ended(pod: str, number: int, state: str = "moved") -> dict[str, Any]:
    return {
        "pod": pod, "uid": f"uid-{number}", "successor": "web-new", "from": "node-a", "to": "node-b",
        "mode": "surge", "state": state, "why": "10 MB/s less between nodes", "detail": "", "gain": 0.5,
        "began_at_ns": 1, "age_s": 9.0, "took_s": 3.25,
    }  # fmt: skip


class FakeBus:
    """A rescheduler that makes one move a second once it is asked to apply."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.moved: list[dict[str, Any]] = [ended("default/old", 0)]
        self.rounds = 4
        self.is_applying = False

    async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes:
        verb = subject.removeprefix("carico.v1.query.rescheduler.")
        self.asked.append((verb, orjson.loads(payload)))
        if verb == "control.apply":
            self.is_applying = True
            return orjson.dumps({"boot": STANDING["boot"], "rounds": self.rounds + 1})
        if self.is_applying and len(self.moved) < 3:
            self.moved.insert(0, ended("default/web", len(self.moved)))
        elif self.is_applying:
            self.rounds = 5
        return orjson.dumps({"current": None, "ended": self.moved, **STANDING, "rounds": self.rounds})


def test_the_plan_lists_moves_in_order_nodes_and_what_stays() -> None:
    found = cluster_text.plan(planned(), is_wide=False)
    lines = found.splitlines()
    assert lines[0].split() == ["#", "POD", "FROM", "TO", "GAIN", "COST", "PAYS", "BACK", "WHY"]
    assert lines[1].startswith("1  default/web-") and lines[1].split()[2:4] == ["node-a", "node-b"]
    assert "1.00 fewer tasks above the ceiling" in lines[1] and "1.00" in lines[1].split()
    # A start of two seconds, with a task of its own and that of the old Pod.
    assert lines[1].split()[5:8] == ["4.0", "4.0", "s"]
    assert "xxx" in next(line for line in lines if line.startswith("node-a"))
    assert "9 -> 7" in found and "1 -> 3" in found
    assert "no traffic between Pods" in found and "overload 3.00 -> 1.00 tasks" in found
    assert "not moved: default/web-" in found and "the budget of moves is used up" in found
    assert "stay: 1 Pod (no_controller), such as default/alone: no controller would create" in found
    assert "moves by itself, by surge" in found


def test_the_plan_shows_above_which_load_each_node_is_overloaded() -> None:
    found = planned()
    assert "a node is overloaded above 1.50 (x)" in cluster_text.plan(found, is_wide=False)
    node = next(each for each in found["plan"]["nodes"] if each["node"] == "node-a")
    node["saturation"] = 2.5
    text = cluster_text.plan(found, is_wide=False)
    assert "a node is overloaded above 1.50 to 2.50 (x)" in text
    assert "xxx" not in next(line for line in text.splitlines() if line.startswith("node-a"))


def test_a_plan_that_waits_says_for_what() -> None:
    found = cluster_text.plan(planned() | {"rests": "it has not lasted"}, is_wide=False)
    assert found.splitlines()[-1] == "at rest: it has not lasted"


def test_how_moves_are_asked_for_or_resumed_names_the_cluster() -> None:
    shop = dataclasses.replace(addresses.OF_SHELL, name="shop", is_local=True)
    plan = cluster_text.plan(planned() | {"automatic": False}, is_wide=False, at=shop)
    assert "`carico reschedule --apply --name shop`" in " ".join(plan.split())
    assert cluster_text.standing({"paused": "paused"}, shop) == [
        "moves are paused: `carico reschedule resume --name shop`"
    ]


def test_without_moves_the_plan_says_why() -> None:
    found = cluster_text.plan(planned(overloaded=False), is_wide=False)
    assert found.startswith("nothing to move: no move pays")
    assert "\nno node changes\n" in found and "overloaded above" not in found


def test_wide_lists_every_node_and_every_pod_that_stays() -> None:
    found = cluster_text.plan(planned(overloaded=False), is_wide=True)
    assert "node-a" in found and "node-b" in found and "stays: default/alone" in found


def test_all_pods_that_stay_are_counted_and_nodes_that_change_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "ROWS_MOST", 1)
    known = world.make({"node-0": 0.0, "node-a": 0.0, "node-b": 8.0})
    world.deploy(known, "web", ["node-a"] * 9, tasks=1.0)
    for name in ("one", "two", "three"):
        world.put(known, parts.make_pod(name, node_name="node-0", phase="Running"))
    answer: dict[str, Any] = {"plan": answers.describe(made_of(known)), **STANDING}
    assert len(answer["plan"]["skipped"]) == 1 and answer["plan"]["nodes"][0]["node"] == "node-a"
    assert "stay: 3 Pods (no_controller), such as default/" in cluster_text.plan(answer, is_wide=False)
    assert "stay: 2 Pods more, not listed" in cluster_text.plan(answer, is_wide=True)


def test_apply_says_the_moves_of_its_own_round_only(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> tuple[list[str], dict[str, Any], FakeBus]:
        monkeypatch.setattr(cluster, "LOOK_EVERY_S", 0.0)
        bus, said = FakeBus(), list[str]()
        found = await cluster.ReschedulerAsker(bus, AT).apply(
            {"most": 2}, lambda each: said.append(cluster_text.move(each))
        )
        return said, found, bus

    said, found, bus = asyncio.run(main())
    assert said == ["default/web: node-a -> node-b: moved after 3.2 s; 10 MB/s less between nodes; now web-new"] * 2
    # The new Pod of a move that was undone is gone.
    assert "web-new" not in cluster_text.move(ended("default/web", 1, "kept"))
    assert found["rounds"] == 5 and ("control.apply", {"most": 2}) in bus.asked


def test_a_plan_that_takes_long_is_waited_for() -> None:
    class Slow:
        asked = 0

        async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes:
            self.asked += 1
            assert orjson.loads(payload) == {"most": 2}
            return orjson.dumps({"plan": None, **STANDING} if self.asked < 30 else planned())

    found = asyncio.run(cluster.ReschedulerAsker(Slow(), AT).plan({"most": 2}))
    assert len(found["plan"]["moves"]) == 2


@pytest.mark.parametrize("rounds", [1, 99])
def test_applying_ends_when_another_rescheduler_leads(monkeypatch: pytest.MonkeyPatch, rounds: int) -> None:
    class Restarted(FakeBus):
        async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes:
            was_applying = self.is_applying
            answer = await super().request(subject, payload, timeout_s=timeout_s)
            # One that has led before has made any number of rounds.
            other = {"boot": "0000000000000002", "rounds": rounds} if was_applying else {}
            return orjson.dumps({**orjson.loads(answer), **other})

    monkeypatch.setattr(cluster, "LOOK_EVERY_S", 0.0)
    with pytest.raises(service_queries.Refused, match="another rescheduler leads"):
        asyncio.run(asyncio.wait_for(cluster.ReschedulerAsker(Restarted(), AT).apply({}, lambda each: None), 5.0))


def test_a_move_that_failed_and_is_tried_again_is_said_twice() -> None:
    said: list[str] = []
    asker = cluster.ReschedulerAsker(FakeBus(), AT)
    first = ended("default/web", 1, "kept")
    again = {**ended("default/web", 1), "began_at_ns": 2}
    known: set[tuple[str, int]] = set()
    for moves in ([first], [again, first], [again, first]):
        asker._say_new({"ended": moves}, known, lambda each: said.append(each["state"]))
    assert said == ["kept", "moved"]


def test_watching_says_each_move_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> tuple[list[str], list[dict[str, Any]]]:
        monkeypatch.setattr(cluster, "LOOK_EVERY_S", 0.0)
        said, stood = list[str](), list[dict[str, Any]]()
        asker = cluster.ReschedulerAsker(FakeBus(), AT)
        watching = asyncio.create_task(asker.watch(lambda each: said.append(each["pod"]), stood.append))
        while len(stood) < 1:
            await asyncio.sleep(0)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        return said, stood

    said, stood = asyncio.run(main())
    assert said == ["default/old"] and cluster_text.rests(stood[0]) == ["at rest: no move pays"]


@pytest.mark.parametrize(
    ("error", "expected", "part"),
    [
        (errors.BusUnavailable("x"), service_queries.NoAnswer, "carico up --control-plane real --rescheduler"),
        # `carico up` refuses a cluster that runs.
        (errors.BusUnavailable("x"), service_queries.NoAnswer, "`carico down --name here`, then `carico up "),
        (errors.BusError("carico.v1.query.rescheduler.plan.get: paused"), service_queries.Refused, "paused"),
    ],
)
def test_what_fails_is_one_line(error: errors.BusError, expected: type[Exception], part: str) -> None:
    class Failing:
        async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes:
            raise error

    with pytest.raises(expected, match=part) as raised:
        asyncio.run(cluster.ReschedulerAsker(Failing(), AT).ask("plan.get"))
    assert not str(raised.value).startswith("carico.v1")


@pytest.fixture
def carico(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    return functools.partial(carico_cli.run, monkeypatch, "reschedule")


def run_on(bus: FakeBus) -> Callable[[addresses.Address, Callable[[cluster.ReschedulerAsker], Any]], Any]:
    """What `cluster.run` does, on this bus."""
    return lambda at, asking: asyncio.run(asking(cluster.ReschedulerAsker(bus, at)))


@pytest.mark.parametrize("has_moves", [True, False])
def test_applying_ends_with_one_object_of_json(
    carico: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], has_moves: bool
) -> None:
    bus = FakeBus()
    bus.moved *= 1 if has_moves else 3
    monkeypatch.setattr(cluster, "LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(cluster, "run", run_on(bus))
    assert carico("--apply", "-o", "json", "--nats-url", "nats://127.0.0.1:4222") == 0
    found = orjson.loads(capsys.readouterr().out)
    assert [each["pod"] for each in found.pop("moves")] == ["default/web"] * (2 if has_moves else 0)
    assert found == {"paused": "", "rests": "no move pays"}


def test_watching_says_moves_and_how_things_stand_in_a_line_of_json_each(
    carico: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Ending(FakeBus):
        async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes:
            if self.asked:
                raise errors.BusUnavailable("gone")
            return await super().request(subject, payload, timeout_s=timeout_s)

    monkeypatch.setattr(cluster, "LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(cluster, "run", run_on(Ending()))
    assert carico("--watch", "-o", "json", "--nats-url", "nats://127.0.0.1:4222") != 0
    move, standing = map(orjson.loads, capsys.readouterr().out.splitlines())
    assert move == ended("default/old", 0)
    assert standing == {"current": None, "paused": "", "rests": "no move pays"}


@pytest.mark.parametrize(("what", "paused"), [("pause", "paused since 09:15"), ("resume", "")])
def test_a_pause_and_its_end_name_the_cluster(
    carico: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    what: str,
    paused: str,
) -> None:
    monkeypatch.setattr(cluster, "run", lambda *_: {"paused": paused})
    assert carico(what, "--nats-url", "nats://127.0.0.1:4222") == 0
    assert capsys.readouterr().out.startswith(f"cluster nats://127.0.0.1:4222: {what}d: ")


@pytest.mark.parametrize(
    ("argv", "part"),
    [
        ((), "got none, expected one of --dry-run"),
        (("--dry-run", "--apply"), "got --dry-run and --apply"),
        (("pause", "--watch"), "got pause and --watch"),
        (("--dry-run", "--seconds", "3"), "--seconds is for --problem"),
        (("stop",), "'stop' is not one of"),
        (("pause", "--max-moves", "3"), "--max-moves is for a plan"),
        (("--watch", "--algorithm", "ws-sa"), "--algorithm is for --dry-run and --apply"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(
    carico: Callable[..., int], capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], part: str
) -> None:
    assert carico(*argv) == 2
    assert part in capsys.readouterr().err
