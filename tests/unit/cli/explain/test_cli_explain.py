"""`carico explain` and `carico capacity`: what people read, in 80 columns, from what the scheduler really answers."""

import asyncio
import contextlib
import dataclasses
import pathlib
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

import orjson
import pytest
import yaml

from carico_cli.explain import (
    asking,
    capacity,
    command,
    fit_text,
    job_asking,
    node_text,
    pod_text,
    remedies,
)
from carico_cli.live import addresses, connection, service_queries
from carico_cli.output import words
from carico_cli.shell import manifest_files, settings
from carico_core.domain import cluster, constraints, decision, errors, gangs, names, pod_telemetry, selectors
from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import api_client, cluster_access
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_core.wire.kubernetes import api_objects
from carico_core.wire.kubernetes.pods import containers
from carico_scheduler.answers import questions
from carico_scheduler.rules import policy
from tests.tools import carico_cli
from tests.unit.scheduler import objects
from tests.unit.scheduler.answers import answering

NOW_S = answering.NOW_S
HERE = addresses.Address(
    name="shop", bus=buses.BusSettings(), kube=api_client.KubeSettings(kubeconfig="/s/shop"), is_local=True
)  # fmt: skip


class Api:
    """An API with these objects, by the last of their path."""

    def __init__(self, pods: Mapping[str, Any] | Exception) -> None:
        self.pods = pods

    async def request(self, method: str, path: str, *, params: Mapping[str, str] | None = None) -> Any:
        if isinstance(self.pods, Exception):
            raise self.pods
        name = path.rpartition("/")[2]
        if name not in self.pods:
            raise errors.NotFound(status=404, reason="NotFound", message="no such Pod", request=path)
        return self.pods[name]


ELSEWHERE = addresses.Address(name="here", bus=buses.BusSettings(), kube=api_client.KubeSettings())
# A Job, as far as its Events are found by it.
BATCH = {"metadata": {"uid": "u", "namespace": "default"}}


def asker(
    bus: answering.DeskBus, pods: Mapping[str, Any] | Exception | Api | None = None, at: addresses.Address = ELSEWHERE
) -> asking.Asker:
    """Asks on this bus; a clock that runs on by itself ends each wait at once."""

    @contextlib.asynccontextmanager
    async def api() -> AsyncIterator[Api]:
        yield pods if isinstance(pods, Api) else Api(pods or {})

    return asking.Asker(bus, at, api, Hasty())


class ReschedulingBus(answering.DeskBus):
    """A bus on which a rescheduler answers too, if it says anything."""

    said: dict[str, Any] | None = None

    async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes:
        if subject != subjects.query("rescheduler", "pod.explain"):
            return await super().request(subject, payload, timeout_s=timeout_s)
        if self.said is None:
            raise errors.BusUnavailable(f"{subject}: no responders")
        assert orjson.loads(payload) == {"namespace": "default", "pod": "placed"}
        return orjson.dumps(self.said)


class Hasty(clocks.FakeClock):
    """A clock on which every wait is over at once."""

    def monotonic_s(self) -> float:
        self.advance(asking.LEADER_MOST_S)
        return super().monotonic_s()


def desk_with_pods() -> answering.Desk:
    """Two nodes, of which one is tainted; one Pod placed, one that waits for another's taint."""
    taint = cluster.Taint(key="gpu", value="", effect="NoSchedule")
    desk = answering.Desk(objects.make_node("node-0"), objects.make_node("node-1", taints=(taint,)))
    costs = {"*": {"cpu": 1.0, "memory": 50e6}, "image/default/pi": {"cpu": 1.5, "memory": 10e6}}
    desk.hear_cost("node-0", {"cpu": 2.0, "memory": 8e9}, costs, capacity=2.0, pods=2, limit=9)
    desk.hear_cost("node-1", {"cpu": 8.0, "memory": 8e9}, costs, capacity=8.0)
    desk.state.put_pod(objects.make_pod("placed"), NOW_S)
    desk.decide()
    desk.state.put_pod(objects.make_pod("placed", node_name="node-0", phase="Running"), NOW_S)
    desk.state.put_pod(objects.make_pod("waits"), NOW_S - 4.0)
    return desk


async def told(desk: answering.Desk, name: str, **changes: Any) -> str:
    """What `carico explain` says of a Pod."""
    bus = answering.DeskBus(desk)
    answer = await command.explain_pod(asker(bus, **changes), "default", name, 20)
    return pod_text.text(answer, now_ns=desk.clock.wall_ns() + 10**9)


def assert_fits_a_terminal(text: str) -> None:
    too_long = [line for line in text.splitlines() if len(line) > words.WIDTH]
    assert not too_long, too_long


async def test_a_placed_pod_is_explained_with_what_the_decision_used() -> None:
    text = await told(desk_with_pods(), "placed")
    assert text.startswith("Pod default/placed is on node-0 (Running)\n")
    assert "attempt 1" in text and "it used advertisement 1 of node-0" in text
    assert "after waiting 0 s: bound" in " ".join(text.split())
    assert f"by scheduler-{objects.BOOT}, attempt 1" in " ".join(text.split())
    assert "lost" not in text
    assert "its node's advertisements do not cover it yet" in text
    assert "At the decision: refused: 1 by taint" in text
    assert "Now 0 of 2 nodes can take one more Pod like it" in text
    assert_fits_a_terminal(text)


@pytest.mark.parametrize("ahead_s", [-60, 0, 60])
async def test_ages_are_right_where_this_machines_clock_differs(ahead_s: int) -> None:
    desk = desk_with_pods()
    desk.clock.advance(5.0)
    answer = await command.explain_pod(asker(answering.DeskBus(desk)), "default", "placed", 20)
    text = pod_text.text(answer, now_ns=desk.clock.wall_ns() + ahead_s * 10**9)
    assert "decided 5.0 s ago" in text


async def test_lost_claims_are_shown_for_a_placed_pod_and_for_one_that_waits() -> None:
    desk = desk_with_pods()
    bus = answering.DeskBus(desk)
    answer = await command.explain_pod(asker(bus), "default", "placed", 20)
    # Of scheduler-2, two starts: each is named whole.
    starts = ["scheduler-17979cfe362a1b2f", "scheduler-2-17979cfe362a1b2e", "scheduler-2-17979cfe362a1b2f"]
    answer["decision"] |= {
        "lost": dict(zip(starts, (3, 1, 1), strict=True)),
        "scheduler": "scheduler-3-" + objects.BOOT,
    }
    text = pod_text.text(answer, now_ns=0)
    assert "by scheduler-3, attempt 1" in " ".join(text.split())
    said = f"it lost 5 claims before, to other schedulers: scheduler 3, {starts[1]} 1, {starts[2]} 1"
    assert said in " ".join(text.split())
    assert_fits_a_terminal(text)
    waiting = desk.state.queue.find("uid-waits")
    assert waiting is not None
    waiting.note_lost("scheduler-b")
    assert "it lost 1 claim before, to other schedulers: scheduler-b 1" in " ".join((await told(desk, "waits")).split())


MOVED = {"from": "node-1", "at_s": 100.0, "why": "2 MB/s less between nodes"}
NO_PLAN: dict[str, Any] = {"plan_at_ns": None, "planned": False, "stays": None, "move": None, "left_out": None}
PLANNED = {**NO_PLAN, "plan_at_ns": 1, "planned": True}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"moved": MOVED, **PLANNED}, "the rescheduler moved it here from node-1 3 min ago: 2 MB/s less between nodes"),
        ({"moved": {**MOVED, "from": ""}, **PLANNED}, "the rescheduler moved it here from another node 3 min ago"),
        ({**PLANNED, "stays": {"why": "young", "detail": "it is new"}}, "the rescheduler does not move it: it is new"),
        ({**PLANNED, "move": {"to": "b", "why": "room"}}, "the rescheduler plans to move it to b: room"),
        ({**PLANNED, "left_out": {"to": "b", "detail": "full"}}, "the rescheduler does not move it to b: full"),
        (PLANNED, "the rescheduler may move it, and knows no better node for it"),
        ({**PLANNED, "plan_at_ns": 248 * 10**9}, "knows no better node for it (its plan 32.0 s ago)"),
        (
            {**PLANNED, "planned": False, "plan_at_ns": 248 * 10**9},
            "it came to its node after the rescheduler's last plan (32.0 s ago): `carico reschedule --dry-run` makes",
        ),
        (NO_PLAN, "the rescheduler has made no plan yet: no advertisement of any node has arrived"),
    ],
)
async def test_what_the_rescheduler_says_of_a_pod_is_shown(answer: Mapping[str, Any], said: str) -> None:
    desk = desk_with_pods()
    bus = ReschedulingBus(desk)
    bus.said = {"known": True, "uid": "uid-placed", "moved": None, "rests": "no advertisement of any node has arrived"}
    bus.said |= answer
    explained = await command.explain_pod(asker(bus), "default", "placed", 20)
    text = pod_text.text({**explained, "ts": 280 * 10**9}, now_ns=0)
    assert said in " ".join(text.split())
    assert_fits_a_terminal(text)


@pytest.mark.parametrize(
    "answer", [{"known": False}, {"known": True, "uid": "of-a-namesake", "moved": MOVED, **PLANNED}, None]
)
async def test_a_pod_that_no_rescheduler_knows_is_explained_without_it(answer: dict[str, Any] | None) -> None:
    bus = ReschedulingBus(desk_with_pods())
    bus.said = answer
    explained = await command.explain_pod(asker(bus), "default", "placed", 20)
    assert explained["rescheduler"] is None
    assert "rescheduler" not in pod_text.text(explained, now_ns=280 * 10**9)


async def test_the_affinity_of_a_move_is_not_taken_for_the_pods_own() -> None:
    desk = desk_with_pods()
    # Without the taint, which refuses first.
    desk.state.put_node(objects.make_node("node-1"))
    named = selectors.Requirement(key="metadata.name", operator=selectors.IN, values=("node-0",))
    to_node = selectors.NodeTerm(fields=(named,))
    limits = constraints.Constraints(node_terms=(to_node,))
    desk.state.put_pod(objects.make_pod("placed", node_name="node-0", phase="Running", constraints=limits), NOW_S)
    bus = ReschedulingBus(desk)
    bus.said = {"known": True, "uid": "uid-placed", "moved": None, "rests": "", **PLANNED}
    own = "its affinity to node-0 is of the move alone: a new Pod of its controller does not have it"
    for moved, is_told in ((MOVED, True), (None, False)):
        bus.said["moved"] = moved
        explained = await command.explain_pod(asker(bus), "default", "placed", 20)
        text = " ".join(pod_text.text(explained, now_ns=280 * 10**9).split())
        assert "by node_affinity" in text and (own in text) is is_told
        # With the other sentences about the Pod, not below the table of nodes.
        assert text.index("the rescheduler may move it") < text.index("At the decision")


WENT = {
    "uid": "uid-placed", "successor": "placed-new", "from": "node-0", "to": "node-1", "age_s": 190.0, "took_s": 10.0,
    "why": "2 MB/s less between nodes",
}  # fmt: skip


@pytest.mark.parametrize(("uid", "is_told"), [("uid-placed", True), ("of-a-namesake", False)])
async def test_a_pod_that_was_moved_away_is_explained_with_its_successor(uid: str, is_told: bool) -> None:
    desk = desk_with_pods()
    bus = ReschedulingBus(desk)
    bus.said = {"known": False, "went": {**WENT, "uid": uid}}
    desk.state.remove_pod("uid-placed")
    explained = await command.explain_pod(asker(bus), "default", "placed", 20)
    text = " ".join(pod_text.text(explained, now_ns=0).split())
    assert text.startswith("Pod default/placed has ended on node-0")
    said = "the rescheduler moved it from node-0 to node-1 as placed-new 3 min ago: 2 MB/s less between nodes"
    assert (said in text) is is_told


class ReportingBus(answering.DeskBus):
    """A bus on which the agent of node-0 answers, too."""

    said: bytes = b""

    async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes:
        if subject != subjects.query("agent", "loads.get", "node-0"):
            return await super().request(subject, payload, timeout_s=timeout_s)
        return self.said


def loads_of(uid: str, *, waiting: float = 0.0, left_out: int = 0) -> bytes:
    load = pod_telemetry.PodLoad("app/default/pi", 0.502, waiting, 11_534_336.0)
    return wire.encode_loads(
        pod_telemetry.PodLoads(
            node="node-0", boot=objects.BOOT, seq=1, ts_ns=1, loads={uid: load}, left_out=left_out
        )
    )  # fmt: skip


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (loads_of("uid-placed"), "it uses 502m of CPU and 11.5 MB of memory node-0 had room"),
        (loads_of("uid-placed", waiting=0.25), "it uses 502m of CPU and 11.5 MB of memory, and waits for a CPU 25% of"),
        (loads_of("uid-other"), "there is no reading of what it uses: its node's agent has none, or does not answer"),
        # Of more Pods than a message holds, the agent reports those of the largest load.
        (loads_of("uid-other", left_out=20), "no more than fits into a message, without 20 Pods of the smallest load"),
        (loads_of("uid-placed", left_out=20), "it uses 502m of CPU and 11.5 MB of memory node-0 had room"),
        (loads_of("uid-placed").replace(b"0.502", b"-1"), "there is no reading of what it uses"),
        # A report of another node, and one of a later version.
        (loads_of("uid-placed").replace(b'"node-0"', b'"node-1"'), "there is no reading of what it uses"),
        (loads_of("uid-placed").replace(b'"v":1', b'"v":2'), "there is no reading of what it uses"),
        (b"not JSON", "there is no reading of what it uses"),
    ],
)
async def test_what_a_running_pod_uses_is_said_by_its_nodes_agent(said: bytes, expected: str) -> None:
    bus = ReportingBus(desk_with_pods())
    bus.said = said
    answer = await command.explain_pod(asker(bus), "default", "placed", 20)
    text = pod_text.text(answer, now_ns=0)
    assert expected in " ".join(text.split())
    assert_fits_a_terminal(text)
    uses = answer["uses"]
    assert uses is None or (uses["cores"], uses["memory_bytes"]) == (0.502, 11_534_336)
    waits = await command.explain_pod(asker(bus), "default", "waits", 20)
    assert "uses" not in waits


async def test_a_pod_on_a_node_that_is_not_ready_or_has_gone_is_explained_so() -> None:
    desk = desk_with_pods()
    desk.state.put_node(objects.make_node("node-0", ready=False))
    text = await told(desk, "placed")
    assert text.splitlines()[1].startswith("  its node is not ready and does not report: `kubectl describe node")
    assert_fits_a_terminal(text)
    desk.state.remove_node("node-0")
    assert (await told(desk, "placed")).splitlines()[1].startswith("  its node is gone from the API")


async def test_every_node_is_listed_for_a_waiting_pod_with_the_reason() -> None:
    text = await told(desk_with_pods(), "waits")
    assert text.startswith("Pod default/waits waits\n")
    assert "for 4.0 s; no Pod waits before it; 0 binds tried; next try when something changes" in " ".join(text.split())
    assert "    capacity: 0.33 free of threshold 1, 1 reserved" in text
    assert "    taint: " in text
    assert "What could help:\n  capacity: " in text and "\n  taint: add to the Pod's tolerations" in text
    for way in ("more nodes", "a higher ceiling", "eviction of Pods of lower priority"):
        assert way in " ".join(text.split())
    # Without what is reserved there, node-0 would have taken it.
    assert "\n  reserved: Pods that have not started yet reserve room on their node" in text
    assert_fits_a_terminal(text)


async def test_a_pod_that_asks_for_what_no_node_has_can_never_fit() -> None:
    desk = desk_with_pods()
    desk.state.put_pod(
        objects.make_pod("huge", request_cores=100.0, node_selector={"kubernetes.io/hostnam": "a"}), NOW_S
    )
    text = await told(desk, "huge")
    assert text.startswith("Pod default/huge waits, and can never fit as it is\n  no node has 100 cores (node-0 has")
    assert ", nor the label kubernetes.io/hostnam 0/2 nodes fit" in " ".join(text.split())
    # Each node names only the first rule that refuses it.
    assert "\nWhat could help:\n  first: change what the Pod asks for, or give a node what none has" in text
    assert "1 Pod waits before it" in await told(desk, "waits")
    assert_fits_a_terminal(text)
    answer = await desk.ask("pod.explain", pod="waits")
    assert answer["judgement"] == {"never": [], "hints": [], "why": ""}
    # Where only room is missing there is nothing to judge, and a scheduler of an earlier version does not judge.
    assert (await desk.ask("pod.explain", pod="placed"))["judgement"] is None
    answer = {name: value for name, value in (await desk.ask("pod.explain", pod="huge")).items() if name != "judgement"}
    assert pod_text.text({**answer, "note": None}, now_ns=0).startswith("Pod default/huge waits, and no node can")


async def test_a_pod_whose_requests_others_hold_starts_when_these_end() -> None:
    desk = answering.Desk(objects.make_node("node-0", allocatable_cores=4.0))
    desk.hear("node-0")
    desk.state.put_pod(objects.make_pod("small", request_cores=2.0, node_name="node-0"), NOW_S)
    desk.state.put_pod(objects.make_pod("large", request_cores=3.0), NOW_S)
    said = " ".join((await told(desk, "large")).split())
    assert "requests: Pods that are there hold what it requests: it starts when enough of them end" in said
    for way in ("one node more", "eviction of Pods of lower priority", "waited for two minutes gets its turn"):
        assert way in said
    assert "smaller requests" not in said and "first:" not in said


async def test_long_names_do_not_leave_the_terminal() -> None:
    name = "ip-10-0-0-1.a-region-of-the-world.compute.internal-and-more-of-a-name-than-anybody-needs"
    desk = answering.Desk(
        objects.make_node(name, taints=(cluster.Taint(key="k" * 200, value="", effect="NoSchedule"),))
    )
    desk.hear(name)
    desk.state.put_pod(objects.make_pod(), NOW_S)
    assert_fits_a_terminal(await told(desk, "pod-0"))
    answer = await asker(answering.DeskBus(desk)).ask("capacity.fit", {})
    assert_fits_a_terminal(fit_text.text(answer))


async def test_a_record_of_an_earlier_leader_is_read_from_the_stream() -> None:
    desk = desk_with_pods()
    bus = answering.DeskBus(desk)
    bus.keep("default", "placed")
    desk.log._latest.clear()
    answer = await command.explain_pod(asker(bus), "default", "placed", 20)
    assert (answer["state"], answer["why"]) == ("bound", "node-0 had room for 1.3 Pods (threshold 1)")
    assert answer["acted_on"]["node"] == "node-0"


async def test_a_pod_that_a_carico_of_another_name_placed_is_not_said_to_be_placed_by_another_scheduler() -> None:
    bus = answering.DeskBus(desk_with_pods())
    bus.keep("default", "placed")
    bus.desk = answering.Desk(rules=policy.Policy(names=frozenset({"batch"})))
    bus.desk.state.put_pod(objects.make_pod("placed", node_name="node-0", phase="Running"), NOW_S)
    answer = await command.explain_pod(asker(bus), "default", "placed", 20)
    assert (answer["state"], answer["why"]) == ("bound", "node-0 had room for 1.3 Pods (threshold 1)")
    text = pod_text.text(answer, now_ns=0)
    assert text.startswith("Pod default/placed is on node-0 (Running)\n")
    assert "not placed by CARICO" not in text and "batch" not in text


async def test_nodes_that_can_take_a_pod_are_not_said_to_take_its_gang() -> None:
    desk = answering.Desk()
    desk.hear()
    member = gangs.PodGang(gangs.Key("default", "train"), gangs.Asks(2))
    desk.state.put_pod(objects.make_pod("train-0", gang=member), NOW_S)
    text = await told(desk, "train-0")
    assert "gang default/train: 1 of the 2 Pods that it needs are there\n" in text and "nodes fit" not in text
    assert "\nNow 1 of 1 node can take one Pod like it, without its gang\n" in text


def status_of(phase: str, **state: Any) -> dict[str, Any]:
    """A Pod of the API with one container in that state."""
    status = {"phase": phase, "containerStatuses": [{"name": "main", "state": state}]}
    return {"metadata": {"uid": "u"}, "spec": {"nodeName": "node-0"}, "status": status}


def test_kinds_are_written_as_kubectl_takes_them() -> None:
    for what in (("node", "a"), ("nodes", "a"), ("no", "a"), ("node/a",), ("nodes/a",), ("no/a",), ("Node", "a")):
        assert command._meant(what) == (command.NODE, "a")
    for what in (("a",), ("pod", "a"), ("po", "a"), ("pod/a",), ("pods/a",), ("po/a",), ("Pod/a",)):
        assert command._meant(what) == (command.POD, "a")
    for what in (("job", "a"), ("job/a",), ("job.batch/a",), ("Job/a",)):
        assert command._meant(what) == (command.JOB, "a")
    assert command._meant(("space/a",)) == (command.POD, "space/a")
    assert command._meant(("pod/space/a",)) == (command.POD, "space/a")


async def test_a_pod_that_failed_is_reported_with_its_containers_end() -> None:
    failed = status_of("Failed", terminated={"exitCode": 3, "reason": "Error", "message": "no such\nfile"})
    text = await told(desk_with_pods(), "bad", pods={"bad": failed})
    assert text.startswith(
        "Pod default/bad has ended on node-0 (Failed)\n"
        "  container main ended with exit code 3: Error: no such file\n"
        "  `kubectl logs bad` shows its output\n"
    )
    evicted = {**failed, "status": {"phase": "Failed", "reason": "OutOfmemory", "message": "not enough"}}
    assert "\n  OutOfmemory: not enough\n" in await told(desk_with_pods(), "bad", pods={"bad": evicted})
    well = status_of("Succeeded", terminated={"exitCode": 0, "reason": "Completed"})
    assert "container" not in await told(desk_with_pods(), "well", pods={"well": well})


async def test_a_pod_that_its_node_does_not_start_is_reported_with_what_it_waits_for() -> None:
    desk = desk_with_pods()
    desk.state.put_pod(objects.make_pod("placed", node_name="node-0", phase="Pending"), NOW_S)
    found = status_of("Pending", waiting={"reason": "ContainerCreating"})
    found["metadata"]["uid"] = objects.make_pod("placed").uid
    text = await told(desk, "placed", pods={"placed": found})
    assert text.startswith("Pod default/placed is on node-0 (Pending)\n  container main waits: ContainerCreating\n")
    assert "`kubectl describe pod placed`" in text
    assert_fits_a_terminal(text)
    # Of another Pod of this name it says nothing.
    found["metadata"]["uid"] = "another"
    assert "container" not in await told(desk, "placed", pods={"placed": found})


async def test_a_pod_that_ends_again_and_again_is_told_with_its_exit_code() -> None:
    desk = desk_with_pods()
    desk.state.put_pod(objects.make_pod("placed", node_name="node-0", phase="Running"), NOW_S)
    found = status_of("Running", waiting={"reason": "CrashLoopBackOff", "message": "back-off 40s"})
    found["metadata"]["uid"] = objects.make_pod("placed").uid
    (container,) = found["status"]["containerStatuses"]
    container |= {"restartCount": 3, "lastState": {"terminated": {"exitCode": 7, "reason": "Error"}}}
    text = await told(desk, "placed", pods={"placed": found})
    assert text.startswith(
        "Pod default/placed is on node-0 (Running)\n"
        "  container main ended with exit code 7, and was started again 3 times;\n"
        "    CrashLoopBackOff: back-off 40s\n"
        "  `kubectl logs placed --previous` shows its output before it ended\n"
    )
    long = "StartError" + " word" * 1000
    for end, how in (
        ({"reason": "OOMKilled"}, "(OOMKilled)"), ({"reason": "Error", "message": "no\ndisk"}, "(no disk)"),
        ({"reason": "StartError", "message": "exec: not found"}, "(StartError: exec: not found)"),
        ({"message": "Error: no such file"}, "(Error: no such file)"),
        ({"message": long}, f"({long[:200]}...)"),
    ):  # fmt: skip
        container["lastState"] = {"terminated": {"exitCode": 9, **end}}
        text = await told(desk, "placed", pods={"placed": found})
        assert f"main ended with exit code 9 {how}, and was started again 3 times;" in " ".join(text.split())
        # Of a program that never ran there is no output.
        assert ("--previous" in text) is (end.get("reason") != "StartError")
    container["lastState"] = {"terminated": {"exitCode": 7, "reason": "Error"}}
    # It runs between two ends.
    container["state"] = {"running": {}}
    text = await told(desk, "placed", pods={"placed": found})
    assert "main was started again 3 times, because it ended with exit code 7: Error" in " ".join(text.split())
    container["lastState"] = {"terminated": {"exitCode": 0, "reason": "Completed"}}
    assert "container" not in await told(desk, "placed", pods={"placed": found})


async def test_no_output_is_promised_of_a_program_that_never_ran() -> None:
    failed = status_of("Failed", terminated={"exitCode": 128, "reason": "StartError", "message": "no such file"})
    text = await told(desk_with_pods(), "bad", pods={"bad": failed})
    assert "StartError: no such file" in text and "kubectl logs" not in text


async def test_an_unknown_pod_is_no_mistake_while_the_api_does_not_answer() -> None:
    silent = asker(answering.DeskBus(desk_with_pods()), errors.ApiUnavailable("refused"))
    with pytest.raises(errors.ApiUnavailable, match="Pod default/x not found; the Kubernetes API does not answer"):
        await command.explain_pod(silent, "default", "x", 20)


async def test_a_pod_without_a_decision_record_is_still_explained() -> None:
    desk = desk_with_pods()
    desk.log._latest.clear()
    text = await told(desk, "placed")
    assert "without a decision record here" in " ".join(text.split())
    ended = {"metadata": {"uid": "u"}, "spec": {"nodeName": "node-7"}, "status": {"phase": "Succeeded"}}
    text = await told(desk, "ended", pods={"ended": ended})
    assert text.startswith("Pod default/ended has ended on node-7 (Succeeded)")
    assert "there is no record of a decision about it" in text


async def test_with_no_scheduler_the_stream_and_the_api_answer() -> None:
    bus = answering.DeskBus(desk_with_pods())
    bus.keep("default", "placed")
    bus.is_answered = False
    running = {"metadata": {"uid": "uid-placed"}, "spec": {"nodeName": "node-0"}, "status": {"phase": "Running"}}
    answer = await command.explain_pod(asker(bus, {"placed": running}), "default", "placed", 20)
    text = pod_text.text(answer, now_ns=0)
    assert text.startswith("Pod default/placed is on node-0 (Running)")
    assert "no scheduler answers at here" in " ".join(text.split())
    assert_fits_a_terminal(text)
    with pytest.raises(service_queries.NoAnswer):
        await command.explain_pod(asker(bus), "default", "nothing", 20)
    with pytest.raises(service_queries.NoAnswer):
        await command.explain_node(asker(bus), "node-0")


async def test_with_no_scheduler_and_no_api_a_pod_is_not_said_to_have_ended() -> None:
    bus = answering.DeskBus(desk_with_pods())
    bus.keep("default", "placed")
    bus.is_answered = False
    away = errors.ApiUnavailable("GET /version: no answer in time")
    answer = await command.explain_pod(asker(bus, away), "default", "placed", 20)
    text = " ".join(pod_text.text(answer, now_ns=0).split())
    assert text.startswith("Pod default/placed is on node-0 (as last decided)")
    assert "current state unknown" in text and "no answer in time" in text


async def test_an_api_that_does_not_answer_the_scheduler_is_said_in_a_last_line() -> None:
    desk = desk_with_pods()
    asked = asker(answering.DeskBus(desk))
    assert "last answered" not in await told(desk, "waits")
    desk.silent_s = 95.0
    texts = [
        await told(desk, "waits"),
        node_text.text(await command.explain_node(asked, "node-0")),
        fit_text.text(await asked.ask("capacity.fit", {})),
    ]
    for text in texts:
        last = "the Kubernetes API last answered the scheduler 95.0 s ago: Pods and Nodes are"
        assert f" {last}" in f" {' '.join(text.split())}"
        assert text.splitlines()[-1].endswith("shown as they were then")
        assert_fits_a_terminal(text)


async def test_a_record_of_another_pod_of_the_name_is_not_shown() -> None:
    bus = answering.DeskBus(desk_with_pods())
    bus.keep("default", "placed")
    bus.is_answered = False
    later = {"metadata": {"uid": "another"}, "spec": {}, "status": {}}
    answer = await command.explain_pod(asker(bus, {"placed": later}), "default", "placed", 20)
    assert (answer["state"], answer["decision"]) == ("waiting", None)


async def test_an_unknown_pod_is_a_mistake_with_the_nearest_names() -> None:
    bus = answering.DeskBus(desk_with_pods())
    with pytest.raises(errors.SettingsError, match=r"Pod default/place not found \(nearest: placed\)"):
        await command.explain_pod(asker(bus), "default", "place", 20)
    with pytest.raises(errors.SettingsError, match="cannot be asked: no kubeconfig"):
        await command.explain_pod(asker(bus, errors.KubeconfigError("no kubeconfig")), "default", "place", 20)
    with pytest.raises(errors.SettingsError, match="namespace default: -n"):
        await command.explain_pod(asker(bus), "shop", "placed", 20)
    with pytest.raises(errors.SettingsError, match=r"node 'node-5' \(nearest: node-0, node-1\)"):
        await command.explain_node(asker(bus), "node-5")


async def test_a_name_that_is_near_that_of_a_pod_that_has_ended_is_found_at_the_api() -> None:
    class Ended(Api):
        async def request(self, method: str, path: str, *, params: Mapping[str, str] | None = None) -> Any:
            if path.endswith("/pods") and "labelSelector" not in (params or {}):
                labels = {"carico.dev/job": "pi-91513550"}
                pods = [{"name": name} for name in ("first-0", "other", "w-0-7l42t")]
                return {"items": [{"metadata": each} for each in (*pods, {"name": "pi-91513550-39", "labels": labels})]}
            return await super().request(method, path, params=params)

    ended = Ended({})
    for name, at, near in (
        ("fist-0", HERE, "nearest: first-0"), ("w-0", HERE, "nearest: w-0-7l42t"),
        ("pi-39", HERE, "nearest: pi-91513550-39"),
        ("none", ELSEWHERE, "jobs there: pi-91513550: `carico explain job pi-91513550`"),
        ("none", HERE, "jobs there: pi-91513550: `carico explain job pi-91513550 --name shop`"),
    ):  # fmt: skip
        with pytest.raises(errors.SettingsError, match=rf"Pod default/{name} not found \({near}\)$"):
            await command.explain_pod(asker(answering.DeskBus(desk_with_pods()), ended, at), "default", name, 20)


async def test_a_namespace_that_does_not_exist_is_said() -> None:
    bus = answering.DeskBus(desk_with_pods())
    with pytest.raises(errors.SettingsError, match=r"Pod nosuch/x not found \(there is no namespace 'nosuch'\)$"):
        await command.explain_pod(asker(bus, {"default": {}}), "nosuch", "x", 20)
    with pytest.raises(errors.SettingsError, match=r"Pod default/x not found$"):
        await command.explain_pod(asker(bus, {"default": {}}), "default", "x", 20)


class Jobs:
    """An API with two jobs, which checks what it is asked."""

    async def request(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, timeout_s: float = 10.0
    ) -> Any:
        assert (method, path, timeout_s) == ("GET", "/api/v1/namespaces/default/pods", asking.ANSWER_MOST_S)
        assert params is not None
        label, _, name = params.get("labelSelector", "").partition("=")
        labels = {"batch.kubernetes.io/job-name": "night"}
        own = [{"metadata": {"labels": labels}}] if not label or labels.get(label) == name else []
        return {"metadata": {"resourceVersion": "1"}, "items": own}

    def stream(self, *_: object, **__: object) -> AsyncGenerator[bytes, None]:
        raise AssertionError


async def test_only_the_pods_of_a_job_are_read_and_others_to_name_them() -> None:
    assert len((await job_asking.pods_of(Jobs(), "default", "night")).own) == 1
    assert await job_asking.pods_of(Jobs(), "default", "nigth") == ([], {"night"})
    assert await job_asking.pods_of(Jobs(), "default", "x" * 64) == ([], {"night"})


class WithHistory:
    """An API with a Job that has replaced a Pod, and with more Events than are kept; it may refuse both."""

    def __init__(self, *, refuses: bool, waited_s: int) -> None:
        self.refuses, self.waited_s = refuses, waited_s

    async def request(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, timeout_s: float = 10.0
    ) -> Any:
        if self.refuses and not path.endswith("/pods"):
            raise errors.ApiError(status=403, reason="Forbidden", message="may not", request=path)
        if path.endswith("/jobs/night"):
            return {"metadata": {"name": "night"}, "status": {"failed": 1}}
        if path.endswith("/events"):
            assert params is not None and params["fieldSelector"] == "reason=FailedScheduling"
            own = {"involvedObject": {"uid": "a"}, "message": "0/2 nodes fit: 2 tainted (n: x)"}
            return {"items": [own] * 201 + [{"involvedObject": {"uid": "b"}, "message": "0/2 nodes fit: 2 cordoned"}]}
        created = {
            "labels": {"batch.kubernetes.io/job-name": "night"}, "name": "a", "uid": "a",
            "ownerReferences": [{"kind": "Job", "name": "night"}], "creationTimestamp": "2026-01-01T00:00:00Z",
        }  # fmt: skip
        at = f"2026-01-01T00:00:{self.waited_s:02d}Z"
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at}
        pod = {"metadata": created, "status": {"conditions": [scheduled]}}
        return {"metadata": {"resourceVersion": "1"}, "items": [pod]}

    def stream(self, *_: object, **__: object) -> AsyncGenerator[bytes, None]:
        raise AssertionError


async def test_a_job_of_which_all_pods_are_gone_says_how_they_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    class Cleaned(Api):
        async def request(
            self, method: str, path: str, *, params: Mapping[str, str] | None = None, timeout_s: float = 10.0
        ) -> Any:
            return await super().request(method, path, params=params)

        def stream(self, *_: object, **__: object) -> AsyncGenerator[bytes, None]:
            raise AssertionError

    @contextlib.asynccontextmanager
    async def api_of(*_: object, **__: object) -> AsyncIterator[Cleaned]:
        night = {"metadata": BATCH["metadata"] | {"name": "night"}, "status": {"failed": 1, "succeeded": 2}}
        empty = {"metadata": {"resourceVersion": "1"}, "items": []}
        yield Cleaned({"pods": empty, "events": empty, "night": night})

    monkeypatch.setattr(connection, "api_of", api_of)
    context = settings.Context(home=pathlib.Path(), environ={}, plain=True)
    said = (
        "the Job has counted 1 Pod that failed, or was evicted or deleted, and 2 that succeeded, which no longer exist"
    )
    with pytest.raises(errors.SettingsError, match=f"belongs to it; {said}$"):
        await job_asking.explain(HERE, context, "default", "night")


@pytest.mark.parametrize(("refuses", "waited_s"), [(False, 4), (True, 4), (True, 2)])
async def test_a_job_is_explained_with_what_is_kept_of_pods_that_are_gone_and_of_waits(
    refuses: bool, waited_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.asynccontextmanager
    async def api_of(*_: object, **__: object) -> AsyncIterator[WithHistory]:
        yield WithHistory(refuses=refuses, waited_s=waited_s)

    monkeypatch.setattr(connection, "api_of", api_of)
    context = settings.Context(home=pathlib.Path(), environ={}, plain=True)
    found = await job_asking.explain(HERE, context, "default", "night")
    if refuses:
        assert (found["gone"], found["waited"]) == ({"failed": 0, "succeeded": 0}, {})
        # Events are read only where there may be any.
        assert (found["waited_unread"] or "").startswith("none can be read: ") == (waited_s == 4)
    else:
        assert (found["gone"], found["waited"]) == ({"failed": 1, "succeeded": 0}, {"tainted": 1})
        assert found["waited_unread"] == "of 201, the newest 200 were taken"


@pytest.mark.parametrize(
    ("found", "hint"),
    [
        ({"pods": {"items": [{}]}}, "a job of that name: `carico explain job batch -n default --name shop`"),
        (
            {"pods": {"items": []}, "batch": BATCH, "events": {"items": []}},
            "a node of that name: `carico explain node batch --name shop`",
        ),
    ],
)
async def test_the_name_of_a_job_or_a_node_is_no_unknown_pod(found: Mapping[str, Any], hint: str) -> None:
    class Named(Api):
        async def request(self, method: str, path: str, *, params: Mapping[str, str] | None = None) -> Any:
            if "/pods/" in path:
                raise errors.NotFound(status=404, reason="NotFound", message="no such Pod", request=path)
            return await super().request(method, path, params=params)

    with pytest.raises(errors.SettingsError, match=rf"\(there is {hint}\)"):
        await command.explain_pod(
            asker(answering.DeskBus(desk_with_pods()), Named(found), HERE), "default", "batch", 20
        )


async def test_a_job_whose_pods_the_api_refuses_is_reported_with_the_reason() -> None:
    class Refusing(Api):
        async def request(self, method: str, path: str, *, params: Mapping[str, str] | None = None) -> Any:
            if "/pods/" in path:
                raise errors.NotFound(status=404, reason="NotFound", message="no such Pod", request=path)
            return await super().request(method, path, params=params)

    event = {"metadata": {}, "lastTimestamp": "2026-01-01T00:00:00Z", "message": "Error creating: no room"}
    api = Refusing({"batch": BATCH, "events": {"items": [event]}})
    with pytest.raises(errors.SettingsError, match=r"the API refused the Pods of the Job of that name: no room$"):
        await command.explain_pod(asker(answering.DeskBus(desk_with_pods()), api), "default", "batch", 20)


async def test_a_node_is_explained_by_dimension_limit_and_class() -> None:
    bus = answering.DeskBus(desk_with_pods())
    text = node_text.text(await command.explain_node(asker(bus), "node-0"))
    assert "advertised 0 s ago (fresh): capacity 2.0" in text and "reserved: 1 Pod: default/placed (0 s)" in text
    assert text.startswith("node-0 takes 1.0 more typical Pods; limited by: cpu")
    assert "reserved: 1 Pod: default/placed" in text
    for word in ("DIMENSION", "temporary limit: 6 more", "image/default/pi", "placed there: 1 of image/default/pi"):
        assert word in text, text
    for amount in ("2.00 tasks", "8.0 GB", "50.0 MB", "cpu 1.50 tasks, memory 10.0 MB"):
        assert amount in text, text
    assert_fits_a_terminal(text)
    assert "takes no Pod: tainted" in node_text.text(await command.explain_node(asker(bus), "node-1"))


async def test_what_fits_is_reported_with_what_stops_it() -> None:
    desk = desk_with_pods()
    desk.hear_cost("node-0", {"cpu": 9.5, "memory": 8e9}, {"*": {"cpu": 1.0}}, capacity=9.5, pods=2, seq=2)
    ask = asker(answering.DeskBus(desk))
    text = fit_text.text(await ask.ask("capacity.fit", {}))
    assert text.startswith("A typical Pod: 8 more fit, on 1 of 2 nodes\n")
    assert "cpu: capacity 9.5 advertised, 1 reserved" in text
    assert "limited by: cpu on 1, taint on 1" in text and "(any class)" in text
    assert_fits_a_terminal(text)
    unknown = fit_text.text(await ask.ask("capacity.fit", {"pod": {"containers": [{"image": "new"}]}}))
    assert "no node has measured its class yet" in unknown
    with pytest.raises(service_queries.Refused, match="got default/nobody"):
        await ask.ask("capacity.fit", {"like": "default/nobody"})


async def test_like_a_pod_that_has_ended_is_asked_by_what_the_api_has_of_it() -> None:
    ended = objects.pod_object("ended", containers=[{"name": "main", "image": "pi"}], nodeName="node-7")
    ask = asker(answering.DeskBus(desk_with_pods()), {"ended": ended})
    answer = await capacity._fit(ask, {"like": "default/ended", "limit": 10})
    assert (answer["class"], answer["is_measured"]) == ("image/default/pi", True)
    with pytest.raises(service_queries.Refused, match="got default/nobody"):
        await capacity._fit(ask, {"like": "default/nobody"})


async def test_a_silent_node_is_explained_as_such() -> None:
    bus = answering.DeskBus(answering.Desk(objects.make_node("node-0")))
    text = node_text.text(await command.explain_node(asker(bus), "node-0"))
    assert "its agent has advertised nothing" in text
    assert_fits_a_terminal(text)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("Deployment", "ReplicaSet/shop/web"), ("Job", "Job/shop/web"), ("StatefulSet", "StatefulSet/shop/web")],
)
def test_a_manifest_is_the_pod_that_it_makes(kind: str, expected: str) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    made = capacity.pod_of(
        {"kind": kind, "metadata": {"name": "web", "namespace": "shop"}, "spec": {"template": template}}
    )
    assert made is not None
    made["metadata"] |= {"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    pod = api_objects.parse_pod(made)
    assert (names.class_of(pod), pod.labels, pod.image) == (expected, {"a": "b"}, "x")


def test_a_key_that_is_a_number_in_yaml_is_text(tmp_path: pathlib.Path) -> None:
    (tmp_path / "m.yaml").write_text("kind: Pod\nmetadata: {labels: {1: a, at: 2026-01-01}}\n")
    assert manifest_files.read(tmp_path / "m.yaml", "--file") == [
        {"kind": "Pod", "metadata": {"labels": {"1": "a", "at": "2026-01-01"}}}
    ]


def test_what_makes_no_pods_is_none() -> None:
    assert capacity.pod_of({"kind": "Service", "spec": {}}) is None
    assert capacity.pod_of({"kind": "Deployment", "spec": {}}) is None


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["explain"], "got nothing, expected POD, or: node NODE, or: job JOB"),
        (["status", "demo"], "unexpected extra argument (demo): a cluster is named by --name"),
        (["submit"], "Missing argument 'WORKLOAD'."),
        (["explain", "a", "b"], "expected POD, or: node NODE, or: job JOB"),
        (["explain", "node"], "expected POD, or: node NODE, or: job JOB"),
        (["explain", "PI_39"], "not a valid Kubernetes name: did you mean pi-39?"),
        (["explain", "a", "-n", "b.c"], "not a valid Kubernetes name"),
        (["explain", "a", "--name", "x", "--nats-url", "nats://127.0.0.1:1"], "got both"),
        (["explain", "deploy/web"], "got 'deploy/web', expected a Pod, a node or a job: `kubectl get pods`"),
        (["explain", "deploy", "web"], "got 'deploy web', expected a Pod, a node or a job"),
        (
            ["explain", "default/huge", "-n", "kube-system"],
            "-n: got 'kube-system', but default/huge names another namespace",
        ),
        (["explain", "a", "--name", "gone"], "no cluster named 'gone'"),
        (["capacity", "--like", "a", "--class", "b"], "--like and --class"),
        (["capacity", "--file", "nowhere.yaml"], "--file nowhere.yaml: cannot be read (No such file"),
        (["capacity", "--lik", "a"], "--like"),
        (["capacity", "--like", ""], "carico: name: got '', which is not a valid Kubernetes name"),
        (["explain", "job", "Night"], "name: got 'Night', which is not a valid Kubernetes name: did you mean night?"),
        (["capacity", "--like", "a/../b"], "which is not a valid Kubernetes name"),
        (["capacity", "--class", ""], "--class: got an empty name"),
        (["explain", ""], "got an empty name"),
        (["explain", "node", ""], "got an empty name"),
    ],
)
def test_mistakes_are_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str],
    argv: list[str], expected: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    code, err = carico_cli.run(monkeypatch, *argv), capsys.readouterr().err
    assert code == 2 and expected in err, err
    assert len(err.strip().splitlines()) == 1 and "Traceback" not in err


def test_every_reason_has_what_could_help() -> None:
    assert set(remedies.BY_REASON) == set(decision.Reason)
    told = remedies.for_refused({"taint": 1, "capacity": 5, "of a later version": 9})
    assert [reason for reason, _ in told] == ["capacity", "taint"]
    told = remedies.for_refused({"requests": 1}, never=True)
    assert [text.partition(",")[0] for _, text in told] == ["change what the Pod asks for", "smaller requests"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"a: [", "not valid YAML: line 1, column 5: "),
        (b"kind: Service", "got Service, expected a Pod"),
        (b"kind: Deployment", "got a Deployment without the template of its Pods"),
        (b"#" * (3 * 2**20 + 1), "got more than 3 MiB, expected a manifest"),
        (b"kind: Pdo", "ReplicationController; did you mean Pod?"),
        (b"\x92\xff", "not UTF-8"),
        (b"kind: Pod\nmetadata: {labels: {a: 2026-13-45}}", "not valid YAML: month must be in 1..12"),
        (b"a: " + b"[" * 3000, "not valid YAML: maximum recursion depth exceeded"),
        (b"---\n---\nkind: Pod\nspec: {a: !!binary aGk=}", "object 2: cannot be written as JSON: Type is not JSON"),
        (b"kind: Pod\nmetadata: {labels: !!set {a, b}}", "object 1: cannot be written as JSON: Type is not JSON"),
        (b"kind: Pod\nmetadata: &a {labels: *a}", "object 1: cannot be written as JSON: Recursion limit"),
        (b"kind: Deployment\nmetadata: web", "metadata: got 'web', expected an object"),
        (b"kind: CronJob\nspec: {jobTemplate: [1]}", "jobTemplate: got [1], expected an object"),
        (b"kind: [Pod]", "got ['Pod'], expected a Pod"),
    ],
)
def test_manifests_that_cannot_be_used_are_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str],
    text: bytes, expected: str,
) -> None:  # fmt: skip
    (tmp_path / "m.yaml").write_bytes(text)
    assert carico_cli.run(monkeypatch, "capacity", "--file", str(tmp_path / "m.yaml")) == 2
    assert expected in capsys.readouterr().err


def test_as_many_rows_are_asked_for_as_the_scheduler_gives() -> None:
    assert asking.LIMIT_MOST == questions.LIMIT_MOST


def test_a_pod_that_no_node_can_take_does_not_read_like_one_in_the_queue() -> None:
    rows = {"state": "waiting", "namespace": "default", "pod": "huge", "why": "", "feasible": 0, "nodes": 2,
            "candidates": []}  # fmt: skip
    lasting = pod_text.text({**rows, "refused": {"node_selector": 2}}, now_ns=0)
    assert lasting.startswith("Pod default/huge waits, and no node can take it as it is\n")
    assert pod_text.text({**rows, "refused": {"capacity": 2}}, now_ns=0).startswith("Pod default/huge waits\n")


def test_advice_names_the_flag_of_a_cluster_of_this_machine() -> None:
    said = dict(remedies.for_refused({"capacity": 1}, HERE))["capacity"]
    assert "`carico up --ceiling`" in said and "CARICO_AGENT" not in said
    silent = {"no_advertisement": 1, "stale": 1, "suspect": 1}
    found = dict(remedies.for_refused(silent, HERE))
    assert "`carico doctor --name shop`" in found["stale"]
    assert "`carico explain node NODE --name shop`" in found["suspect"] and "{" not in remedies.reserved(HERE)
    assert "CARICO_AGENT_CEILING_CPU" in dict(remedies.for_refused({"capacity": 1}))["capacity"]


async def test_advice_on_a_taint_is_ready_to_paste() -> None:
    taints = [
        cluster.Taint(key="carico.dev/gpu-only", value="true", effect="NoExecute"),
        cluster.Taint(key="gpu", value="", effect="NoSchedule"),
        cluster.Taint(key="node.kubernetes.io/disk-pressure", value="", effect="NoSchedule"),
    ]
    of_nodes = [taints[0], *taints, taints[0]]
    desk = answering.Desk(*(objects.make_node(f"n{at}", taints=(each,)) for at, each in enumerate(of_nodes)))
    desk.state.put_pod(objects.make_pod("waits"), NOW_S)
    text = await told(desk, "waits")
    assert_fits_a_terminal(text)
    advice = " ".join(text.partition("What could help:")[2].split())
    assert advice.startswith('taint: add to the Pod\'s tolerations `- {key: "carico.dev/gpu-only"')
    pasted = [yaml.safe_load(each) for each in re.findall(r"`(- [^`]+)`", advice)]
    assert pasted == [
        [{"key": "carico.dev/gpu-only", "operator": "Equal", "value": "true", "effect": "NoExecute"}],
        [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
    ]
    assert re.search(r"or `kubectl taint node n[014] carico.dev/gpu-only:NoExecute-`", advice)
    # On one line.
    assert "`kubectl taint node n2 gpu:NoSchedule-`" in text
    # Its cause remains if it is tolerated or removed.
    assert "set node.kubernetes.io/disk-pressure: `kubectl describe node n3` shows why" in advice
    assert advice.count("taint: ") == 3
    for each, pod in zip(of_nodes[1:3], ("b", "c"), strict=True):
        tolerated = [cluster.Toleration(**{"value": "", **one}) for shown in pasted for one in shown]
        assert cluster.refusing_taint(objects.make_node(pod, taints=(each,)), tolerated) is None


@pytest.mark.parametrize(
    ("at", "kubectl"),
    [
        (HERE, "carico use shop kubectl"),
        (dataclasses.replace(HERE, is_local=False, kube=api_client.KubeSettings()), "kubectl"),
        (
            dataclasses.replace(
                HERE, is_local=False, kube=api_client.KubeSettings(kubeconfig="my file", context="prod")
            ),
            "kubectl --kubeconfig 'my file' --context prod",
        ),
    ],
)
def test_advice_that_changes_something_names_its_cluster(at: addresses.Address, kubectl: str) -> None:
    refused = {"taint": 1, "unschedulable": 1, "node_selector": 1}
    told = " ".join(text for _, text in remedies.for_refused(refused, at))
    for change in ("taint node NODE KEY-", "uncordon NODE", "label node NODE KEY=VALUE"):
        assert f"`{kubectl} {change}`" in told
    answer = {
        "state": "bound", "namespace": "default", "pod": "a", "node": "n1", "phase": "Pending", "why": "",
        "node_ready": None, "decision": None, "acted_on": None,
        "containers": containers.troubles(
            {"containerStatuses": [{"name": "a", "state": {"waiting": {"reason": "x"}}}]}
        ),
    }  # fmt: skip
    said = " ".join(pod_text.text(answer, now_ns=0, at=at).split())
    assert f"`{kubectl} describe node n1`" in said and f"`{kubectl} describe pod a`" in said


def test_nodes_are_listed_in_the_order_people_count_in() -> None:
    row = {"fits": 1, "free": 1.0, "freshness": "fresh", "stopped_by": "capacity", "detail": "full"}
    answer = {"total": 3, "at_least": False, "of": "Pods", "is_measured": True, "stopped_by": {}, "nodes": 3,
              "left_off": 0, "per_node": [{**row, "node": f"node-{n}"} for n in (1, 10, 2)]}  # fmt: skip
    lines = [line for line in fit_text.text(answer).splitlines() if line.startswith("node-")]
    assert [line.split()[0] for line in lines] == ["node-1", "node-2", "node-10"]


def test_the_namespace_is_that_of_the_kubeconfigs_context(tmp_path: pathlib.Path) -> None:
    config = tmp_path / "config"
    config.write_text("current-context: x\ncontexts: [{name: x, context: {namespace: shop}}, {name: y, context: {}}]\n")
    environ = {"KUBECONFIG": str(config)}
    assert cluster_access.context_namespace("", context="", environ=environ) == "shop"
    assert cluster_access.context_namespace(str(config), context="y", environ={}) is None
    assert cluster_access.context_namespace("/nowhere", context="", environ={}) is None
    assert asking.namespace(ELSEWHERE, environ, None) == "shop"
    assert asking.namespace(ELSEWHERE, environ, "given") == "given"
    assert asking.namespace(ELSEWHERE, {"KUBECONFIG": "/nowhere"}, None) == "default"


def test_a_pod_to_be_like_is_of_the_contexts_namespace(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config"
    config.write_text("current-context: x\ncontexts: [{name: x, context: {namespace: shop}}]\n")
    asked: list[str] = []

    def run(ask: Any, at: Any, environ: Any) -> Any:
        class Asker:
            async def ask(self, verb: str, question: dict[str, Any]) -> Any:
                asked.append(question["like"])
                raise errors.SettingsError("seen")

        return asyncio.run(ask(Asker()))

    monkeypatch.setattr(asking, "run", run)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for like in ("web", "team/web"):
        flags = ("--nats-url", "nats://127.0.0.1:1", "--kubeconfig", str(config))
        assert carico_cli.run(monkeypatch, "capacity", "--like", like, *flags) == 2
    assert asked == ["shop/web", "team/web"]
