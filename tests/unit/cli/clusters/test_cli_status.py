"""`carico status`: what its tables show of a node, and its JSON for scripts."""

import asyncio
import dataclasses
import os
import pathlib
import signal
import subprocess
from typing import Any

import click.testing
import orjson
import pytest

from carico_cli.clusters import local_services, status, status_text
from carico_cli.live import capacity_list, members, signals
from carico_cli.live import picture as pictures
from carico_cli.live import reader as readers
from carico_cli.shell import settings as shell_settings
from carico_core.domain import errors
from carico_core.runtime.kube import list_watch
from carico_core.runtime.leadership import status as leader_status
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_core.wire.kubernetes import lease as leases
from carico_local.cluster import folders, free_ports, machine, plan, processes, state
from carico_scheduler import settings
from tests.fixtures.golden import records
from tests.tools import advertised
from tests.unit.cli import fake_cluster

WAITS = pictures.Pod(
    uid="u", namespace="shop", name="web-1", scheduler="carico", job="web", state=pictures.PodState.WAITING, node=None,
    created_s=100.0, since_s=100.0, priority=0, pod_class="app/shop/web", why="0/2 nodes fit: 2 at capacity",
)  # fmt: skip
MACHINE = machine.Machine(cpus=2.0, memory_available_bytes=2**35, processor="test", kernel="6.18")
FOUND = state.ClusterState(
    plan=plan.make_plan(plan.Options(name="x", nodes=2), MACHINE), phase=state.Phase.READY,
    supervisor=processes.ProcessId(pid=1, start_ticks=1), started_ns=1, nats_url="", api_url="", services=(),
    crashes=(), notes=(), failure=None,
)  # fmt: skip


def picture(capacity: float, capacity_sd: float) -> pictures.Picture:
    """What a reader knows that has heard node-1 alone."""
    found = signals.Signals(clock=clocks.FakeClock(), lease_s=10.0)
    said = advertised.advertisement(
        "node-1", room=1.0, boot="0" * 16, seq=1, at_ns=1, capacity_sd=capacity_sd, pods=3, usage={}
    )
    found.on_capacity(subjects.capacity("node-1"), wire.encode_advertisement(said))
    listed = orjson.dumps({"nodes": [{"node": "node-1", "reserved": 1, "free": 1.3449}]})
    found.on_capacity_list(capacity_list.parse(listed))
    seen = found.picture(jobs=(), links=())
    nodes = tuple(dataclasses.replace(node, advertisement=said._replace(capacity=capacity)) for node in seen.nodes)
    return dataclasses.replace(seen, nodes=nodes)


@pytest.mark.parametrize(
    ("capacity", "capacity_sd", "shown"),
    [(2.4449, 0.4449, "2.4 ± 0.4 Pods"), (-0.04, 0.0, "0.0 ± 0.0 Pods"), (1234.5678, 12.3, "1235 ± 12 Pods")],
)
def test_a_capacity_has_its_unit_and_the_digits_one_reads(capacity: float, capacity_sd: float, shown: str) -> None:
    view = {**status._services(FOUND, running=True), "nodes": status._nodes(picture(capacity, capacity_sd), FOUND)}
    head, first, second = status_text.text(view, now_ns=1).splitlines()[-3:]
    assert head.split() == ["NODE", "FRESHNESS", "PODS", "CAPACITY", "MODE", "RESERVED"]
    assert first.split() == ["node-1", "fresh", "3", *shown.split(), "measured", "1"]
    assert second.split() == ["node-2", "absent", "-", "-", "-", "-"]
    wide = [line.split() for line in status_text.text(view, now_ns=1, wide=True).splitlines()[-3:]]
    # The age has a unit.
    assert (wide[0][-5], wide[1][-6], wide[2][-5]) == ("FREE", "1.3", "-")
    assert (wide[0][-1], wide[2][-1], view["nodes"][1]["age_s"]) == ("AGE", "-", None)
    assert wide[1][-1] in ("s", "ms", "h", "min")
    # Scripts get numbers.
    assert [view["nodes"][0][name] for name in ("capacity", "capacity_sd")] == [
        round(capacity, 3),
        round(capacity_sd, 3),
    ]
    assert view["nodes"][1]["capacity"] is None


class Api:
    """Two Nodes, of which one's kubelet has stopped to report; or none, where it does not answer."""

    def __init__(self, *, frozen: bool = False) -> None:
        self.frozen = frozen

    async def request(self, method: str, path: str) -> Any:
        if self.frozen:
            await asyncio.Event().wait()
        conditions = {"node-1": "True", "node-2": "Unknown"}
        return {
            "items": [
                {"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": status}]}}
                for name, status in conditions.items()
            ]
        }


def service(name: str) -> state.ServiceState:
    process = processes.ProcessId(pid=7, start_ticks=1)
    return state.ServiceState(name=name, process=process, ready=True, restarts=0, http_port=None)


async def test_a_frozen_node_is_not_ready_although_its_process_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    found = dataclasses.replace(FOUND, services=tuple(map(service, ("node/node-1", "node/node-2", "agent/node-2"))))
    view = status._services(found, running=True)
    assert status_text.text(view, now_ns=1).startswith("cluster x: ready\n")
    status._mark(view["services"], await status._unready_nodes(Api(), found), bus_trouble=None)
    said = status_text.text(view, now_ns=1)
    assert said.startswith("cluster x: up, but not everything is ready\n")
    assert [row["ready"] for row in view["services"]] == [True, False, True]
    assert "not ready: node/node-2 (its Node is not ready" in said
    monkeypatch.setattr(status, "_ANSWER_S", 0.01)
    assert await status._unready_nodes(Api(frozen=True), found) == set()


def test_a_cluster_that_ends_while_it_is_asked_is_not_up(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = folders.Paths(tmp_path / "x")
    paths.root.mkdir()
    paths.plan.touch()
    state.write(paths, FOUND)
    supervisor = folders.acquire(paths)

    async def ask(*_: object) -> None:
        supervisor.close()

    monkeypatch.setattr(status, "_ask", ask)
    context = shell_settings.Context(home=tmp_path, environ={}, plain=True)
    ended = click.testing.CliRunner().invoke(status.command, ["--name", "x"], obj=context, standalone_mode=False)
    assert ended.output.startswith("cluster x: not running\n"), ended
    assert ended.return_value == 1


def test_services_with_one_cause_are_one_line() -> None:
    found = dataclasses.replace(FOUND, services=tuple(map(service, ("nats", "scheduler", "agent/node-1"))))
    view = status._services(found, running=True)
    for row, why in zip(view["services"], ("it does not answer", "bus: away", "bus: away"), strict=True):
        row |= {"ready": False, "why_not": why}
    assert [line for line in status_text.text(view, now_ns=1).splitlines() if line.startswith("not ready")] == [
        "not ready: nats (it does not answer): `carico logs nats --name x`",
        "not ready: scheduler, agent/node-1 (bus: away): `carico logs scheduler --name x`",
    ]


def test_a_process_that_a_signal_has_stopped_is_named_with_what_continues_it() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            child.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
            found = dataclasses.replace(FOUND, services=(service("scheduler"),))
            view = status._services(found, running=True)
            view["services"][0]["pid"] = child.pid
            asyncio.run(local_services.ask(view["services"], found))
            said = f"not ready: scheduler (a signal has stopped its process {child.pid}): `kill -CONT {child.pid}`"
            assert said in status_text.text(view, now_ns=1)
            # Nor does a supervisor restart anything then.
            frozen = dataclasses.replace(found, supervisor=processes.ProcessId(pid=child.pid, start_ticks=1))
            rows: list[dict[str, Any]] = []
            asyncio.run(local_services.ask(rows, frozen))
            assert [(row["name"], row["ready"]) for row in rows] == [("supervisor", False)]
        finally:
            child.kill()
    rows[:] = [{**local_services.rows(found, running=True)[0], "pid": os.getpid()}]
    asyncio.run(local_services.ask(rows, found))
    assert local_services.unready(rows, "x") == []


async def test_each_service_that_listens_is_asked_itself() -> None:
    port = free_ports.choose_one()
    asked = dataclasses.replace(service("scheduler"), http_port=port)
    found = dataclasses.replace(FOUND, services=(service("nats"), asked))
    view = status._services(found, running=True)
    await local_services.ask(view["services"], found)
    assert [(row["ready"], row.get("why_not")) for row in view["services"]] == [
        (True, None), (False, f"nothing answers on port {port}"),
    ]  # fmt: skip


def test_a_crash_says_how_long_ago_it_was() -> None:
    crash = state.Crash(service="nats", at_ns=10**9, how="killed by SIGKILL", last_lines=())
    view = status._services(dataclasses.replace(FOUND, crashes=(crash,)), running=True)
    assert status_text.text(view, now_ns=126 * 10**9).endswith("\ncrashed: nats (killed by SIGKILL), 2 min ago")


def test_the_pod_that_has_waited_longest_is_named_with_its_reason() -> None:
    younger = WAITS._replace(uid="v", name="web-2", priority=9, created_s=130.0, since_s=130.0)
    runs = WAITS._replace(uid="w", name="old", state=pictures.PodState.RUNNING, since_s=1.0)
    seen = dataclasses.replace(picture(1.0, 0.1), taken_ns=round(156e9), pods=(younger, WAITS, runs))
    view = {**status._services(FOUND, running=True), "waiting": status._waiting(seen)}
    assert status_text.text(view, now_ns=1).splitlines()[-1] == (
        "waiting: 2 Pods; shop/web-1 for 56.0 s: 0/2 nodes fit: 2 at capacity"
    )
    long = {
        **view["waiting"],
        "longest": {**view["waiting"]["longest"], "why": "3 at capacity (node-1: 0.3 free) " * 3},
    }
    assert max(map(len, status_text.text({**view, "waiting": long}, now_ns=1).splitlines()[-3:])) <= 80
    assert view["waiting"]["longest"]["class"] == "app/shop/web"
    none = status._waiting(dataclasses.replace(seen, pods=(runs,)))
    assert none == {"pods": 0, "longest": None}
    assert "waiting" not in status_text.text({**view, "waiting": none}, now_ns=1)


async def test_jobs_are_shown_without_nats_and_reported_as_unknown_without_the_api(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = fake_cluster.Cluster()
    read = readers.Reader(
        lambda: fake_cluster.ADDRESS, cluster._connect, clock=cluster.clock, lease_s=fake_cluster.LEASE_S, is_brief=True
    )
    cluster.api.events.put_nowait(list_watch.Listed(objects=[fake_cluster.pod("a")], resource_version="1"))
    await status._read_pods(read, cluster.api)
    assert read.bus_trouble is not None
    assert [job["name"] for job in status._jobs(read.picture())] == ["hello"]
    assert read.api_trouble is None
    monkeypatch.setattr(status, "_PODS_S", 0.01)
    await status._read_pods(read, cluster.api)
    cluster.clock.advance(3.0)
    view = {**status._services(FOUND, running=True), "api_trouble": read.api_trouble}
    assert status_text.text(view, now_ns=1).endswith(
        "\n\njobs and waiting Pods: not known: Kubernetes API: no answer for 3 s"
    )


def test_schedulers_that_share_are_listed_with_why_one_takes_no_pods() -> None:
    assert records.HEARTBEAT_REPORT.report is not None
    stopped = dataclasses.replace(records.HEARTBEAT_REPORT.report, has_lease=False, why_not="not connected to NATS")
    other = dataclasses.replace(
        records.HEARTBEAT_REPORT, replica="scheduler-2-17979cfe362a1b2d", is_leaving=True, report=stopped
    )
    view = {**status._services(FOUND, running=True), "schedulers": members.rows([records.HEARTBEAT_REPORT, other])}
    said = [" ".join(line.split()) for line in status_text.text(view, now_ns=1).splitlines()]
    # As in the table of services.
    assert "SCHEDULER SHARE COMMITTED CONFLICTS REQUEUED VIEW" in said
    assert "scheduler 100% 4800 12 3 200 ms" in said
    assert "scheduler-2 0% 4800 12 3 200 ms" in said
    assert said[-1] == "takes no Pods: scheduler-2: not connected to NATS"


class LeaseApi:
    """An API with the Lease of a holder that renewed it `age_s` ago; without one, or without an answer."""

    def __init__(self, holder: str | None, *, age_s: float = 0.0, is_away: bool = False) -> None:
        self.holder, self.age_s, self.is_away, self.held_s = holder, age_s, is_away, 0.0

    async def request(self, method: str, path: str, **_: object) -> Any:
        assert (method, path.rsplit("/", 1)[1]) == ("GET", settings.PROGRAM)
        assert f"/namespaces/{leader_status.NAMESPACE}/" in path
        if self.is_away:
            raise errors.ApiUnavailable("away")
        if self.holder is None:
            raise errors.NotFound(404, "NotFound", "no such Lease", path)
        renewed_ns = clocks.SystemClock().wall_ns() - round(self.age_s * 1e9)
        return leases.lease_body(
            leases.Lease(
                namespace=leader_status.NAMESPACE, name=settings.PROGRAM, holder=self.holder, duration_s=15,
                acquired_at_ns=renewed_ns - round(self.held_s * 1e9), renewed_at_ns=renewed_ns,
            )
        )  # fmt: skip


@pytest.mark.parametrize(
    ("api", "said"),
    [
        (LeaseApi("scheduler-2-17979cfe362a1b2c"), "leader: scheduler-2, which holds the Lease carico-scheduler"),
        (LeaseApi(""), "leader: none holds the Lease carico-scheduler"),
        (LeaseApi(None), "leader: none holds the Lease carico-scheduler"),
        # Its holder has crashed.
        (LeaseApi("scheduler-17979cfe362a1b2c", age_s=1e6), "leader: none holds the Lease carico-scheduler"),
        (LeaseApi(None, is_away=True), None),
    ],
)
@pytest.mark.parametrize("sharing", [None, "shared"])
async def test_which_of_several_schedulers_leads(sharing: str | None, api: LeaseApi, said: str | None) -> None:
    several = dataclasses.replace(FOUND, plan=dataclasses.replace(FOUND.plan, schedulers=2, sharing=sharing))
    view = {**status._services(several, running=True), "leader": await status._leader(api, several)}
    lines = [line for line in status_text.text(view, now_ns=1).splitlines() if line.startswith("leader")]
    assert lines == ([] if said is None else [said])


def test_a_scheduler_that_was_started_again_does_not_hold_its_last_lease() -> None:
    plan_of_two = dataclasses.replace(FOUND.plan, schedulers=2)
    runs = dataclasses.replace(service("scheduler-2"), process=processes.identify_self())
    two = dataclasses.replace(FOUND, plan=plan_of_two, services=(service("scheduler"), runs))
    held = LeaseApi("scheduler-2-17979cfe362a1b2c")
    assert asyncio.run(status._leader(held, two)) == "scheduler-2"
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            runs = dataclasses.replace(runs, process=processes.identify(child.pid))
            again = dataclasses.replace(two, services=(runs,))
            held.held_s = 5.0
            assert asyncio.run(status._leader(held, again)) == ""
        finally:
            child.kill()
    # Known to have ended, or not yet.
    for last in (dataclasses.replace(runs, process=None), service("scheduler-2")):
        assert asyncio.run(status._leader(held, dataclasses.replace(two, services=(last,)))) == ""


async def test_one_scheduler_leads_without_a_lease() -> None:
    assert await status._leader(LeaseApi("other"), FOUND) is None
    assert "leader" not in status_text.text(status._services(FOUND, running=True), now_ns=1)


class RescheduledBus:
    """A bus on which a rescheduler answers."""

    def __init__(self, answer: bytes | errors.BusError) -> None:
        self.answer = answer

    async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes:
        assert subject == subjects.query("rescheduler", "moves.list")
        if isinstance(self.answer, errors.BusError):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "paused"),
    [
        (b'{"paused": "paused since 2026-12-01T00:00:00Z"}', "paused since 2026-12-01T00:00:00Z"),
        (b'{"paused": ""}', ""),
        (b"[]", None),
        (errors.BusUnavailable("away"), None),
    ],
)
async def test_a_paused_rescheduler_is_shown_with_what_resumes_it(
    answer: bytes | errors.BusError, paused: str | None
) -> None:  # fmt: skip
    view = status._services(FOUND, running=True)
    view["moves_paused"] = await status._moves_paused(RescheduledBus(answer))
    assert view["moves_paused"] == paused
    said = " ".join(status_text.text(view, now_ns=1).split())
    expected = "rescheduler: moves are paused since 2026-12-01T00:00:00Z: `carico reschedule resume --name x`"
    assert (expected in said) == bool(paused) == ("rescheduler" in said)
    assert await status._moves_paused(None) is None
