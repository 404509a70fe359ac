"""A server next to busy Pods: its p99 by its CPU weight, in cgroups as a kubelet sets them, and on an emulated node.

Two busy Pods without requests share one real core with the server, more than the default ceiling of .77 allows (1.5
tasks a core). The server's request is what is learnt of it: 20 requests of 1 ms a second are 2 % of a core, recommended
as about 25m. The last rows repeat that on an emulated node of four cores with six such Pods, whose CPU quota applies to
all of its Pods whatever they weigh. Needs root, as `bench node`.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from carico_local import qos
from carico_local.cgroups import group as groups
from carico_local.cgroups import layout, node_group
from carico_local.node import settings

Row = tuple[str, float, str, str]
REQUEST_CORES = 0.025
# Enough probes for a 99th percentile: 20 a second.
RUN_S, QUICK_S = 15.0, 4.0
_ENTER = 'for file in $PROCS; do echo 0 > "$file"; done; exec "$@"'
_WORKLOAD = str(pathlib.Path(sys.executable).with_name("carico-workload"))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node and its busy Pods. `scale`: real CPUs per core; `has_quota`: whether a quota keeps it to its cores."""

    cores: float
    scale: float
    has_quota: bool
    busy: int


KUBELET = Node(cores=1.0, scale=1.0, has_quota=False, busy=2)
EMULATED = Node(cores=4.0, scale=0.125, has_quota=True, busy=6)


def run(quick: bool) -> list[Row]:
    """Rows of (what, value, unit, target). Medians of runs in turn."""
    seconds, repeats = (QUICK_S, 1) if quick else (RUN_S, 5)
    rows: list[Row] = []
    for name, node, target in (("weights as a kubelet's", KUBELET, "at most 1.5"), ("emulated node", EMULATED, "")):
        idle = dataclasses.replace(node, busy=0)
        ways = ((idle, 0.0), (node, 0.0), (node, REQUEST_CORES))
        measured = [[p99_ms(each, request, seconds=seconds) for each, request in ways] for _ in range(repeats)]
        alone, without, learnt = (statistics.median(values) for values in zip(*measured, strict=True))
        rows += [
            (f"{name}: p99 of a server alone", alone, "ms", ""),
            (f"{name}: next to {node.busy} busy Pods, without a request", without / alone, "x alone", ""),
            (f"{name}: with its learnt request, 25m", learnt / alone, "x alone", target),
        ]
    return rows


def p99_ms(node: Node, request_cores: float, *, seconds: float) -> float:
    """Return the p99 of a server on the node in ms."""
    top = groups.Group(layout=layout.read_layout(), path=node_group.cluster_path(f"bench-{os.getpid()}"))
    # Whatever else runs on the machine matters less.
    top.create()
    top.set_cpu_weight(shares=2**18)
    group = top.child("node")
    try:
        group.create()
        if node.has_quota:
            group.set_cpu(cores=node.cores * node.scale, period_us=settings.QUOTA_PERIOD_US)
        others = _made(group.child("besteffort"), 0.0)
        with contextlib.ExitStack() as stack:
            for number in range(node.busy):
                pod = _made(others.child(f"pod{number}"), 0.0)
                stack.enter_context(_running(pod, node.scale, "pi", "--seconds", "600"))
            server = stack.enter_context(_running(_made(group.child("server"), request_cores), node.scale, "server"))
            time.sleep(seconds)
            server.send_signal(signal.SIGTERM)
            out, _ = server.communicate()
            return float(json.loads(out.splitlines()[-1])["p99_ms"])
    finally:
        top.destroy()


def _made(group: groups.Group, request_cores: float) -> groups.Group:
    group.create()
    group.set_cpu_weight(shares=qos.cpu_shares(request_cores))
    return group


@contextlib.contextmanager
def _running(group: groups.Group, scale: float, *argv: str) -> Iterator["subprocess.Popen[str]"]:
    """Run a workload in a group, on the first CPU."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        process = subprocess.Popen(
            ["/bin/sh", "-c", _ENTER, "sh", _WORKLOAD, "--scale", repr(scale), *argv],
            env={**os.environ, "PROCS": " ".join(group.procs_files)}, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
    finally:
        os.sched_setaffinity(0, allowed)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
