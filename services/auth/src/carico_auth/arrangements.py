"""Configure a bus with identities in one of two ways, from a folder of keys or as a template with variables.

`loopback` is for clusters of one machine: accounts as everywhere, and users with names in place of keys.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from carico_auth import key_folder, server_config
from carico_core.runtime.bus.security import nkeys
from carico_core.wire import roles

ISSUER, XKEY, AUTH, OWNER = "issuer", "xkey", "auth", "owner"
# `auth` only looks at connections there, and disconnects who floods.
STATIC_ROLES = (*roles.MEMBERS, roles.Role.AUTH)
# The key of one node's agent.
_AGENT = "agent-"
# Users of `loopback`.
LOCAL, AGENTS, READERS = "local", "agent", "reader"
# Where deployments mount the server's certificate.
TEMPLATE_TLS = server_config.Tls(cert="/etc/nats/tls/tls.crt", key="/etc/nats/tls/tls.key")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """A part of a server's configuration, and its public keys by the names of their variables."""

    config: dict[str, Any]
    publics: dict[str, str]


def callout(keys: key_folder.KeyFolder, *, tls: server_config.Tls | None) -> Arrangement:
    """Let NATS ask the callout, whose keys and the owner's are in `keys`. Raises `SettingsError`."""
    issuer = keys.publics(ISSUER, nkeys.Kind.ACCOUNT)[0]
    xkey = keys.publics(XKEY, nkeys.Kind.CURVE)[0]
    auth, owner = (keys.publics(name, nkeys.Kind.USER) for name in (AUTH, OWNER))
    config = server_config.callout(issuer=issuer, auth_keys=auth, xkey=xkey, owner_keys=owner, tls=tls)
    return Arrangement(config=config, publics=_named({ISSUER: issuer, XKEY: xkey, AUTH: auth[0], OWNER: owner[0]}))


def static(keys: key_folder.KeyFolder, *, nodes: Sequence[str], tls: server_config.Tls | None) -> Arrangement:
    """NATS knows one nkey a role; once agents have had keys of their nodes, there is none for all of them.

    Raises `SettingsError`.
    """
    # A run that leaves out a node must not let its agent in as any node's.
    every = sorted({*nodes, *(name.removeprefix(_AGENT) for name in keys.names() if name.startswith(_AGENT))})
    users, publics = [], {}
    for name, role, node in _identities(every):
        users.append(server_config.User(role=role, node=node, keys=keys.publics(name, nkeys.Kind.USER)))
        if node is None:
            publics[name] = str(users[-1].keys[0])
    return Arrangement(config=server_config.static(users, tls=tls), publics=_named(publics))


def callout_template() -> dict[str, Any]:
    """Return `callout` with variables in place of keys, for a server that reads them from its environment."""
    return server_config.callout(
        issuer=_variable(ISSUER), auth_keys=[_variable(AUTH)], xkey=_variable(XKEY), owner_keys=[_variable(OWNER)],
        tls=TEMPLATE_TLS,
    )  # fmt: skip


def static_template() -> dict[str, Any]:
    """Return `static` with variables in place of keys."""
    users = [server_config.User(role=role, node=node, keys=[_variable(name)]) for name, role, node in _identities(())]
    return server_config.static(users, tls=TEMPLATE_TLS)


def loopback(password: str) -> dict[str, Any]:
    """Return accounts without keys: agents, readers, and an owner for all the rest, by name and `password`."""
    local = {"allowed_connection_types": [roles.STANDARD]}
    agent, reader = (
        {
            "permissions": server_config.permissions(role),
            "allowed_connection_types": list(roles.permissions(role).connections),
        }
        for role in (roles.Role.AGENT, roles.Role.READER)
    )
    named = ((roles.Role.OWNER, LOCAL, local), (roles.Role.AGENT, AGENTS, agent), (roles.Role.READER, READERS, reader))
    users = {role: [{"user": name, "password": password, **rest}] for role, name, rest in named}
    return server_config.accounts(users)


def _identities(nodes: Sequence[str]) -> Iterator[tuple[str, roles.Role, str | None]]:
    """Return (name of the key, role, node) of each static user."""
    for role in STATIC_ROLES:
        if role is roles.Role.AGENT and nodes:
            yield from ((_AGENT + node, role, node) for node in nodes)
        else:
            yield role.value, role, None


def _variable(name: str) -> server_config.Variable:
    return server_config.Variable("CARICO_NATS_" + name.upper())


def _named(publics: dict[str, str]) -> dict[str, str]:
    return {_variable(name).name: public for name, public in publics.items()}
