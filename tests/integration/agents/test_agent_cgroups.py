"""Telemetry of real cgroups: the table of paced Pods, limits of Pods, and the fallback without cgroups.

Other work on the machine only ever adds pressure, so every bound is tried for a while before it counts as missed.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from carico_agent.telemetry import sources
from carico_agent.telemetry.proc import pressure
from carico_core.runtime.process import clock as clocks
from carico_local.cgroups import group as groups
from carico_local.cgroups import layout as layouts

UID = "1c9c1f31-3a0e-4b7c-9f0e-2f6a0d5f4c1"
# How long a machine that is busy with something else is measured again.
PATIENCE_S = 60.0
SETTLE_S = 0.6
# Burns 1/8 of a CPU: 2.5 ms of thread time in every 20 ms, as the workloads of an emulated node do.
PACED = """
import time
clock, sleep, used = time.monotonic, time.sleep, time.thread_time
due = clock()
while True:
    end = used() + 0.0025
    while used() < end:
        pass
    due = max(due + 0.02, clock() - 0.02)
    sleep(max(0.0, due - clock()))
"""
SPIN = "while True: pass"


@pytest.fixture(scope="module")
def layout() -> layouts.Layout:
    found = layouts.read_layout()
    try:
        probe = groups.Group(layout=found, path=f"carico-test-{os.getpid()}/probe")
        probe.create()
        probe.set_cpu(cores=0.5, period_us=100_000)
    except OSError as error:
        pytest.skip(f"no right to make cgroups here: {error}")
    probe.destroy()
    return found


@pytest.fixture
def node(layout: layouts.Layout, processes: "Processes") -> Iterator[groups.Group]:
    made = groups.Group(layout=layout, path=f"carico-test-{os.getpid()}/n{time.monotonic_ns()}")
    made.create()
    yield made
    assert made.destroy()
    groups.Group(layout=layout, path=f"carico-test-{os.getpid()}").try_remove()


class Processes:
    """Started inside a group, ended by their own numbers."""

    def __init__(self) -> None:
        self.all: list[subprocess.Popen[bytes]] = []

    def start(self, code: str, group: groups.Group | None = None) -> None:
        process = subprocess.Popen([sys.executable, "-S", "-E", "-c", code])
        self.all.append(process)
        for file in () if group is None else group.procs_files:
            with open(file, "w", encoding="ascii") as procs:
                procs.write(str(process.pid))

    def stop(self) -> None:
        for process in self.all:
            process.kill()
            process.wait()
        self.all.clear()


@pytest.fixture
def processes() -> Iterator[Processes]:
    started = Processes()
    yield started
    started.stop()


def averages(wanted: sources.Wanted, *, seconds: float) -> dict[str, float]:
    """Mean utilisation and pressure of a node over some seconds at 10 Hz."""
    found = sources.open_panel(wanted, clock=clocks.SystemClock())
    parts: dict[str, list[float]] = {"cpu.utilisation": [], "cpu.pressure": []}
    for _ in range(int(seconds * 10) + 1):
        reading = found.read()
        for name, values in parts.items():
            if reading is not None:
                values.append(reading.parts[name])
        time.sleep(0.1)
    assert min(parts["cpu.pressure"]) >= 0.0
    return {name: statistics.fmean(values[len(values) // 3 :]) for name, values in parts.items()}


def eventually(measure: Callable[[], dict[str, float]], good: Callable[[dict[str, float]], bool]) -> dict[str, float]:
    """The first measurement that is good, or the last one."""
    end_s = time.monotonic() + PATIENCE_S
    while not good(found := measure()) and time.monotonic() < end_s:
        pass
    return found


@pytest.mark.parametrize(
    ("pods", "utilisation", "pressure_low", "pressure_high"),
    [(0, 0.0, 0.0, 0.05), (3, 0.75, 0.0, 0.3), (8, 1.0, 0.5, 1.0)],
)
def test_paced_pods_read_as_the_published_node(
    node: groups.Group,
    processes: Processes,
    pods: int,
    utilisation: float,
    pressure_low: float,
    pressure_high: float,
) -> None:
    """Quota 0.5 and Pods of 1/8 CPU; measured when idle: 3 .751/.001, 8 1.0/.734.

    Exactly at the quota (4 Pods) any other work on the machine decides whether they queue, so that is not asserted.
    """
    node.set_cpu(cores=0.5, period_us=100_000)
    for _ in range(pods):
        processes.start(PACED, node)
    time.sleep(SETTLE_S)
    wanted = sources.Wanted(scope=sources.Scope.CGROUP, cgroup=node.path, cores=4.0, scale=0.125)

    def good(found: dict[str, float]) -> bool:
        close = abs(found["cpu.utilisation"] - utilisation) < 0.15
        return close and pressure_low <= found["cpu.pressure"] <= pressure_high

    found = eventually(lambda: averages(wanted, seconds=1.5), good)
    assert good(found), found


def test_one_limited_pod_on_an_otherwise_idle_node_reads_no_pressure(node: groups.Group, processes: Processes) -> None:
    pod = node.child(f"pod{UID}0")
    pod.create()
    pod.set_cpu(cores=0.2, period_us=100_000)
    processes.start(SPIN, pod)
    time.sleep(SETTLE_S)
    wanted = sources.Wanted(scope=sources.Scope.CGROUP, cgroup=node.path)

    def measured() -> dict[str, float]:
        raw = raw_pressure(node)
        return averages(wanted, seconds=2.5) | {"raw": raw()}

    def good(found: dict[str, float]) -> bool:
        # Without the correction an idle node looks contended.
        is_less = found["cpu.pressure"] < 0.05 or found["cpu.pressure"] < found["raw"] - 0.5
        return found["raw"] > 0.5 and is_less

    found = eventually(measured, good)
    assert good(found), found


def test_the_quota_of_the_node_itself_stays_contention(node: groups.Group, processes: Processes) -> None:
    node.set_cpu(cores=0.2, period_us=100_000)
    pod = node.child(f"pod{UID}1")
    pod.create()
    processes.start(SPIN, pod)
    time.sleep(SETTLE_S)
    wanted = sources.Wanted(scope=sources.Scope.CGROUP, cgroup=node.path)

    def good(found: dict[str, float]) -> bool:
        return found["cpu.pressure"] > 0.5

    found = eventually(lambda: averages(wanted, seconds=1.0), good)
    assert good(found), found


def test_process_accounting_sees_what_descendants_use(processes: Processes) -> None:
    for _ in range(2):
        processes.start(PACED)
    time.sleep(SETTLE_S)
    wanted = sources.Wanted(scope=sources.Scope.PROCESS, root_pid=os.getpid(), cores=4.0, scale=0.125)

    def good(found: dict[str, float]) -> bool:
        return abs(found["cpu.utilisation"] - 0.5) < 0.2

    found = eventually(lambda: averages(wanted, seconds=1.5), good)
    assert good(found), found


def raw_pressure(node: groups.Group) -> Callable[[], float]:
    """A reader of the node's uncorrected pressure since this call."""
    (unified,) = [folder for folder in node.directories if (folder / "cpu.pressure").exists()]
    gauge = pressure.Pressure(unified / "cpu.pressure", clock=clocks.SystemClock())
    gauge.read()

    def read() -> float:
        value = gauge.read()
        assert value is not None
        return value

    return read
