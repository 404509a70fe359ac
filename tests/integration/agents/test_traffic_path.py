"""From the kernel's sockets to the rescheduler: two Pods that talk, the agent of their node, the bus, and the flows."""

import asyncio
import os
import pathlib

import pytest

from carico_agent import service, settings
from carico_agent.reporting import traffic_reports
from carico_agent.telemetry import panel, sources
from carico_agent.traffic import diagnostics, sockets
from carico_core.domain import pod_telemetry
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.observe import health
from carico_core.runtime.observe import metrics as metric
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import settings as service_settings
from carico_core.runtime.process import tasks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_rescheduler import instruments
from carico_rescheduler.adapter import telemetry
from tests.tools import waiting
from tests.tools.memory import memory_bus
from tests.tools.sites import talking_pods
from tests.tools.sites.talking_pods import ANSWER, CLIENT, REQUEST, SERVER
from tests.unit.rescheduler import cluster_objects as objects
from tests.unit.scheduler import objects as pods

BYTES = REQUEST + ANSWER


class Gauge:
    """A node that is idle."""

    def read(self) -> float:
        return 0.1


def fake_proc(folder: pathlib.Path, cgroups: pathlib.Path, *pids: int) -> pathlib.Path:
    """A /proc in which `cgroups` is mounted as a v1 tree."""
    folder.mkdir()
    (folder / "mounts").write_text(f"cgroup {cgroups} cgroup rw,cpuacct 0 0\n")
    for name in ("1", "self", *map(str, pids)):
        (folder / name).symlink_to(f"/proc/{name}")
    return folder


async def test_what_pods_send_each_other_becomes_a_flow_of_the_rescheduler(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        diagnostics.Diagnostics().close()
    except OSError as error:
        pytest.skip(f"this kernel does not list sockets: {error}")
    facts = panel.Facts(dims=("cpu",), scale=(8.0,), cores=4.0, source="test")
    hub = memory_bus.Hub()

    async def connect(*_: object, **__: object) -> memory_bus.MemoryBus:
        return memory_bus.MemoryBus(hub)

    monkeypatch.setattr(sources, "open_panel", lambda *_, **__: panel.Panel(facts, {"cpu": Gauge()}))
    monkeypatch.setattr(nats_bus, "connect", connect)
    monkeypatch.setattr(traffic_reports, "TRAFFIC_EVERY_S", 0.5)
    polls: list[int] = []
    poll = sockets.Sockets.poll

    def polled(source: sockets.Sockets) -> list[pod_telemetry.PodFlow]:
        flows = poll(source)
        polls.append(len(flows))
        return flows

    monkeypatch.setattr(sockets.Sockets, "poll", polled)
    known = objects.make({"node-1": 1.0})
    # As on an emulated node, the API knows an address that the client has for itself.
    for uid, addresses in ((SERVER, ()), (CLIENT, (talking_pods.OWN,))):
        pod = pods.make_pod(uid, uid=uid, node_name="node-1", phase="Running")
        objects.put(known, pod, addresses=addresses)
    clock = clocks.FakeClock()
    found = telemetry.Telemetry(
        known, lease_s=10.0, clock=clock, metrics=instruments.Instruments(metric.Metrics("rescheduler"))
    )
    reports: list[pod_telemetry.PodTraffic] = []

    def hear(subject: str, payload: bytes) -> None:
        reports.append(wire.decode_traffic(payload, subject=subject))
        found.on_traffic(subject, payload)

    hub.subscriptions.append((subjects.TRAFFIC_ALL, hear))
    cgroups = tmp_path / "cgroups"
    cgroups.mkdir()
    with talking_pods.talking(cgroups) as (_, client):
        proc = fake_proc(tmp_path / "proc", cgroups, os.getpid(), client.process.pid)
        chosen = settings.AgentSettings(
            node="node-1", dims=("cpu",), pod_events="none", proc=str(proc), traffic="sockets",
            http=service_settings.HttpSettings(port=health.OFF),
        )  # fmt: skip
        stop = tasks.Stop()
        serving = asyncio.create_task(service.Service(chosen, clock=clocks.SystemClock()).run(stop))
        try:
            # What is transferred before the first poll does not count.
            await waiting.until(lambda: polls)
            await asyncio.to_thread(client.ask, "+3")
            await asyncio.to_thread(client.ask, "q20")
            # Connections that are shorter than a poll as well.
            requests = await asyncio.to_thread(client.ask, "c40")

            def sent() -> int:
                return sum(each.received_bytes for one in reports for each in one.flows if each.pod == SERVER)

            await waiting.until(lambda: sent() >= requests * REQUEST)
        finally:
            stop.set()
            await serving
    (flow,) = found.snapshot().resolve().flows
    assert {flow.one, flow.other} == {SERVER, CLIENT}
    seconds = sum(one.interval_s for one in reports[-24:])
    assert flow.bytes_per_s * seconds == pytest.approx(requests * BYTES, rel=0.02)
