"""`carico targets`: where a Prometheus finds the services of a cluster on this machine."""

from collections.abc import Iterator
from typing import Any

import click
import orjson

from carico_cli import options, settings
from carico_local.cluster import state


@click.command("targets")
@options.name()
@click.pass_obj
def command(context: settings.Context, name: str) -> None:
    """Prints what deploy/observe/prometheus-local.yml reads: carico targets > deploy/observe/targets.json."""
    _, found = state.running(context.home, name)
    click.echo(orjson.dumps(list(targets(found)), option=orjson.OPT_INDENT_2))


def targets(found: state.ClusterState) -> Iterator[dict[str, Any]]:
    """Each service with metrics of ours, as Prometheus reads it from a file (file_sd)."""
    for service in found.services:
        kind = service.name.partition("/")[0].partition("-")[0]
        if service.http_port is not None and kind in ("agent", "aggregator", "scheduler", "fleet"):
            labels = {"job": f"carico-{kind}", "service": service.name}
            yield {"targets": [f"127.0.0.1:{service.http_port}"], "labels": labels}
