"""Reports of traffic: flows add up, nothing is lost in an outage, and pairs are bounded."""

import asyncio

import pytest

from carico_agent import settings
from carico_agent.reporting import publishers, traffic_reports
from carico_agent.traffic import sources
from carico_core.domain import errors, pod_telemetry
from carico_core.runtime.observe import metrics as metric
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from tests.tools import waiting
from tests.unit.agent import agent_site
from tests.unit.agent.traffic.kernel_messages import flow

ONE = flow("a", ("10.0.0.1", 80), ("10.0.0.2", 0), 100, 7)
TWO = flow(None, ("10.0.0.1", 0), ("10.0.0.2", 80), 1, 2)


def reports(clock: clocks.FakeClock, metrics: metric.Metrics) -> traffic_reports.TrafficReports:
    return traffic_reports.TrafficReports(
        node="node-1", boot="0" * 16, network="ab", clock=clock, counters=traffic_reports.Counters(metrics)
    )


def test_flows_of_the_same_endpoints_are_added_up() -> None:
    clock, metrics = clocks.FakeClock(), metric.Metrics("agent")
    found = reports(clock, metrics)
    found.add([ONE, TWO])
    clock.advance(4.0)
    found.add([ONE])
    report = found.next()
    assert report.flows == (ONE._replace(sent_bytes=200, received_bytes=14), TWO)
    assert report.interval_s == pytest.approx(4.0)
    assert (report.seq, report.network) == (1, "ab")
    assert metrics.value("traffic_bytes_total", {}) == 217
    clock.advance(2.0)
    found.put_back(report)
    found.add([ONE])
    clock.advance(1.0)
    again = found.next()
    assert again.flows[0].sent_bytes == 300
    assert again.interval_s == pytest.approx(7.0)
    assert again.seq == 2
    assert found.next().flows == ()
    assert metrics.value("traffic_bytes_total", {}) == 324, "what is put back was counted"


def test_what_was_skipped_since_the_start_is_in_every_report() -> None:
    metrics = metric.Metrics("agent")
    counters = traffic_reports.Counters(metrics)
    found = traffic_reports.TrafficReports(
        node="node-1", boot="0" * 16, network="ab", clock=clocks.FakeClock(), counters=counters
    )
    assert found.next().skipped == {}
    for reason, count in (("unreadable", 1), ("decreased", 2), ("decreased", 1)):
        counters.skip(reason, count)
    assert found.next().skipped == found.next().skipped == {"unreadable": 1, "decreased": 3}
    assert metrics.value("traffic_skipped_total", {"reason": "decreased"}) == 3


def test_a_number_that_no_message_takes_is_bounded() -> None:
    """Prometheus may answer any number, and an agent must go on."""
    found = reports(clocks.FakeClock(), metric.Metrics("agent"))
    found.add([flow("a", ("10.0.0.1", 0), ("10.0.0.2", 0), int(1e300), 1)] * 2)
    payload = wire.encode_traffic(found.next())
    (read,) = wire.decode_traffic(payload, subject=subjects.traffic("node-1")).flows
    assert (read.sent_bytes, read.received_bytes) == (traffic_reports.BYTES_MOST, 2)


def test_bytes_of_pairs_beyond_the_bound_are_counted_only() -> None:
    found = reports(clocks.FakeClock(), metric.Metrics("agent"))
    found.add(
        flow("a", ("10.0.0.1", number), ("10.0.0.2", 0), 1, 1) for number in range(traffic_reports.PAIRS_MOST + 5)
    )
    found.add([flow("a", ("10.0.0.1", 3), ("10.0.0.2", 0), 1, 1)])
    report = found.next()
    assert (len(report.flows), report.left_out_bytes) == (traffic_reports.PAIRS_MOST, 10)


async def test_a_report_that_was_not_sent_is_part_of_the_next(
    rig: agent_site.Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traffic_reports, "TRAFFIC_EVERY_S", 0.0)
    one = rig()
    found = reports(one.clock, metric.Metrics("other"))
    heard: list[pod_telemetry.PodTraffic] = []
    one.hub.subscriptions.append(
        (subjects.TRAFFIC_ALL, lambda subject, payload: heard.append(wire.decode_traffic(payload, subject=subject)))
    )
    sender = publishers.Publishers(one.agent, one.bus, node="node-1")
    one.hub.set_away(True)
    found.add([ONE])
    one.tasks.append(asyncio.create_task(sender.send_traffic(found)))
    await waiting.until(lambda: one.value("publish_errors_total", kind="traffic") >= 2)
    one.hub.set_away(False)
    await waiting.until(lambda: any(each.flows for each in heard))
    assert [each.flows for each in heard if each.flows] == [(ONE,)]
    assert one.value("published_total", kind="traffic") >= 1


def opened(traffic: str) -> object:
    chosen = settings.AgentSettings(node="node-1", traffic=traffic)
    return sources.open_traffic(chosen, clock=clocks.FakeClock(), skipped=lambda reason, count: None)


def test_the_settings_name_the_adapter() -> None:
    assert opened("none") is None
    assert type(opened("promql:http://p/api/v1/query?query=x")).__name__ == "Promql"
    with pytest.raises(errors.EnvironmentUnfit, match="/missing"):
        opened("recorded:/missing")


@pytest.mark.parametrize("traffic", ["", "socket", "recorded", "recorded:", "promql", "sockets:x"])
def test_another_adapter_is_refused(traffic: str) -> None:
    with pytest.raises(ValueError, match="--traffic"):
        settings.AgentSettings(node="node-1", traffic=traffic)


def test_the_name_of_a_network_is_that_of_its_machine_and_namespace() -> None:
    name = sources.network_name()
    assert name == sources.network_name()
    assert 0 < len(name) <= 32
