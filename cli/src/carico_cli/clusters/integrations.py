"""Connects other tools to a cluster: a shell, Prometheus, the nats CLI."""

import contextlib
import os
import pathlib
import pwd
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import click
import orjson

from carico_cli.clusters import which
from carico_cli.shell import settings
from carico_core.domain import errors
from carico_core.wire import roles
from carico_local import atomic_files
from carico_local.cluster import folders, state
from carico_local.cluster import plan as plans

_DESCRIPTION = "CARICO cluster "
# The embedded API's token is in its address, which kubectl's WebSockets refuse without asking the API, so that nobody
# reads what it answers: where `kubectl exec` works. Without WebSockets kubectl asks.
_WEBSOCKETS = ("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "KUBECTL_PORT_FORWARD_WEBSOCKETS")
# Services with metrics of CARICO.
_SCRAPED = frozenset({"agent", "aggregator", "scheduler", "rescheduler", "fleet"})


@click.command("env")
@which.name_flag
@click.option("--nats-context", "saves", is_flag=True, help="Also save a context for the nats CLI: carico-NAME.")
@click.pass_obj
def env(context: settings.Context, name: str | None, saves: bool) -> None:
    """Print CARICO_CLUSTER, NATS_URL and KUBECONFIG as export lines: eval "$(carico env)"."""
    local = which.meant(context, which.Flags(name=name)).local_name("its address is in the environment already")
    paths, found = state.running(context.home, local)
    for variable, value in _variables(paths, found).items():
        click.echo(f"export {variable}={shlex.quote(value)}")
    if saves:
        saved = save_context(context.environ, local, found.nats_url)
        click.echo(f"# from any shell, until the cluster is down: nats context select {saved}")


@click.command("use", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("name", required=False)
@click.argument("argv", nargs=-1, metavar="[COMMAND...]", type=click.UNPROCESSED)
@click.pass_obj
def use(context: settings.Context, name: str | None, argv: tuple[str, ...]) -> None:
    """Start a shell in which commands mean this cluster, or run one command: carico use NAME kubectl get pods.

    Other shells mean the cluster that they meant before.
    """
    if name is None:
        running = which.listed(which.cluster_names(context.home, which.Need.RUNNING))
        raise errors.SettingsError(f"which cluster? expected one that runs ({running}): `carico use NAME`")
    # It stays there if it follows the name.
    argv = argv[1:] if argv[:1] == ("--",) else argv
    paths, found = state.running(context.home, name)
    shell = context.environ.get("SHELL") or "/bin/sh"
    if not argv:
        click.echo(f"commands in this shell mean cluster {name}; `exit` ends it", err=True)
    _become(argv or (shell,), {**context.environ, **_variables(paths, found)})


def _variables(paths: folders.Paths, found: state.ClusterState) -> dict[str, str]:
    """Return the variables by which a shell means this cluster."""
    means = {which.CLUSTER: paths.name, which.NATS_URL: found.nats_url, which.KUBECONFIG: str(paths.kubeconfig)}
    is_embedded = found.plan.control_plane is plans.ControlPlane.EMBEDDED
    return means | (dict.fromkeys(_WEBSOCKETS, "false") if is_embedded else {})


def _become(argv: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Replace this process by a command. Raises `SettingsError` where it cannot be run."""
    # Python ignores it, and a command inherits that: `yes | head -1` would not end.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        os.execvpe(argv[0], list(argv), environ)
    except OSError as error:
        raise errors.SettingsError(f"{argv[0]}: {error.strerror}") from None


@click.command("targets")
@which.name_flag
@click.pass_obj
def list_targets(context: settings.Context, name: str | None) -> None:
    """Print the services for deploy/observe/prometheus-local.yml: carico targets > deploy/observe/targets.json."""
    local = which.meant(context, which.Flags(name=name)).local_name("its own Prometheus finds its services")
    _, found = state.running(context.home, local)
    click.echo(orjson.dumps(list(targets(found)), option=orjson.OPT_INDENT_2))


def targets(found: state.ClusterState) -> Iterator[dict[str, Any]]:
    """Yield each service that exports CARICO's metrics, as Prometheus reads it from a file (file_sd)."""
    for service in found.services:
        kind = service.name.partition("/")[0].partition("-")[0]
        if service.http_port is not None and kind in _SCRAPED:
            labels = {"job": f"carico-{kind}", "service": service.name}
            yield {"targets": [f"127.0.0.1:{service.http_port}"], "labels": labels}


def save_context(environ: Mapping[str, str], cluster: str, url: str) -> str:
    """Save a context of the nats CLI and return its name. Raises `SettingsError` where it cannot be written."""
    path = _context_path(environ, cluster)
    # A bus with rights allows the CLI's role this inbox prefix alone.
    made = {"description": f"{_DESCRIPTION}{cluster}", "url": url, "inbox_prefix": roles.inbox(roles.Role.CLI)}
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        atomic_files.write(path, orjson.dumps(made, option=orjson.OPT_INDENT_2))
    except OSError as error:
        raise errors.SettingsError(f"--nats-context: {path} cannot be written: {error.strerror}") from None
    return path.stem


def remove_context(environ: Mapping[str, str], cluster: str) -> None:
    """Remove the context if `save_context` wrote it. The nats CLI itself unselects one that is gone."""
    path = _context_path(environ, cluster)
    with contextlib.suppress(OSError, orjson.JSONDecodeError):
        found = orjson.loads(path.read_bytes())
        if isinstance(found, dict) and str(found.get("description", "")).startswith(_DESCRIPTION):
            path.unlink()


def _context_path(environ: Mapping[str, str], cluster: str) -> pathlib.Path:
    """Return where the nats CLI looks: it takes the home directory from the user database, not from HOME."""
    config = environ.get("XDG_CONFIG_HOME")
    folder = pathlib.Path(config) if config else pathlib.Path(pwd.getpwuid(os.getuid()).pw_dir) / ".config"
    return folder / "nats" / "context" / f"carico-{cluster}.json"


@click.command("decode")
def decode() -> None:
    """Print a message of carico.v1.model as JSON: nats sub carico.v1.model --translate "carico decode"."""
    # Imported here: other commands use this module, too, and decode nothing.
    from carico_core.wire import codec
    from carico_core.wire import messages as wire

    # Read with a limit: a device has no end.
    payload = sys.stdin.buffer.read(codec.MODEL_MAX_BYTES + 1)
    try:
        click.echo(wire.model_as_json(wire.decode_model(payload)))
    except errors.MessageError as error:
        raise errors.SettingsError(f"standard input: expected a message of carico.v1.model: {error}") from None
