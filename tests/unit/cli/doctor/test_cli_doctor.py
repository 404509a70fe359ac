"""`carico doctor`: each thing that can be wrong with a cluster gives its line, and what to do."""

import asyncio
import dataclasses
import os
import pathlib
import shutil
import signal
import subprocess
import time
import types
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import orjson
import pytest
import yaml

from carico_cli.doctor import bus as bus_checks
from carico_cli.doctor import command, findings, kubernetes, places, rights
from carico_cli.live import addresses, members
from carico_cli.live import picture as pictures
from carico_core.domain import errors
from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import api_client
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_core.wire.kubernetes import instants
from carico_local.cluster import folders, machine, plan, processes, state
from tests.tools import carico_cli
from tests.tools.memory import memory_bus
from tests.unit.scheduler import objects

AT = addresses.Address(name="x", bus=buses.BusSettings(url="nats://x:4222"), kube=api_client.KubeSettings())
PLACE = places.Place.of(AT, "carico")
MACHINE = machine.Machine(cpus=2.0, memory_available_bytes=2**35, processor="test", kernel="6.18")
ROOT = pathlib.Path(__file__).parents[4]
NOW_S = 1_000_000_000.0
Level = findings.Level
FORBIDDEN = errors.Forbidden(status=403, reason="Forbidden", message="no", request="GET /api/v1/nodes")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that arrives by itself is waited for."""
    monkeypatch.setattr(members, "LISTEN_S", 0.0)
    monkeypatch.setattr(pictures, "ADVERTISED_WITHIN_S", 0.0)


class Api:
    """An API that answers from a table; what is not in it is not found. `denied`: rights that reviews refuse."""

    def __init__(self, answers: Mapping[str, Any], denied: tuple[str, ...] = ()) -> None:
        self.answers = {"/version": {"gitVersion": "v1.36.4"}, "/api/v1/pods": {"items": []}, **answers}
        self.denied = denied
        self.pages = 0

    async def request(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, body: Any = None,
        timeout_s: float = 10.0,
    ) -> Any:  # fmt: skip
        if body is not None and rights.REVIEWS in self.answers:
            asked = body["spec"]["resourceAttributes"]
            return {"status": {"allowed": f"{asked['verb']} {asked['resource']}" not in self.denied}}
        if path not in self.answers:
            raise errors.NotFound(status=404, reason="NotFound", message="no such page", request=path)
        if isinstance(self.answers[path], Exception):
            raise self.answers[path]
        asked = params or {}
        if path != "/api/v1/pods":
            return self.answers[path]
        # A list, a page at a time.
        start, items = int(asked.get("continue", 0)), self.answers[path]["items"]
        end = start + int(asked.get("limit", len(items)))
        self.pages += 1
        following = {"continue": str(end)} if end < len(items) else {}
        return {"metadata": {"resourceVersion": "1", **following}, "items": items[start:end]}

    def stream(
        self, method: str, path: str, params: Mapping[str, str] | None = None, *, idle_timeout_s: float | None = None
    ) -> AsyncGenerator[bytes, None]:  # fmt: skip
        raise AssertionError("pages do")


class Bus:
    """A bus with these advertisements kept, on which these subjects are answered."""

    def __init__(self, stored: list[tuple[str, bytes]] | None, answers: Mapping[str, Any]) -> None:
        self.stored = stored
        self.answers = answers
        self.closed = False
        self.heartbeats: list[tuple[str, bytes]] = []
        self.advertisements: list[tuple[str, bytes]] = []

    async def latest_capacities(self) -> list[tuple[str, bytes]]:
        if self.stored is None:
            raise errors.BusUnavailable("no stream")
        return self.stored

    async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes:
        if subject not in self.answers:
            raise errors.BusUnavailable(f"{subject}: no responders")
        if isinstance(self.answers[subject], Exception):
            raise self.answers[subject]
        return orjson.dumps(self.answers[subject])

    async def service_stats(self, name: str, *, within_s: float) -> list[tuple[float, bytes]]:
        return [(0.01, orjson.dumps(each)) for each in self.answers.get(name, ())]

    async def subscribe(self, subject: str, handler: buses.Handler) -> buses.Subscription:
        bus = memory_bus.MemoryBus(memory_bus.Hub())
        for name, payload in self.advertisements if subject == subjects.CAPACITY_ALL else self.heartbeats:
            handler(name, payload)
        return await bus.subscribe(subject, handler)

    async def close(self) -> None:
        self.closed = True


def node(
    name: str = "n1", *, kernel: str = "6.1.0-13-amd64", system: str = "linux", ready: str = "True"
) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "status": {
            "nodeInfo": {"kernelVersion": kernel, "operatingSystem": system},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


def advertised(name: str, age_s: float = 1.0) -> tuple[str, bytes]:
    made = objects.make_advertisement(name, ts_ns=int((NOW_S - age_s) * 1e9))
    return subjects.capacity(name), wire.encode_advertisement(made)


async def look(api: Api) -> dict[str, list[findings.Finding]]:
    seen = await kubernetes.check(api, PLACE, now_s=NOW_S)
    found: dict[str, list[findings.Finding]] = {}
    for one in seen.findings:
        found.setdefault(one.what, []).append(one)
    return found


async def listen(
    bus: Bus, *names: str, at: addresses.Address = AT, ahead_s: float = 0.0
) -> list[findings.Finding]:  # fmt: skip
    async def connect() -> Bus:
        return bus

    nodes = [objects.make_node(name) for name in names]
    place = places.Place.of(at, "carico")
    found = await bus_checks.check(
        connect, nodes, lease_s=10.0, now_s=NOW_S + ahead_s, at=at, place=place, ahead_s=ahead_s
    )
    assert bus.closed
    return found


@pytest.mark.parametrize(
    ("version", "level", "said"),
    [
        ("v1.36.4", Level.OK, "v1.36.4"),
        ("v1.29.9+k3s1", Level.WARN, "do not name their node before 1.30"),
        ("v1.28.15", Level.FAIL, "too old"),
        ("unknown", Level.WARN, "cannot be read"),
    ],
)
async def test_the_version_of_kubernetes(version: str, level: findings.Level, said: str) -> None:
    found = await look(Api({"/version": {"gitVersion": version}, "/api/v1/nodes": {"items": [node()]}}))
    assert found["Kubernetes"][0].level is level
    assert said in found["Kubernetes"][0].detail


async def test_a_right_that_is_missing_is_named() -> None:
    account = "/api/v1/namespaces/carico/serviceaccounts/carico-scheduler"
    table = {"/api/v1/nodes": {"items": [node()]}, rights.REVIEWS: None, account: {}}
    found = await look(Api(table, denied=("create clusterroles", "watch nodes")))
    assert found["rights to install"][0].level is Level.WARN
    assert "create clusterroles.rbac.authorization.k8s.io" in found["rights to install"][0].detail
    assert found["rights of carico-scheduler"][0].level is Level.FAIL
    assert "watch nodes" in found["rights of carico-scheduler"][0].detail
    assert "rights of carico-agent" not in found


async def test_who_may_not_list_nodes_hears_of_all_else() -> None:
    found = await look(Api({rights.REVIEWS: None, "/api/v1/nodes": FORBIDDEN}))
    assert found["nodes"][0].level is Level.FAIL and "list nodes" in found["nodes"][0].do
    assert {"Kubernetes", "rights to install", "waiting Pods"} <= set(found)
    said = {one.what: one for one in await listen(Bus([advertised("n1")], {}))}
    assert said["agents"].level is Level.SKIP and said["agents"].detail.startswith("1 advertise")


async def test_an_api_without_reviews_is_not_faulted() -> None:
    found = await look(Api({"/api/v1/nodes": {"items": [node()]}}))
    assert found["rights"][0].level is Level.SKIP


async def test_nodes_that_cannot_be_measured_are_named() -> None:
    nodes = [node("a"), node("b", kernel="4.18.0-553.el8"), node("c", system="windows"), node("d", ready="Unknown")]
    with_psi = {"node": {"cpu": {"psi": {"some": {"avg10": 0.0}}}}}
    found = await look(Api({"/api/v1/nodes": {"items": nodes}, "/api/v1/nodes/a/proxy/stats/summary": with_psi}))
    assert [one.detail for one in found["nodes"]] == ["4, of which 3 ready", "not ready: d", "not Linux: c"]
    assert [one.detail for one in found["PSI"]] == ["no PSI in the kernel of b (4.18.0-553.el8)"]
    assert (await look(Api({"/api/v1/nodes": {"items": []}})))["nodes"][0].level is Level.FAIL


async def test_pods_that_no_scheduler_serves_are_named() -> None:
    pod = objects.pod_object("lost")
    pod["metadata"] |= {"uid": "u", "creationTimestamp": "2001-01-01T00:00:00Z"}
    table = {"/api/v1/nodes": {"items": [node()]}, "/api/v1/pods": {"items": [pod, {"metadata": {}}]}}
    waiting = (await look(Api(table)))["waiting Pods"][0]
    assert waiting.level is Level.WARN
    assert "default/lost" in waiting.detail


async def test_pods_of_every_name_that_the_scheduler_serves_are_named() -> None:
    async def connect() -> Bus:
        return Bus(None, {subjects.query("scheduler", "capacity.list"): {"nodes": [], "names": ["default-scheduler"]}})

    async def refuse() -> Bus:
        raise errors.BusUnavailable("refused")

    clock = clocks.FakeClock()
    assert await bus_checks.scheduler(refuse, clock) == bus_checks.Scheduler(frozenset({"carico"}), 0.0)
    served = (await bus_checks.scheduler(connect, clock)).names
    assert served == {"default-scheduler"}
    pod = objects.pod_object("lost", schedulerName="default-scheduler")
    pod["metadata"] |= {"uid": "u", "creationTimestamp": "2001-01-01T00:00:00Z"}
    api = Api({"/api/v1/nodes": {"items": [node()]}, "/api/v1/pods": {"items": [pod]}})
    for names, level in (({"carico"}, Level.OK), (served, Level.WARN)):
        seen = await kubernetes.check(api, PLACE, now_s=NOW_S, scheduler_names=names)
        (waiting,) = (each for each in seen.findings if each.what == "waiting Pods")
        assert waiting.level is level


async def test_pods_that_their_nodes_cannot_start_are_named() -> None:
    def bound(name: str, reason: str, **spec: Any) -> dict[str, Any]:
        pod = objects.pod_object(name, nodeName="n1", **spec)
        pod["metadata"]["uid"] = name
        pod["status"]["containerStatuses"] = [{"name": "main", "state": {"waiting": {"reason": reason}}}]
        return pod

    pods = [
        bound("pulls", "ContainerCreating"),
        bound("lost", "ImagePullBackOff"),
        bound("keyless", "CreateContainerConfigError"),
        bound("foreign", "ErrImagePull", schedulerName="default-scheduler"),
    ]
    found = await look(Api({"/api/v1/nodes": {"items": [node()]}, "/api/v1/pods": {"items": pods}}))
    (stuck,) = found["Pods not started"]
    assert stuck.level is Level.WARN
    assert stuck.detail.endswith(
        ": default/lost on n1 (ImagePullBackOff), default/keyless on n1 (CreateContainerConfigError), "
        # Another scheduler's: its room is reserved all the same.
        "default/foreign on n1 (ErrImagePull)"
    )
    assert found["waiting Pods"][0].level is Level.OK


async def test_a_pod_that_has_been_about_to_start_for_long_is_named_too() -> None:
    def placed(name: str, ago_s: float, **status: Any) -> dict[str, Any]:
        pod = objects.pod_object(name, nodeName="n1")
        pod["metadata"]["uid"] = name
        at = instants.format_instant(int((NOW_S - ago_s) * 1e9))
        pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at}]
        pod["status"]["containerStatuses"] = [{"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}]
        pod["status"] |= status
        return pod

    begun = [{"name": "first", "state": {"running": {}}}]
    pods = [placed("soon", 590.0), placed("volume", 1200.0), placed("initializes", 1200.0, initContainerStatuses=begun)]
    pods.append(placed("odd", 1200.0, conditions=[{"type": "PodScheduled", "status": "True"}]))
    found = await look(Api({"/api/v1/nodes": {"items": [node()]}, "/api/v1/pods": {"items": pods}}))
    (stuck,) = found["Pods not started"]
    assert stuck.detail.endswith("start them: default/volume on n1 (ContainerCreating for 20 min)")


async def test_all_is_well_on_the_bus() -> None:
    answers: dict[str, Any] = {subjects.query(name, verb): {} for name, verb in bus_checks.QUESTIONS.items()}
    found = await listen(Bus([advertised("n1")], answers), "n1")
    assert {one.level for one in found} == {Level.OK}


@pytest.mark.parametrize(
    "notes", [["\x1b[2Jok"], ["a\nfail NATS: x"], ["\u202ex"], ["x" * 10_000], ["x"] * 1000, "x", [7]]
)
async def test_an_agent_cannot_write_to_the_terminal(notes: object) -> None:
    answers: dict[str, Any] = {subjects.query("agent", "state.get", "n1"): {"notes": notes}}
    found = await listen(Bus([advertised("n1")], answers), "n1")
    assert not any(one.what == "telemetry" for one in found)


def test_what_others_have_written_stays_in_its_line() -> None:
    """A message of the API, of a kubelet or of a service may have lines, and anything that moves a cursor."""
    found = findings.fail("Kubernetes", "GET /x: 500: no\nok    NATS: x\x1b[2J", "ask\r\nagain")
    assert findings.text([found]).splitlines() == [
        "fail  Kubernetes: GET /x: 500: no ok NATS: x\\u001b[2J", "      -> ask again",
    ]  # fmt: skip


async def test_who_is_silent_and_what_the_agents_lack_is_named() -> None:
    answers = {subjects.query("agent", "state.get", "n1"): {"notes": ["no PSI of the CPU"]}}
    stored = [
        advertised("n1"),
        advertised("n2", age_s=60.0),
        advertised("n3", age_s=-30.0),
        ("carico.v1.capacity.n4", b"?"),
    ]
    found = await listen(Bus(stored, answers), "n1", "n2", "n3", "n4")
    by_what = {one.what: one for one in found}
    assert by_what["agents"].detail == "no advertisement for 10 s from n2, n4"
    assert "n3" in by_what["clocks"].detail
    assert by_what["messages"].detail.startswith("1 stored")
    assert by_what["telemetry"].detail == "n1: no PSI of the CPU"
    assert by_what["scheduler"].level is Level.FAIL
    assert by_what["aggregator"].level is Level.FAIL
    assert all(one.do for one in found if one.level in (Level.WARN, Level.FAIL))
    assert "DaemonSet" in by_what["agents"].do
    here = dataclasses.replace(AT, name="shop", is_local=True)
    found = await listen(Bus(stored, answers), "n1", "n2", at=here)
    assert [one.do for one in found if one.what == "agents"] == ["", "`carico status --name shop` says why"]


async def test_a_clock_that_is_behind_and_a_store_that_is_are_not_taken_for_silence() -> None:
    rows: list[dict[str, Any]] = [
        {"node": "n1", "age_s": 0.4, "seq": 1}, {"node": "n2", "age_s": 900.0, "seq": 1},
        {"node": "n3", "age_s": None, "seq": 0}, {"node": "n4", "age_s": 0.4, "seq": 400},
        # Nothing is left of n5's, n6 has only begun, and n7's is of another version.
        {"node": "n5", "age_s": 0.4, "seq": 400}, {"node": "n6", "age_s": 0.4, "seq": 2},
        {"node": "n7", "age_s": 0.4, "seq": 400},
    ]  # fmt: skip
    answers = {subjects.query("scheduler", "capacity.list"): {"nodes": [{**row, "reserved": 0} for row in rows]}}
    stored = [advertised(name, age_s=900.0) for name in ("n1", "n2", "n4")]
    stored.append((subjects.capacity("n7"), b"?"))
    names = [f"n{number}" for number in range(1, 8)]
    by_what = {one.what: one for one in await listen(Bus(stored, answers), *names)}
    assert by_what["clocks"].detail == "behind this machine's clock: n1"
    assert by_what["streams"].detail == "NATS no longer stores advertisements of n4, n5"
    assert by_what["agents"].detail == "no advertisement for 10 s from n2, n3"
    assert "restart NATS" in by_what["streams"].do
    here = dataclasses.replace(AT, name="shop", is_local=True)
    (streams,) = [one for one in await listen(Bus(stored, answers), "n1", "n4", at=here) if one.what == "streams"]
    assert streams.do.startswith("`carico logs nats --name shop`")


@pytest.mark.parametrize(("ahead_s", "how"), [(60.0, "60.0 s behind"), (-60.0, "60.0 s ahead of"), (1.5, None)])
async def test_a_clock_of_this_machine_that_differs_is_said_and_not_taken_for_the_nodes(
    ahead_s: float, how: str | None
) -> None:
    def at(seconds: float) -> tuple[str, bytes]:
        return advertised(f"n{seconds:g}", age_s=seconds - ahead_s)

    clock = clocks.FakeClock(wall_ns=round(NOW_S * 1e9))
    answer = {"nodes": [], "ts": round((NOW_S + ahead_s) * 1e9)}
    bus = Bus([at(1.0), at(2.0), at(-30.0)], {subjects.query("scheduler", "capacity.list"): answer})

    async def connect() -> Bus:
        return bus

    found = await bus_checks.scheduler(connect, clock)
    assert found.ahead_s == (pytest.approx(ahead_s) if how else 0.0)
    seen = [one.detail for one in await listen(bus, "n1", "n2", "n-30", ahead_s=found.ahead_s) if one.what == "clocks"]
    if how is None:
        assert seen == ["ahead of this machine's clock: n-30"]
    else:
        own, of_nodes = seen
        assert own == f"this machine's is {how} the scheduler's, by which ages here are shown"
        assert of_nodes == "ahead of the scheduler's clock: n-30"


async def test_nodes_that_are_heard_are_not_taken_for_silent_where_nothing_is_stored_and_no_scheduler_answers() -> None:
    """As while a disk is full: NATS stores nothing, and no scheduler can renew its Lease."""
    bus = Bus([advertised("n1", age_s=900.0)], {})
    bus.advertisements = [
        (subjects.capacity(name), wire.encode_advertisement(objects.make_advertisement(name, seq=400)))
        for name in ("n1", "n2")
    ]
    found = [one for one in await listen(bus, "n1", "n2", "n3") if one.what in ("agents", "streams")]
    assert [one.detail for one in found] == [
        "2 of 3 nodes advertise", "no advertisement for 10 s from n3", "NATS no longer stores advertisements of n1, n2",
    ]  # fmt: skip


class PagingBus(Bus):
    """One whose scheduler lists a node on each page."""

    async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes:
        if subject != subjects.query("scheduler", "capacity.list"):
            return await super().request(subject, payload, timeout_s=timeout_s)
        number = int(orjson.loads(payload)["after"][1:]) + 1 if payload else 1
        row = {"node": f"n{number}", "age_s": 0.4, "seq": 400, "reserved": 0}
        return orjson.dumps({"nodes": [row], **({"next": f"n{number}"} if number < 3 else {})})


async def test_a_node_on_a_later_page_of_the_schedulers_list_is_not_taken_for_silent() -> None:
    by_what = {one.what: one for one in await listen(PagingBus([], {}), "n1", "n2", "n3")}
    assert by_what["streams"].detail == "NATS no longer stores advertisements of n1, n2, n3"
    assert by_what["agents"].detail == "3 of 3 nodes advertise"


def test_a_full_disk_is_reported_with_what_is_left_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    assert command._disk(folders.Paths(tmp_path)) == []
    monkeypatch.setattr(shutil, "disk_usage", lambda _: types.SimpleNamespace(free=4096))
    (said,) = command._disk(folders.Paths(tmp_path))
    assert said.level is Level.FAIL and "4.1 kB free" in said.detail and said.do.startswith("make room")


def test_a_service_that_a_signal_has_stopped_is_named_as_by_status(tmp_path: pathlib.Path) -> None:
    paths = folders.Paths(tmp_path / "shop")
    paths.root.mkdir()
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            here = processes.identify(child.pid)
            node_1 = state.ServiceState(name="node/node-1", process=here, ready=True, restarts=0, http_port=None)
            found = state.ClusterState(
                plan=plan.make_plan(plan.Options(name="shop", nodes=1), MACHINE), phase=state.Phase.READY,
                supervisor=processes.identify_self(), started_ns=1, nats_url="", api_url="", services=(node_1,),
                crashes=(), notes=(), failure=None,
            )  # fmt: skip
            with folders.acquire(paths):
                state.write(paths, found)
                assert asyncio.run(command._services(paths)) == [findings.ok("services", "1 is ready")]
                # One that has crashed is ready again a moment later.
                now_ns = time.time_ns()
                crashes = [
                    state.Crash(service=name, at_ns=now_ns - ago_s * 10**9, how="killed by SIGKILL", last_lines=())
                    for name, ago_s in (("nats", 900), ("scheduler", 300), ("scheduler", 45), ("agent/node-1", 30))
                ]
                state.write(paths, dataclasses.replace(found, crashes=tuple(crashes)))
                (crashed,) = asyncio.run(command._services(paths))
                state.write(paths, found)
                child.send_signal(signal.SIGSTOP)
                os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
                (said,) = asyncio.run(command._services(paths))
        finally:
            child.kill()
    assert (crashed.level, crashed.do.split("`")[1]) == (Level.WARN, "carico logs scheduler --name shop")
    assert crashed.detail.startswith("crashed in the last 10 min: scheduler (killed by SIGKILL, 45.")
    assert "agent/node-1 (killed by SIGKILL, 30." in crashed.detail
    assert "nats" not in crashed.detail and "300" not in crashed.detail
    assert (said.level, said.do) == (Level.WARN, f"`kill -CONT {child.pid}` continues it")
    assert said.detail == f"not ready: node/node-1 (a signal has stopped its process {child.pid})"
    # A cluster that ended has no services to ask.
    assert asyncio.run(command._services(paths)) == []


async def test_streams_that_cannot_be_read_hide_nothing_else() -> None:
    """They do not exist yet, have no quorum, or the aggregator that readers ask does not answer."""
    bus = Bus(None, {})
    bus.advertisements = [advertised("n1")]
    found = await listen(bus, "n1")
    assert [(one.what, one.detail) for one in found[1:3]] == [
        ("streams", "cannot be read: no stream"), ("agents", "1 of 1 node advertise"),
    ]  # fmt: skip
    assert [one.what for one in found[3:] if one.level is Level.FAIL] == ["aggregator", "scheduler"]


async def test_a_bus_that_does_not_answer_or_refuses_every_client_is_one_line_with_what_to_do() -> None:
    async def away() -> Bus:
        raise errors.BusUnavailable("cannot connect within 5 s")

    async def refused() -> Bus:
        raise errors.BusRefused("NATS at nats://x:4222 says no to the key UABC of /key")

    found = await bus_checks.check(away, [], lease_s=10.0, now_s=NOW_S, at=AT, place=PLACE)
    assert [one.level for one in found] == [Level.FAIL]
    assert "nats://x:4222" in found[0].detail and "service/carico-nats" in found[0].do
    here = dataclasses.replace(AT, name="shop", is_local=True)
    found = await bus_checks.check(away, [], lease_s=10.0, now_s=NOW_S, at=here, place=places.Place.of(here, "carico"))
    assert "`carico status --name shop`" in found[0].do
    found = await bus_checks.check(refused, [], lease_s=10.0, now_s=NOW_S, at=AT, place=PLACE)
    assert [one.level for one in found] == [Level.FAIL]
    assert "the key UABC" in found[0].detail and "docs/security.md" in found[0].do


def test_who_we_are_on_the_bus_is_what_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    monkeypatch.setenv("CARICO_BUS_NKEY", str(tmp_path / "no.seed"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert carico_cli.run(monkeypatch, "doctor", "--nats-url", "gopher://x") == 2
    assert "--nats-url: got 'gopher://x'" in capsys.readouterr().err


def test_a_kubeconfig_that_is_not_there_is_one_line_which_names_the_clusters_that_run_here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    assert carico_cli.run(monkeypatch, "doctor", "--kubeconfig", "/nowhere/config") == 2
    assert capsys.readouterr().err.count("\n") == 1
    for name, value in (("XDG_STATE_HOME", tmp_path), ("KUBECONFIG", tmp_path / "none")):
        monkeypatch.setenv(name, str(value))
    monkeypatch.delenv("NATS_URL", raising=False)
    paths = folders.Paths(tmp_path / "carico" / "shop")
    paths.root.mkdir(parents=True)
    paths.plan.write_text("{}")
    with folders.acquire(paths):
        assert carico_cli.run(monkeypatch, "doctor") == 2
        assert capsys.readouterr().err.endswith("`carico doctor --name shop`\n")
        assert carico_cli.run(monkeypatch, "doctor", "--kubeconfig", "/nowhere/config") == 2
        assert "--name" not in capsys.readouterr().err


def test_an_api_that_does_not_answer_is_a_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    config = tmp_path / "config"
    document = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    config.write_bytes(orjson.dumps(document))
    monkeypatch.delenv("NATS_URL", raising=False)
    assert carico_cli.run(monkeypatch, "doctor", "--kubeconfig", config) == 1
    said = capsys.readouterr().out
    assert said.startswith("fail  Kubernetes: ")
    assert "skip  NATS: not checked" in said


def test_before_an_install_too_advice_keeps_the_flags_of_the_api(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Closing(Api):
        async def close(self) -> None: ...

    async def connect(*_: object, **__: object) -> Closing:
        return Closing({"/api/v1/nodes": {"items": [node(ready="False")]}})

    monkeypatch.setattr(api_client, "connect", connect)
    monkeypatch.delenv("NATS_URL", raising=False)
    assert carico_cli.run(monkeypatch, "doctor", "--kubeconfig", "my file", "--context", "prod") == 3
    assert "`kubectl --kubeconfig 'my file' --context prod describe node n1`" in capsys.readouterr().out


def test_the_rights_that_are_asked_for_are_those_that_deploy_gives() -> None:
    rules: dict[str, list[dict[str, Any]]] = {}
    for document in yaml.safe_load_all((ROOT / "deploy/k8s/base/rbac.yaml").read_text()):
        if document["kind"] in ("Role", "ClusterRole"):
            rules.setdefault(document["metadata"]["name"], []).extend(document["rules"])
    # No other service has rights.
    assert set(rules) == {rights.SCHEDULER}
    given = {
        (verb, group, resource)
        for rule in rules[rights.SCHEDULER]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    for right in rights.SCHEDULES:
        resource = f"{right.resource}/{right.subresource}" if right.subresource else right.resource
        assert (right.verb, right.group, resource) in given, right


@pytest.mark.parametrize(
    ("answer", "level"),
    [
        ({"paused": ""}, Level.OK),
        ({"paused": "paused since 2026-12-01T00:00:00Z"}, Level.WARN),
        ({"paused": 7}, None),
        (errors.BusError("no leader"), None),
    ],
)
async def test_a_pause_of_the_rescheduler_is_not_forgotten(answer: object, level: Level | None) -> None:
    here = dataclasses.replace(AT, name="shop", is_local=True)
    bus = Bus([advertised("n1")], {subjects.query("rescheduler", "moves.list"): answer})
    found = [each for each in await listen(bus, "n1", at=here) if each.what == "rescheduler"]
    assert [each.level for each in found] == ([level] if level else [])
    if level is Level.WARN:
        assert found[0].detail == "moves are paused since 2026-12-01T00:00:00Z"
        assert found[0].do == "`carico reschedule resume --name shop`"


async def test_an_aggregator_that_answers_without_a_model_is_not_called_silent() -> None:
    subject = subjects.query("aggregator", bus_checks.QUESTIONS["aggregator"])
    answers = {subject: errors.BusError(f"{subject}: no model yet: no agent has reported")}
    found = {each.what: each for each in await listen(Bus([advertised("n1")], answers), "n1")}
    assert found["aggregator"].level is Level.WARN
    assert found["aggregator"].detail == "answers: no model yet: no agent has reported"
    assert "kwok" in found["aggregator"].do
    assert found["scheduler"].level is Level.FAIL
    subject = subjects.query("scheduler", bus_checks.QUESTIONS["scheduler"])
    answers = {subject: errors.BusError(f"{subject}: this scheduler is a standby")}
    found = {each.what: each for each in await listen(Bus([advertised("n1")], answers), "n1")}
    assert found["scheduler"].detail == "answers: this scheduler is a standby"
    assert "kwok" not in found["scheduler"].do


def test_a_cluster_that_ended_is_named_where_there_is_no_kubeconfig(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("XDG_STATE_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    for name in ("KUBECONFIG", "CARICO_CLUSTER", "NATS_URL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "carico" / "demo").mkdir(parents=True)
    (tmp_path / "carico" / "demo" / "plan.json").touch()
    assert carico_cli.run(monkeypatch, "doctor") == 2
    assert "demo on this machine does not run: `carico status --name demo`" in capsys.readouterr().err
