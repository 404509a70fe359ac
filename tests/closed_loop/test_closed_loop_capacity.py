"""What nodes advertise follows the work: idle servers, peers that start CPU-heavy work, a class that is known."""

import dataclasses
import statistics

import hypothesis
import pytest
from hypothesis import strategies as st

from carico_core.numerics import estimators
from carico_twin import catalogue, measures, world
from carico_twin.nodes import work
from tests.closed_loop import clusters

SERVERS = 20
NEAR = 0.3
# Pods that do not end while a test looks.
ENDLESS = 1e6


def after_servers(
    estimator: str, *, hardware: int = 1, seed: int = 1, known: bool = True, with_pi: bool = False,
    threads: float = 0.02,
) -> tuple[float, float]:  # fmt: skip
    """Capacity for pi of a node with 20 idle servers, and of its empty peer.

    known: four pi have run on both before. with_pi: one more starts with the servers; it counts as room.
    """
    plan = clusters.idle_plan(2, clusters.HARDWARE[hardware])
    watched = clusters.Watched(plan, clusters.options(estimator), seed)
    watched.world.run_until(5.0)
    if known:
        for node in range(2):
            watched.place(node, work.PI, 4, job="pi")
        watched.world.run_until(30.0)
    watched.place(0, dataclasses.replace(work.SERVER, threads=threads), SERVERS, job="server")
    if with_pi:
        watched.place(0, busy(1.0), 1, job="pi")
    watched.world.run_until(70.0)
    return watched.free(0, "pi") + with_pi, watched.free(1, "pi")


def busy(threads: float) -> work.Work:
    """Endless work on the CPU."""
    return work.Work(name="busy", threads=threads, cpu_s=ENDLESS)


@hypothesis.settings(clusters.REPEATED, max_examples=8)
@hypothesis.given(
    hardware=st.integers(1, 2), seed=clusters.SEEDS, known=st.booleans(), threads=st.sampled_from((0.0, 0.02, 0.04))
)
def test_idle_servers_leave_the_capacity_for_pi(hardware: int, seed: int, known: bool, threads: float) -> None:
    found, empty = after_servers("footprint", hardware=hardware, seed=seed, known=known, threads=threads)
    # The servers' own CPU is not what is asked about.
    taken = SERVERS * threads / clusters.ceiling_tasks(clusters.HARDWARE[hardware].cores)
    assert found == pytest.approx(empty * (1.0 - taken), rel=NEAR)


@pytest.mark.parametrize(
    ("estimator", "known", "with_pi"),
    [
        ("footprint", False, False),
        ("footprint", True, False),
        ("footprint", True, True),
    ],
)
def test_twenty_idle_servers_leave_the_capacity_for_pi(estimator: str, known: bool, with_pi: bool) -> None:
    found, empty = after_servers(estimator, known=known, with_pi=with_pi)
    assert found == pytest.approx(empty, rel=NEAR)


def signals(estimator: str, *, light: float, heavy: float, holders: int) -> tuple[tuple[float, float], ...]:
    """(before, after) of a node with `light` tasks and of one that holds memory, as their peers start `heavy` tasks."""
    watched = clusters.Watched(clusters.idle_plan(5), clusters.options(estimator), 1)
    watched.world.run_until(5.0)
    watched.place(0, busy(light), 1, job="light")
    watched.place(1, holder(), holders, job="holds")
    watched.world.run_until(40.0)
    before = [watched.said(node).signal for node in (0, 1)]
    for node in (2, 3, 4):
        watched.place(node, busy(heavy), 1, job="heavy")
    watched.world.run_until(70.0)
    return tuple((before[node], watched.said(node).signal) for node in (0, 1))


def holder() -> work.Work:
    """Endless memory-heavy work."""
    return dataclasses.replace(work.HOLDS_MEMORY, threads=0.05, cpu_s=ENDLESS)


@pytest.mark.parametrize(("light", "heavy"), [(1.0, 5.0), (2.0, 7.0)])
@pytest.mark.parametrize("estimator", sorted(estimators.ESTIMATORS))
def test_the_signal_falls_next_to_cpu_work_and_rises_where_memory_is_held(
    estimator: str, light: float, heavy: float
) -> None:
    (lost_from, lost_to), (gained_from, gained_to) = signals(estimator, light=light, heavy=heavy, holders=2)
    assert lost_to < 0.97 * lost_from
    assert gained_to > 1.03 * gained_from


def test_the_signal_of_an_almost_idle_node_falls_next_to_cpu_work() -> None:
    (lost_from, lost_to), _ = signals("dual", light=0.5, heavy=5.0, holders=2)
    assert lost_to < lost_from


@pytest.mark.xfail(strict=True, reason="sigma1u1: the node's own half of the model is all memory, and keeps u_1 on it")
def test_the_signal_of_a_node_with_its_memory_almost_full_rises() -> None:
    _, (gained_from, gained_to) = signals("footprint", light=1.0, heavy=5.0, holders=4)
    assert gained_to > gained_from


def headlines(*, known: bool) -> tuple[tuple[float, float], ...]:
    """(before, after) of the advertised capacity of a node short of CPU and of one short of memory.

    Every other node runs light work; then three start CPU-heavy work. known: Pods of each class have ended before.
    """
    watched = clusters.Watched(clusters.idle_plan(5), clusters.options(), 1)
    kinds = {"light": busy(0.5), "heavy": busy(2.0), "holds": holder()}
    now_s = 5.0
    watched.world.run_until(now_s)
    # Seven Pods on every node besides, so that the bound on an unmeasured load is out of the way.
    for job, kind, pods in (("light", kinds["light"], 4), ("heavy", kinds["heavy"], 3), ("holds", kinds["holds"], 3),
                            ("filler", busy(1.0), 7)):  # fmt: skip
        if known or job == "filler":
            for node in range(5):
                watched.place(node, dataclasses.replace(kind, cpu_s=10.0 * kind.threads), pods, job=job)
            now_s += 25.0
            watched.world.run_until(now_s)
    for node in (0, 2, 3, 4):
        watched.place(node, kinds["light"], 3, job="light")
    watched.place(1, kinds["holds"], 4, job="holds")
    # So long that it is seen for how long they stand still: what of two that come together grows cannot be identified.
    now_s += 70.0
    watched.world.run_until(now_s)
    before = [watched.said(node).capacity for node in (0, 1)]
    for node in (2, 3, 4):
        watched.place(node, kinds["heavy"], 2, job="heavy")
    watched.world.run_until(now_s + 30.0)
    return tuple((before[node], watched.said(node).capacity) for node in (0, 1))


@pytest.mark.parametrize("known", [True, False])
def test_the_headline_falls_where_cpu_is_short_and_rises_where_memory_is(known: bool) -> None:
    (lost_from, lost_to), (gained_from, gained_to) = headlines(known=known)
    assert lost_to < 0.9 * lost_from
    assert gained_to > 1.1 * gained_from


def test_what_servers_hold_is_known_on_every_node_for_as_long_as_they_run() -> None:
    watched = clusters.Watched(clusters.idle_plan(2), clusters.options(), 1)
    watched.world.run_until(5.0)
    watched.place(0, holder(), 4, job="holds")
    # A cost's drift, second after second, once made what stands unknown after 270 s.
    for at_s in (60.0, 330.0):
        watched.world.run_until(at_s)
        empty_bytes = clusters.HARDWARE[1].memory_bytes - 4 * work.HOLDS_MEMORY.memory_bytes
        headroom = watched.said(0).headroom
        assert headroom is not None
        assert 0.3 * empty_bytes < headroom["memory"] < empty_bytes
        assert 1.0 <= watched.free(1, "holds") <= 4.7


def test_ramping_up_with_a_known_class_costs_nothing_measurable() -> None:
    def job_s(plan: str, choice: world.Choice) -> float:
        made = {"known": catalogue.known(80), "cold": catalogue.pi(80)}[plan]
        small = dataclasses.replace(made, hardware=catalogue.FOUR_CORES[:6])
        found = [measures.measure(world.run(small, choice, seed=seed)) for seed in range(2)]
        assert all(each.finished for each in found)
        return statistics.mean(each.job_s for each in found)

    known_s, cold_s = job_s("known", clusters.options()), job_s("cold", clusters.options())
    # What one who knows every cost needs, at the same load: the default ceiling is .95 of two tasks a core.
    best_s = job_s("cold", world.OracleOptions(tasks_per_core=clusters.ceiling_tasks(1.0)))
    # Seeds alone make 0.3 s.
    assert known_s <= best_s + 0.6
    assert known_s <= cold_s
