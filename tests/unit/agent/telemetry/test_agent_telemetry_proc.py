"""/proc of several kernels: what is read, what is absent, what is broken."""

import errno
import os
import pathlib
import shutil
import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico_agent.telemetry import port
from carico_agent.telemetry.proc import host_cpu, kernel_file, meminfo, pressure, process_accounting
from carico_core.runtime.process import clock as clocks

PROC = pathlib.Path(__file__).parents[3] / "fixtures" / "proc"
KERNELS = sorted(path.name for path in PROC.iterdir() if path.is_dir())


@pytest.fixture
def proc(tmp_path: pathlib.Path) -> pathlib.Path:
    shutil.copytree(PROC / "6.18-hybrid", tmp_path / "proc")
    return tmp_path / "proc"


def write_cpu(proc: pathlib.Path, *, user: int, idle: int, iowait: int = 0) -> None:
    (proc / "stat").write_text(f"cpu  {user} 0 0 {idle} {iowait} 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\n")


def write_some(proc: pathlib.Path, total_us: int) -> None:
    (proc / "pressure" / "cpu").write_text(f"some avg10=0.00 avg60=0.00 avg300=0.00 total={total_us}\nfull total=0\n")


def test_every_kernel_is_covered() -> None:
    assert KERNELS == ["3.10-v1", "4.19-v1", "6.1-v2", "6.18-hybrid"]


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_cpu_line_of_every_kernel(kernel: str) -> None:
    idle, total = host_cpu.parse_cpu_line((PROC / kernel / "stat").read_bytes())
    # Guest time is inside user time and not counted twice.
    assert (idle, total) == (181295 + 964, 11544 + 120 + 3956 + 181295 + 964 + 0 + 71 + 26)


def test_utilisation_is_the_busy_share_between_two_reads(proc: pathlib.Path) -> None:
    write_cpu(proc, user=100, idle=100)
    gauge = host_cpu.HostUtilisation(proc)
    assert gauge.read() is None, "one read is no interval"
    write_cpu(proc, user=115, idle=103, iowait=2)
    assert gauge.read() == pytest.approx(0.75)


def test_a_counter_that_goes_back_gives_no_sample_and_then_goes_on(proc: pathlib.Path) -> None:
    write_cpu(proc, user=100, idle=100)
    gauge = host_cpu.HostUtilisation(proc)
    gauge.read()
    write_cpu(proc, user=200, idle=90)
    assert gauge.read() is None
    write_cpu(proc, user=210, idle=100)
    assert gauge.read() == pytest.approx(0.5)


@pytest.mark.parametrize(
    "data", [b"", b"cpu", b"cpu  1 2 3\n", b"cpu  1 2 3 4 x 6 7 8\n", b"intr 5\n", b"cpu  1 2 3 4 5 6 7"]
)
def test_a_truncated_stat_is_broken(data: bytes) -> None:
    with pytest.raises(port.Broken):
        host_cpu.parse_cpu_line(data)


_TICKS = st.integers(0, 2**40)


@given(st.tuples(_TICKS, _TICKS, _TICKS), st.tuples(_TICKS, _TICKS, _TICKS))
def test_utilisation_is_never_outside_0_to_1(before: tuple[int, int, int], after: tuple[int, int, int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        proc = pathlib.Path(folder)
        write_cpu(proc, user=before[0], idle=before[1], iowait=before[2])
        gauge = host_cpu.HostUtilisation(proc)
        assert gauge.read() is None
        write_cpu(proc, user=after[0], idle=after[1], iowait=after[2])
        value = gauge.read()
    assert value is None or 0.0 <= value <= 1.0


def test_pressure_is_time_waited_over_elapsed_time(proc: pathlib.Path) -> None:
    clock = clocks.FakeClock()
    write_some(proc, 1_000)
    gauge = pressure.Pressure(proc / "pressure" / "cpu", clock=clock)
    assert gauge.read() is None
    clock.advance(0.137)
    write_some(proc, 1_000 + 68_500)
    assert gauge.read() == pytest.approx(0.5), "the elapsed time, not the nominal period"
    clock.advance(0.1)
    write_some(proc, 500)
    assert gauge.read() is None, "went back"


@pytest.mark.parametrize("kernel", ["4.19-v1", "3.10-v1"])
def test_a_kernel_without_psi_is_absent(kernel: str) -> None:
    with pytest.raises(port.Absent):
        pressure.Pressure(PROC / kernel / "pressure" / "cpu", clock=clocks.FakeClock())


@pytest.mark.parametrize(
    "data", [b"", b"some avg10=0.00", b"some avg10=0.00 total=", b"full total=3\n", b"some total=1 2\n"]
)
def test_truncated_psi_is_broken_and_not_absent(data: bytes) -> None:
    with pytest.raises(port.Broken):
        pressure.parse_some(data)


def test_psi_that_goes_away_is_broken(proc: pathlib.Path) -> None:
    gauge = pressure.Pressure(proc / "pressure" / "cpu", clock=clocks.FakeClock())
    gauge._file.close()
    (proc / "pressure" / "cpu").unlink()
    with pytest.raises(port.Broken):
        gauge.read()


@pytest.mark.parametrize("kernel", KERNELS[1:])
def test_memory(kernel: str) -> None:
    available = meminfo.HostMemory(PROC / kernel).read()
    assert available == pytest.approx(1 - 24156644 / 24682416)
    assert meminfo.total_bytes(PROC / kernel) == 24682416 * 1024


def test_a_kernel_without_memavailable_says_so() -> None:
    with pytest.raises(port.Broken):
        meminfo.HostMemory(PROC / "3.10-v1").read()


@pytest.mark.parametrize(
    "data", [b"", b"MemTotal: 5\n", b"MemTotal: x kB\nMemAvailable: 1 kB\n", b"MemTotal: 0 kB\nMemAvailable: 0 kB\n"]
)
def test_broken_meminfo(data: bytes) -> None:
    with pytest.raises(port.Broken):
        meminfo.parse_meminfo(data)


def test_a_file_that_comes_back_is_opened_again(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "cpu.stat"
    path.write_text("usage_usec 1\n")
    file = kernel_file.KernelFile(path)
    assert kernel_file.keyed(file.read(), b"usage_usec", what="x") == 1
    file.close()
    path.unlink()
    with pytest.raises(port.Broken):
        file.read()
    path.write_text("usage_usec 2\n")
    assert kernel_file.keyed(file.read(), b"usage_usec", what="x") == 2


def test_no_right_to_read_is_absent_with_the_reason(tmp_path: pathlib.Path) -> None:
    with pytest.raises(port.Absent, match="No such file"):
        kernel_file.KernelFile(tmp_path / "nothing")


def test_keyed_does_not_take_a_longer_name_for_the_key() -> None:
    data = b"nr_periods 4\nthrottled_usec_local 9\nthrottled_usec 7\n"
    assert kernel_file.keyed(data, b"throttled_usec", what="x") == 7
    with pytest.raises(port.Broken):
        kernel_file.keyed(data, b"periods", what="x")


def test_a_process_whose_command_holds_brackets() -> None:
    found = process_accounting.parse_stat((PROC / "6.18-hybrid" / "1234" / "stat").read_bytes())
    assert (found.parent, found.cpu_s, found.threads, found.started_ticks) == (77, 2.0, 1, 98765)
    with pytest.raises(port.Broken):
        process_accounting.parse_stat(b"1234 (x) S 1")


class FakeProc:
    """A folder of processes whose usage a test sets."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder

    def put(self, pid: int, *, parent: int, ticks: int, delay_ns: int = 0, started: int = 1, pages: int = 0) -> None:
        home = self.folder / str(pid)
        home.mkdir(exist_ok=True)
        rest = f"0 0 0 0 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 {started} 0 0"
        (home / "stat").write_text(f"{pid} (p) S {parent} {rest}\n")
        (home / "schedstat").write_text(f"0 {delay_ns} 1\n")
        (home / "statm").write_text(f"{pages} {pages} 0 0 0 0 0\n")

    def end(self, pid: int) -> None:
        shutil.rmtree(self.folder / str(pid))


def test_process_accounting_follows_descendants_through_start_end_and_reuse_of_numbers(tmp_path: pathlib.Path) -> None:
    clock, fake = clocks.FakeClock(), FakeProc(tmp_path)
    fake.put(10, parent=1, ticks=900)
    fake.put(5, parent=10, ticks=100, delay_ns=10**9)
    fake.put(99, parent=1, ticks=5000)
    table = process_accounting.ProcessTable(10, clock=clock, proc=tmp_path)
    table.refresh()
    assert table.cpu_s == 0.0, "what was used before is not this agent's time"
    fake.put(5, parent=10, ticks=125, delay_ns=10**9 + 5 * 10**8)
    fake.put(20, parent=5, ticks=50)
    clock.advance(1.0)
    table.refresh()
    assert table.cpu_s == pytest.approx(0.25 + 0.5), "a process that is new is counted from its start"
    assert table.delay_s == pytest.approx(0.5)
    fake.end(20)
    fake.put(5, parent=10, ticks=10, started=777)
    clock.advance(1.0)
    table.refresh()
    assert table.cpu_s == pytest.approx(0.75), "ended and reused numbers take nothing away"
    fake.put(99, parent=1, ticks=9000)
    clock.advance(1.0)
    table.refresh()
    assert table.cpu_s == pytest.approx(0.75 + 0.1), "the new owner of the number is found; strangers never count"


def test_processes_that_cannot_be_opened_are_no_idle_node(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, fake = clocks.FakeClock(), FakeProc(tmp_path)
    fake.put(10, parent=1, ticks=900)
    fake.put(5, parent=10, ticks=100)
    table = process_accounting.ProcessTable(10, clock=clock, proc=tmp_path)
    table.refresh()

    def refuse(*_: object) -> bytes:
        raise OSError(errno.EMFILE, "Too many open files")

    fake.put(5, parent=10, ticks=125)
    for names in ("read_bytes", "listdir"):
        with monkeypatch.context() as spent:
            spent.setattr(pathlib.Path if names == "read_bytes" else os, names, refuse)
            clock.advance(1.0)
            with pytest.raises(port.Broken, match="Too many open files"):
                table.refresh()
    table.refresh()
    assert table.cpu_s == pytest.approx(0.25), "what was used meanwhile is counted afterwards"


def test_process_accounting_climbs_like_a_cgroup_of_paced_pods(tmp_path: pathlib.Path) -> None:
    """Pods of 1/8 CPU on a node of 4 x 1/8: full utilisation at 4, full pressure at 8."""
    readings = {}
    for pods in (0, 2, 4, 6, 8, 10):
        folder = tmp_path / str(pods)
        folder.mkdir()
        clock, fake = clocks.FakeClock(), FakeProc(folder)
        fake.put(10, parent=1, ticks=0)
        for number in range(pods):
            fake.put(20 + number, parent=10, ticks=0, pages=100)
        table = process_accounting.ProcessTable(10, clock=clock, proc=folder)
        use = process_accounting.ProcessUtilisation(table, quota_cores=0.5, clock=clock)
        wait = process_accounting.ProcessPressure(table, use, cores=4, clock=clock)
        assert (use.read(), wait.read()) == (None, None)
        clock.advance(8.0)
        for number in range(pods):
            fake.put(20 + number, parent=10, ticks=100, pages=100)
        readings[pods] = (use.read(), wait.read())
        memory = process_accounting.ProcessMemory(table, limit_bytes=1000 * 4096.0)
        assert memory.read() == pytest.approx(pods * 0.1)
    assert readings == {
        0: (0.0, 0.0), 2: (0.5, 0.0), 4: (1.0, 0.0), 6: (1.0, 0.5), 8: (1.0, 1.0), 10: (1.0, 1.0),
    }  # fmt: skip


def test_a_root_process_that_does_not_run_is_absent(tmp_path: pathlib.Path) -> None:
    with pytest.raises(port.Absent, match="not running"):
        process_accounting.ProcessTable(10, clock=clocks.FakeClock(), proc=tmp_path)
