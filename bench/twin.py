"""The twin's speed: 1000 pi Pods on 19 nodes under CARICO, and 100,000 on 5,000 (not with --quick: minutes).

Times are of the processor, not of the clock, so that what else the machine does counts for less. The large cluster runs
in a process of its own, whose memory is its peak.
"""

import multiprocessing
import resource
import statistics
import sys
import time

from carico_twin import scenario, work, world

Row = tuple[str, float, str, str]


def run(quick: bool) -> list[Row]:
    """Medians of three runs for the small cluster; one run of the large one."""
    runs = [_measured(19, 1000) for _ in range(1 if quick else 3)]
    rows = _rows("1000 Pods, 19 nodes", *(statistics.median(each) for each in zip(*runs, strict=True)), most_s=10)
    return rows if quick else rows + _large()


def _large() -> list[Row]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        cpu_s, events, peak_mb = pool.apply(_measured, (5000, 100_000))
    rows = _rows("100,000 Pods, 5,000 nodes", cpu_s, events, peak_mb, most_s=900)
    return [*rows, ("100,000 Pods, 5,000 nodes: memory", peak_mb, "MB", "at most 4096")]


def _rows(what: str, cpu_s: float, events: float, _: float, *, most_s: int) -> list[Row]:
    return [
        (f"{what}: CPU", cpu_s, "s", f"at most {most_s}"),
        (f"{what}: events", events, "", ""),
        (f"{what}: an event", cpu_s / events * 1e6, "us", "at most 20"),
    ]


def _measured(nodes: int, pods: int) -> tuple[float, float, float]:
    """CPU seconds, events, and the process's peak memory in MB, of one run to the end of the job."""
    job = scenario.Job(name="pi", work=work.PI, pods=pods)
    plan = scenario.Scenario(name="bench", hardware=world.uniform(nodes), jobs=(job,))
    started_s = time.process_time()
    done = world.run(plan, world.CaricoOptions(), seed=1)
    cpu_s = time.process_time() - started_s
    if not done.finished:
        sys.exit(f"bench twin: {pods} Pods on {nodes} nodes did not end within {plan.limit_s:g} virtual seconds")
    return cpu_s, float(done.events), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
