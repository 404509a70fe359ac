"""Traffic between Pods from what both ends of connections report."""

import functools
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from carico_core.domain.pod_telemetry import Endpoint, PodFlow, PodTraffic
from carico_core.numerics.rescheduling import pod_traffic

A, B, C, D = "10.0.1.1", "10.0.2.1", "10.0.2.2", "10.0.3.1"
NODES = {"a": "n1", "b": "n2", "c": "n2", "d": "n3"}
PODS = {A: "a", B: "b", C: "c", D: "d"}
VIRTUAL = Endpoint("10.96.0.7", 80)


def flow(pod: str | None, local: tuple[str, int], remote: tuple[str, int], count: int) -> PodFlow:
    """A flow of this many bytes a second, in reports of ten seconds."""
    return PodFlow(pod, Endpoint(*local), Endpoint(*remote), count * 7, count * 3)


def report(node: str, *flows: PodFlow, network: str = "", interval_s: float = 10.0) -> PodTraffic:
    return PodTraffic(
        node=node, boot="0" * 16, seq=1, ts_ns=1, interval_s=interval_s, network=network, flows=flows
    )  # fmt: skip


def join(*reports: PodTraffic, backends: tuple[Endpoint, ...] = (), **changes: Any) -> Any:
    known: dict[str, Any] = {"nodes": NODES, "pods": PODS, "services": {VIRTUAL: backends}}
    return pod_traffic.join(reports, pod_traffic.Addresses(**(known | changes)))


CLIENT_END = flow("a", (A, 0), (B, 8080), 100)
SERVER_END = flow("b", (B, 8080), (A, 0), 100)


@pytest.mark.parametrize(
    "reports",
    [(report("n1", CLIENT_END),), (report("n2", SERVER_END),), (report("n1", CLIENT_END), report("n2", SERVER_END))],
    ids=["client", "server", "both"],
)
def test_a_connection_counts_once_whichever_ends_report(reports: tuple[PodTraffic, ...]) -> None:
    assert join(*reports) == ({("a", "b"): pytest.approx(100.0)}, 0.0)


def test_a_node_cannot_serve_at_the_address_of_another_nodes_pod() -> None:
    """It would draw the clients of that Pod to itself."""
    lie = report("n3", flow("d", (B, 8080), ("192.0.2.9", 0), 1))
    assert join(report("n1", CLIENT_END), lie).pairs == {("a", "b"): pytest.approx(100.0)}


@hypothesis.given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50), st.integers(0, 2)), max_size=12))
def test_reports_that_are_added_up_are_joined_as_one_after_another(made: list[tuple[int, int, int]]) -> None:
    ends = (CLIENT_END, flow("a", (A, 0), (C, 53), 5), flow("a", (A, 9000), (B, 0), 20), flow(None, (A, 0), (D, 1), 3))
    reports = [
        report("n1", ends[end]._replace(sent_bytes=10 * count), CLIENT_END, interval_s=10.0 * seconds)
        for end, count, seconds in made
    ]
    other = report("n2", SERVER_END)
    found = join(*([functools.reduce(pod_traffic.added, reports)] if reports else []), other)
    expected = join(*reports, other)
    assert found.pairs == pytest.approx(expected.pairs) and found.unresolved == pytest.approx(expected.unresolved)


def test_both_directions_and_all_ports_of_two_pods_are_added_up() -> None:
    found = join(
        report("n1", CLIENT_END, flow("a", (A, 0), (B, 53), 5), flow("a", (A, 9000), (B, 0), 20)),
        report("n2", SERVER_END, flow("b", (B, 0), (A, 9000), 20)),
    )
    assert found == ({("a", "b"): pytest.approx(125.0)}, 0.0)


def test_rates_are_means_over_the_reports_of_each_node() -> None:
    idle = report("n1", interval_s=30.0)
    assert join(report("n1", CLIENT_END), idle).pairs == {("a", "b"): pytest.approx(25.0)}
    # The other node's report was not delayed.
    assert join(report("n1", CLIENT_END), idle, report("n2", SERVER_END)).pairs == {("a", "b"): pytest.approx(100.0)}
    assert join(report("n1", CLIENT_END, interval_s=0.0)) == ({}, 0.0), "no time, no rate"


def test_a_service_is_resolved_by_what_its_pods_report() -> None:
    backends = (Endpoint(B, 8080), Endpoint(C, 8080))
    to_service = report("n1", flow("a", (A, 0), VIRTUAL, 100))
    seen = report("n2", flow("b", (B, 8080), (A, 0), 70), flow("c", (C, 8080), (A, 0), 30))
    assert join(to_service, seen, backends=backends) == ({("a", "b"): 70.0, ("a", "c"): 30.0}, pytest.approx(0.0))


def test_a_direct_connection_to_a_backend_is_not_taken_for_one_to_the_service() -> None:
    seen = report("n2", flow("b", (B, 8080), (A, 0), 150))
    both = report("n1", flow("a", (A, 0), VIRTUAL, 100), flow("a", (A, 0), (B, 8080), 50))
    assert join(both, seen, backends=(Endpoint(B, 8080),)).pairs == {("a", "b"): pytest.approx(150.0)}


def test_a_service_is_resolved_by_clients_that_its_pods_cannot_identify() -> None:
    backends = (Endpoint(B, 8080), Endpoint(C, 8080))
    seen = report("n2", flow("b", (B, 8080), ("192.0.2.9", 0), 80), flow("c", (C, 8080), ("192.0.2.9", 0), 60))
    found = join(report("n1", flow("a", (A, 0), VIRTUAL, 100)), seen, backends=backends)
    assert found.pairs == {("a", "b"): pytest.approx(80.0), ("a", "c"): pytest.approx(20.0)}
    assert found.unresolved == pytest.approx(40.0)


def test_what_is_left_of_a_service_is_divided_among_pods_that_report_nothing() -> None:
    backends = (Endpoint(B, 8080), Endpoint(C, 8080), Endpoint(D, 8080))
    to_service = report("n1", flow("a", (A, 0), VIRTUAL, 100))
    seen = report("n2", flow("b", (B, 8080), (A, 0), 40))
    assert join(to_service, seen, backends=backends).pairs == {
        ("a", "b"): pytest.approx(40.0), ("a", "c"): pytest.approx(30.0), ("a", "d"): pytest.approx(30.0),
    }  # fmt: skip
    assert join(to_service).unresolved == pytest.approx(100.0), "a Service without Pods"
    assert join(to_service, services={}).unresolved == pytest.approx(100.0), "an address of nothing known"


def test_loopback_is_resolved_within_one_network_alone() -> None:
    client = flow("a", ("127.0.0.1", 0), ("127.0.0.1", 8080), 100)
    server = flow("b", ("127.0.0.1", 8080), ("127.0.0.1", 0), 100)
    # Two emulated nodes of one machine: the client's end identifies both.
    here = (report("n1", client, network="x"), report("n2", server, network="x"))
    assert join(*here) == ({("a", "b"): pytest.approx(100.0)}, pytest.approx(0.0))
    there = (report("n1", client, network="x"), report("n2", server, network="y"))
    assert join(*there) == ({}, pytest.approx(200.0))
    assert join(*there, pods={"127.0.0.1": "c"}).pairs == {}, "an address that every process has"


def test_the_address_of_a_pod_on_an_emulated_node_is_known_on_its_machine() -> None:
    pods = {"127.16.0.1": "a", "127.17.0.1": "b"}
    server = report("n2", flow("b", ("127.17.0.1", 8080), ("127.16.0.1", 0), 100), network="x")
    assert join(server, report("n1", network="x"), pods=pods) == ({("a", "b"): 100.0}, 0.0)
    assert join(server, report("n1", network="y"), pods=pods) == ({}, 100.0), "that of another machine"


def test_a_pod_in_the_hosts_network_is_known_by_the_port_that_it_serves() -> None:
    server = report("n2", flow("c", ("192.0.2.2", 9100), (A, 0), 10))
    assert join(report("n1", flow("a", (A, 0), ("192.0.2.2", 9100), 10)), server).pairs == {("a", "c"): 10.0}


def test_an_end_without_a_pod_is_resolved_by_its_address() -> None:
    # As Prometheus reports it: no ports, and each direction by itself.
    found = join(report("n1", flow(None, (A, 0), (B, 0), 10), flow(None, (B, 0), (A, 0), 5)))
    assert found == ({("a", "b"): 10.0}, 5.0), "b is not on n1, whose agent cannot know it"


def test_pods_that_are_gone_or_of_another_node_are_unresolved() -> None:
    gone = flow("z", ("10.0.9.9", 0), (B, 8080), 10)
    assert join(report("n1", gone)) == ({}, 10.0)
    lie = report("n1", flow("d", (D, 8080), (B, 0), 1000))
    assert join(lie) == ({}, 1000.0)
    assert join(lie, report("n2", flow("b", (B, 0), (D, 8080), 3))).pairs == {("b", "d"): 3.0}


def test_traffic_of_a_pod_with_itself_is_none() -> None:
    assert join(report("n1", flow("a", (A, 0), (A, 80), 10))) == ({}, 0.0)


_ENDS = st.sampled_from((A, B, C, D, "127.0.0.1", "192.0.2.1", VIRTUAL.address))
_FLOWS = st.builds(
    flow, st.sampled_from(("a", "b", "c", "d", None, "z")), st.tuples(_ENDS, st.sampled_from((0, 80, 8080))),
    st.tuples(_ENDS, st.sampled_from((0, 80, 8080))), st.integers(0, 1000),
)  # fmt: skip


@hypothesis.given(
    reports=st.lists(st.builds(lambda node, flows: report(node, *flows), st.sampled_from(("n1", "n2", "n3")),
                               st.lists(_FLOWS, max_size=6)), max_size=4)
)  # fmt: skip
@hypothesis.settings(max_examples=200, deadline=None)
def test_nothing_is_made_up(reports: list[PodTraffic]) -> None:
    found = join(*reports, backends=(Endpoint(B, 8080), Endpoint(D, 8080)))
    reported = sum(each.sent_bytes + each.received_bytes for one in reports for each in one.flows) / 10.0
    assert sum(found.pairs.values()) + found.unresolved <= reported * (1.0 + 1e-9) + 1e-9
    assert all(rate >= 0.0 and one < other for (one, other), rate in found.pairs.items())
    assert found.unresolved >= -1e-9
