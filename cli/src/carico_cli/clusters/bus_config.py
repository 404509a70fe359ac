"""`carico bus-config`: keys, and the part of a NATS server's configuration that grants each role its rights."""

import pathlib
from typing import Any

import click

from carico_auth import arrangements, key_folder, server_config
from carico_cli.output import report
from carico_cli.shell import user_files
from carico_core.domain import errors, names

CONFIG = "bus.conf"
PUBLICS = "public.env"
CALLOUT, STATIC = "callout", "static"
TEMPLATES = {CALLOUT: arrangements.callout_template, STATIC: arrangements.static_template}


@click.command("bus-config")
@click.argument("kind", type=click.Choice((CALLOUT, STATIC)))
@click.option("--out", type=user_files.PATH, help="Folder for bus.conf, public.env and keys/.")
@click.option("--template", is_flag=True, help="Print the configuration with variables instead of keys; write nothing.")
@click.option("--node", "nodes", multiple=True, help="With static: a key for this node's agent alone; may be repeated.")
@click.option("--tls-cert", default="", help="Path of the server's certificate, on the server.")
@click.option("--tls-key", default="", help="Path of the certificate's key, on the server.")
@click.option("--rotate", default="", help="Make a new key of this name; the previous one stays valid.")
@click.option("--retire", default="", help="Revoke the previous key of this name.")
def command(
    kind: str, out: pathlib.Path | None, template: bool, nodes: tuple[str, ...], tls_cert: str, tls_key: str,
    rotate: str, retire: str,
) -> None:  # fmt: skip
    """Write keys, and the configuration of a NATS server that accepts them (docs/security.md).

    callout: clients present Kubernetes tokens, which carico-auth reviews. static: clients present nkeys, one for each
    role.
    """
    if template:
        click.echo(server_config.render(TEMPLATES[kind]()), nl=False)
        return
    if out is None:
        raise errors.SettingsError("--out: got none, expected a folder for configuration and keys (or --template)")
    tls = _tls(tls_cert, tls_key)
    _check_nodes(kind, nodes)
    keys = key_folder.KeyFolder(out / "keys")
    if rotate:
        keys.rotate(rotate)
    if retire:
        keys.retire(retire)
    found = arrangements.callout(keys, tls=tls) if kind == CALLOUT else arrangements.static(keys, nodes=nodes, tls=tls)
    publics = "".join(f"{name}={key}\n" for name, key in found.publics.items())
    report.write(out, {CONFIG: server_config.render(found.config).encode(), PUBLICS: publics.encode()})
    _print_result(out, kind, tls)


def _tls(cert: str, key: str) -> server_config.Tls | None:
    if bool(cert) is not bool(key):
        raise errors.SettingsError("--tls-cert and --tls-key: got one of them, expected both or none")
    return server_config.Tls(cert=cert, key=key) if cert else None


def _check_nodes(kind: str, nodes: tuple[str, ...]) -> None:
    if nodes and kind != STATIC:
        raise errors.SettingsError("--node: got callout, expected static: with callout the tokens name their node")
    for node in nodes:
        if not names.is_subdomain(node):
            raise errors.SettingsError(f"--node: got {node!r}, expected a name of a Node")


def _print_result(out: pathlib.Path, kind: str, tls: Any) -> None:
    # NATS 2.15 refuses a reload that changes a key of the callout: "config reload not supported for AuthCallout".
    then = "restart the server, which does not reload it" if kind == CALLOUT else "reload the server"
    click.echo(f"{out / CONFIG}: include it in the server's configuration, then {then}")
    click.echo(
        f"{out / 'keys'}: one seed in each file; give it to its owner alone, and keep the folder off the cluster"
    )
    if tls is None:
        click.echo(
            "no TLS: tokens would cross the network unencrypted; give --tls-cert and --tls-key, or add a tls block"
        )
