"""CPU time and memory of single Pods, from folders that look like cgroups of every layout and driver."""

import pathlib

import pytest

from carico_agent import ports
from carico_agent.telemetry import port, sources
from carico_agent.telemetry.cgroups import hierarchy, pod_ledger, pod_throttling
from carico_core.runtime.process import clock as clocks
from tests.unit.agent.telemetry import test_agent_telemetry_cgroup as machines

UIDS = ("1c9c1f31-3a0e-4b7c-9f0e-2f6a0d5f4c11", "2c9c1f31-3a0e-4b7c-9f0e-2f6a0d5f4c22")
DRIVERS = {
    "cgroupfs": lambda uid: f"kubepods/besteffort/pod{uid}",
    "systemd": lambda uid: "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{}.slice".format(
        uid.replace("-", "_")
    ),
    "emulated": lambda uid: f"pod{uid}",
}


def write(roots: dict[str, pathlib.Path], folder: str, *, cpu_us: int, used: int, inactive: int) -> None:
    files = {
        "unified": {
            "cpu.stat": f"usage_usec {cpu_us}\nuser_usec 1\n", "memory.current": f"{used}\n",
            "memory.stat": f"anon 1\ninactive_file {inactive}\n",
        },
        "cpuacct": {"cpuacct.usage": f"{cpu_us * 1000}\n"},
        "memory": {
            "memory.usage_in_bytes": f"{used}\n",
            "memory.stat": f"inactive_file 1\ntotal_inactive_file {inactive}\n",
        },
    }  # fmt: skip
    for controller, root in roots.items():
        (root / folder).mkdir(parents=True, exist_ok=True)
        for name, text in files.get(controller, {}).items():
            (root / folder / name).write_text(text)


def ledger(
    tmp_path: pathlib.Path, layout: str
) -> tuple[pod_ledger.CgroupLedger, dict[str, pathlib.Path], clocks.FakeClock]:
    proc, roots = machines.machine(tmp_path, layout)
    machines.node(roots)
    clock = clocks.FakeClock()
    found = sources.open_ledger(machines.wanted(proc), clock=clock)
    assert found is not None
    return found, roots, clock


@pytest.mark.parametrize("layout", ["v1", "v2", "hybrid"])
@pytest.mark.parametrize("driver", DRIVERS)
def test_a_pod_is_found_and_read(tmp_path: pathlib.Path, layout: str, driver: str) -> None:
    found, roots, _ = ledger(tmp_path, layout)
    for uid, cpu_us in zip(UIDS, (1_500_000, 2_500_000), strict=True):
        write(roots, f"carico/n1/{DRIVERS[driver](uid)}", cpu_us=cpu_us, used=5000, inactive=2000)
        # The second is found next to the first: no time has passed for another scan.
        amounts = found.read(uid)
        assert amounts is not None and amounts[:2] == pytest.approx((cpu_us / 1e6, 3000.0))


@pytest.mark.parametrize("layout", ["v1", "v2", "hybrid"])
def test_containers_are_read_where_a_pod_has_several(tmp_path: pathlib.Path, layout: str) -> None:
    found, roots, _ = ledger(tmp_path, layout)
    pod = f"carico/n1/{DRIVERS['systemd'](UIDS[0])}"
    write(roots, pod, cpu_us=3_000_000, used=9000, inactive=2000)
    for name, cpu_us, used in (("main", 2_000_000, 5000), ("proxy", 1_000_000, 3000)):
        write(roots, f"{pod}/{name}", cpu_us=cpu_us, used=used, inactive=1000)
    amounts = found.read(UIDS[0], has_several=True)
    assert amounts is not None
    assert amounts.containers == {"main": (2.0, 4000.0), "proxy": (1.0, 2000.0)}
    assert (amounts.cpu_s, amounts.memory_bytes) == (3.0, 7000.0)
    alone = found.read(UIDS[0])
    assert alone is not None and alone.containers == {}


def test_a_pod_without_a_cgroup_is_looked_for_once_a_second(tmp_path: pathlib.Path) -> None:
    found, roots, clock = ledger(tmp_path, "v2")
    assert found.read(UIDS[0]) is None
    write(roots, f"carico/n1/kubepods/pod{UIDS[0]}", cpu_us=1, used=1, inactive=0)
    assert found.read(UIDS[0]) is None
    clock.advance(pod_ledger.SCAN_S)
    assert found.read(UIDS[0]) is not None


def test_a_pod_that_has_ended_is_none_and_its_successor_is_found(tmp_path: pathlib.Path) -> None:
    found, roots, _ = ledger(tmp_path, "v2")
    folder = roots["unified"] / f"carico/n1/pod{UIDS[0]}"
    write(roots, f"carico/n1/pod{UIDS[0]}", cpu_us=1, used=1, inactive=0)
    assert found.read(UIDS[0]) is not None
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    assert found.read(UIDS[0]) is None
    write(roots, f"carico/n1/pod{UIDS[0]}", cpu_us=7_000_000, used=1, inactive=0)
    assert found.read(UIDS[0]) == ports.PodAmounts(cpu_s=7.0, memory_bytes=1.0)
    found.forget(UIDS[0])
    assert found.read(UIDS[0]) is not None


def test_more_cache_than_usage_is_no_memory(tmp_path: pathlib.Path) -> None:
    found, roots, _ = ledger(tmp_path, "v1")
    write(roots, f"carico/n1/pod{UIDS[0]}", cpu_us=1, used=10, inactive=20)
    amounts = found.read(UIDS[0])
    assert amounts is not None and amounts[:2] == pytest.approx((1e-6, 0.0))


@pytest.mark.parametrize("broken", ["cpu.stat", "memory.current", "memory.stat"])
def test_a_file_that_is_broken_is_no_reading(tmp_path: pathlib.Path, broken: str) -> None:
    found, roots, _ = ledger(tmp_path, "v2")
    write(roots, f"carico/n1/pod{UIDS[0]}", cpu_us=1, used=1, inactive=0)
    (roots["unified"] / f"carico/n1/pod{UIDS[0]}" / broken).write_text("what\n")
    assert found.read(UIDS[0]) is None


def test_without_cgroups_there_is_no_ledger(tmp_path: pathlib.Path) -> None:
    proc, roots = machines.machine(tmp_path, "v2")
    machines.node(roots)
    clock = clocks.FakeClock()
    elsewhere = sources.Wanted(scope=sources.Scope.CGROUP, cgroup="carico/other", proc=proc)
    processes = sources.Wanted(scope=sources.Scope.PROCESS, root_pid=1, proc=proc)
    assert sources.open_ledger(elsewhere, clock=clock) is None
    assert sources.open_ledger(processes, clock=clock) is None


def test_a_tree_without_memory_has_no_ledger(tmp_path: pathlib.Path) -> None:
    group = hierarchy.Group(layout=hierarchy.Layout.V1, v1={"cpuacct": tmp_path}, unified=None)
    with pytest.raises(port.Absent, match="no cpuacct or memory controller"):
        pod_ledger.CgroupLedger(group, clock=clocks.FakeClock())


PRESSURE = "some avg10=0.00 avg60=0.00 avg300=0.00 total={}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"


@pytest.mark.parametrize("layout", ["v2", "hybrid"])
def test_waiting_is_pressure_without_the_time_that_limits_held_the_pod_back(
    tmp_path: pathlib.Path, layout: str
) -> None:
    found, roots, clock = ledger(tmp_path, layout)
    folder = f"carico/n1/{DRIVERS['cgroupfs'](UIDS[0])}"
    write(roots, folder, cpu_us=1, used=1, inactive=0)
    pressure = roots["unified"] / folder / "cpu.pressure"
    pressure.write_text(PRESSURE.format(3_000_000))
    amounts = found.read(UIDS[0])
    assert amounts is not None and amounts.waiting_s == pytest.approx(3.0)
    limited = roots["unified" if layout == "v2" else "cpu"] / folder / "container"
    limited.mkdir(parents=True)
    key, unit = ("throttled_usec", 1_000_000) if layout == "v2" else ("throttled_time", 1_000_000_000)
    (limited / "cpu.stat").write_text(f"nr_throttled 1\n{key} {2 * unit}\n")
    pressure.write_text(PRESSURE.format(5_000_000))
    # Limits may be changed while a Pod runs; they are looked for again after a time.
    clock.advance(pod_throttling.RESCAN_S)
    amounts = found.read(UIDS[0])
    assert amounts is not None and amounts.waiting_s == pytest.approx(3.0)
    pressure.write_text(PRESSURE.format(6_000_000))
    (limited / "cpu.stat").write_text(f"nr_throttled 1\n{key} {3 * unit}\n")
    amounts = found.read(UIDS[0])
    assert amounts is not None and amounts.waiting_s == pytest.approx(3.0), "known limits are read each time"


def test_v1_has_no_waiting(tmp_path: pathlib.Path) -> None:
    found, roots, _ = ledger(tmp_path, "v1")
    write(roots, f"carico/n1/{DRIVERS['cgroupfs'](UIDS[0])}", cpu_us=1, used=1, inactive=0)
    amounts = found.read(UIDS[0])
    assert amounts is not None and amounts.waiting_s is None
