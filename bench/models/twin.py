"""The twin's speed: 1000 pi Pods on 19 nodes under CARICO, and 100,000 on 5,000 (not with --quick: minutes).

Times are of the processor, not of the clock. Where other work shares its cores, even those come out two to three times
as long, so a run is taken in slices of virtual time: the same seed does the same work in each, and the least over some
runs is what the machine disturbed least. The large cluster runs once, in a process of its own; its memory is reported.
"""

import multiprocessing
import resource
import sys
import time

from carico_twin import scenario, world
from carico_twin.nodes import machine, work

SLICE_S = 0.1
Row = tuple[str, float, str, str]


def run(quick: bool) -> list[Row]:
    """The least of two or five runs of the small cluster, slice by slice; one run of the large one."""
    rows = _rows("1000 Pods, 19 nodes", *_measured(19, 1000, runs=2 if quick else 5), most_s=10)
    return rows if quick else rows + _large()


def _large() -> list[Row]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        cpu_s, events, peak_mb = pool.apply(_measured, (5000, 100_000), {"runs": 1})
    rows = _rows("100,000 Pods, 5,000 nodes", cpu_s, events, peak_mb, most_s=900)
    return [*rows, ("100,000 Pods, 5,000 nodes: memory", peak_mb, "MB", "at most 4096")]


def _rows(what: str, cpu_s: float, events: float, _: float, *, most_s: int) -> list[Row]:
    return [
        (f"{what}: CPU", cpu_s, "s", f"at most {most_s}"),
        (f"{what}: events", events, "", ""),
        (f"{what}: an event", cpu_s / events * 1e6, "us", "at most 20"),
    ]


def _measured(nodes: int, pods: int, *, runs: int) -> tuple[float, float, float]:
    """CPU seconds and events to the end of the job, and the process's peak memory in MB."""
    job = scenario.Job(name="pi", work=work.PI, pods=pods)
    plan = scenario.Scenario(name="bench", hardware=(machine.Hardware(),) * nodes, jobs=(job,))
    sliced, events = [], 0
    for _ in range(runs):
        # As in a whole run: between slices, collections took 3 % of the time.
        with world.no_garbage_collection():
            spent, events = _slices(plan)
        sliced.append(spent)
    cpu_s = sum(min(each) for each in zip(*sliced, strict=True))
    return cpu_s, float(events), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _slices(plan: scenario.Scenario) -> tuple[list[float], int]:
    """CPU seconds of each slice of virtual time, the building of the world the first, and the events."""
    began_s = time.process_time()
    running = world.World(plan, world.CaricoOptions(), seed=1)
    spent = [time.process_time() - began_s]
    until_s = 0.0
    while running.left:
        if until_s >= plan.limit_s:
            sys.exit(f"bench twin: {running.left} Pods did not end within {plan.limit_s:g} virtual seconds")
        until_s += SLICE_S
        began_s = time.process_time()
        running.run_until(until_s)
        spent.append(time.process_time() - began_s)
    return spent, running.event_count
