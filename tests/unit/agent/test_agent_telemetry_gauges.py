"""What every gauge keeps to, whatever its files hold: a share from 0 to 1, no sample, or `Broken`."""

import pathlib
import random
import shutil
from collections.abc import Callable, Mapping

import pytest

from carico_agent.telemetry import (
    cgroup_cpu,
    cgroup_memory,
    cgroup_tree,
    meminfo,
    port,
    pressure,
    proc_stat,
    process_accounting,
)
from carico_core.runtime import clock as clocks

PROC = pathlib.Path(__file__).parents[2] / "fixtures" / "proc" / "6.18-hybrid"
Make = Callable[[pathlib.Path, clocks.Clock], port.Gauge]


def group(folder: pathlib.Path, layout: cgroup_tree.Layout) -> cgroup_tree.Group:
    files: Mapping[str, str] = {
        "cpu.stat": "usage_usec 1000\nuser_usec 1\n",
        "cpu.max": "50000 100000\n",
        "cpuacct.usage": "1000000\n",
        "memory.current": "700\n",
        "memory.usage_in_bytes": "700\n",
        "memory.stat": "anon 1\ninactive_file 200\ntotal_inactive_file 200\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    v1 = {} if layout is cgroup_tree.Layout.V2 else {"cpu": folder, "cpuacct": folder, "memory": folder}
    return cgroup_tree.Group(layout=layout, v1=v1, unified=folder)


def process(folder: pathlib.Path, clock: clocks.Clock) -> process_accounting.ProcessTable:
    (folder / "77").mkdir(exist_ok=True)
    shutil.copy(folder / "1234" / "stat", folder / "77" / "stat")
    return process_accounting.ProcessTable(77, clock=clock, proc=folder)


def process_use(folder: pathlib.Path, clock: clocks.Clock) -> process_accounting.ProcessUtilisation:
    return process_accounting.ProcessUtilisation(process(folder, clock), quota_cores=0.5, clock=clock)


class Waiting:
    """Pressure with the utilisation that is read before it."""

    def __init__(self, folder: pathlib.Path, clock: clocks.Clock) -> None:
        table = process(folder, clock)
        self.use = process_accounting.ProcessUtilisation(table, quota_cores=0.5, clock=clock)
        self.wait = process_accounting.ProcessPressure(table, self.use, cores=4.0, clock=clock)

    def read(self) -> float | None:
        self.use.read()
        return self.wait.read()


V1, V2 = cgroup_tree.Layout.HYBRID, cgroup_tree.Layout.V2
GAUGES: dict[str, Make] = {
    "host utilisation": lambda folder, clock: proc_stat.HostUtilisation(folder),
    "host memory": lambda folder, clock: meminfo.HostMemory(folder),
    "host memory, paper": lambda folder, clock: meminfo.HostMemory(folder, free_by=meminfo.FreeBy.PAPER),
    "pressure": lambda folder, clock: pressure.Pressure(folder / "pressure" / "cpu", clock=clock),
    "cgroup utilisation v1": lambda folder, clock: cgroup_cpu.CgroupUtilisation(group(folder, V1), clock=clock),
    "cgroup utilisation v2": lambda folder, clock: cgroup_cpu.CgroupUtilisation(group(folder, V2), clock=clock),
    "cgroup memory v1": lambda folder, clock: cgroup_memory.CgroupMemory(group(folder, V1), limit_bytes=1000),
    "cgroup memory v2": lambda folder, clock: cgroup_memory.CgroupMemory(group(folder, V2), limit_bytes=1000),
    "process utilisation": process_use,
    "process pressure": Waiting,
    "process memory": lambda folder, clock: process_accounting.ProcessMemory(process(folder, clock), limit_bytes=1e6),
}


def test_all_gauges_are_here() -> None:
    assert len(GAUGES) == 11


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    shutil.copytree(PROC, tmp_path / "proc")
    return tmp_path / "proc"


@pytest.mark.parametrize("name", sorted(GAUGES))
def test_no_content_of_its_files_gets_past_a_gauge(folder: pathlib.Path, name: str) -> None:
    clock, rng = clocks.FakeClock(), random.Random(name)
    gauge = GAUGES[name](folder, clock)
    good = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    broken = 0
    for _ in range(150):
        clock.advance(rng.choice([0.0, 1e-6, 0.1, 0.1, 1.0]))
        for path, data in good.items():
            path.write_bytes(mutated(data, rng))
        try:
            value = gauge.read()
        except port.Broken:
            broken += 1
            continue
        assert value is None or 0.0 <= value <= 1.0
    for path, data in good.items():
        path.write_bytes(data)
    clock.advance(0.1)
    gauge.read()
    clock.advance(0.1)
    recovered = gauge.read()
    assert recovered is None or 0.0 <= recovered <= 1.0, "works again once its files do"


def mutated(data: bytes, rng: random.Random) -> bytes:
    kind = rng.randrange(5)
    if kind == 0:
        return data
    if kind == 1:
        return data[: rng.randrange(len(data) + 1)]
    if kind == 2:
        return b""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        place = rng.randrange(len(changed)) if changed else 0
        if changed:
            changed[place] = rng.choice(b"0123456789- .\nx") if kind == 3 else rng.randrange(256)
    return bytes(changed) + (b"9" * 400 if kind == 4 else b"")
