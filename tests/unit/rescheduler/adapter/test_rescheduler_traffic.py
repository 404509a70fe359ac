"""Reports of loads and traffic: of a node's own Pods alone, and resolved to Pods of the API."""

import dataclasses
from typing import Any

import pytest

from carico_core.domain.pod_telemetry import Endpoint, PodFlow, PodLoad, PodLoads, PodTraffic
from carico_core.runtime.observe import metrics as metric
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_rescheduler import instruments
from carico_rescheduler.adapter import telemetry, traffic
from carico_rescheduler.context import cluster as clusters
from carico_rescheduler.context import objects as contexts
from carico_rescheduler.context import problem, services
from tests.unit.rescheduler import cluster_objects as objects
from tests.unit.scheduler import objects as parts


class Site:
    """Two nodes with a Pod each, and what their agents report."""

    def __init__(self) -> None:
        self.clock = clocks.FakeClock()
        self.metrics = metric.Metrics("rescheduler")
        self.known = objects.make({"n1": 1.0, "n2": 1.0})
        (self.one,), (self.other,) = objects.deploy(self.known, "web", ["n1"]), objects.deploy(self.known, "db", ["n2"])
        for each, address in ((self.one, "10.0.1.1"), (self.other, "10.0.2.1")):
            key = (each.pod.namespace, each.pod.name)
            self.known.pods.put(key, dataclasses.replace(each, addresses=(address,)))
        self.telemetry = telemetry.Telemetry(
            self.known, lease_s=10.0, clock=self.clock, metrics=instruments.Instruments(self.metrics)
        )
        self.seq = 0
        self.unresolved = 0.0

    def report(self, *flows: PodFlow, node: str = "n1", **changes: Any) -> None:
        self.seq += 1
        values = {"boot": "0" * 16, "seq": self.seq, "ts_ns": 1, "interval_s": 10.0, "network": "", "flows": flows}
        record = PodTraffic(node=node, **(values | changes))  # type: ignore[arg-type]  # names checked by the record
        self.telemetry.on_traffic(subjects.traffic(node), wire.encode_traffic(record))

    def advertise(self, times: int = 1) -> None:
        """Advertise once a second."""
        for _ in range(times):
            self.clock.advance(1.0)
            self.seq += 1
            made = parts.make_advertisement("n1", 1.0, seq=self.seq)
            self.telemetry.on_advertisement(subjects.capacity("n1"), wire.encode_advertisement(made))

    def flows(self) -> tuple[clusters.Flow, ...]:
        self.telemetry.forget()
        found = self.telemetry.snapshot().resolve()
        self.unresolved = found.gaps.unresolved_bytes
        return found.flows


def to(address: str, count: int = 1000, *, uid: str | None = None) -> PodFlow:
    return PodFlow(uid, Endpoint("10.0.1.1", 0), Endpoint(address, 5432), count, 0)


def test_what_a_node_that_the_api_does_not_show_reports_is_not_kept() -> None:
    """With a key of all nodes, one can report of any number of names."""
    site = Site()
    load = PodLoad("*", 1.0, 0.0, 2.0**20)

    def send() -> None:
        for number in range(50):
            name = f"made-up-{number}"
            record = PodLoads(node=name, boot="0" * 16, seq=1, ts_ns=1, loads={"u": load})
            site.telemetry.on_loads(subjects.pods(name), wire.encode_loads(record))

    send()
    assert not any(node.startswith("made-up") for node, _ in site.known.loads)
    assert site.telemetry.snapshot().dropped == {("pods", "foreign_node"): 50}
    # While the API is away, those that it has shown are known.
    site.known.nodes.lacking = "the API does not answer: it is away"
    send()
    assert site.telemetry.snapshot().dropped == {("pods", "foreign_node"): 100}


def test_what_agents_could_not_send_for_an_hour_is_no_traffic_of_now() -> None:
    site = Site()
    site.advertise()
    site.report(to("10.0.2.1", 36_000_000), interval_s=3600.0)
    assert site.flows() == () and site.telemetry.snapshot().dropped == {("traffic", "too_old"): 1}
    # The next report is waited for, once.
    site.advertise(15)
    site.report(to("10.0.2.1", 1000))
    site.report(to("10.0.2.1", 36_000_000), interval_s=3600.0)
    assert "less than 24 s" in site.telemetry.incomplete()
    (flow,) = site.flows()
    assert flow.bytes_per_s == 100.0
    site.advertise(10)
    assert site.telemetry.incomplete() == ""


def test_a_node_cannot_report_the_load_of_another_nodes_pod() -> None:
    site = Site()
    load = PodLoad("*", 64.0, 0.0, 2.0**40)
    record = PodLoads(node="n2", boot="0" * 16, seq=1, ts_ns=1, loads={site.one.uid: load, site.other.uid: load})
    before = problem.load_of(site.known, site.one.pod)
    site.telemetry.on_loads(subjects.pods("n2"), wire.encode_loads(record))
    assert problem.load_of(site.known, site.one.pod) == before
    # Of a node of four cores no Pod has more than five tasks.
    assert 3.0 < problem.load_of(site.known, site.other.pod).tasks < 5.0


def test_traffic_between_two_pods_is_known_until_it_is_too_old() -> None:
    site = Site()
    site.report(to("10.0.2.1", uid=site.one.uid))
    (found,) = site.flows()
    assert {found.one, found.other} == {site.one.uid, site.other.uid}
    assert found.bytes_per_s == pytest.approx(100.0)
    site.clock.advance(traffic.WINDOW_S + 1.0)
    assert site.flows() == ()


def test_reports_of_a_minute_are_kept_as_one() -> None:
    site = Site()
    for _ in range(12):
        site.report(to("10.0.2.1", uid=site.one.uid), skipped={"decreased": site.seq})
        site.clock.advance(10.0)
    snapshot = site.telemetry.snapshot()
    assert [len(each.flows) for each in snapshot.reports] == [1, 1]
    assert snapshot.resolve().gaps.skipped == {("n1", "decreased"): 11}
    (found,) = site.flows()
    assert found.bytes_per_s == pytest.approx(100.0)


def test_a_virtual_address_is_resolved_and_the_rest_is_counted() -> None:
    site = Site()
    site.known.services.put(
        ("default", "db"),
        services.ServiceAddresses(namespace="default", name="db", addresses=("10.96.0.9",), ports={"": 5432}),
    )
    site.known.slices.put(
        ("default", "db-1"),
        services.Slice(namespace="default", service="db", addresses=("10.0.2.1",), ports={"": 5432}),
    )
    site.report(to("10.96.0.9"), to("192.0.2.1", 500))
    (found,) = site.flows()
    assert found.bytes_per_s == pytest.approx(100.0)
    assert site.unresolved == pytest.approx(50.0)


def test_addresses_that_several_pods_have_identify_none() -> None:
    site = Site()
    key = (site.other.pod.namespace, site.other.pod.name)
    site.known.pods.put(key, dataclasses.replace(site.other, addresses=("10.0.1.1",)))
    site.report(to("10.0.1.1", uid=site.one.uid))
    assert site.flows() == ()


def test_a_pod_in_the_hosts_network_has_no_address_for_itself() -> None:
    obj = {
        "metadata": {"namespace": "a", "name": "b", "uid": "c", "creationTimestamp": "2026-11-23T16:00:00Z"},
        "spec": {"hostNetwork": True, "containers": []}, "status": {"podIPs": [{"ip": "192.0.2.1"}]},
    }  # fmt: skip
    assert contexts.parse_pod(obj).addresses == ()
    assert contexts.parse_pod({**obj, "spec": {"containers": []}}).addresses == ("192.0.2.1",)


def test_a_report_that_is_old_or_broken_is_dropped_and_counted() -> None:
    site = Site()
    site.report(to("10.0.2.1", uid=site.one.uid))
    site.report(to("10.0.2.1", uid=site.one.uid), seq=1)
    site.telemetry.on_traffic(subjects.traffic("n1"), b"{}")
    site.telemetry.on_traffic(subjects.traffic("n2"), b"\xff")
    assert site.metrics.value("dropped_messages_total", {"kind": "traffic", "reason": "replayed"}) == 1
    assert site.metrics.value("dropped_messages_total", {"kind": "traffic", "reason": "undecodable"}) == 1
    assert len(site.flows()) == 1


def test_a_snapshot_is_of_its_time() -> None:
    site = Site()
    site.report(to("10.0.2.1"))
    snapshot = site.telemetry.snapshot()
    site.known.pods.remove((site.other.pod.namespace, site.other.pod.name))
    site.known.loads.clear()
    site.report(to("10.0.2.1"))
    (found,) = snapshot.resolve().flows
    assert found.bytes_per_s == pytest.approx(100.0) and len(snapshot.known.loads) == 2
    # Only copies have flows: what events change holds no million of them.
    assert site.known.flows == () and site.flows() == ()
