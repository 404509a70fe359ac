"""Memory beyond a node's: when it comes, whom the kernel picks, and what the Pod's Job does then."""

import dataclasses
import math

import pytest

from carico_twin import catalogue, measures, scenario, world
from carico_twin.nodes import machine, work
from carico_twin.schedulers import slots

GIB = work.GIB
NODE = machine.Hardware(memory_bytes=8.0 * GIB, baseline_bytes=1.0 * GIB)
BLIND = slots.KubeOptions(request_cores=0.1, request_bytes=0.0)


def holds(size_gib: float, ramp_s: float, *, cpu_s: float = 20.0) -> work.Work:
    return work.Work(name="holds", cpu_s=cpu_s, memory_bytes=size_gib * GIB, ramp_s=ramp_s)


def node_with(*pods: work.Work) -> machine.Machine:
    made = machine.Machine(NODE)
    for number, each in enumerate(pods):
        made.start(f"pod-{number}", each, 20.0, 0.0)
    return made


def test_an_overrun_is_predicted_to_the_instant() -> None:
    # 7 GiB are free: 4 within 2 s and 6 within 12 s reach them when 4 + 0.5 t = 7.
    assert node_with(holds(4.0, 2.0), holds(6.0, 12.0)).next_overrun(0.0) == pytest.approx(6.0)
    # What is asked for from the start on needs no ramp.
    assert node_with(holds(4.0, 0.0), holds(4.0, 0.0)).next_overrun(0.0) == 0.0


def test_memory_that_is_just_full_is_no_overrun() -> None:
    assert node_with(holds(4.0, 2.0), holds(3.0, 12.0)).next_overrun(0.0) is None


def test_what_is_predicted_is_what_the_machine_then_reads() -> None:
    made = node_with(holds(3.0, 7.0), holds(2.0, 3.0), holds(4.0, 11.0))
    when_s = made.next_overrun(1.0)
    assert when_s is not None
    assert made.memory_bytes(when_s) == pytest.approx(NODE.memory_bytes)
    assert made.next_overrun(when_s - 1e-3) == pytest.approx(when_s)


def test_the_kernel_picks_the_pod_that_holds_most_at_that_instant() -> None:
    made = node_with(holds(4.0, 0.0), holds(6.0, 60.0))
    assert made.worst(10.0) == "pod-0"
    assert made.worst(50.0) == "pod-1"


def test_a_killed_pod_ends_and_its_job_creates_another_until_all_have_come_to_their_end() -> None:
    # Two fit next to each other, three do not; two have ended before the third comes again.
    job = scenario.Job(name="holds", work=holds(3.0, 5.0, cpu_s=8.0), pods=3)
    plan = scenario.Scenario(name="three", hardware=(NODE,), jobs=(job,), oom_kills=True)
    run = world.run(plan, BLIND, seed=1)
    found = measures.measure(run)
    killed = [pod for pod in run.pods if pod.failed]
    assert run.finished
    assert found.oom_killed == len(killed) == 1
    assert found.pods == sum(not math.isnan(pod.ended_s) for pod in run.pods if not pod.failed) == 3
    assert len({pod.uid for pod in run.pods}) == len(run.pods) == 4
    # The Job's first backoff, after the API has reported the failure.
    assert run.pods[-1].created_s == pytest.approx(killed[0].terminal_s + world.RETRY_FIRST_S)
    assert found.peak_memory_share <= 1.0 + 1e-9
    assert found.overrun_node_s == 0.0


def test_without_kills_the_overrun_is_counted_and_every_pod_ends() -> None:
    job = scenario.Job(name="holds", work=holds(3.0, 5.0), pods=3)
    run = world.run(scenario.Scenario(name="three", hardware=(NODE,), jobs=(job,)), BLIND, seed=1)
    found = measures.measure(run)
    assert run.finished
    assert found.oom_killed == 0
    assert found.overrun_node_s > 1.0
    assert len(run.pods) == 3


def test_blind_requests_have_pods_killed_and_carico_without_any_has_none() -> None:
    plan = dataclasses.replace(
        catalogue.all_scenarios()["out-of-memory"], hardware=(machine.Hardware(),) * 4, limit_s=200.0,
        jobs=(catalogue.job(work.HOLDS_MEMORY, 40),),
    )  # fmt: skip
    ours = measures.measure(world.run(plan, world.CaricoOptions(), seed=1))
    assert ours.finished
    assert ours.oom_killed == 0
    assert measures.measure(world.run(plan, BLIND, seed=1)).oom_killed > 5


def test_a_pod_that_no_empty_node_holds_is_refused_where_it_would_be_killed_for_ever() -> None:
    job = scenario.Job(name="holds", work=holds(7.5, 0.0), pods=1)
    with pytest.raises(ValueError, match="more than any node has free"):
        scenario.Scenario(name="too much", hardware=(NODE,), jobs=(job,), oom_kills=True)
