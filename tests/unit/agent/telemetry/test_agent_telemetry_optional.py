"""Disk, network and GPUs: off unless named, what they read, what is absent and what is broken."""

import importlib
import pathlib
import shutil
import sys

import pytest

from carico_agent import settings
from carico_agent.learning import configuration
from carico_agent.telemetry import port, sources
from carico_agent.telemetry.cgroups import hierarchy
from carico_agent.telemetry.devices import disk, gpu, network
from carico_core.domain import errors
from carico_core.numerics.estimators import base
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import settings as loader
from tests.unit.agent.telemetry import fake_nvml

PROC = pathlib.Path(__file__).parents[3] / "fixtures" / "proc"
KERNELS = sorted(path.name for path in PROC.iterdir() if path.is_dir())


@pytest.fixture
def proc(tmp_path: pathlib.Path) -> pathlib.Path:
    shutil.copytree(PROC / "6.18-hybrid", tmp_path / "proc")
    return tmp_path / "proc"


@pytest.fixture
def group(tmp_path: pathlib.Path) -> hierarchy.Group:
    folder = tmp_path / "group"
    folder.mkdir()
    return hierarchy.Group(layout=hierarchy.Layout.V2, v1={}, unified=folder)


def write_disks(proc: pathlib.Path, **disks: tuple[int, int]) -> None:
    """(busy_ms, sectors read) of each disk, in the order of their minor numbers."""
    lines = [f"8 {n} {name} 1 0 {read} 1 1 0 0 1 0 {busy} 1\n" for n, (name, (busy, read)) in enumerate(disks.items())]
    (proc / "diskstats").write_text("".join(lines))


def write_some(path: pathlib.Path, total_us: int) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"some avg10=0.00 avg60=0.00 avg300=0.00 total={total_us}\nfull avg10=0.00 total=0\n")


def write_link(proc: pathlib.Path, *, received: int, sent: int) -> None:
    (proc / "net" / "dev").write_text(f"Inter-|\n face |\n  lo: 1\n  eth0: {received} {'0 ' * 7}{sent} {'0 ' * 7}\n")


def wanted(proc: pathlib.Path, *dims: str, scope: sources.Scope = sources.Scope.HOST) -> sources.Wanted:
    return sources.Wanted(scope=scope, dims=dims, proc=proc, root_pid=1234, network_mbit_per_s=1000.0)


class TestDisk:
    @pytest.mark.parametrize("kernel", KERNELS)
    def test_the_devices_of_every_kernel(self, kernel: str) -> None:
        devices = disk.parse_diskstats((PROC / kernel / "diskstats").read_bytes())
        name = "8:0" if kernel == "3.10-v1" else "254:0"
        assert devices[name] == disk.Device(busy_ms=86168, moved_bytes=(18369722 + 18953504) * 512)
        assert len(devices) == 2, "the disk and its partition: the others were never used"

    def test_it_is_the_mean_of_the_busiest_device_and_of_pressure(self, proc: pathlib.Path) -> None:
        clock = clocks.FakeClock()
        write_disks(proc, sda=(1000, 0), sdb=(500, 0))
        write_some(proc / "pressure" / "io", 0)
        gauge = disk.open_disk(proc, clock=clock, group=None, notes=[])
        assert gauge.read() is None, "one read is no interval"
        clock.advance(0.1)
        write_disks(proc, sda=(1020, 0), sdb=(580, 0))
        write_some(proc / "pressure" / "io", 40_000)
        assert gauge.read() == pytest.approx((0.8 + 0.4) / 2)

    def test_a_counter_that_goes_back_gives_no_sample_and_then_goes_on(self, proc: pathlib.Path) -> None:
        clock = clocks.FakeClock()
        gauge = disk.HostBusy(proc, clock=clock)
        read = []
        for busy_ms in (2**32 - 10, 30, 60):
            write_disks(proc, sda=(busy_ms, 0), sdb=(0, 0))
            read.append(gauge.read())
            clock.advance(0.1)
        assert read == [None, None, pytest.approx(0.3)]

    def test_a_machine_without_a_used_device_is_not_busy(self, proc: pathlib.Path) -> None:
        (proc / "diskstats").write_text("7 0 loop0 0 0 0 0 0 0 0 0 0 0 0\n")
        clock = clocks.FakeClock()
        gauge = disk.HostBusy(proc, clock=clock)
        assert gauge.read() is None
        clock.advance(0.1)
        assert gauge.read() == 0.0

    def test_a_device_plugged_in_is_measured_from_then_on(self, proc: pathlib.Path) -> None:
        clock = clocks.FakeClock()
        write_disks(proc, sda=(0, 0))
        gauge = disk.HostBusy(proc, clock=clock)
        gauge.read()
        clock.advance(0.1)
        write_disks(proc, sda=(10, 0), sdb=(99_999, 0))
        assert gauge.read() == pytest.approx(0.1)
        clock.advance(0.1)
        write_disks(proc, sda=(10, 0), sdb=(100_049, 0))
        assert gauge.read() == pytest.approx(0.5)

    def test_a_cgroup_has_the_part_of_the_time_that_it_has_of_the_bytes(
        self, proc: pathlib.Path, group: hierarchy.Group
    ) -> None:
        clock, folder = clocks.FakeClock(), group.unified
        assert folder is not None
        write_disks(proc, sda=(0, 0), sdb=(0, 0))
        (folder / "io.stat").write_text("")
        write_some(folder / "io.pressure", 0)
        gauge = disk.open_disk(proc, clock=clock, group=group, notes=[])
        gauge.read()
        clock.advance(0.1)
        # A quarter of sda's bytes, and sda was busy for 80 of 100 ms; sdb is busy with others' requests.
        write_disks(proc, sda=(80, 8), sdb=(100, 8))
        (folder / "io.stat").write_text("8:1 8:0 rbytes=1024 wbytes=0 rios=1 wios=0 dbytes=0 dios=0\n")
        assert gauge.read() == pytest.approx((0.2 + 0.0) / 2)

    def test_a_cgroups_bytes_that_are_counted_before_the_devices_are_no_more_than_all(
        self, proc: pathlib.Path, group: hierarchy.Group
    ) -> None:
        clock, folder = clocks.FakeClock(), group.unified
        assert folder is not None
        write_disks(proc, sda=(0, 0))
        (folder / "io.stat").write_text("")
        gauge = disk.CgroupBusy(folder, proc, clock=clock)
        gauge.read()
        clock.advance(0.1)
        write_disks(proc, sda=(50, 1))
        (folder / "io.stat").write_text("8:0 rbytes=0 wbytes=1048576\n")
        assert gauge.read() == pytest.approx(0.5)
        clock.advance(0.1)
        write_disks(proc, sda=(60, 1))
        assert gauge.read() == 0.0, "busy for others"
        (folder / "io.stat").write_text("8:0 rbytes=0 wbytes=5\n")
        clock.advance(0.1)
        assert gauge.read() is None, "went back"

    def test_what_is_absent_is_said_once_and_done_without(self, proc: pathlib.Path, group: hierarchy.Group) -> None:
        clock = clocks.FakeClock()
        (proc / "pressure" / "io").unlink()
        notes: list[str] = []
        disk.open_disk(proc, clock=clock, group=None, notes=notes)
        assert len(notes) == 1 and "only the disk's busy time" in notes[0]
        write_some(group.unified / "io.pressure" if group.unified else proc, 0)
        disk.open_disk(proc, clock=clock, group=group, notes=notes)
        assert len(notes) == 2 and "only I/O pressure" in notes[1]
        hybrid = hierarchy.Group(layout=hierarchy.Layout.V1, v1={}, unified=None)
        with pytest.raises(port.Absent):
            disk.open_disk(proc, clock=clock, group=hybrid, notes=notes)

    @pytest.mark.parametrize("data", [b"", b"8 0 sda 1 2", b"8 0 sda 1 2\n", b"8 0 sda 1 1 1 1 1 1 1 1 1 x 1\n"])
    def test_truncated_diskstats_are_broken(self, data: bytes) -> None:
        with pytest.raises(port.Broken):
            disk.parse_diskstats(data)

    @pytest.mark.parametrize("data", [b"rbytes=1\n", b"8:0 rbytes=\n", b"8:0 rbytes=-1\n", b"sda rbytes=1\n"])
    def test_an_io_stat_that_cannot_be_understood_is_broken(self, data: bytes) -> None:
        with pytest.raises(port.Broken):
            disk.parse_io_stat(data)

    def test_a_file_of_many_pages_is_read_to_its_end(self, proc: pathlib.Path) -> None:
        write_disks(proc, **{f"sd{n}": (0, 0) for n in range(2000)})
        clock = clocks.FakeClock()
        gauge = disk.HostBusy(proc, clock=clock)
        gauge.read()
        clock.advance(0.1)
        write_disks(proc, **{f"sd{n}": (50 if n == 1999 else 0, 0) for n in range(2000)})
        assert gauge.read() == pytest.approx(0.5)


class TestNetwork:
    @pytest.mark.parametrize("kernel", KERNELS)
    def test_the_default_interface_of_every_kernel(self, kernel: str) -> None:
        assert network.default_interface(PROC / kernel) == "eth0"
        data = (PROC / kernel / "net" / "dev").read_bytes()
        assert network.parse_dev(data, b"eth0") == (1544855667, 3174114)
        assert network.parse_dev(data, b"eth") is None

    def test_it_is_the_fuller_direction_of_the_link(self, proc: pathlib.Path, tmp_path: pathlib.Path) -> None:
        clock = clocks.FakeClock()
        (tmp_path / "eth0").mkdir()
        (tmp_path / "eth0" / "speed").write_text("1000\n")
        gauge = network.open_network(proc, clock=clock, interface="", mbit_per_s=None, classes=tmp_path)
        assert gauge.full == 125e6
        read = []
        for received, sent in ((0, 0), (2_500_000, 1_250_000), (2_500_000, 7_500_000), (10**12, 10**12), (5, 10**12)):
            write_link(proc, received=received, sent=sent)
            read.append(gauge.read())
            clock.advance(0.1)
        assert read == [None, pytest.approx(0.2), pytest.approx(0.5), 1.0, None]

    @pytest.mark.parametrize("speed", ["-1\n", "", "fast\n", None])
    def test_the_error_about_an_unknown_speed_names_the_setting(
        self, proc: pathlib.Path, tmp_path: pathlib.Path, speed: str | None
    ) -> None:
        if speed is not None:
            (tmp_path / "eth0").mkdir()
            (tmp_path / "eth0" / "speed").write_text(speed)
        clock = clocks.FakeClock()
        with pytest.raises(port.Absent, match=r"speed of eth0.*CARICO_AGENT_NETWORK_MBIT_PER_S"):
            network.open_network(proc, clock=clock, interface="", mbit_per_s=None, classes=tmp_path)
        given = network.open_network(proc, clock=clock, interface="veth1a2b", mbit_per_s=80.0, classes=tmp_path)
        assert given.full == 10e6

    def test_no_default_route_and_no_such_interface_name_the_setting(self, proc: pathlib.Path) -> None:
        (proc / "net" / "route").write_text("Iface\tDestination\n")
        with pytest.raises(port.Absent, match="CARICO_AGENT_NETWORK_INTERFACE"):
            network.default_interface(proc)
        with pytest.raises(port.Absent, match="eth7"):
            network.Network("eth7", full=1.0, proc=proc, clock=clocks.FakeClock())

    def test_an_interface_that_goes_away_is_broken(self, proc: pathlib.Path) -> None:
        gauge = network.Network("eth0", full=1.0, proc=proc, clock=clocks.FakeClock())
        (proc / "net" / "dev").write_text("Inter-|\n face |\n  lo: 1\n")
        with pytest.raises(port.Broken):
            gauge.read()

    @pytest.mark.parametrize("data", [b"", b"  eth0: 1 2 3\n", b"eth0:" + b" x" * 16 + b"\n", b"eth0:" + b" 1" * 16])
    def test_a_truncated_dev_is_broken(self, data: bytes) -> None:
        with pytest.raises(port.Broken):
            network.parse_dev(data, b"eth0")

    def test_a_route_that_cannot_be_understood_is_broken(self) -> None:
        with pytest.raises(port.Broken):
            network.parse_route("eth0 00000000 0 zz 0 0 0 00000000 0 0 0\n")


class TestGpu:
    def test_utilisation_is_the_mean_and_memory_the_whole(self) -> None:
        nvml = fake_nvml.FakeNvml([100, 20], [(30, 100), (0, 300)])
        gpus = gpu.open_gpus(nvml)
        assert gpu.GpuUtilisation(gpus).read() == pytest.approx(0.6)
        assert gpu.GpuMemory(gpus).read() == pytest.approx(30 / 400)
        assert (gpu.GpuUtilisation(gpus).full, gpu.GpuMemory(gpus).full) == (2.0, 400.0)

    def test_no_package_no_driver_no_gpu_and_no_figures_are_absent(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, gpu.MODULE, None)
            with pytest.raises(port.Absent, match="nvidia-ml-py"):
                gpu.open_gpus()
        with pytest.raises(port.Absent, match="no GPU"):
            gpu.open_gpus(fake_nvml.FakeNvml([], []))
        nvml = fake_nvml.FakeNvml([1], [(1, 2)])
        nvml.failing = {"utilisation"}
        with pytest.raises(port.Absent):
            gpu.GpuUtilisation(gpu.open_gpus(nvml))
        assert gpu.GpuMemory(gpu.open_gpus(nvml)).read() == 0.5
        nvml.failing = {"init"}
        with pytest.raises(port.Absent, match="Not Supported"):
            gpu.open_gpus(nvml)

    @pytest.mark.parametrize(("percent", "used"), [(101, 5), (-1, -5)])
    def test_what_cannot_be_is_broken(self, percent: int, used: int) -> None:
        nvml = fake_nvml.FakeNvml([50], [(1, 2)])
        gauges = (gpu.GpuUtilisation(gpu.open_gpus(nvml)), gpu.GpuMemory(gpu.open_gpus(nvml)))
        nvml.percents, nvml.memory = [percent], [(used, 2)]
        for gauge in gauges:
            with pytest.raises(port.Broken):
                gauge.read()
        nvml.percents, nvml.memory = [7], [(1, 2)]
        nvml.failing = {"utilisation", "memory"}
        for gauge in gauges:
            with pytest.raises(port.Broken):
                gauge.read()
        nvml.failing = set()
        assert [gauge.read() for gauge in gauges] == [0.07, 0.5]

    def test_the_fake_has_what_the_package_has(self) -> None:
        nvml = gpu.load_nvml()
        asked = [name for name in vars(fake_nvml.FakeNvml) if name.startswith("nvml")]
        assert len(asked) == 5 and all(callable(getattr(nvml, name)) for name in asked)
        assert issubclass(nvml.NVMLError, Exception)
        assert {name for name, _ in nvml.c_nvmlUtilization_t._fields_} >= {"gpu"}
        assert {name for name, _ in nvml.c_nvmlMemory_t._fields_} >= {"used", "total"}

    def test_a_machine_without_a_driver_is_reported_in_one_line(self, proc: pathlib.Path) -> None:
        if pathlib.Path("/proc/driver/nvidia").exists():
            pytest.skip("this machine has NVIDIA's driver")
        with pytest.raises(errors.EnvironmentUnfit) as failed:
            sources.open_panel(wanted(proc, "cpu", "gpu"), clock=clocks.FakeClock())
        assert str(failed.value).startswith("dimension gpu cannot be measured: ")
        assert "CARICO_AGENT_DIMS" in str(failed.value) and "\n" not in str(failed.value)


class TestPanel:
    def test_all_dimensions_together(self, proc: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        nvml = fake_nvml.FakeNvml([40, 20], [(30, 100), (0, 300)])
        monkeypatch.setattr(gpu, "load_nvml", lambda: nvml)
        clock = clocks.FakeClock()
        panel = sources.open_panel(wanted(proc, *sources.DIMS), clock=clock)
        assert panel.facts.dims == ("cpu", "memory", "disk", "network", "gpu", "gpu_memory")
        assert panel.facts.scale[2:] == (1.0, 125e6, 2.0, 400.0)
        assert panel.read() is None
        clock.advance(0.1)
        shutil.copy(PROC / "6.1-v2" / "meminfo", proc / "meminfo")
        (proc / "stat").write_text("cpu  99999 999 9999 999999 9999 99 999 99 0 0\n")
        reading = panel.read()
        assert reading is not None and reading.values.shape == (6,)
        assert reading.values[2:].tolist() == pytest.approx([0.0, 0.0, 0.3, 30 / 400])

    def test_they_are_off_unless_named(self, proc: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("disk", "network", "gpu", "gpu_memory"):
            monkeypatch.setitem(sources.OPTIONAL, name, _refuse)
        panel = sources.open_panel(wanted(proc, "cpu", "memory"), clock=clocks.FakeClock())
        assert panel.facts.dims == ("cpu", "memory")

    def test_what_cannot_be_measured_needs_a_person(self, proc: pathlib.Path) -> None:
        (proc / "diskstats").unlink()
        (proc / "pressure" / "io").unlink()
        (proc / "net" / "route").unlink()
        for dim in ("disk", "network"):
            with pytest.raises(errors.EnvironmentUnfit, match=f"dimension {dim} cannot be measured: .*--dims"):
                sources.open_panel(wanted(proc, "cpu", dim), clock=clocks.FakeClock())

    def test_a_share_of_a_machine_says_what_is_the_machines(self, proc: pathlib.Path) -> None:
        scope = sources.Scope.PROCESS
        panel = sources.open_panel(wanted(proc, "cpu", "disk", "network", scope=scope), clock=clocks.FakeClock())
        assert [note for note in panel.facts.notes if "whole machine" in note] == [
            "disk is measured for the whole machine, which other work uses too",
            "network is measured for the whole machine, which other work uses too",
        ]

    def test_the_settings_name_them(self, proc: pathlib.Path) -> None:
        argv = [
            "--node",
            "n",
            "--dims",
            "cpu,network,disk",
            "--network-mbit-per-s",
            "100",
            "--network-interface",
            "eth0",
            "--proc",
            str(proc),
        ]
        chosen = loader.load(settings.AgentSettings, prefix="AGENT", argv=argv, environ={}, program="x")
        panel = sources.open_panel(chosen.wanted(), clock=clocks.FakeClock())
        node = configuration.node_config(chosen, panel.facts)
        assert node.dims == ("cpu", "disk", "network")
        assert node.scale.tolist()[1:] == [1.0, 12.5e6]
        assert node.ceiling.tolist() == [base.DEFAULT_CEILING["cpu"], 0.9, 0.9]
        with pytest.raises(errors.SettingsError, match="gpu_memory"):
            loader.load(settings.AgentSettings, prefix="AGENT", argv=["--node", "n", "--dims", "gpumem"], environ={},
                        program="x")  # fmt: skip


def test_every_optional_dimension_has_a_file_of_its_own() -> None:
    for dim in sources.OPTIONAL:
        assert importlib.import_module(f"carico_agent.telemetry.devices.{dim.removesuffix('_memory')}")


def _refuse(_: sources.Place) -> port.Dimension:
    raise AssertionError("opened though not named")
