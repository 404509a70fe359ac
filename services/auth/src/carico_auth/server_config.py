"""Generate the configuration of a NATS server that enforces `carico_core.wire.roles`; pure.

Two ways. `callout`: clients show tokens of Kubernetes, and this service says who they are. `static`: clients show
nkeys, whose public halves stand in the server's configuration. Both are parts of a configuration, to be included by the
one that says where the server listens and stores.
"""

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from carico_core.wire import accounts as bus_accounts
from carico_core.wire import roles

# How long the server waits for the callout: more than `app.ANSWER_WITHIN_S`, less than clients wait.
ANSWER_TIMEOUT_S = 4
# The TLS handshakes of a thousand clients that reconnect at once take longer than the server's default of 2 s.
TLS_TIMEOUT_S = 5
# A list that is shorter stands in one line.
_LINE_MOST = 80


@dataclasses.dataclass(frozen=True, slots=True)
class Variable:
    """A value that the server reads from its environment."""

    name: str


Key = str | Variable


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Paths of the server's certificate and key."""

    cert: str
    key: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """One static identity: the public halves of its nkeys (two while it is being rotated)."""

    role: roles.Role
    keys: Sequence[Key]
    node: str | None = None


def callout(
    *, issuer: Key, auth_keys: Sequence[Key], xkey: Key | None, owner_keys: Sequence[Key], tls: Tls | None = None
) -> dict[str, Any]:
    """Return the part for a server with the callout. `owner_keys` are accepted without it, for emergencies."""
    users = (User(role=roles.Role.OWNER, keys=owner_keys), User(role=roles.Role.AUTH, keys=auth_keys))
    return {
        **accounts({user.role: list(_entries(user)) for user in users}),
        "authorization": {
            "timeout": ANSWER_TIMEOUT_S,
            "auth_callout": {
                "issuer": issuer,
                "account": bus_accounts.Account.AUTH.value,
                "auth_users": [*auth_keys, *owner_keys],
                **({} if xkey is None else {"xkey": xkey}),
            },
        },
        **_tls(tls),
    }


def static(users: Sequence[User], *, tls: Tls | None = None) -> dict[str, Any]:
    """Return the part for a server that knows only these users."""
    entries: dict[roles.Role, list[dict[str, Any]]] = {}
    for user in users:
        entries.setdefault(user.role, []).extend(_entries(user))
    return {**accounts(entries), **_tls(tls)}


def accounts(users: Mapping[roles.Role, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Return the accounts with these users (in the server's format) by role, and what crosses between them."""
    found: dict[str, Any] = {}
    with_callout = bool(users.get(roles.Role.AUTH))
    for account in bus_accounts.Account:
        if account in (bus_accounts.Account.AUTH, bus_accounts.Account.SYSTEM) and not with_callout:
            continue
        entries = [dict(user) for role, mine in users.items() if roles.account(role) is account for user in mine]
        found[account.value] = {
            **({"jetstream": "enabled"} if account is bus_accounts.Account.CORE else {}),
            **({"users": entries} if entries else {}),
            **_limits(account),
            **_crossings(account),
        }
    return {"accounts": found, **({"system_account": bus_accounts.Account.SYSTEM.value} if with_callout else {})}


def _limits(account: bus_accounts.Account) -> dict[str, Any]:
    limits = bus_accounts.LIMITS.get(account)
    if limits is None:
        return {}
    return {
        "limits": {
            "max_payload": limits.payload_bytes,
            "max_subscriptions": limits.subscriptions,
            "max_connections": limits.connections,
        }
    }


def _crossings(account: bus_accounts.Account) -> dict[str, Any]:
    exports, imports = [], []
    for flow in bus_accounts.CROSSINGS:
        kind = "service" if flow.is_service else "stream"
        if flow.source is account:
            many = {"response_type": "stream"} if flow.many else {}
            exports.append({kind: flow.subject, "accounts": [each.value for each in flow.to], **many})
        elif account in flow.to:
            imports.append({kind: {"account": flow.source.value, "subject": flow.subject}})
    return {**({"exports": exports} if exports else {}), **({"imports": imports} if imports else {})}


def permissions(role: roles.Role, node: str | None = None) -> dict[str, Any]:
    """Return a role's permissions in the server's format."""
    allowed = roles.permissions(role, node)
    answers = {"max": roles.ANSWERS_EACH, "expires": f"{roles.ANSWER_WITHIN_S:g}s"}
    return {
        "publish": {"allow": list(allowed.publish)} if allowed.publish else {"deny": [">"]},
        "subscribe": {"allow": list(allowed.subscribe)},
        **({"allow_responses": answers} if allowed.answers else {}),
    }


def render(config: Mapping[str, Any]) -> str:
    """Format the configuration as NATS reads it.

    >>> print(render({"tls": {"timeout": 5, "cert_file": Variable("CERT")}, "tags": ["a", "b"]}), end="")
    tls {
      timeout: 5
      cert_file: $CERT
    }
    tags: ["a", "b"]
    """
    return "".join(f"{line}\n" for line in _lines(config, ""))


def _entries(user: User) -> Iterator[dict[str, Any]]:
    allowed = roles.permissions(user.role, user.node)
    for key in user.keys:
        yield {
            "nkey": key,
            "permissions": permissions(user.role, user.node),
            "allowed_connection_types": list(allowed.connections),
        }


def _tls(tls: Tls | None) -> dict[str, Any]:
    if tls is None:
        return {}
    return {"tls": {"cert_file": tls.cert, "key_file": tls.key, "timeout": TLS_TIMEOUT_S}}


def _lines(config: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield f"{indent}{key} {{"
            yield from _lines(value, indent + "  ")
            yield indent + "}"
        elif isinstance(value, list):
            if (line := _short(indent + key, value)) is not None:
                yield line
                continue
            yield f"{indent}{key}: ["
            for item in value:
                yield from _items(item, indent + "  ")
            yield indent + "]"
        else:
            yield f"{indent}{key}: {_scalar(value)}"


def _short(start: str, values: list[Any]) -> str | None:
    """Return a list in one line, where it fits."""
    if any(isinstance(value, Mapping) for value in values):
        return None
    line = f"{start}: [{', '.join(map(_scalar, values))}]"
    return line if len(line) <= _LINE_MOST else None


def _items(item: Any, indent: str) -> Iterator[str]:
    if isinstance(item, Mapping):
        yield indent + "{"
        yield from _lines(item, indent + "  ")
        yield indent + "}"
    else:
        yield indent + _scalar(item)


def _scalar(value: Any) -> str:
    return f"${value.name}" if isinstance(value, Variable) else json.dumps(value)
