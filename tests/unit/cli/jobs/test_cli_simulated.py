"""kube-scheduler on a demo's job, in the twin: within what is possible, and slower Pods with smaller requests."""

import pytest

from carico_cli.jobs import simulated
from carico_local.cluster import machine
from carico_local.cluster import plan as plans
from carico_local.jobs import job as jobs

MACHINE = machine.Machine(cpus=2.0, memory_available_bytes=2**35, processor="test", kernel="6.18")
PLAN = plans.make_plan(plans.Options(name="x", nodes=3), MACHINE)


@pytest.mark.parametrize(("workload", "pods"), [("pi", 60), ("mixed", 52)])
def test_its_times_are_possible_and_small_requests_slow_pods_down(workload: str, pods: int) -> None:
    job = jobs.Job(name="demo", workload=jobs.Workload(workload), pods=pods)
    half, tenth = simulated.kube_scheduler(PLAN, job)
    assert (half["request_millicores"], tenth["request_millicores"]) == (500, 100)
    least_s = job.total_work_s / (PLAN.nodes * PLAN.cores)
    for found in (half, tenth):
        assert least_s < found["job_s"] < 3 * least_s + 30.0
        assert found["pod_mean_s"] >= 0.97 * job.mean_work_s
    assert tenth["pod_mean_s"] > half["pod_mean_s"]


def test_nothing_is_claimed_for_a_job_that_would_take_minutes_to_simulate() -> None:
    job = jobs.Job(name="demo", workload=jobs.Workload.PI, pods=simulated.PODS_MOST + 1)
    assert simulated.kube_scheduler(PLAN, job) == []


def test_nothing_is_claimed_without_the_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert simulated.kube_scheduler(PLAN, jobs.Job(name="demo", workload=jobs.Workload.PI, pods=3)) == []
