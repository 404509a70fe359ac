"""Addresses of a local cluster: `carico env` for a shell, `carico targets` for a Prometheus."""

import shlex
from collections.abc import Iterator
from typing import Any

import click
import orjson

from carico_cli.clusters import nats_cli, which
from carico_cli.shell import settings
from carico_local.cluster import state


@click.command("env")
@which.name_flag
@click.option("--nats-context", "saves", is_flag=True, help="Save a context for the nats CLI as well: carico-NAME.")
@click.pass_obj
def env(context: settings.Context, name: str | None, saves: bool) -> None:
    """Print CARICO_CLUSTER, NATS_URL and KUBECONFIG as export lines: eval "$(carico env)"."""
    local = which.meant(context, which.Flags(name=name)).local_name("its address is in the environment already")
    paths, found = state.running(context.home, local)
    click.echo(f"export {which.CLUSTER}={shlex.quote(local)}")
    click.echo(f"export NATS_URL={shlex.quote(found.nats_url)}")
    click.echo(f"export KUBECONFIG={shlex.quote(str(paths.kubeconfig))}")
    if saves:
        saved = nats_cli.save(context.environ, local, found.nats_url)
        click.echo(f"# from any shell, until the cluster is down: nats context select {saved}")


@click.command("targets")
@which.name_flag
@click.pass_obj
def list_targets(context: settings.Context, name: str | None) -> None:
    """Print what deploy/observe/prometheus-local.yml reads: carico targets > deploy/observe/targets.json."""
    local = which.meant(context, which.Flags(name=name)).local_name("its own Prometheus finds its services")
    _, found = state.running(context.home, local)
    click.echo(orjson.dumps(list(targets(found)), option=orjson.OPT_INDENT_2))


def targets(found: state.ClusterState) -> Iterator[dict[str, Any]]:
    """Return each service with metrics of ours, as Prometheus reads it from a file (file_sd)."""
    for service in found.services:
        kind = service.name.partition("/")[0].partition("-")[0]
        if service.http_port is not None and kind in ("agent", "aggregator", "scheduler", "fleet"):
            labels = {"job": f"carico-{kind}", "service": service.name}
            yield {"targets": [f"127.0.0.1:{service.http_port}"], "labels": labels}
