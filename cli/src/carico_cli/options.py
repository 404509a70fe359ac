"""Flags that several commands share."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from carico_local.cluster import plan as plans

F = TypeVar("F", bound=Callable[..., Any])


DEFAULT_NAME = "demo"


def name(default: str = DEFAULT_NAME) -> Callable[[F], F]:
    """--name"""
    return click.option("--name", default=default, show_default=True, help="Name of the cluster.")


def cluster(function: F) -> F:
    """What shapes a cluster."""
    for option in (
        click.option("--nodes", type=int, help="Emulated nodes (default: what the machine carries)."),
        click.option("--cores", type=int, default=plans.DEFAULT_CORES, show_default=True, help="Cores of a node."),
        click.option(
            "--scale", type=float, default=plans.DEFAULT_SCALE, show_default=True, help="Real CPUs of an emulated core."
        ),
        click.option("--estimator", type=click.Choice(plans.ESTIMATORS), help="How capacity is estimated."),
        click.option("--ceiling", type=float, help="Usage of the CPU up to which Pods are taken, 0.05 to 1."),
        click.option("--merge", type=click.Choice(plans.MERGES), help="How local models are merged."),
        click.option("--aggregators", type=int, default=1, show_default=True, help="Replicas of the aggregator."),
    ):
        function = option(function)
    return function


def wish(name: str, given: dict[str, Any]) -> plans.Wish:
    """The wish that the flags of `cluster` state."""
    return plans.Wish(
        name=name,
        nodes=given["nodes"],
        cores=given["cores"],
        scale=given["scale"],
        estimator=given["estimator"],
        ceiling_cpu=given["ceiling"],
        merge=given["merge"],
        aggregators=given["aggregators"],
    )
