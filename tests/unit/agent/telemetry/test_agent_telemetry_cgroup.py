"""Cgroups of every layout, from folders that look like them."""

import pathlib
import shutil
from typing import Any

import pytest

from carico_agent.telemetry import cpu, panel, port, sources
from carico_agent.telemetry.cgroups import cpu_time, hierarchy, pod_throttling, working_set
from carico_core.runtime.process import clock as clocks

PROC = pathlib.Path(__file__).parents[3] / "fixtures" / "proc"
UID = "1c9c1f31-3a0e-4b7c-9f0e-2f6a0d5f4c11"


def machine(tmp_path: pathlib.Path, layout: str) -> tuple[pathlib.Path, dict[str, pathlib.Path]]:
    """A proc folder whose mounts point below tmp_path, and the roots by controller."""
    proc = tmp_path / "proc"
    proc.mkdir()
    names = {"v2": ["unified"], "v1": ["cpu", "cpuacct", "memory"], "hybrid": ["cpu", "cpuacct", "memory", "unified"]}
    roots = {name: tmp_path / "cg" / name for name in names[layout]}
    lines = []
    for name, root in roots.items():
        root.mkdir(parents=True)
        kind = "cgroup2" if name == "unified" else "cgroup"
        lines.append(f"{kind} {root} {kind} rw,relatime{'' if name == 'unified' else ',' + name} 0 0")
    (proc / "mounts").write_text("\n".join(lines) + "\n")
    (proc / "meminfo").write_text("MemTotal: 8000000 kB\nMemFree: 1 kB\nBuffers: 1 kB\nCached: 1 kB\n")
    return proc, roots


def node(roots: dict[str, pathlib.Path], name: str = "carico/n1", *, used_us: int = 0, some_us: int = 0) -> None:
    files = {
        "unified": {"cpu.pressure": f"some avg10=0 avg60=0 avg300=0 total={some_us}\nfull total=0\n"},
        "cpu": {"cpu.cfs_quota_us": "50000\n", "cpu.cfs_period_us": "100000\n"},
        "cpuacct": {"cpuacct.usage": f"{used_us * 1000}\n"},
        "memory": {
            "memory.usage_in_bytes": "700\n",
            "memory.limit_in_bytes": "1000\n",
            "memory.stat": "cache 5\ninactive_file 900\ntotal_inactive_file 200\n",
        },
    }
    if "cpu" not in roots:
        files["unified"] |= {
            "cpu.stat": f"usage_usec {used_us}\nuser_usec 1\nnr_periods 0\n",
            "cpu.max": "50000 100000\n",
            "memory.current": "700\n",
            "memory.max": "1000\n",
            "memory.stat": "anon 1\ninactive_file 200\n",
        }
    for controller, root in roots.items():
        (root / name).mkdir(parents=True, exist_ok=True)
        for file, text in files[controller].items():
            (root / name / file).write_text(text)


def wanted(proc: pathlib.Path, **more: Any) -> sources.Wanted:
    return sources.Wanted(scope=sources.Scope.CGROUP, cgroup="carico/n1", proc=proc, **more)


@pytest.mark.parametrize("kernel", ["6.18-hybrid", "6.1-v2", "4.19-v1", "3.10-v1"])
def test_layouts_of_real_mount_tables(kernel: str) -> None:
    tree = hierarchy.discover(PROC / kernel / "mounts")
    assert str(tree.layout) == kernel.split("-")[1]
    assert (tree.unified is None) == (tree.layout is hierarchy.Layout.V1)
    assert ("cpuacct" in tree.v1) == (tree.layout is not hierarchy.Layout.V2)


def test_a_mount_point_may_have_blanks_tabs_and_backslashes() -> None:
    tree = hierarchy.parse_mounts([r"cgroup2 /a\040b\011c\134d cgroup2 rw 0 0"])
    assert tree.unified == pathlib.Path("/a b\tc\\d")


def test_no_cgroups_at_all_is_absent(tmp_path: pathlib.Path) -> None:
    with pytest.raises(port.Absent, match="none is mounted"):
        hierarchy.parse_mounts(["proc /proc proc rw 0 0", "garbage"])
    with pytest.raises(port.Absent):
        hierarchy.discover(tmp_path / "mounts")


@pytest.mark.parametrize("layout", ["v2", "hybrid"])
def test_a_node_reads_the_same_on_every_layout_with_psi(tmp_path: pathlib.Path, layout: str) -> None:
    proc, roots = machine(tmp_path, layout)
    node(roots)
    clock = clocks.FakeClock()
    found = sources.open_panel(wanted(proc, cores=4.0, scale=0.125), clock=clock)
    assert found.facts.scale == (8.0, 1000.0 / 0.125)
    assert (found.facts.source, found.facts.notes) == (f"cgroup-{layout}", ())
    assert found.read() is None
    clock.advance(0.2)
    node(roots, used_us=50_000, some_us=20_000)
    reading = found.read()
    assert reading is not None
    assert reading.parts == pytest.approx({"cpu.utilisation": 0.5, "cpu.pressure": 0.1})
    assert reading.values.tolist() == pytest.approx([0.3, 0.5])


def test_a_node_as_linux_6_1_shows_it_on_v2_alone(tmp_path: pathlib.Path) -> None:
    root = tmp_path / "cg"
    shutil.copytree(PROC.parent / "cgroup" / "6.1-v2", root)
    (tmp_path / "mounts").write_text(f"none {root} cgroup2 rw,relatime,nsdelegate,memory_recursiveprot 0 0\n")
    (tmp_path / "meminfo").write_text("MemTotal: 8000000 kB\nMemFree: 1 kB\nBuffers: 1 kB\nCached: 1 kB\n")
    clock = clocks.FakeClock()
    node = sources.Wanted(scope=sources.Scope.CGROUP, cgroup="node", proc=tmp_path, scale=0.125)
    found = sources.open_panel(node, clock=clock)
    assert (found.facts.source, found.facts.notes) == ("cgroup-v2", ())
    assert found.facts.scale == (8.0, 64 * 2**20 / 0.125)
    found.read()
    pod = root / "node" / f"pod{UID}"
    # Seconds in which the Pod ran for its fifth of a CPU and was held back for the rest by its own limit. What is
    # throttled is known from the second one on, and taken from the pressure over two of them.
    for _ in range(4):
        clock.advance(1.0)
        add(root / "node" / "cpu.stat", "usage_usec", 200_000)
        add(pod / "cpu.stat", "throttled_usec", 800_000)
        add(root / "node" / "cpu.pressure", "some", 800_000)
        reading = found.read()
    assert reading is not None
    assert reading.parts["cpu.utilisation"] == pytest.approx(0.4)
    assert reading.parts["cpu.pressure"] == pytest.approx(0.0, abs=0.05)
    assert reading.values[1] == pytest.approx(155648 / (64 * 2**20))


def add(file: pathlib.Path, key: str, amount: int) -> None:
    """Add to the number at the end of the line that begins with `key`."""
    lines = file.read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith(f"{key} "))
    number = lines[at].replace("=", " ").split()[-1]
    lines[at] = f"{lines[at].removesuffix(number)}{int(number) + amount}"
    file.write_text("\n".join(lines) + "\n")


def test_without_psi_utilisation_stands_alone_with_half_the_scale_and_a_note(tmp_path: pathlib.Path) -> None:
    proc, roots = machine(tmp_path, "v1")
    node(roots)
    clock = clocks.FakeClock()
    found = sources.open_panel(wanted(proc, cores=4.0, scale=0.125), clock=clock)
    assert found.facts.scale[0] == 4.0, "a share of 1 is one task a core where waiting tasks are not seen"
    assert "only utilisation" in found.facts.notes[0]
    found.read()
    clock.advance(0.2)
    node(roots, used_us=50_000)
    reading = found.read()
    assert reading is not None
    assert reading.values.tolist() == pytest.approx([0.5, 0.5])
    assert reading.parts == {"cpu.utilisation": 0.5}


def test_a_broken_source_skips_the_sample_and_the_next_one_counts_the_whole_interval(tmp_path: pathlib.Path) -> None:
    proc, roots = machine(tmp_path, "v2")
    node(roots)
    clock = clocks.FakeClock()
    found = sources.open_panel(wanted(proc), clock=clock)
    found.read()
    clock.advance(0.1)
    (roots["unified"] / "carico/n1/cpu.pressure").write_text("some avg10=0.0")
    with pytest.raises(port.Broken):
        found.read()
    clock.advance(0.1)
    node(roots, used_us=50_000, some_us=100_000)
    reading = found.read()
    assert reading is not None
    assert reading.parts["cpu.pressure"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("controller", "file", "limit"),
    [("cpu", "cpu.cfs_quota_us", "100000\n"), ("memory", "memory.limit_in_bytes", "4000\n")],
)
def test_a_node_that_is_resized_ends_the_agent_which_starts_with_its_new_size(
    tmp_path: pathlib.Path, controller: str, file: str, limit: str
) -> None:
    proc, roots = machine(tmp_path, "v1")
    node(roots)
    clock = clocks.FakeClock()
    found = sources.open_panel(wanted(proc), clock=clock)
    settings = {"cores": 0.5} if controller == "cpu" else {"memory_bytes": 1000.0}
    said = sources.open_panel(wanted(proc, **settings), clock=clock)
    (roots[controller] / "carico/n1" / file).write_text(limit)
    for each in (said, found):
        # A limit that differs at one look alone could not be read then.
        for _ in range(2 * panel.SIZE_EVERY - 1):
            clock.advance(0.1)
            each.read()
    said.read()
    with pytest.raises(port.Resized, match="restart the agent"):
        found.read()
    assert sources.open_panel(wanted(proc), clock=clock).facts.scale != found.facts.scale


def test_a_missing_group_is_absent_or_falls_back_by_name(tmp_path: pathlib.Path) -> None:
    proc, _ = machine(tmp_path, "hybrid")
    with pytest.raises(port.Absent, match="carico/n1"):
        sources.open_panel(wanted(proc), clock=clocks.FakeClock())
    (proc / "42").mkdir()
    (proc / "42" / "stat").write_text("42 (node) S 1 0 0 0 0 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0\n")
    found = sources.open_panel(wanted(proc, root_pid=42, cores=4.0), clock=clocks.FakeClock())
    assert found.facts.source == sources.PROCESS_FALLBACK
    assert "process-accounting instead of the cgroup" in found.facts.notes[0]


def test_groups_are_named_relative_or_absolute(tmp_path: pathlib.Path) -> None:
    proc, roots = machine(tmp_path, "hybrid")
    node(roots)
    tree = hierarchy.discover(proc / "mounts")
    assert tree.group("/carico/n1/") == tree.group(str(roots["unified"] / "carico/n1")) == tree.group("carico/n1")


@pytest.mark.parametrize(
    ("quota", "cores"), [("50000 100000", 0.5), ("max 100000", None), ("", None), ("0 100000", None), ("x y", None)]
)
def test_quota(tmp_path: pathlib.Path, quota: str, cores: float | None) -> None:
    (tmp_path / "cpu.max").write_text(quota)
    found = cpu_time.quota_us(tmp_path)
    assert (None if found is None else found[0] / found[1]) == cores


def test_cpuset_stands_in_for_a_quota(tmp_path: pathlib.Path) -> None:
    proc, roots = machine(tmp_path, "v2")
    node(roots)
    home = roots["unified"] / "carico/n1"
    (home / "cpu.max").write_text("max 100000\n")
    (home / "cpuset.cpus.effective").write_text("0-2,7\n")
    lineage = hierarchy.discover(proc / "mounts").lineage("carico/n1")
    assert cpu_time.CgroupUtilisation(lineage, clock=clocks.FakeClock()).cores == 4.0


@pytest.mark.parametrize(("limit", "expected"), [("1000", 1000.0), ("max", 5000.0), ("9223372036854771712", 5000.0)])
def test_memory_limit(tmp_path: pathlib.Path, limit: str, expected: float) -> None:
    proc, roots = machine(tmp_path, "v2")
    node(roots)
    (roots["unified"] / "carico/n1/memory.max").write_text(limit)
    group = hierarchy.discover(proc / "mounts").group("carico/n1")
    assert working_set.limit_bytes(group, host_bytes=5000.0) == expected


@pytest.mark.parametrize(
    ("folder", "uid"),
    [
        (f"pod{UID}", UID),
        (f"kubepods-besteffort-pod{UID.replace('-', '_')}.slice", UID),
        ("kubepods.slice", None),
        ("podman-1", None),
        ("mypod12345678", None),
    ],
)
def test_pods_are_known_by_their_folders_name(folder: str, uid: str | None) -> None:
    assert hierarchy.pod_uid(folder) == uid


def test_pods_are_found_at_any_depth_a_kubelet_uses(tmp_path: pathlib.Path) -> None:
    deep = tmp_path / "kubepods" / "burstable" / f"pod{UID}"
    (deep / "container").mkdir(parents=True)
    flat = tmp_path / f"pod{UID[:-1]}2"
    flat.mkdir()
    assert sorted(hierarchy.pods(tmp_path)) == sorted([deep, flat])
    assert list(hierarchy.pods(tmp_path / "gone")) == []


def limited_pod(root: pathlib.Path, *, throttled_us: int, container_us: int = 0) -> pathlib.Path:
    pod = root / f"pod{UID}"
    for folder, moved in ((pod, throttled_us), (pod / "main", container_us)):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cpu.max").write_text("20000 100000\n")
        (folder / "cpu.stat").write_text(f"usage_usec 1\nnr_throttled 1\nthrottled_usec {moved}\n")
    return pod


def limited(found: pod_throttling.PodThrottling) -> bool:
    return found.any_limit


def test_throttling_of_a_pod_and_its_container_is_counted_once(tmp_path: pathlib.Path) -> None:
    found = pod_throttling.PodThrottling(tmp_path)
    found.rescan()
    assert limited(found) is False
    pod = limited_pod(tmp_path, throttled_us=100, container_us=100)
    found.rescan()
    assert limited(found) is True
    assert found.read() == 0.0, "the first look has no interval"
    limited_pod(tmp_path, throttled_us=80_100, container_us=80_100)
    found.rescan()
    assert found.read() == pytest.approx(0.08), "known counters go on through a rescan"
    assert found.in_progress_s == pytest.approx(0.1)
    (pod / "cpu.max").write_text("max 100000\n")
    (pod / "main" / "cpu.max").write_text("max 100000\n")
    found.rescan()
    assert limited(found) is False, "a limit that was lifted"


def test_v1_counts_throttling_in_nanoseconds(tmp_path: pathlib.Path) -> None:
    pod = tmp_path / f"pod{UID}"
    pod.mkdir()
    (pod / "cpu.cfs_quota_us").write_text("20000\n")
    (pod / "cpu.cfs_period_us").write_text("100000\n")
    (pod / "cpu.stat").write_text("nr_periods 1\nnr_throttled 1\nthrottled_time 0\n")
    found = pod_throttling.PodThrottling(tmp_path)
    found.rescan()
    found.read()
    (pod / "cpu.stat").write_text("nr_periods 1\nnr_throttled 1\nthrottled_time 80000000\n")
    assert found.read() == pytest.approx(0.08)
    (pod / "cpu.stat").unlink()


def test_an_unlimited_node_reads_no_file_for_it(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Fixed:
        cores = 1.0

        def read(self) -> float:
            return 0.5

    throttling = pod_throttling.PodThrottling(tmp_path)
    clock = clocks.FakeClock()
    gauge = cpu.Cpu(Fixed(), Fixed(), clock=clock, throttling=throttling, cpus=2)
    assert gauge.read() == 0.5
    rescans: list[int] = []
    monkeypatch.setattr(throttling, "rescan", lambda: rescans.append(1))
    monkeypatch.setattr(throttling, "read", lambda: pytest.fail("no Pod has a limit"))
    for _ in range(50):
        clock.advance(0.1)
        gauge.read()
    assert rescans == []
    gauge.pods_changed()
    gauge.read()
    assert rescans == [1]


def test_what_is_switched_off_while_running_is_broken_and_not_a_crash() -> None:
    class Off:
        def read(self) -> float:
            raise port.Absent("cpu.pressure", "Operation not supported")

    facts = panel.Facts(dims=("cpu",), scale=(8.0,), cores=4.0, source="test")
    with pytest.raises(port.Broken, match="pressure"):
        panel.Panel(facts, {"cpu": Off()}).read()


def test_a_panel_reads_every_gauge_even_where_one_is_broken() -> None:
    reads: list[str] = []

    class Gauge:
        def __init__(self, name: str, value: float | None) -> None:
            self.name, self.value = name, value

        def read(self) -> float | None:
            reads.append(self.name)
            if self.name == "cpu":
                raise port.Broken("cpu", b"")
            return self.value

    facts = panel.Facts(dims=("cpu", "memory"), scale=(8.0, 1.0), cores=4.0, source="test")
    with pytest.raises(port.Broken):
        panel.Panel(facts, {"cpu": Gauge("cpu", 1.0), "memory": Gauge("memory", 0.5)}).read()
    assert reads == ["cpu", "memory"]
