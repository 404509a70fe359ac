"""Say what a NATS server refuses, or what is wrong with it: its kind, and one line with whom, why and what to do."""

import dataclasses
import enum
import pathlib
import re
import ssl
import urllib.parse

from carico_core.domain import errors
from carico_core.runtime.bus import port as buses
from carico_core.runtime.bus.security import tls, token_expiry
from carico_core.wire import accounts

# What `streams.jetstream` defines, in files.
STREAMS_MIB = 296
OPEN = "it does not identify its clients: its configuration has no accounts"


class Kind(enum.StrEnum):
    """The label of the counter of troubles."""

    AWAY = "away"
    # Our key, token or password is not accepted.
    IDENTITY = "identity"
    # A subject that our role may not use.
    RIGHT = "right"
    CERTIFICATE = "certificate"
    NO_ACCOUNTS = "no_accounts"
    LIMIT = "limit"
    # The server is too old, without JetStream, or has other streams.
    SERVER = "server"
    OTHER = "other"


# The server answers, and retrying alone does not help.
LASTING = frozenset(Kind) - {Kind.AWAY, Kind.OTHER}
_SAID = (
    (Kind.LIMIT, "maximum (account active )?(connections|subscriptions|payload)|resource limits exceeded|insufficient"),
    (Kind.RIGHT, "permissions violation"),
    (Kind.IDENTITY, "authorization|authentication"),
    (Kind.CERTIFICATE, "certificate|offer TLS"),
    (Kind.NO_ACCOUNTS, re.escape(OPEN)),
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What is wrong with the connection."""

    kind: Kind
    text: str


def explain(error: Exception, settings: buses.BusSettings, *, now_s: float) -> Trouble:
    """Return what went wrong. `now_s`: Unix time."""
    if isinstance(error, ssl.SSLError):
        return Trouble(kind=Kind.CERTIFICATE, text=tls.explain(error, settings))
    said = str(error).removeprefix("nats: ") or type(error).__name__
    if isinstance(error, OSError | TimeoutError):
        return Trouble(kind=Kind.AWAY, text=said)
    if isinstance(error, errors.UserError):
        return Trouble(kind=Kind.SERVER, text=said)
    kind = next((kind for kind, words in _SAID if re.search(words, said, re.IGNORECASE)), Kind.OTHER)
    at = f"NATS at {buses.shown(settings.url)}"
    match kind:
        case Kind.IDENTITY:
            return Trouble(kind=kind, text=f"{at} says {said} to {_identity(settings, now_s=now_s)}")
        case Kind.RIGHT:
            why = "the credentials are of a role that may not, or NATS has the rights of another version"
            return Trouble(kind=kind, text=f"{at} says {said}: {why} (docs/security.md)")
        case Kind.LIMIT:
            return Trouble(kind=kind, text=f"{at} says {said}: {_limit(said)}")
        case Kind.NO_ACCOUNTS:
            do = "include in it what `carico bus-config` writes; our key or token is not sent"
            return Trouble(kind=kind, text=f"{at}: {said}: {do}")
    return Trouble(kind=kind, text=said)


def _identity(settings: buses.BusSettings, *, now_s: float) -> str:
    """Return who we said we are, and what to do where that is refused. Secrets are not shown."""
    if settings.credentials:
        return f"the credentials in {settings.credentials}: are they of this cluster?"
    if settings.nkey:
        return (
            f"the key {_public(settings.nkey)} of {settings.nkey}: it is of another cluster, or retired; `carico "
            "bus-config` writes the keys of a cluster with the configuration that NATS needs"
        )
    if settings.token_file:
        return _token(settings.token_file, now_s=now_s)
    address = next((found for url in settings.url.split(",") if (found := _split(url)).username), None)
    if address is not None and address.password is None:
        # NATS takes a name without a password for a token, which is a secret.
        return "the token in its address: it is of an earlier start, or of another cluster"
    if address is not None:
        return f"user {address.username} of its address: the password is of an earlier start, or of another cluster"
    return "us, who show nothing: set CARICO_BUS_NKEY or CARICO_BUS_TOKEN_FILE, or a user in the address"


def _split(url: str) -> urllib.parse.SplitResult:
    # nats-py accepts addresses without a scheme.
    return urllib.parse.urlsplit(url.strip() if "://" in url else f"nats://{url.strip()}")


def _public(path: str) -> str:
    # Most set-ups have no nkeys, and cryptography costs an agent memory.
    from carico_core.runtime.bus.security import nkeys

    try:
        return nkeys.read(pathlib.Path(path)).public
    except (OSError, ValueError):
        return "(unreadable)"


def _token(path: str, *, now_s: float) -> str:
    claims = token_expiry.claims(token_expiry.read(pathlib.Path(path)))
    if claims is None:
        return f"the token in {path}: it cannot be read, or is not one of Kubernetes"
    about = f"the token of {claims.get('sub', 'an unnamed client')} for {claims.get('aud')} in {path}"
    expires_s = token_expiry.expiry_s(claims)
    if expires_s is not None and expires_s <= now_s:
        return f"{about}: it expired {now_s - expires_s:.0f} s ago, and the kubelet has not replaced it"
    why = "revoked, of another cluster, or of a Pod that is gone"
    return f"{about}: {why}; the log of carico-auth has the reason (carico_auth_refusals_total)"


def _limit(said: str) -> str:
    if "account active" in said:
        known = ", ".join(f"{account.value} {each.connections}" for account, each in accounts.LIMITS.items())
        return f"all connections of our account are in use ({known}): `/connz?auth=1` on its port 8222 lists whose"
    if "subscriptions" in said:
        known = ", ".join(f"{account.value} {each.subscriptions}" for account, each in accounts.LIMITS.items())
        return f"this connection has more than its account allows ({known})"
    if "insufficient" in said:
        return (
            f"CARICO's streams reserve {STREAMS_MIB} MiB on its disk: free as much, and restart it, or raise "
            "max_file_store in its configuration (by default three quarters of what is free when it starts)"
        )
    if "payload" in said.lower():
        return "a message was larger than the account allows (docs/security.md)"
    return "raise it in the configuration of NATS, or look for what uses it up"
