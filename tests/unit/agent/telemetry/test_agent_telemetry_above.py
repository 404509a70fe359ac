"""Quotas and limits of groups above the node's, on trees that were recorded of a kubelet in a container.

The container may use 1.5 CPUs; its memory is held to 1 GiB, on v1 by a group above it that it cannot see.
"""

import pathlib
import shutil
from typing import Any

import pytest

from carico_agent import settings
from carico_agent.telemetry import sources
from carico_agent.telemetry.cgroups import cpu_time, hierarchy, own_node
from carico_core.domain import errors
from carico_core.runtime.process import clock as clocks

RECORDED = pathlib.Path(__file__).parents[3] / "fixtures" / "cgroup"
UID = "1c9c1f31-3a0e-4b7c-9f0e-2f6a0d5f4c11"
V1 = ("cpu", "cpuacct", "cpuset", "memory")
LAYOUTS = {"v1": V1, "hybrid": (*V1, "unified"), "v2": (".",)}


class Machine:
    """A recorded tree, as an agent in a Pod of that kubelet sees it."""

    def __init__(self, root: pathlib.Path, layout: str) -> None:
        self.is_v2 = layout == "v2"
        self.host, self.proc = root / "host", root / "proc"
        shutil.copytree(RECORDED / ("6.1-v2-kubelet" if self.is_v2 else "6.18-hybrid-kubelet"), self.host)
        self.proc.mkdir()
        for name in ("meminfo", "stat"):
            shutil.copy(RECORDED.parent / "proc" / "6.1-v2" / name, self.proc / name)
        (self.proc / "mounts").write_text("".join(map(self._mount, LAYOUTS[layout])))
        self.node = "kubelet.slice" if self.is_v2 else "kubelet"

    def agent(self, **more: Any) -> settings.AgentSettings:
        """The settings of the agent's manifest, on this machine."""
        chosen: dict[str, Any] = {"scope": sources.Scope.NODE, "pod_uid": UID, "cgroup_root": str(self.host)}
        return settings.AgentSettings(node="n1", proc=str(self.proc), **{**chosen, **more})

    def lineage(self) -> tuple[hierarchy.Group, ...]:
        return hierarchy.discover(self.proc / "mounts").lineage(self.node)

    def limit(self, group: str, cores: float) -> None:
        """Set the group's quota, or remove it where `cores` is 0."""
        us = round(cores * 100_000)
        if self.is_v2:
            (self.host / group / "cpu.max").write_text(f"{us or 'max'} 100000\n")
        else:
            (self.host / "cpu" / group / "cpu.cfs_quota_us").write_text(f"{us or -1}\n")

    def use(self, group: str, cpu_s: float) -> None:
        """Add to the group's CPU time."""
        file = self.host / group / "cpu.stat" if self.is_v2 else self.host / "cpuacct" / group / "cpuacct.usage"
        lines = file.read_text().splitlines()
        at = next((n for n, line in enumerate(lines) if line.startswith("usage_usec")), 0)
        words = lines[at].split()
        lines[at] = " ".join([*words[:-1], str(int(words[-1]) + round(cpu_s * (1e6 if self.is_v2 else 1e9)))])
        file.write_text("\n".join(lines) + "\n")

    def _mount(self, tree: str) -> str:
        kind = "cgroup2" if tree in (".", "unified") else "cgroup"
        return f"{kind} {self.host / tree} {kind} ro,{tree} 0 0\n"


@pytest.fixture(params=LAYOUTS)
def machine(tmp_path: pathlib.Path, request: pytest.FixtureRequest) -> Machine:
    return Machine(tmp_path, request.param)


def test_a_node_in_a_container_is_as_large_as_the_container(machine: Machine) -> None:
    clock = clocks.FakeClock()
    chosen = own_node.resolved(machine.agent())
    assert (chosen.scope, chosen.cgroup) == (sources.Scope.CGROUP, machine.node)
    found = sources.open_panel(chosen.wanted(), clock=clock)
    assert found.facts.cores == 1.5
    assert found.facts.scale[1] == 2.0**30
    found.read()
    clock.advance(1.0)
    # The kubelet and its runtime are outside the group of all Pods, and share the container's quota with it.
    machine.use(".", 0.75)
    reading = found.read()
    assert reading is not None
    assert reading.parts["cpu.utilisation"] == pytest.approx(0.5)
    file = machine.host / ("memory.current" if machine.is_v2 else "memory/memory.usage_in_bytes")
    assert reading.values[1] == pytest.approx(int(file.read_text()) / 2**30, rel=0.1)


@pytest.mark.parametrize(
    ("above", "own", "cores", "counted"), [(1.5, 0.5, 0.5, "own"), (1.0, 1.0, 1.0, "."), (0.0, 1.5, 1.5, "own")]
)
def test_the_least_quota_counts_with_the_group_that_has_it(
    machine: Machine, above: float, own: float, cores: float, counted: str
) -> None:
    machine.limit(".", above)
    machine.limit(machine.node, own)
    clock = clocks.FakeClock()
    gauge = cpu_time.CgroupUtilisation(machine.lineage(), clock=clock, most_cores=1.75)
    assert gauge.cores == cores
    gauge.read()
    clock.advance(1.0)
    machine.use(machine.node if counted == "own" else ".", cores)
    assert gauge.read() == pytest.approx(1.0)


@pytest.mark.parametrize(("above", "said", "cores"), [(0.0, None, 2.0), (0.0, 1.25, 1.25), (1.5, 1.25, 1.25)])
def test_what_is_said_of_a_node_counts_where_it_is_less_than_what_is_seen(
    machine: Machine, above: float, said: float | None, cores: float
) -> None:
    machine.limit(".", above)
    clock = clocks.FakeClock()
    gauge = cpu_time.CgroupUtilisation(machine.lineage(), clock=clock, most_cores=said)
    assert gauge.cores == cores
    gauge.read()
    clock.advance(1.0)
    machine.use(machine.node, cores / 2)
    assert gauge.read() == pytest.approx(0.5)


def test_a_cpuset_below_every_quota_counts(machine: Machine) -> None:
    name = "cpuset.cpus.effective" if machine.is_v2 else "cpuset.effective_cpus"
    (machine.host / ("" if machine.is_v2 else "cpuset") / machine.node / name).write_text("1\n")
    assert cpu_time.CgroupUtilisation(machine.lineage(), clock=clocks.FakeClock()).cores == 1.0


def test_a_quota_that_is_lifted_is_noticed(machine: Machine) -> None:
    clock = clocks.FakeClock()
    gauge = cpu_time.CgroupUtilisation(machine.lineage(), clock=clock)
    machine.limit(".", 0.0)
    read = []
    for _ in range(cpu_time.QUOTA_EVERY + 1):
        clock.advance(0.1)
        machine.use(".", 0.075)
        machine.use(machine.node, 0.05)
        read.append(gauge.read())
    assert gauge.cores == 2.0
    assert read[-3:] == [pytest.approx(0.5), None, pytest.approx(0.25)], "another group's counter has no interval yet"


@pytest.mark.parametrize("settings", [{"cores": 1.0}, {"memory_bytes": 2.0**20}])
def test_a_whole_machine_has_the_size_that_it_has(machine: Machine, settings: dict[str, float]) -> None:
    chosen = machine.agent(scope=sources.Scope.HOST, **settings)
    with pytest.raises(errors.EnvironmentUnfit, match="remove --cores and --memory-bytes"):
        sources.open_panel(chosen.wanted(), clock=clocks.FakeClock())


def test_a_whole_machine_that_is_seen_from_a_container_says_so(machine: Machine) -> None:
    chosen = machine.agent(scope=sources.Scope.HOST)
    (note,) = (
        note for note in sources.open_panel(chosen.wanted(), clock=clocks.FakeClock()).facts.notes if "1.5" in note
    )
    assert "--scope cgroup --cgroup ." in note
    machine.limit(".", 0.0)
    notes = sources.open_panel(chosen.wanted(), clock=clocks.FakeClock()).facts.notes
    assert not any("--scope" in note for note in notes)
