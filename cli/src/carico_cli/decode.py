"""`carico decode`: the model of the cluster as JSON, from the bytes that travel on the bus."""

import sys

import click

from carico_core.domain import errors
from carico_core.wire import messages as wire


@click.command("decode")
def command() -> None:
    """Prints a message of carico.v1.model as JSON: nats sub carico.v1.model --translate "carico decode"."""
    payload = sys.stdin.buffer.read()
    try:
        click.echo(wire.model_as_json(wire.decode_model(payload)))
    except errors.MessageError as error:
        raise errors.SettingsError(f"standard input: expected a message of carico.v1.model: {error}") from None
