"""Pods on an emulated node -> utilisation and pressure, with the node's own period.

Alone: `python -m bench node`. Each row runs that many `pi` Pods of one emulated core (scale 1/8) in a node of 4 cores
and reads, for a few seconds in the middle of their run, the CPU time and the PSI `some` total of the node's cgroup.
"""

import asyncio
import dataclasses
import os
import pathlib
import tempfile

from carico_core.runtime.process import clock as clocks
from carico_local import qos
from carico_local.cgroups import group as groups
from carico_local.cgroups import layout, node_group, sweep
from carico_local.node import settings
from carico_local.node.runtime import client as runtime
from carico_local.node.runtime import records as node_records

CORES = 4.0
SCALE = 0.125
# Spec 12, measured with the kernel's default period of 100 ms: Pods -> utilisation, pressure.
TABLE = {
    1: (0.251, 0.000), 2: (0.502, 0.001), 3: (0.751, 0.001), 4: (0.998, 0.071), 5: (1.0, 0.424), 6: (1.0, 0.602),
    7: (1.0, 0.721), 8: (1.0, 0.734), 10: (1.0, 0.904), 12: (1.0, 0.941),
}  # fmt: skip
_WARM_S = 1.0
_CLOCK = clocks.SystemClock()

Row = tuple[str, float, str, str]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Shares over an interval, 0 to 1."""

    utilisation: float
    pressure: float


def run(quick: bool) -> list[Row]:
    """Rows of (what, value, unit, target)."""
    counts = (1, 4, 8) if quick else tuple(TABLE)
    rows: list[Row] = []
    for pods in counts:
        reading = asyncio.run(measure(pods, seconds=2.0 if quick else 5.0))
        spec_utilisation, spec_pressure = TABLE[pods]
        rows.append((f"utilisation, {pods} Pods", reading.utilisation, "share", f"about {spec_utilisation:g}"))
        rows.append((f"pressure, {pods} Pods", reading.pressure, "share", f"about {spec_pressure:g}"))
    return rows


async def measure(pods: int, *, seconds: float, period_ms: float = settings.QUOTA_PERIOD_US / 1000) -> Reading:
    """What a node's cgroup reads with that many `pi` Pods; nothing of it is left afterwards.

    Raises `RuntimeError` where this machine has no cgroups that may be written.
    """
    cluster = f"bench-{os.getpid()}"
    found = layout.read_layout()
    opened = node_group.open_node(
        found, cluster=cluster, node="node", cores=CORES * SCALE, memory_bytes=2**30, period_us=round(period_ms * 1000)
    )
    if opened.group is None:
        raise RuntimeError(f"no cgroups to measure in: {opened.reason}")
    with tempfile.TemporaryDirectory() as root:
        records = node_records.open_root(pathlib.Path(root), is_private=False)
        runtime_group = node_group.runtime_group(found, cluster, "node")
        containers = runtime.Runtime(records.root, runtime_group=runtime_group)
        try:
            await containers.connect()
            for number in range(pods):
                await _start(containers, records.begin(f"pod{number}", "c", 0), opened.group.child(f"pod{number}"))
            await asyncio.sleep(_WARM_S)
            return await _read_for(opened.group, seconds)
        finally:
            opened.group.destroy()
            await containers.close(quit_runtime=True)
            sweep.sweep(cluster)


async def _start(containers: runtime.Runtime, directory: pathlib.Path, group: groups.Group) -> None:
    group.create()
    group.set_cpu_weight(shares=qos.cpu_shares(0.0))
    command = runtime.ContainerCommand(
        id=str(directory),
        argv=["carico-workload", "pi", "--seconds", "600"],
        env={"CARICO_SCALE": repr(SCALE)},
        cwd="/",
        directory=directory,
        group=group,
    )
    await containers.start(command)


async def _read_for(group: groups.Group, seconds: float) -> Reading:
    before_s, cpu_before_s, stall_before_s = _CLOCK.monotonic_s(), cpu_s(group), stall_s(group)
    await asyncio.sleep(seconds)
    elapsed_s = _CLOCK.monotonic_s() - before_s
    return Reading(
        utilisation=(cpu_s(group) - cpu_before_s) / elapsed_s / (CORES * SCALE),
        pressure=(stall_s(group) - stall_before_s) / elapsed_s,
    )


def cpu_s(group: groups.Group) -> float:
    """CPU seconds that a cgroup has used."""
    if "cpuacct" in group.layout.trees:
        return int((group.layout.trees["cpuacct"] / group.path / "cpuacct.usage").read_text()) / 1e9
    text = (group.layout.trees[layout.UNIFIED] / group.path / "cpu.stat").read_text()
    return groups.parse_flat(text)["usage_usec"] / 1e6


def stall_s(group: groups.Group) -> float:
    """Seconds in which some task of a cgroup waited for a CPU, or for its quota."""
    some = (group.layout.trees[layout.UNIFIED] / group.path / "cpu.pressure").read_text().splitlines()[0]
    return int(some.rpartition("total=")[2]) / 1e6
