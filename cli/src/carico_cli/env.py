"""`carico env`: what a shell needs to talk to a cluster."""

import shlex

import click

from carico_cli import nats_context, options, settings
from carico_local.cluster import state


@click.command("env")
@options.name()
@click.option("--nats-context", "saves", is_flag=True, help="Save a context for the nats CLI as well: carico-NAME.")
@click.pass_obj
def command(context: settings.Context, name: str, saves: bool) -> None:
    """Prints NATS_URL and KUBECONFIG as export lines: eval "$(carico env)"."""
    paths, found = state.running(context.home, name)
    click.echo(f"export NATS_URL={shlex.quote(found.nats_url)}")
    click.echo(f"export KUBECONFIG={shlex.quote(str(paths.kubeconfig))}")
    if saves:
        saved = nats_context.save(context.environ, name, found.nats_url)
        click.echo(f"# from any shell, until the cluster is down: nats context select {saved}")
