"""`carico env`: what a shell needs to talk to a cluster."""

import shlex

import click

from carico_cli import options, settings
from carico_core.domain import errors
from carico_local.cluster import state


@click.command("env")
@options.name()
@click.pass_obj
def command(context: settings.Context, name: str) -> None:
    """Prints NATS_URL and KUBECONFIG as export lines: eval "$(carico env)"."""
    paths = state.find(context.home, name)
    found = state.read(paths)
    if found is None or not state.is_running(paths):
        raise errors.SettingsError(f"cluster {name!r} does not run: `carico up --name {name}`")
    click.echo(f"export NATS_URL={shlex.quote(found.nats_url)}")
    click.echo(f"export KUBECONFIG={shlex.quote(str(paths.kubeconfig))}")
