"""Flags that several commands share."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from carico_core.numerics.estimators import base, registry
from carico_local.cluster import plan as plans

F = TypeVar("F", bound=Callable[..., Any])


DEFAULT_NAME = "demo"


def new_name(default: str = DEFAULT_NAME) -> Callable[[F], F]:
    """Add --name, for commands that start a cluster of their own."""
    return click.option("--name", default=default, show_default=True, help="Name of the cluster to start.")


class Estimators(click.Choice[str]):
    """Names of estimators; one of an earlier version is refused with what took its place."""

    def __init__(self) -> None:
        super().__init__(sorted(registry.ESTIMATORS))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name."""
        if value in registry.GONE:
            self.fail(f"{value!r} is gone: {registry.GONE[value]}", param, ctx)
        return super().convert(value, param, ctx)


class Nodes(click.ParamType[tuple[str, int | None]]):
    """Kind and number of nodes, either of which may be left out: "3", "kwok", "kwok=1000"."""

    name = "nodes"
    DEFAULT = (plans.NodeKind.PROCESS.value, None)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int | None]:  # fmt: skip
        """(kind, number or None)."""
        if isinstance(value, tuple):
            return value
        known = "|".join(each.value for each in plans.NodeKind)
        found = re.fullmatch(rf"(?P<kind>{known})(=(?P<count>\d+))?|(?P<alone>-?\d+)", str(value))
        if found is None:
            kinds = known.replace("|", ", ")
            self.fail(f"got {value!r}, expected a number, or one of {kinds}, or both as in kwok=1000", param, ctx)
        count = found["count"] or found["alone"]
        return found["kind"] or self.DEFAULT[0], int(count) if count else None


def _without_image(_context: click.Context, _option: click.Parameter, given: str | None) -> None:
    if given is not None:
        raise click.BadParameter("kubelet nodes run in namespaces of this machine and need no image: leave it out")


def cluster(function: F) -> F:
    """Add the flags that describe a cluster."""
    options = (
        click.option(
            "--nodes",
            type=Nodes(),
            default=Nodes.DEFAULT,
            metavar="[KIND=]N",
            help="How many nodes, or of which kind, or both: 3, process=3 (default: as many as the machine carries), "
            "kubelet=2 (real, as root, in namespaces), kwok=1000.",
        ),
        click.option(
            "--node-cgroups",
            type=click.Choice(plans.NODE_CGROUPS),
            default="auto",
            show_default=True,
            help="process nodes: none measures and runs Pods as plain processes, without quota, as auto does where "
            "cgroups may not be written.",
        ),
        click.option(
            "--node-base", hidden=True, expose_value=False, callback=_without_image, help="Needed no more: no image."
        ),
        click.option(
            "--control-plane",
            type=click.Choice([each.value for each in plans.ControlPlane]),
            help="Which API server to run (default: embedded for process nodes, else real).",
        ),
        click.option("--cores", type=int, default=plans.DEFAULT_CORES, show_default=True, help="Cores of a node."),
        click.option(
            "--scale", type=float, default=plans.DEFAULT_SCALE, show_default=True, help="Real CPUs of an emulated core."
        ),
        click.option(
            "--estimator",
            type=Estimators(),
            help=f"How capacity is estimated (default: {registry.DEFAULT}).",
        ),
        click.option(
            "--ceiling",
            type=float,
            help=f"Share of the CPU up to which Pods are taken, 0.05 to 1 (default: {base.DEFAULT_CEILING['cpu']:g}).",
        ),
        click.option(
            "--merge",
            type=click.Choice(plans.MERGES),
            help=f"How local models are merged (default: {plans.MERGES[0]}).",
        ),
        click.option("--aggregators", type=int, default=1, show_default=True, help="Replicas of the aggregator."),
        click.option(
            "--schedulers", type=int, default=1, show_default=True, help="Schedulers: one leads, the others stand by."
        ),
    )
    # The help lists them from the last one put on.
    for option in reversed(options):
        function = option(function)
    return function


def wish(name: str, given: dict[str, Any]) -> plans.Wish:
    """Return the request for a cluster that its flags state."""
    return plans.Wish(
        name=name,
        nodes=given["nodes"][1],
        node_kind=given["nodes"][0],
        control_plane=given["control_plane"],
        cores=given["cores"],
        scale=given["scale"],
        estimator=given["estimator"],
        ceiling_cpu=given["ceiling"],
        merge=given["merge"],
        aggregators=given["aggregators"],
        schedulers=given["schedulers"],
        node_cgroups=given["node_cgroups"],
    )
