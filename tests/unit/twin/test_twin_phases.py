"""Programs that wait: phases take their time, compute what they are to compute, and hold what they hold."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico_twin import catalogue, scenario, world
from carico_twin.nodes import machine
from carico_twin.nodes import work as works

PHASE = st.builds(
    works.Phase,
    seconds=st.floats(0.1, 5.0),
    threads=st.sampled_from([0.0, 1.0, 2.0, 4.0]),
    memory_bytes=st.floats(0.0, works.GIB),
)


def alone(kind: works.Work, pods: int = 1, cores: float = 8.0) -> world.Run:
    plan = scenario.Scenario(
        name="alone",
        hardware=(machine.Hardware(cores=cores, baseline_cores=0.0),),
        jobs=(scenario.Job(name="a", work=kind, pods=pods),),
    )
    return world.run(plan, world.ConstantOptions(pods_per_core=10.0), seed=1)


@given(st.lists(PHASE, min_size=1, max_size=6), st.integers(1, 3))
def test_alone_a_program_takes_the_sum_of_its_phases(phases: list[works.Phase], rounds: int) -> None:
    if not any(phase.threads for phase in phases):
        phases = [*phases, works.Phase(seconds=1.0, threads=1.0)]
    done = alone(works.phased("any", *phases, rounds=rounds))
    (pod,) = done.pods
    # Spread: this Pod's length against the others'; .2 s pass before a program uses its CPU.
    scale = pod.cpu_s / pod.work.cpu_s if pod.work.cpu_s else math.nan
    # The runtime's spikes at the start fit next to it on eight cores.
    assert pod.ended_s - pod.started_s - 0.2 == pytest.approx(pod.work.alone_s * scale, rel=1e-6)


@pytest.mark.parametrize("kind", works.WAITING, ids=lambda kind: kind.name)
def test_waiting_uses_no_cpu_and_is_not_made_longer_by_others(kind: works.Work) -> None:
    node = machine.Machine(machine.Hardware(cores=4.0, baseline_cores=0.0))
    assert kind.cpu_s is not None
    node.start("it", kind, kind.cpu_s, 0.0)
    now_s, most = 0.0, 0.0
    while True:
        upcoming = node.next_end(now_s)
        assert upcoming is not None
        now_s, uid = upcoming
        node.advance(now_s)
        most = max(most, node.memory_bytes(now_s) - node.hardware.baseline_bytes)
        if node.is_last(uid):
            break
        node.step(uid, now_s)
    assert node.busy_s == pytest.approx(kind.cpu_s)
    assert now_s == pytest.approx(kind.alone_s)
    assert most == pytest.approx(kind.memory_bytes)


def test_contention_makes_computing_longer_and_waiting_not() -> None:
    waits = works.phased("waits", works.Phase(seconds=10.0), works.Phase(seconds=1.0, threads=1.0))
    pods = alone(waits, pods=8, cores=1.0).pods
    # Eight core-seconds on one core, after ten seconds of waiting that all spend at the same time.
    assert max(pod.ended_s - pod.started_s for pod in pods) == pytest.approx(18.0, rel=0.15)


def test_the_scenarios_of_waiting_programs_end_under_every_kind_of_scheduler() -> None:
    small = [
        scenario.Scenario(
            name=plan.name,
            hardware=catalogue.FOUR_CORES[:3],
            jobs=tuple(
                scenario.Job(name=job.name, work=job.work, pods=3, request_cores=job.request_cores) for job in plan.jobs
            ),
            limit_s=300.0,
        )
        for plan in catalogue.waiting()
    ]
    for plan in small:
        for choice in (world.CaricoOptions(), world.OracleOptions(), world.ConstantOptions(pods_per_core=1.0)):
            assert world.run(plan, choice, seed=1).finished, plan.name
