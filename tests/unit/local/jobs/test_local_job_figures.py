"""The figures of a job against runs whose figures are known by hand."""

import math
from typing import Any

import pytest

from carico_local.jobs import facts, figures

SETTING = facts.Setting(
    nodes=("node-1", "node-2"), cores=4, scale=0.125, most_cores=8.0, memory_bytes=2**30, estimator="footprint",
    ceiling={"cpu": 0.9, "memory": 0.95}, workload="pi", pods=4, total_work_s=20.0, mean_work_s=5.0,
    machine={}, versions={}, notes=(),
)  # fmt: skip


def pod(
    number: int, *, node: str = "node-1", start_s: float | None = 0.0, end_s: float = 5.0, **more: Any
) -> facts.PodFacts:
    done: dict[str, Any] = (
        {"started_s": start_s, "finished_s": end_s, "terminal_s": end_s + 0.1} if start_s is not None else {}
    )
    fields = {"workload": "pi", "phase": "Succeeded", "nodes": [node], **done, **more}
    return facts.PodFacts(uid=f"u{number}", name=f"p-{number}", created_s=0.0, **fields)


def placed(number: int, *, free: float | None = 2.0) -> facts.Placed:
    return facts.Placed(uid=f"u{number}", free=free, threshold=1.0, mode="measured", waited_s=0.5)


def capacity(at_s: float, *, cpu: float = 0.0, memory: float = 0.0) -> facts.AdvertisedCapacity:
    return facts.AdvertisedCapacity(
        at_s=at_s, node="node-1", capacity=2.0, capacity_sd=0.1, pods=0, mode="measured",
        usage={"cpu": cpu, "memory": memory}, parts={}, cost={"cpu": (1.0, 0.1)},
    )  # fmt: skip


def run(pods: list[facts.PodFacts], **more: Any) -> facts.Facts:
    fields: dict[str, Any] = {
        "setting": SETTING, "submitted_s": 0.0, "ended_s": 99.0, "placed": [], "waits": {}, "capacities": [],
        "crashes": [], **more,
    }  # fmt: skip
    return facts.Facts(pods=pods, **fields)


def test_a_plain_run_has_the_figures_worked_out_by_hand() -> None:
    pods = [
        pod(0),
        pod(1, start_s=1.0, end_s=7.0),
        pod(2, node="node-2", start_s=5.0, end_s=12.4),
        pod(3, start_s=5.0, end_s=10.0),
    ]
    found = figures.report(run(pods, placed=[placed(number) for number in range(4)], waits={"capacity": 3}))
    assert (found["pods"], found["succeeded"], found["failed"]) == (4, 4, 0)
    assert found["job_s"] == 12.5
    assert found["pod_s"]["mean"] == pytest.approx((5 + 6 + 7.4 + 5) / 4)
    assert (found["pod_s"]["p50"], found["pod_s"]["max"]) == (5.5, 7.4)
    # Pod 3 starts in the very moment in which Pod 0 ends: two at once, not three.
    assert found["max_running_per_node"] == 2
    assert found["targets"]["bound_s"] == 20.0 / 8 + 5.0
    assert found["targets"]["least_s"] == 5.0, "the longest Pod takes longer than the work over all cores"
    assert found["targets"]["job_ratio"] == {"value": round(12.5 / 7.5, 4), "target": 1.12, "verdict": "missed"}
    assert found["targets"]["pod_ratio"] == {"value": 1.17, "target": 1.35, "verdict": "met"}
    assert found["placements"]["by_mode"] == {"measured": 4}
    assert found["placements"]["waits_by_reason"] == {"capacity": 3}
    assert (found["bound_twice"], found["never_bound"], found["capacity_overrun"]) == (0, 0, 0)


@pytest.mark.parametrize(("most_cores", "least_s"), [(8.0, 50.0), (16.0, 25.0)], ids=["quotas", "the whole machine"])
def test_no_scheduler_takes_less_than_the_work_over_the_cores_that_there_are(most_cores: float, least_s: float) -> None:
    """Without quotas, nodes use all of the machine."""
    setting = facts.Setting(**{**_fields(SETTING), "total_work_s": 400.0, "pods": 80, "most_cores": most_cores})
    assert figures.report(run([pod(0)], setting=setting))["targets"]["least_s"] == least_s


@pytest.mark.parametrize(
    ("pods", "decisions", "twice"),
    [
        ([pod(0, nodes=["node-1", "node-2"])], [placed(0)], 1),
        ([pod(0, nodes=["node-1", "node-2", "node-1"])], [placed(0)], 1),
        ([pod(0)], [placed(0), placed(0)], 1),
        ([pod(0), pod(1)], [placed(0), placed(1)], 0),
        ([pod(0)], [], 0),
    ],
    ids=["two nodes", "there and back", "two decisions", "once each", "bound by another"],
)
def test_a_pod_bound_twice_is_found_by_the_api_and_by_the_decisions(
    pods: list[facts.PodFacts], decisions: list[facts.Placed], twice: int
) -> None:
    assert figures.report(run(pods, placed=decisions))["bound_twice"] == twice


def test_a_pod_without_a_node_was_never_bound_and_a_job_cut_short_lasts_until_its_end() -> None:
    found = figures.report(run([pod(0, start_s=None, nodes=[], phase="Pending")]))
    assert found["never_bound"] == 1
    assert found["job_s"] == 99.0
    assert found["pod_s"]["mean"] is None
    assert found["targets"]["pod_ratio"]["verdict"] == "unknown"


@pytest.mark.parametrize(("free", "overrun"), [(1.0, 0), (0.999, 1), (0.0, 1), (None, 0)])
def test_a_placement_below_the_threshold_is_an_overrun(free: float | None, overrun: int) -> None:
    assert figures.report(run([pod(0)], placed=[placed(0, free=free)]))["capacity_overrun"] == overrun


@pytest.mark.parametrize(
    ("pods", "baseline_cpu", "overload_s"),
    [(7, 0.0, 0.0), (8, 0.0, 5.0), (7, 0.05, 5.0), (6, 0.05, 0.0)],
)
def test_overload_counts_seconds_above_what_ceiling_and_true_cost_allow(
    pods: int, baseline_cpu: float, overload_s: float
) -> None:
    # floor((0.9 - baseline) x 2 x 4 cores): 7 Pods on an empty node, 6 where half a task is always there.
    found = run(
        [pod(number) for number in range(pods)], capacities=[capacity(0, cpu=baseline_cpu), capacity(1, cpu=0.9)]
    )
    assert figures.report(found)["overload_node_s"] == pytest.approx(overload_s)


def test_memory_bounds_training_pods() -> None:
    # 0.95 GiB of room and 0.75 GB x 1/8 each: ten fit, eleven do not, whatever the CPU says.
    trains = [pod(number, workload="train") for number in range(11)]
    generous = facts.Setting(**{**_fields(SETTING), "cores": 16})
    assert figures.report(run(trains[:10], setting=generous))["overload_node_s"] == 0.0
    assert figures.report(run(trains, setting=generous))["overload_node_s"] == pytest.approx(5.0)


def test_a_mixed_job_compares_each_pod_with_its_own_work() -> None:
    mixed = facts.Setting(**{**_fields(SETTING), "workload": "mixed", "mean_work_s": 15.0, "pods": 2})
    pods = [pod(0, end_s=6.0), pod(1, workload="train", end_s=30.0)]
    found = figures.report(run(pods, setting=mixed))
    assert found["targets"]["pod_ratio"]["value"] == 1.2


def test_the_series_of_a_node_start_with_the_job() -> None:
    found = figures.report(run([pod(0, start_s=11.0, end_s=16.0)], submitted_s=10.0, capacities=[capacity(12.0)]))
    node = found["per_node"]["node-1"]
    assert node["running"] == [[1.0, 1], [6.0, 0]]
    assert node["capacity"] == [[2.0, 2.0, 0.1, 0, "measured"]]
    assert found["per_node"]["node-2"]["pods"] == 0


def test_a_distribution_of_nothing_is_none_and_never_zero() -> None:
    assert set(figures.distribution([]).values()) == {None}
    assert not math.isnan(figures.distribution([1.0])["std"] or 0.0)


def _fields(setting: facts.Setting) -> dict[str, Any]:
    return {name: getattr(setting, name) for name in setting.__slots__}


def test_a_job_that_lost_a_pod_has_met_nothing() -> None:
    short = facts.Setting(**{**_fields(SETTING), "pods": 3})
    found = figures.report(run([pod(0, end_s=1.0), pod(1, end_s=1.0)], setting=short))
    assert found["targets"]["job_ratio"]["verdict"] == "unknown"
    assert found["targets"]["pod_ratio"]["verdict"] == "unknown"


@pytest.mark.parametrize(
    ("mean_work_s", "end_s", "said"),
    [
        (5.0, 6.0, None),
        (5.0, 30.0, "the targets are for jobs of at least a minute; this one's reference is 8 s"),
        (60.0, 300.0, None),
    ],
)
def test_a_job_too_short_for_the_targets_says_so_where_it_misses_one(
    mean_work_s: float, end_s: float, said: str | None
) -> None:
    setting = facts.Setting(**{**_fields(SETTING), "pods": 1, "mean_work_s": mean_work_s})
    found = figures.short_job(figures.report(run([pod(0, end_s=end_s)], setting=setting)))
    assert (found or "").startswith(said or "") and (found is None) is (said is None)
