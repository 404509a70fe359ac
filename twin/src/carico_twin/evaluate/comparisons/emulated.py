"""The cluster and job that `carico compare` ran on emulated nodes, run in the twin, and the errors between both.

Nothing is fitted: the properties of emulated nodes are known. A node is a cgroup with a CPU quota, so a busy core does
a core's work; all of it is allocatable, since no DaemonSet runs there; its containers start after the same log-normal
latency, by a fork from a parent with all imports done, so creating and removing one costs the node almost nothing. What
the twin leaves out is the machine below: agents, scheduler, API and the Pods of all nodes share it.
"""

import dataclasses
import math
from collections.abc import Iterable

from carico_core.numerics import estimators
from carico_core.numerics.estimators import base
from carico_twin import agents, scenario, world
from carico_twin.evaluate import contenders, runs, tables
from carico_twin.evaluate.comparisons import recorded
from carico_twin.nodes import kubelet, machine, work
from carico_twin.schedulers import slots

GROUP = "emulated"
JOB = "pi"
# A node of the local cluster: 8 GiB before scaling.
MEMORY_BYTES = 8.0 * work.GIB
# As in carico_local.node: .55 s median and .98 s 90th percentile; .12 s from exit to the Pod's status. Forking a
# started interpreter takes some 20 ms (recorded Pod times of .5 s of work are .51 to .53 s).
RUNTIME = kubelet.Runtime(
    start_sigma=math.log(0.98 / 0.55) / 1.2816, work_lag_s=0.02, report_s=0.12, create_core_s=0.0, delete_core_s=0.0
)
# A job that takes this many times its bound is stopped, as in `carico compare`.
GIVE_UP_AT = 10.0
GIVE_UP_MORE_S = 60.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FigureCompared:
    """One figure of one scheduler: on emulated nodes over runs, and in the twin over seeds."""

    contender: str
    figure: str
    emulated: recorded.Spread
    runs: int
    twin: tables.Interval

    @property
    def error(self) -> float:
        """(twin - emulated) / emulated; NaN if either has no number."""
        return (self.twin.mean - self.emulated.median) / self.emulated.median if self.emulated.median else math.nan


def plan(found: recorded.Comparison) -> scenario.Scenario:
    """Return the cluster and job of a comparison as a scenario of the twin."""
    hardware = machine.Hardware(cores=float(found.cores), memory_bytes=MEMORY_BYTES)
    kind = work.Work(name=JOB, cpu_s=found.pod_alone_s)
    bound_s = found.pods * found.pod_alone_s / (found.nodes * found.cores) + found.pod_alone_s
    return scenario.Scenario(
        name=GROUP, hardware=(hardware,) * found.nodes, runtime=RUNTIME,
        jobs=(scenario.Job(name=JOB, work=kind, pods=found.pods),), limit_s=bound_s * GIVE_UP_AT + GIVE_UP_MORE_S,
    )  # fmt: skip


def tasks(found: recorded.Comparison, seeds: Iterable[int]) -> list[runs.Task]:
    """Return the runs of every scheduler of the comparison on its cluster and job."""
    made = plan(found)
    every = [_contender(row, found) for row in found.rows]
    return [runs.Task(group=GROUP, plan=made, contender=each, seed=seed) for each in every for seed in seeds]


def compare(found: recorded.Comparison, table: tables.Table) -> list[FigureCompared]:
    """Compare every recorded figure with the twin's, for the schedulers that the twin has run."""
    cells = table.get(GROUP, {})
    return [
        FigureCompared(
            contender=row.name, figure=figure, emulated=spread, runs=row.runs,
            twin=_figure(cells[row.name], figure, found),
        )
        for row in found.rows if row.name in cells
        for figure, spread in row.figures.items()
    ]  # fmt: skip


def errors(compared: Iterable[FigureCompared]) -> dict[str, dict[str, float]]:
    """Return per scheduler the absolute errors of its job time and of its mean Pod time."""
    found: dict[str, dict[str, float]] = {}
    for each in compared:
        if each.figure in ("job_s", "pod_mean_s") and math.isfinite(each.error):
            found.setdefault(each.contender, {})[each.figure] = abs(each.error)
    return found


def _figure(cell: tables.Cell, figure: str, found: recorded.Comparison) -> tables.Interval:
    if figure != recorded.MOST_RUNNING:
        return cell.figures[figure]
    a_core = cell.figures["most_per_core"]
    return tables.Interval(mean=a_core.mean * found.cores, half=a_core.half * found.cores, count=a_core.count)


def _contender(row: recorded.Row, found: recorded.Comparison) -> contenders.Contender:
    if row.request_millicores is None:
        return contenders.Contender(
            name=row.name, family="carico", choice=world.CaricoOptions(agent=_agent(found)), says="CARICO"
        )
    choice = slots.KubeOptions(
        request_cores=row.request_millicores / 1000.0, request_bytes=0.0, reserved_cores=0.0, reserved_bytes=0.0
    )
    return contenders.Contender(
        name=row.name, family="kube", choice=choice, says=f"kube-scheduler, {row.request_millicores}m"
    )


def _agent(found: recorded.Comparison) -> agents.AgentOptions:
    named = agents.AgentOptions().estimator if found.estimator is None else found.estimator
    if named not in estimators.ESTIMATORS:
        raise contenders.unknown("setting.estimator", named, list(estimators.ESTIMATORS))
    ceiling = base.DEFAULT_CEILING["cpu"] if found.ceiling_cpu is None else found.ceiling_cpu
    return agents.AgentOptions(estimator=named, ceiling_cpu=ceiling)
