"""Flags that several commands share."""

import dataclasses
import math
import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from carico_core.domain import names
from carico_local.cluster import plan as plans

F = TypeVar("F", bound=Callable[..., Any])


DEFAULT_NAME = "demo"


def new_name(default: str = DEFAULT_NAME) -> Callable[[F], F]:
    """Add --name, for commands that start a cluster of their own."""
    return click.option("--name", default=default, show_default=True, help="Name of the cluster to start.")


class Estimators(click.Choice[str]):
    """Names of estimators; that of a removed one is refused with what replaces it."""

    def __init__(self) -> None:
        super().__init__(plans.ESTIMATORS)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name."""
        if value not in self.choices:
            # Imported here: it imports numpy.
            from carico_core.numerics import estimators

            if value in estimators.GONE:
                self.fail(f"{value!r} was removed: {estimators.GONE[value]}", param, ctx)
        return super().convert(value, param, ctx)


class FloatRange(click.FloatRange):
    """A number within bounds. Of click's own, NaN is within all: every comparison with it is false."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number."""
        found = super().convert(value, param, ctx)
        if math.isnan(found):
            self.fail(f"got {value!r}, expected a number", param, ctx)
        return found


class NodesOption(click.ParamType[tuple[str, int | None]]):
    """Kind and number of nodes, or one of them: "3", "kwok", "kwok=1000"."""

    name = "nodes"
    DEFAULT = (plans.NodeKind.PROCESS.value, None)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int | None]:  # fmt: skip
        """Return (kind, number or None)."""
        if isinstance(value, tuple):
            return value
        known = "|".join(each.value for each in plans.NodeKind)
        found = re.fullmatch(rf"(?P<kind>{known})(=(?P<count>\d+))?|(?P<alone>-?\d+)", str(value))
        if found is None:
            kinds = known.replace("|", ", ")
            kind, equals, rest = str(value).partition("=")
            near = names.nearest(kind, known.split("|"), most=1)
            hint = f": did you mean {near[0]}{equals}{rest}?" if near and near[0] != kind else ""
            self.fail(f"got {value!r}, expected a number, one of {kinds}, or both as in kwok=1000{hint}", param, ctx)
        count = found["count"] or found["alone"]
        return found["kind"] or self.DEFAULT[0], int(count) if count else None


# In the order of the help.
_CLUSTER: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--nodes", type=NodesOption(), default=NodesOption.DEFAULT, metavar="[KIND=]N",
        help="Number of nodes, their kind, or both: 3 or process=3 (emulated; default: as many as the machine "
        "can run), kubelet=2 (real, as root, in namespaces), kwok=1000 (played).",
    ),
    click.option(
        "--node-cgroups", type=click.Choice(plans.NODE_CGROUPS), default="auto", show_default=True,
        help="Cgroups of process nodes. none: Pods run and are measured as plain processes, without CPU quota; "
        "auto does the same where cgroups are not writable.",
    ),
    click.option(
        "--allow-root", is_flag=True,
        help="Let Pods of process nodes run as root where their runAsUser is 0, if you are root. Such a Pod can "
        "read this machine's tokens and keys.",
    ),
    click.option(
        "--control-plane", type=click.Choice([each.value for each in plans.ControlPlane]),
        help="Which API server to run (default: embedded for process nodes, else real).",
    ),
    click.option("--cores", type=int, default=plans.DEFAULT_CORES, show_default=True, help="Cores of each node."),
    click.option(
        "--scale", type=float, default=plans.DEFAULT_SCALE, show_default=True,
        help="Real CPUs for each emulated core.",
    ),
    click.option(
        "--estimator", type=Estimators(),
        help=f"How agents estimate capacity (default: {plans.DEFAULT_ESTIMATOR}; the others are for comparison).",
    ),
    click.option(
        "--ceiling", "ceiling_cpu", type=float,
        help=f"Share of the CPU up to which a node takes Pods, 0.05 to 1 (default: {plans.DEFAULT_CEILING_CPU:g}).",
    ),
    click.option(
        "--merge", type=click.Choice(plans.MERGES),
        help=f"How aggregators merge the nodes' models (default: {plans.MERGES[0]}).",
    ),
    click.option("--aggregators", type=int, default=1, show_default=True, help="Replicas of the aggregator."),
    click.option("--schedulers", type=int, default=1, show_default=True, help="Replicas of the scheduler."),
    click.option(
        "--sharing", type=click.Choice(plans.SHARINGS),
        help="Several schedulers: one leads and the others stand by, or all decide at the same time "
        f"(default: {plans.SHARINGS[0]}).",
    ),
    click.option(
        "--rescheduler", is_flag=True,
        help="Also run a rescheduler, which moves running Pods of Deployments (with --control-plane real).",
    ),
)  # fmt: skip


def cluster(function: F) -> F:
    """Add the flags that describe a cluster."""
    # Applied in reverse: the help lists the option that was applied last first.
    for option in reversed(_CLUSTER):
        function = option(function)
    return function


def request(name: str, given: dict[str, Any]) -> plans.Options:
    """Return the cluster that the flags of `cluster` ask for."""
    kind, count = given["nodes"]
    known = {each.name: given[each.name] for each in dataclasses.fields(plans.Options) if each.name in given}
    return plans.Options(**{**known, "name": name, "nodes": count, "node_kind": kind})
