"""What every gauge keeps to, whatever its files hold: a share from 0 to 1, no sample, or `Broken`."""

import pathlib
import random
import shutil
from collections.abc import Callable, Mapping

import pytest

from carico_agent.telemetry import port, sources
from carico_agent.telemetry.cgroups import cpu_time, hierarchy, working_set
from carico_agent.telemetry.devices import disk, gpu, network
from carico_agent.telemetry.proc import host_cpu, meminfo, pressure, process_accounting
from carico_core.runtime.process import clock as clocks
from tests.unit.agent.telemetry import fake_nvml

PROC = pathlib.Path(__file__).parents[3] / "fixtures" / "proc" / "6.18-hybrid"
Make = Callable[[pathlib.Path, clocks.Clock], port.Gauge]


def group(folder: pathlib.Path, layout: hierarchy.Layout) -> hierarchy.Group:
    files: Mapping[str, str] = {
        "cpu.stat": "usage_usec 1000\nuser_usec 1\n",
        "cpu.max": "50000 100000\n",
        "cpuacct.usage": "1000000\n",
        "memory.current": "700\n",
        "memory.usage_in_bytes": "700\n",
        "io.stat": "254:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n",
        "io.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=7\nfull avg10=0.00 total=0\n",
        "memory.stat": "anon 1\ninactive_file 200\ntotal_inactive_file 200\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    v1 = {} if layout is hierarchy.Layout.V2 else {"cpu": folder, "cpuacct": folder, "memory": folder}
    return hierarchy.Group(layout=layout, v1=v1, unified=folder)


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


class Gpus(fake_nvml.FakeNvml):
    """GPUs whose driver answers with what a file holds."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.file = folder / "nvml"
        self.file.write_text("40 30 100")
        super().__init__([], [])

    def nvmlDeviceGetCount(self) -> int:
        return 1

    def _check(self, call: str) -> None:
        try:
            percent, used, total = (int(word) for word in self.file.read_bytes().split())
        except ValueError:
            raise self.NVMLError(call) from None
        self.percents, self.memory = [percent], [(used, total)]


def cgroup_disk(folder: pathlib.Path, clock: clocks.Clock) -> disk.Disk:
    return disk.open_disk(folder, clock=clock, group=group(folder, V2), notes=[])


V1, V2 = hierarchy.Layout.HYBRID, hierarchy.Layout.V2
GAUGES: dict[str, Make] = {
    "host utilisation": lambda folder, clock: host_cpu.HostUtilisation(folder),
    "host memory": lambda folder, clock: meminfo.HostMemory(folder),
    "pressure": lambda folder, clock: pressure.Pressure(folder / "pressure" / "cpu", clock=clock),
    "cgroup utilisation v1": lambda folder, clock: cpu_time.CgroupUtilisation((group(folder, V1),), clock=clock),
    "cgroup utilisation v2": lambda folder, clock: cpu_time.CgroupUtilisation((group(folder, V2),), clock=clock),
    "cgroup memory v1": lambda folder, clock: working_set.CgroupMemory(group(folder, V1), limit_bytes=1000),
    "cgroup memory v2": lambda folder, clock: working_set.CgroupMemory(group(folder, V2), limit_bytes=1000),
    "process utilisation": process_use,
    "process pressure": Waiting,
    "process memory": lambda folder, clock: process_accounting.ProcessMemory(process(folder, clock), limit_bytes=1e6),
    "disk": lambda folder, clock: disk.open_disk(folder, clock=clock, group=None, notes=[]),
    "disk of a cgroup": cgroup_disk,
    "network": lambda folder, clock: network.Network("eth0", full=1e6, proc=folder, clock=clock),
    "gpu": lambda folder, clock: gpu.GpuUtilisation(gpu.open_gpus(Gpus(folder))),
    "gpu_memory": lambda folder, clock: gpu.GpuMemory(gpu.open_gpus(Gpus(folder))),
}


def test_all_gauges_are_here() -> None:
    assert len(GAUGES) == 15
    assert set(sources.OPTIONAL) <= set(GAUGES)


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
            rewrite(path, mutated(data, rng))
        try:
            value = gauge.read()
        except port.Broken:
            broken += 1
            continue
        assert value is None or 0.0 <= value <= 1.0
    for path, data in good.items():
        rewrite(path, data)
    clock.advance(0.1)
    gauge.read()
    clock.advance(0.1)
    recovered = gauge.read()
    assert recovered is None or 0.0 <= recovered <= 1.0, "works again once its files do"


def rewrite(path: pathlib.Path, data: bytes) -> None:
    """Write over the file without emptying it: ext4 writes an emptied file to the disk at close, 25,000 times here."""
    with path.open("r+b") as file:
        file.write(data)
        file.truncate()


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
