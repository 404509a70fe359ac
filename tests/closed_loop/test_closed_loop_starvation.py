"""No Pod waits for ever on a cluster that is half empty, though no node of it is ever empty."""

import dataclasses

import hypothesis
import pytest
from hypothesis import strategies as st

from carico_twin import scenario
from carico_twin.nodes import machine, work
from tests.closed_loop import clusters

# Small nodes: there a careful guess is more than a node.
SIZES = (1.0, 2.0, 4.0)
BYTES_A_CORE = 4.0 * work.GIB
# A Pod that is over before any filter shows it, and all that may be more than half of a small node.
OVER_AT_ONCE = work.Work(name="over", cpu_s=0.05)
KINDS = (
    OVER_AT_ONCE, work.PI, work.QUARTER_CORE, work.FOUR_THREADS, work.HOLDS_MEMORY, work.GROWS_MEMORY, work.LIMITED,
)  # fmt: skip
# A node that stands still for 15 s tries one Pod; the longest of them takes 80 s next to others.
LIMIT_S = 900.0


@st.composite
def plans(draw: st.DrawFn) -> scenario.Scenario:
    """One to three small nodes, and a job of each of one or two kinds."""
    sizes = draw(st.lists(st.sampled_from(SIZES), min_size=1, max_size=3))
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=2, unique_by=lambda kind: kind.name))
    jobs = tuple(
        scenario.Job(name=kind.name, work=kind, pods=draw(st.integers(1, 5)), at_s=draw(st.sampled_from((5.0, 30.0))))
        for kind in kinds
    )
    hardware = tuple(machine.Hardware(cores=cores, memory_bytes=BYTES_A_CORE * cores) for cores in sizes)
    return scenario.Scenario(name="standing", hardware=hardware, jobs=jobs, limit_s=LIMIT_S)


@hypothesis.settings(clusters.REPEATED, max_examples=12)
@hypothesis.given(
    plan=plans(), standing=st.integers(1, 3), threads=st.sampled_from((0.02, 0.1, 0.2)), seed=clusters.SEEDS
)
def test_next_to_standing_pods_every_pod_gets_in(
    plan: scenario.Scenario, standing: int, threads: float, seed: int
) -> None:
    watched = clusters.Watched(plan, clusters.options(), seed)
    watched.world.run_until(1.0)
    for node, hardware in enumerate(plan.hardware):
        # A fifth of a core in all at most: every node is more than half empty.
        server = dataclasses.replace(work.SERVER, threads=threads * hardware.cores / standing)
        watched.place(node, server, standing, job="standing")
    assert watched.world.run().finished


@pytest.mark.parametrize(("kind", "cores"), [(OVER_AT_ONCE, 1.0), (work.FOUR_THREADS, 1.0), (work.FOUR_THREADS, 2.0)])
def test_what_is_over_at_once_or_wider_than_the_node_gets_in_more_than_once(kind: work.Work, cores: float) -> None:
    job = scenario.Job(name=kind.name, work=kind, pods=2, at_s=5.0)
    hardware = (machine.Hardware(cores=cores, memory_bytes=BYTES_A_CORE * cores),)
    watched = clusters.Watched(
        scenario.Scenario(name="standing", hardware=hardware, jobs=(job,), limit_s=120.0), clusters.options(), 1
    )
    watched.world.run_until(1.0)
    watched.place(0, dataclasses.replace(work.SERVER, threads=0.2 * cores), 1, job="standing")
    assert watched.world.run().finished
