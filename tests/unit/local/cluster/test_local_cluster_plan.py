"""Sizes of a local cluster, what a machine can carry, and when crashed services start again."""

import pathlib

import pytest

from carico_core.domain import errors
from carico_core.numerics import estimators
from carico_core.numerics.estimators import base
from carico_local.cluster import machine, plan, processes

GIB = 2**30


def on(cpus: float = 2.0, memory_gib: float = 20.0) -> machine.Machine:
    return machine.Machine(
        cpus=cpus,
        memory_available_bytes=int(memory_gib * GIB),
        processor="test",
        kernel="6.18",
    )


@pytest.mark.parametrize(
    ("cpus", "nodes"), [(1.0, 2), (2.0, 3), (4.0, 7), (8.0, 15), (64.0, 16)], ids=lambda value: f"{value:g}"
)
def test_nodes_follow_the_processors_between_two_and_sixteen(cpus: float, nodes: int) -> None:
    assert plan.make_plan(plan.Options(), on(cpus, 100)).nodes == nodes


def test_the_agents_choices_are_named_as_the_agents_know_them() -> None:
    assert tuple(sorted(estimators.ESTIMATORS)) == plan.ESTIMATORS
    assert (estimators.DEFAULT, base.DEFAULT_CEILING["cpu"]) == (plan.DEFAULT_ESTIMATOR, plan.DEFAULT_CEILING_CPU)


def test_memory_of_a_node_is_scaled() -> None:
    assert plan.make_plan(plan.Options(scale=0.25), on()).memory_bytes == 2 * GIB


def test_little_memory_means_fewer_nodes_where_none_were_asked_for_and_a_refusal_where_they_were() -> None:
    assert plan.make_plan(plan.Options(), on(64.0, 5.0)).nodes == 4
    with pytest.raises(errors.EnvironmentUnfit, match="16 nodes of 1024 MiB do not fit"):
        plan.make_plan(plan.Options(nodes=16), on(64.0, 5.0))
    with pytest.raises(errors.EnvironmentUnfit, match="2 nodes"):
        plan.make_plan(plan.Options(), on(2.0, 0.5))


def test_more_nodes_than_processors_are_started_with_a_warning() -> None:
    crowded = plan.make_plan(plan.Options(nodes=8), on(2.0))
    assert "this machine has 2" in crowded.warnings[0]
    assert plan.make_plan(plan.Options(), on(2.0)).warnings == ()


def test_played_nodes_need_the_real_control_plane_and_no_memory() -> None:
    made = plan.make_plan(plan.Options(node_kind="kwok"), on(2.0, 0.5))
    assert (made.nodes, made.control_plane, made.process_nodes) == (1000, plan.ControlPlane.REAL, ())
    with pytest.raises(errors.SettingsError, match="--nodes kwok needs --control-plane real"):
        plan.make_plan(plan.Options(node_kind="kwok", control_plane="embedded"), on())


def test_a_real_control_plane_takes_memory_that_nodes_then_lack() -> None:
    assert plan.make_plan(plan.Options(), on(64.0, 5.0)).control_plane is plan.ControlPlane.EMBEDDED
    assert plan.make_plan(plan.Options(control_plane="real"), on(64.0, 5.0)).nodes == 3


def test_only_a_real_control_plane_needs_programs() -> None:
    assert plan.programs(plan.Options()) == ()
    assert "kube-apiserver" in plan.programs(plan.Options(control_plane="real"))
    assert plan.programs(plan.Options(node_kind="kwok"))[-1] == "kwok"


def test_a_plan_survives_its_file() -> None:
    real = plan.make_plan(plan.Options(control_plane="real"), on(), {"etcd": "/tools/etcd"})
    assert plan.from_json(plan.to_json(real)) == real
    made = plan.make_plan(
        plan.Options(name="a-b", nodes=8, estimator="dual", ceiling_cpu=0.7, merge="sequential"), on()
    )
    assert plan.from_json(plan.to_json(made)) == made


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        (plan.Options(name="a.b"), "--name"),
        (plan.Options(name="../x"), "--name"),
        (plan.Options(name=""), "--name"),
        (plan.Options(nodes=0), "--nodes"),
        (plan.Options(cores=0), "--cores"),
        (plan.Options(scale=0.0), "--scale"),
        (plan.Options(scale=float("nan")), "--scale"),
        (plan.Options(ceiling_cpu=1.01), "--ceiling"),
        (plan.Options(aggregators=9), "--aggregators"),
        (plan.Options(schedulers=0), "--schedulers"),
        (plan.Options(rescheduler=True), "--rescheduler"),
        (plan.Options(sharing="both"), "--sharing"),
        (plan.Options(estimator="magic"), "--estimator"),
        (plan.Options(control_plane="magic"), "--control-plane"),
        (plan.Options(node_kind="pig"), "--nodes"),
        (plan.Options(node_kind="process", nodes=111), "--nodes"),
        (plan.Options(node_kind="kwok", nodes=10_001), "--nodes"),
        (plan.Options(merge="magic"), "--merge"),
        (plan.Options(node_cgroups="magic"), "--node-cgroups"),
        (plan.Options(node_kind="kwok", node_cgroups="none"), "--node-cgroups"),
    ],
)
def test_an_invalid_option_is_refused_by_the_name_of_its_flag(options: plan.Options, flag: str) -> None:
    with pytest.raises(errors.SettingsError, match=f"^{flag}: got .*, expected"):
        plan.make_plan(options, on())


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        ({"sys/fs/cgroup/cpu.max": "50000 100000\n"}, 0.5),
        ({"sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
        ({"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "25000\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, 0.25),
        ({"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({}, None),
    ],
)
def test_a_quota_on_the_container_counts(tmp_path: pathlib.Path, files: dict[str, str], cpus: float | None) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 2048 kB\nMemAvailable: 1024 kB\n")
    (tmp_path / "proc/cpuinfo").write_text("processor : 0\nmodel name : Some CPU\n")
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = machine.read_machine(tmp_path)
    assert found.memory_available_bytes == 2**20
    assert found.processor == "Some CPU"
    if cpus is None:
        assert found.cpus >= 1.0
    else:
        assert found.cpus == cpus


def test_a_crash_loop_pauses_as_a_kubelet_does() -> None:
    loop = processes.CrashLoop()
    assert [loop.pause_s(ran_s=1.0) for _ in range(8)] == [0, 10, 20, 40, 80, 160, 300, 300]
    assert loop.pause_s(ran_s=601.0) == 0, "forgotten after ten good minutes"
