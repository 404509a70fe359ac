"""Scenarios from public traces have the traces' shape, fit on their nodes, and end under requests and under CARICO."""

import dataclasses
import math
import statistics

import pytest

from carico_twin import measures, scenario, world
from carico_twin.evaluate import contenders
from carico_twin.nodes import machine, work
from carico_twin.public import alibaba, openb

PLANS = {"alibaba": alibaba.alibaba, "openb": openb.openb}


def test_alibabas_tasks_have_the_traces_quantiles() -> None:
    jobs = alibaba.alibaba().jobs
    assert len(jobs) == alibaba.TASKS == len({job.name for job in jobs})
    # The trace's medians: .67 cores, .041 % of a machine's memory (24 times as much of a node), 10 s, one instance.
    assert statistics.median(job.work.threads for job in jobs) == pytest.approx(0.67, abs=0.02)
    memory = statistics.median(job.work.memory_bytes for job in jobs)
    assert memory == pytest.approx(0.00041 * 24 * 8 * work.GIB, rel=0.05)
    assert statistics.median(job.work.alone_s for job in jobs) == pytest.approx(10.2, abs=0.5)
    assert statistics.median(job.pods for job in jobs) == 1
    assert sum(job.pods == alibaba.MOST_INSTANCES for job in jobs) == 3
    starts_s = [job.at_s for job in jobs]
    assert starts_s == sorted(starts_s) and starts_s[0] == 0.0


def test_openbs_pods_arrive_as_in_the_trace() -> None:
    jobs = openb.openb().jobs
    arrivals = sorted(each.after_s for job in jobs for each in job.arrivals)
    assert len(arrivals) == 300 and len(jobs) == 17
    assert arrivals[0] == 0.0 and arrivals[-1] == pytest.approx(28_726 / 600, rel=0.02)
    # Two thirds ask for 11.3 of 96 cores and an eighth of the memory.
    largest = max(jobs, key=lambda job: job.pods)
    assert largest.pods == 203
    assert largest.request_cores == pytest.approx(4 * 11.3 / 96)
    assert largest.request_bytes == work.GIB


@pytest.mark.parametrize("name", PLANS)
def test_every_pod_fits_on_an_empty_node_and_the_scenario_is_the_same_each_time(name: str) -> None:
    plan = PLANS[name]()
    node = plan.hardware[0]
    assert plan == PLANS[name]() and plan.name == name
    for job in plan.jobs:
        assert job.work.most_threads <= node.cores
        assert job.work.memory_bytes < node.memory_bytes - node.baseline_bytes


@pytest.mark.parametrize("scheduler", ["kube-exact", contenders.DEFAULT])
@pytest.mark.parametrize("name", PLANS)
def test_it_ends(name: str, scheduler: str) -> None:
    found = measures.measure(world.run(PLANS[name](), contenders.all_contenders()[scheduler].choice, seed=1))
    assert found.finished and found.pods == sum(job.pods for job in PLANS[name]().jobs)


def test_pods_of_a_recorded_job_have_their_own_times() -> None:
    kind = work.Work(name="kind", cpu_s=1.0)
    arrivals = (scenario.Arrival(after_s=0.0, cpu_s=2.0), scenario.Arrival(after_s=3.0, cpu_s=4.0))
    job = scenario.Job(name="kind", work=kind, pods=2, at_s=10.0, arrivals=arrivals)
    assert [job.arrival(number) for number in range(2)] == [
        (10.0, dataclasses.replace(kind, cpu_s=2.0)), (13.0, dataclasses.replace(kind, cpu_s=4.0)),
    ]  # fmt: skip
    plan = scenario.Scenario(name="two", hardware=(machine.Hardware(),), jobs=(job,))
    pods = world.run(plan, world.ConstantOptions(pods_per_core=1.0), seed=1).pods
    assert [pod.created_s for pod in pods] == [10.0, 13.0]
    assert [pod.work.alone_s for pod in pods] == [2.0, 4.0]
    assert all(not math.isnan(pod.ended_s) and pod.pod_s >= pod.work.alone_s for pod in pods)


def test_a_recorded_job_has_an_arrival_for_each_pod() -> None:
    one = (scenario.Arrival(after_s=0.0, cpu_s=1.0),)
    with pytest.raises(ValueError, match=r"job kind: arrivals: expected 2, one a Pod, got 1"):
        scenario.Job(name="kind", work=work.PI, pods=2, arrivals=one)
