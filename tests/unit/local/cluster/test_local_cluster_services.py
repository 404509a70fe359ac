"""The commands that make up a cluster are ones their services accept; readiness probes say what is missing."""

import argparse
import asyncio
import json
import os
import pathlib
import signal
import socket
from typing import Any

import pytest

from carico_agent import settings as agent_settings
from carico_aggregator import settings as aggregator_settings
from carico_core.runtime.bus.security import refusals
from carico_core.runtime.process import settings
from carico_local import nats_server
from carico_local.cluster import folders, machine, plan
from carico_local.cluster.services import probes, readiness, topology
from carico_local.cluster.services import service as parts
from carico_local.node import settings as node_settings
from carico_local.played_nodes import service as played_nodes
from carico_scheduler import settings as scheduler_settings
from tests.tools import waiting

MACHINE = machine.Machine(cpus=2.0, memory_available_bytes=2**35, processor="test", kernel="6.18")
SETTINGS: dict[str, tuple[type[Any], str]] = {
    "carico_agent": (agent_settings.AgentSettings, "AGENT"),
    "carico_aggregator": (aggregator_settings.AggregatorSettings, "AGGREGATOR"),
    "carico_scheduler": (scheduler_settings.SchedulerSettings, "SCHEDULER"),
}


def planned(*binaries: dict[str, str], **options: Any) -> tuple[plan.Plan, topology.Addresses]:
    made = plan.make_plan(plan.Options(name="x", nodes=2, **options), MACHINE, *binaries)
    return made, topology.addresses(made, list(range(20_000, 20_000 + topology.ports_needed(made))))


def test_streams_fit_whatever_is_free_on_the_disk(tmp_path: pathlib.Path) -> None:
    config = json.loads(nats_server.configuration(store_dir=tmp_path, port=4222))
    assert config["jetstream"]["max_file_store"] >= refusals.STREAMS_MIB << 20


def some_services(tmp_path: pathlib.Path, **options: Any) -> list[parts.Service]:
    return topology.services(*planned(**options), folders.Paths(tmp_path), {})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"estimator": "dual", "ceiling_cpu": 0.5, "merge": "sequential", "aggregators": 3, "schedulers": 2},
        {"schedulers": 2, "sharing": "shared"},
    ],
    ids=["plain", "all", "shared"],
)
def test_every_service_accepts_the_flags_it_is_started_with(tmp_path: pathlib.Path, options: dict[str, Any]) -> None:
    accepted = 0
    ports = planned(**options)[1].ports
    for service in some_services(tmp_path, **options):
        module, flags = service.command.argv[2], service.command.argv[3:]
        if module in SETTINGS:
            cls, prefix = SETTINGS[module]
            loaded = settings.load(cls, prefix=prefix, argv=flags, environ={}, program=module)
            assert loaded.http.port == ports[service.name]
            accepted += 1
    assert accepted == 2 + options.get("aggregators", 1) + options.get("schedulers", 1)


@pytest.mark.parametrize(("schedulers", "election"), [(1, False), (2, True)])
def test_schedulers_elect_a_leader_where_there_are_several(
    tmp_path: pathlib.Path, schedulers: int, election: bool
) -> None:
    found = [s for s in some_services(tmp_path, schedulers=schedulers) if s.name.startswith("scheduler")]
    assert len(found) == schedulers
    assert all(("--no-leader-election" not in service.command.argv) is election for service in found)
    # So that `carico status` can say which of its services leads.
    argvs = [(service.name, service.command.argv) for service in found]
    assert all(argv[argv.index("--replica") + 1] == name for name, argv in argvs)


@pytest.mark.parametrize("schedulers", [1, 4])
def test_schedulers_that_share_the_work_run_an_election(tmp_path: pathlib.Path, schedulers: int) -> None:
    made = some_services(tmp_path, schedulers=schedulers, sharing="shared")
    found = [service.command.argv for service in made if service.name.startswith("scheduler")]
    assert len(found) == schedulers
    assert all("--sharing" in argv and "--no-leader-election" not in argv for argv in found)


def test_options_of_up_reach_the_agents(tmp_path: pathlib.Path) -> None:
    (agent, _) = [s for s in some_services(tmp_path, estimator="dual", ceiling_cpu=0.5) if s.name.startswith("agent/")]
    parser = argparse.ArgumentParser()
    for flag in ("--estimator", "--ceiling-cpu", "--cores", "--scale", "--cgroup", "--scope"):
        parser.add_argument(flag)
    known, _ = parser.parse_known_args(agent.command.argv)
    assert vars(known) == {
        "estimator": "dual", "ceiling_cpu": "0.5", "cores": "4", "scale": "0.125",
        "cgroup": "carico-x/node-1", "scope": "cgroup",
    }  # fmt: skip


def test_the_pods_of_an_ordinary_users_nodes_cannot_read_that_users_clusters(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for user, closed in ((0, ()), (1000, (str(tmp_path.parent),))):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        (node, _) = [s for s in some_services(tmp_path) if s.name.startswith("node/")]
        flags = node.command.argv[3:]
        loaded = settings.load(node_settings.NodeSettings, prefix="NODE", argv=flags, environ={}, program="node")
        assert loaded.closed == closed


def test_an_agent_whose_node_has_no_cgroup_watches_its_processes(tmp_path: pathlib.Path) -> None:
    paths = folders.Paths(tmp_path)
    paths.run.mkdir()
    topology.ready_file(paths, "node-1").write_text(json.dumps({"pid": 77, "fallback": "process-accounting"}))
    first, second = (s for s in some_services(tmp_path) if s.name.startswith("agent/"))
    assert first.command.argv[first.command.argv.index("--root-pid") + 1] == "77"
    assert "--cgroup" in second.command.argv


def test_an_agent_gets_its_nodes_group_in_a_delegated_tree(tmp_path: pathlib.Path) -> None:
    paths = folders.Paths(tmp_path)
    paths.run.mkdir()
    below = "/sys/fs/cgroup/user.slice/run-r7.scope/carico-x/node-1"
    said = {"layout": "v2", "path": "carico-x/node-1", "trees": {"unified": below}}
    topology.ready_file(paths, "node-1").write_text(json.dumps({"pid": 77, "fallback": None, "cgroup": said}))
    first, second = (s.command.argv for s in some_services(tmp_path) if s.name.startswith("agent/"))
    assert first[first.index("--cgroup") + 1] == below
    assert second[second.index("--cgroup") + 1] == "carico-x/node-2"


def test_names_ports_and_stop_order_cover_every_service(tmp_path: pathlib.Path) -> None:
    options = {"aggregators": 2, "schedulers": 2}
    names = [service.name for service in some_services(tmp_path, **options)]
    ports = planned(**options)[1].ports
    listening = [ports[name] for name in names if name in ports]
    assert len(listening) == len(set(listening))
    groups = topology.stop_groups(names)
    assert sorted(name for group in groups for name in group) == sorted(names)
    assert groups[0] == ["scheduler", "scheduler-2"]
    assert groups[-1] == ["nats"]


def test_a_rescheduler_starts_after_the_api_and_ends_first(tmp_path: pathlib.Path) -> None:
    found = real_services(tmp_path, rescheduler=True, ceiling_cpu=0.6)
    (rescheduler,) = [each for each in found if each.name == "rescheduler"]
    assert rescheduler.after == "api" and "carico_rescheduler" in rescheduler.command.argv
    # Agents advertise theirs.
    assert "--ceiling-cpu" not in rescheduler.command.argv
    assert topology.stop_groups([each.name for each in found])[0] == ["rescheduler"]


@pytest.mark.parametrize("is_rescheduled", [True, False])
def test_agents_measure_traffic_for_a_rescheduler_alone(tmp_path: pathlib.Path, is_rescheduled: bool) -> None:
    found = real_services(tmp_path, rescheduler=is_rescheduled)
    argv = next(each.command.argv for each in found if each.name.startswith("agent/"))
    assert ("--traffic" in argv) is is_rescheduled
    if is_rescheduled:
        assert argv[argv.index("--traffic") + 1] == "sockets"


REAL = {
    name: f"/tools/{name}" for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
}


def real_services(tmp_path: pathlib.Path, **options: Any) -> list[parts.Service]:
    made, where = planned(REAL, control_plane="real", **options)
    assert where.api_url.startswith("https://127.0.0.1:")
    return topology.services(made, where, folders.Paths(tmp_path), {})


def test_a_real_control_plane_starts_after_its_store_and_ends_before_it(tmp_path: pathlib.Path) -> None:
    found = {service.name: service for service in real_services(tmp_path)}
    assert found["api"].after == "etcd"
    assert found["kube-controller-manager"].after == found["node/node-1"].after == "api"
    # Killed with their supervisor: an API server that is only asked to end, without its store, takes a minute.
    assert {found[name].command.orphan_signal for name in ("etcd", "api")} == {signal.SIGKILL}
    assert found["node/node-1"].command.orphan_signal is signal.SIGTERM
    order = [name for group in topology.stop_groups(list(found)) for name in group]
    assert sorted(order) == sorted(found)
    assert order.index("node/node-1") < order.index("kube-controller-manager") < order.index("api")
    assert order.index("api") < order.index("etcd")


def test_a_node_of_a_real_control_plane_has_an_identity_of_its_own(tmp_path: pathlib.Path) -> None:
    (first, second) = (s for s in real_services(tmp_path) if s.name.startswith("node/"))
    for service in (first, second):
        chosen = settings.load(
            node_settings.NodeSettings, prefix="NODE", argv=service.command.argv[3:], environ={}, program="node"
        )
        assert chosen.kubeconfig.endswith(f"{chosen.name}.kubeconfig")
        assert chosen.log_certificate is not None
        assert chosen.log_authority is not None


def test_played_nodes_have_two_services_in_all(tmp_path: pathlib.Path) -> None:
    found = real_services(tmp_path, node_kind="kwok")
    assert [s.name for s in found if s.name in ("kwok", "fleet") or "node" in s.name] == ["kwok", "fleet"]
    (fleet,) = [service for service in found if service.name == "fleet"]
    chosen = settings.load(
        played_nodes.PlayedNodesSettings, prefix="FLEET", argv=fleet.command.argv[3:], environ={}, program="fleet"
    )
    assert (chosen.nodes, chosen.cores, chosen.http.port) == (
        2,
        4,
        planned(REAL, control_plane="real", node_kind="kwok")[1].ports["fleet"],
    )


def test_services_do_not_inherit_another_clusters_settings() -> None:
    environ = {"NATS_URL": "a", "KUBECONFIG": "b", "CARICO_AGENT_NODE": "c", "PATH": "d"}
    assert parts.stripped(environ) == {"PATH": "d"}
    # `carico status` prints them later, in any shell.
    withheld = "of the shell that started the cluster does not reach its services"
    assert list(parts.notes(environ)) == [f"CARICO_AGENT_NODE {withheld}"]
    assert list(parts.notes({"CARICO_NODE_CGROUPS": "none", "CARICO_TEST_SYSTEM": "1"})) == [
        f"CARICO_NODE_CGROUPS {withheld}: use --node-cgroups"
    ]
    # Where traces go is no other cluster's business.
    assert parts.stripped({"CARICO_AGENT_TRACES": "t", "CARICO_AGENT_NODE": "n"}) == {"CARICO_AGENT_TRACES": "t"}
    assert parts.stripped({"CARICO_RESCHEDULER_EVERY_S": "9"}) == {"CARICO_RESCHEDULER_EVERY_S": "9"}


async def test_an_http_probe_gives_the_first_line_of_the_refusal() -> None:
    answers = [b"HTTP/1.1 503 Service Unavailable\r\n\r\nbus: not connected\nmore\n", b"HTTP/1.1 200 OK\r\n\r\nok\n"]

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answers.pop(0))
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    probe = readiness.Http(port=port)
    assert await probe.why_not() == "bus: not connected"
    assert await probe.why_not() is None
    assert await readiness.Tcp(port=port).why_not() is None
    server.close()
    await server.wait_closed()
    assert await probe.why_not() == f"nothing answers on port {port}"
    assert await readiness.Tcp(port=port).why_not() == f"nothing listens on 127.0.0.1:{port}"


async def test_a_control_plane_that_is_frozen_is_not_ready_though_its_ports_listen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(readiness, "ANSWER_TIMEOUT_S", 0.05)
    made = plan.make_plan(plan.Options(name="x", nodes=1, control_plane="real"), MACHINE)
    with socket.create_server(("127.0.0.1", 0)) as frozen:
        port = frozen.getsockname()[1]
        said = {name: await probes.of(made, name, port).why_not() for name in probes.control_plane(made)}
    assert said == dict.fromkeys(probes.control_plane(made), f"nothing answers on port {port}")


async def test_what_is_no_http_counts_as_no_answer() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"SSH-2.0-x\r\n")
        writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        assert await readiness.get(server.sockets[0].getsockname()[1], "/readyz") is None


async def test_waiting_ends_when_the_file_is_there(tmp_path: pathlib.Path) -> None:
    probe = readiness.File(path=tmp_path / "ready.json")
    assert await probe.why_not() == "ready.json is not written yet"
    answer = asyncio.ensure_future(readiness.wait(probe))
    await asyncio.sleep(0)
    assert not answer.done()
    (tmp_path / "ready.json").touch()
    async with asyncio.timeout(waiting.WAIT_S):
        await answer
