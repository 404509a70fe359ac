"""Metrics of one process."""

import pytest

from carico_core.runtime import metrics as metric


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
