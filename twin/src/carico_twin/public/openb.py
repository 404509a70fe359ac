"""Pods as they arrived at Alibaba's GPU cluster: bursts and pauses, a few shapes, short and long lives mixed.

From the trace "openb" of hkust-adsl/kubernetes-scheduler-simulator (commit 8f3d6417, data/csv, Apache-2.0; Weng et al.,
"Beware of Fragmentation", USENIX ATC 2023). The trace has requests, no usage: a Pod uses here what it requested there.
GPUs are left out, since the twin's nodes have none.
"""

import csv
import importlib.resources

from carico_twin import scenario
from carico_twin.nodes import machine, work

# The trace's most frequent machine has 96 cores and 384 GiB; a Pod takes the same share of a node here.
_CORES = 96_000.0
_MEMORY_MIB = 393_216.0
# 300 Pods in 48 s instead of 8 hours, which live 7 s (median) instead of 4.5 minutes: 8 nodes are then about full.
ARRIVALS_FASTER = 600.0
LIVES_SHORTER = 40.0
LEAST_S, MOST_S = 0.5, 60.0
NODES = 8


def openb() -> scenario.Scenario:
    """Return 300 Pods of the trace on 8 nodes of four cores; Pods of one shape are of one class."""
    node = machine.Hardware()
    shapes: dict[tuple[float, float], list[scenario.Arrival]] = {}
    for row in _rows():
        shape = (
            float(row["cpu_milli"]) / _CORES * node.cores,
            float(row["memory_mib"]) / _MEMORY_MIB * node.memory_bytes,
        )
        alone_s = min(max(float(row["lived_s"]) / LIVES_SHORTER, LEAST_S), MOST_S)
        arrival = scenario.Arrival(after_s=float(row["created_s"]) / ARRIVALS_FASTER, cpu_s=shape[0] * alone_s)
        shapes.setdefault(shape, []).append(arrival)
    jobs = [_job(index, *shape, arrivals) for index, (shape, arrivals) in enumerate(shapes.items())]
    return scenario.Scenario(name="openb", hardware=(node,) * NODES, jobs=tuple(jobs))


def _rows() -> list[dict[str, str]]:
    text = importlib.resources.files(__package__).joinpath("openb_pods.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


def _job(index: int, cores: float, size: float, arrivals: list[scenario.Arrival]) -> scenario.Job:
    name = f"shape-{chr(ord('a') + index)}"
    mean_s = sum(each.cpu_s for each in arrivals) / len(arrivals)
    return scenario.Job(
        name=name, work=work.Work(name=name, threads=cores, cpu_s=mean_s, memory_bytes=size, ramp_s=1.0),
        pods=len(arrivals), arrivals=tuple(arrivals), request_cores=cores, request_bytes=size,
    )  # fmt: skip
