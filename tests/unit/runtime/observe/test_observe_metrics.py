"""Metrics of one process."""

import asyncio

import pytest

from carico_core.runtime.observe import client_metrics
from carico_core.runtime.observe import metrics as metric
from tests.tools.memory import memory_bus


def test_names_carry_the_service_and_appear_in_the_text() -> None:
    metrics = metric.Metrics("agent")
    metrics.counter("drops", "dropped", ("reason",)).labels("late").inc(2)
    metrics.gauge("capacity_pods", "capacity").set(3.5)
    metrics.histogram("lateness_seconds", "late", buckets=(0.01, 0.1)).observe(0.05)
    text = metrics.render().decode()
    assert 'carico_agent_drops_total{reason="late"} 2.0' in text
    assert "carico_agent_capacity_pods 3.5" in text
    assert 'carico_agent_lateness_seconds_bucket{le="0.1"} 1.0' in text
    assert "process_resident_memory_bytes" in text
    assert metrics.value("drops_total", {"reason": "late"}) == 2.0
    assert metrics.value("nothing") is None


def test_two_registries_do_not_meet_and_one_refuses_doubles() -> None:
    first = metric.Metrics("agent")
    first.gauge("x", "x")
    metric.Metrics("agent").gauge("x", "x")
    with pytest.raises(ValueError, match="Duplicated"):
        first.gauge("x", "x")


def test_what_is_read_at_a_scrape_is_read_then_and_replaced_by_a_newer_of_its_name() -> None:
    metrics = metric.Metrics("agent")
    ages = {"newest": 3.0}
    metrics.reading("age_seconds", "age", lambda: [((), ages["newest"])])
    assert metrics.value("age_seconds") == 3.0
    ages["newest"] = 4.0
    assert metrics.value("age_seconds") == 4.0
    metrics.reading("age_seconds", "age", list)
    assert metrics.value("age_seconds") is None
    metrics.reading("seen", "seen", lambda: [(("a",), 2)], labels=("kind",), kind=metric.Kind.COUNTER, shared=True)
    assert 'carico_seen_total{kind="a"} 2.0' in metrics.render().decode()
    assert [each.name for each in metrics.declared] == ["carico_agent_age_seconds", "carico_seen_total"]


def test_no_series_says_when_it_was_made() -> None:
    metrics = metric.Metrics("agent")
    metrics.counter("drops", "dropped").inc()
    assert "_created" not in metrics.render().decode()


async def test_the_bus_is_read_once_there_is_one() -> None:
    metrics = metric.Metrics("agent")
    watched = client_metrics.BusMetrics(metrics)
    assert metrics.registry.get_sample_value("carico_bus_connected") == 0.0
    bus = memory_bus.MemoryBus()
    watched.watch(bus)
    assert metrics.registry.get_sample_value("carico_bus_connected") == 1.0
    await bus.publish("carico.v1.capacity.n", b"1234")
    assert metrics.registry.get_sample_value("carico_bus_bytes_total", {"direction": "out"}) == 4.0
    bus.hub.set_away(True)
    assert metrics.registry.get_sample_value("carico_bus_connected") == 0.0
    bus.hub.set_away(False)
    assert metrics.registry.get_sample_value("carico_bus_reconnects_total") == 1.0


def test_a_loop_that_was_kept_busy_is_seen_to_be_late() -> None:
    metrics = metric.Metrics("agent")
    watch = metric.LoopWatch(metrics)
    clock = 0.0

    async def main() -> None:
        nonlocal clock
        task = asyncio.create_task(watch.run())
        for _ in range(10):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    class Late(asyncio.SelectorEventLoop):
        """Each look at its time is 0.7 s later than the one before."""

        def time(self) -> float:
            nonlocal clock
            clock += 0.7
            return clock

    with asyncio.Runner(loop_factory=Late) as runner:
        runner.run(main())
    assert metrics.registry.get_sample_value("carico_loop_lag_seconds_bucket", {"le": "0.1"}) == 0.0
    assert (metrics.registry.get_sample_value("carico_loop_lag_seconds_count") or 0.0) >= 1.0
