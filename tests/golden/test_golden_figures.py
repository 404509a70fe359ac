"""The dissertation's figures of one node, from the author's logs: what docs/recordings.md states of each.

Skips where the logs are absent: made-up logs stand in for them in tests/unit/cli/recordings/figures.
"""

import functools
from typing import Any

import pytest

from carico_cli.recordings import figures, reading
from tests.golden import agent_log


@functools.cache
def numbers(number: str, name: str) -> dict[str, Any]:
    path = agent_log.shared_data() / f"{name}.txt"
    if not path.is_file():
        pytest.skip("the dissertation's recorded logs are absent (CARICO_SHARED_DATA); made-up ones stand in")
    return figures.FIGURES[number](reading.read(path)).numbers


def row(rows: list[dict[str, Any]], pods: int | None) -> dict[str, Any]:
    return next(one for one in rows if one["pods"] == pods)


def test_2_4_pressure_spikes_under_all_workloads() -> None:
    one = numbers("2.4", "pressure-metrics/pressure-single")["cpu"]
    ten = numbers("2.4", "pressure-metrics/pressure-churn")["cpu"]
    assert row(one, 0)["mean"] == pytest.approx(0.01, abs=0.005)
    assert row(ten, 0)["largest"] == pytest.approx(0.45, abs=0.01)
    assert row(one, 1)["mean"] == pytest.approx(0.04, abs=0.005)
    assert row(one, 1)["largest"] == pytest.approx(0.21, abs=0.005)
    assert row(one, None)["largest"] == pytest.approx(0.19, abs=0.005)
    assert row(ten, 10)["mean"] == pytest.approx(0.98, abs=0.006)


def test_2_5_the_mean_over_10_s_does_not_converge() -> None:
    found = numbers("2.5", "pressure-metrics/pressure-churn")["most_pods"]
    assert found["avg10_largest"] == pytest.approx(0.67, abs=0.005)
    assert found["samples_reach_90_s"] == pytest.approx(0.2, abs=0.01)
    assert found["avg10_reaches_90_s"] is None


def test_4_3_utilisation_answers_at_once() -> None:
    one, ten = (numbers("4.3", f"utilisation-metrics/{name}") for name in ("util-single", "util-batch"))
    assert [row(ten["cpu"], 0)["mean"], row(one["cpu"], 1)["mean"], row(ten["cpu"], 10)["mean"]] == pytest.approx(
        [0.04, 0.30, 1.0], abs=0.005
    )
    assert [row(ten["memory"], 0)["mean"], row(one["memory"], 1)["mean"], row(ten["memory"], 10)["mean"]] == (
        pytest.approx([0.06, 0.07, 0.08], abs=0.005)
    )
    assert ten["cpu_reaches_90_s"] == pytest.approx(0.2, abs=0.01)


def test_4_4_utilisation_and_pressure_together_follow_the_pods() -> None:
    jobs = numbers("4.4", "podcount-vs-metrics/cpu-vs-util")["jobs"]
    assert [job["pods"] for job in jobs] == [1, 2, 4, 8, 16, 24]
    assert [job["job_s_per_pod"] for job in jobs] == pytest.approx([4.9, 2.6, 1.4, 1.4, 1.5, 1.5], abs=0.051)
    assert [job["utilisation"] for job in jobs[2:]] == pytest.approx([1.0] * 4, abs=0.005)
    assert [job["pressure"] for job in jobs[2:4]] == pytest.approx([0.06, 0.96], abs=0.005)
    assert [job["cpu"] for job in jobs[:4]] == pytest.approx([0.14, 0.27, 0.53, 0.98], abs=0.005)


def test_4_5_the_filter_damps_spikes() -> None:
    one, ten = (numbers("4.5", f"utilisation-metrics/{name}") for name in ("util-single", "util-batch"))
    assert row(one["cpu_unfiltered"], 0)["largest"] == pytest.approx(0.48, abs=0.01)
    assert row(one["cpu"], 0)["largest"] == pytest.approx(0.16, abs=0.005)
    assert ten["cpu_reaches_90_s"] == pytest.approx(0.6, abs=0.01)


def test_4_6_the_signal_falls_while_peers_work_and_not_the_nodes_own_usage() -> None:
    rows = numbers("4.6", "signal-behaviour/smooth-signal-behaviour-cpu")["signal"]
    own = row(rows, 1)
    assert (own["mean"], own["least"], own["largest"]) == pytest.approx((0.94, 0.67, 1.1), abs=0.006)


def test_4_8_the_first_container_event_precedes_the_spike_and_the_api_does_not() -> None:
    created, completed = numbers("4.8", "event-listener/event-listners-comparison")["events"]
    assert [created["spike_s"], created["api_s"]] == pytest.approx([0.11, 0.74], abs=0.005)
    assert [completed["spike_s"], completed["api_s"]] == pytest.approx([1.9, 2.1], abs=0.02)


def test_4_9_the_estimators_on_bursts_of_pods() -> None:
    found = numbers("4.9", "cost-prediction/two-filter-comparison")
    costs = [found[name]["cost"] for name in ("delta", "dual", "joint")]
    assert [cost["mean"] for cost in costs] == pytest.approx([0.138, 0.118, 0.138], abs=5e-4)
    assert [cost["sd"] for cost in costs] == pytest.approx([0.026, 0.020, 0.017], abs=6e-4)
    assert max(found["delta"]["rms"]["cost"], found["dual"]["rms"]["cost"]) < 4e-7
    assert found["joint"]["rms"]["cost"] == pytest.approx(0.08, abs=0.002)
