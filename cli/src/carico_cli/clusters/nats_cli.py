"""For the nats CLI: a saved context per local cluster (`nats context select carico-NAME`), and `carico decode`."""

import contextlib
import os
import pathlib
import pwd
import sys
from collections.abc import Mapping

import click
import orjson

from carico_core.domain import errors
from carico_core.wire import messages as wire
from carico_core.wire import roles

_DESCRIPTION = "CARICO cluster "


def save(environ: Mapping[str, str], cluster: str, url: str) -> str:
    """Save the context and return its name. Raises `SettingsError` where it cannot be."""
    path = _path(environ, cluster)
    # The inbox is that of the CLI's role, which a bus with rights insists on.
    made = {"description": f"{_DESCRIPTION}{cluster}", "url": url, "inbox_prefix": roles.inbox(roles.Role.CLI)}
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_bytes(orjson.dumps(made, option=orjson.OPT_INDENT_2))
    except OSError as error:
        raise errors.SettingsError(f"--nats-context: {path} cannot be written: {error.strerror}") from None
    return path.stem


def remove(environ: Mapping[str, str], cluster: str) -> None:
    """Remove the context if it is one of ours. The nats CLI unselects a selected one by itself."""
    path = _path(environ, cluster)
    with contextlib.suppress(OSError, orjson.JSONDecodeError):
        found = orjson.loads(path.read_bytes())
        if isinstance(found, dict) and str(found.get("description", "")).startswith(_DESCRIPTION):
            path.unlink()


def _path(environ: Mapping[str, str], cluster: str) -> pathlib.Path:
    """Where the nats CLI looks: it asks the user database for the home directory, and not HOME."""
    config = environ.get("XDG_CONFIG_HOME")
    folder = pathlib.Path(config) if config else pathlib.Path(pwd.getpwuid(os.getuid()).pw_dir) / ".config"
    return folder / "nats" / "context" / f"carico-{cluster}.json"


@click.command("decode")
def decode() -> None:
    """Print a message of carico.v1.model as JSON: nats sub carico.v1.model --translate "carico decode"."""
    payload = sys.stdin.buffer.read()
    try:
        click.echo(wire.model_as_json(wire.decode_model(payload)))
    except errors.MessageError as error:
        raise errors.SettingsError(f"standard input: expected a message of carico.v1.model: {error}") from None
