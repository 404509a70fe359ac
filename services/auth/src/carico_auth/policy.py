"""Map an identity in Kubernetes to permissions on the bus; pure."""

import dataclasses
import enum
from collections.abc import Mapping

from carico_core.domain import errors, names
from carico_core.wire import roles

_USER_PREFIX = "system:serviceaccount:"
# Kinds of connections: the server's names -> the roles' names.
CONNECTIONS = {"nats": roles.STANDARD, "websocket": roles.WEBSOCKET}


class Refused(enum.StrEnum):
    """Why a client is refused: the label of the counter, and the only reason that the server gets."""

    NOT_A_REQUEST = "not_a_request"
    NO_TOKEN = "no_token"
    TOKEN_REFUSED = "token_refused"
    OTHER_AUDIENCE = "other_audience"
    NEVER_EXPIRES = "never_expires"
    NO_SERVICE_ACCOUNT = "no_service_account"
    NO_ROLE = "no_role"
    NO_NODE = "no_node"
    CONNECTION = "connection"
    API_AWAY = "api_away"
    API_REFUSES = "api_refuses"
    TOO_LATE = "too_late"
    TOO_OFTEN = "too_often"
    FLOOD = "flood"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A reason, and details for the operator."""

    reason: Refused
    detail: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class ServiceAccount:
    """A ServiceAccount."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The bearer of a token, as the API states it. `node` and `pod_uid`: of the Pod that it is bound to, if any."""

    username: str
    node: str | None
    pod_uid: str | None
    expires_s: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The name under which a client is accepted, until when, its permissions, and the Pod of its token."""

    name: str
    role: roles.Role
    account: ServiceAccount
    node: str | None
    pod_uid: str | None
    permissions: roles.Permissions
    expires_s: int

    @property
    def bus_name(self) -> str:
        """The name by which the server lists the connection; `parse_bus_name` reads it."""
        return self.name if self.pod_uid is None else f"{self.name}@{self.account.namespace}/{self.pod_uid}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Who has a connection, and the Pod of its token; both empty where the token belongs to none."""

    identity: str
    namespace: str = ""
    uid: str = ""


def parse_bus_name(name: str) -> Client:
    """Return who has a connection by its `Grant.bus_name`.

    >>> parse_bus_name("agent/node-1@carico/0f3c")
    Client(identity='agent/node-1', namespace='carico', uid='0f3c')
    """
    # No name in Kubernetes contains the separator.
    identity, _, pod = name.partition("@")
    namespace, _, uid = pod.partition("/")
    return Client(identity=identity, namespace=namespace, uid=uid)


def parse_account(text: str, *, flag: str) -> ServiceAccount:
    """Parse `namespace/name` of a ServiceAccount. Raises `SettingsError`."""
    namespace, slash, name = text.partition("/")
    if not slash or not names.is_label(namespace) or not names.is_subdomain(name):
        raise errors.SettingsError(f"{flag}: got {text!r}, expected namespace/name of a ServiceAccount")
    return ServiceAccount(namespace, name)


def decide(identity: Identity, accounts: Mapping[ServiceAccount, roles.Role], *, connection: str) -> Grant | Refusal:
    """Return the permissions of `identity` on a `connection` (the server's name of its kind), or a refusal."""
    parts = identity.username.removeprefix(_USER_PREFIX).split(":")
    if not identity.username.startswith(_USER_PREFIX) or len(parts) != 2:
        return Refusal(reason=Refused.NO_SERVICE_ACCOUNT, detail=identity.username)
    account = ServiceAccount(*parts)
    role = accounts.get(account)
    if role is None:
        return Refusal(reason=Refused.NO_ROLE, detail=str(account))
    node = identity.node if role is roles.Role.AGENT else None
    if role is roles.Role.AGENT and (node is None or not names.is_subdomain(node)):
        return Refusal(reason=Refused.NO_NODE, detail=f"{account}: {_WHY_NODE}")
    permissions = roles.permissions(role, node)
    # A server with a callout does not check which kinds of connections a user may have, so the callout does.
    if CONNECTIONS.get(connection) not in permissions.connections:
        return Refusal(reason=Refused.CONNECTION, detail=f"{account} by {connection or 'nothing known'}")
    name = f"{role.value}/{node}" if node is not None else f"{role.value}/{account}"
    return Grant(
        name=name, role=role, account=account, node=node, pod_uid=identity.pod_uid, permissions=permissions,
        expires_s=identity.expires_s,
    )  # fmt: skip


class ConnectionPace:
    """Bounds how often each node's agent is let in, with a token bucket per node.

    NATS limits the connections of an account, not of an identity. A connection lasts as long as its token, an hour at
    most, in which two replicas of the callout let one agent in 1,920 times: too few to use up an account's connections.
    """

    def __init__(self) -> None:
        self._buckets: dict[str, tuple[float, float]] = {}

    def refuse(self, grant: Grant, *, now_s: float) -> Refusal | None:
        """Count a grant at `now_s` (monotonic), or return why it comes too soon. Other roles share identities."""
        if grant.node is None:
            return None
        left, at_s = self._buckets.pop(grant.node, (AGENT_BURST, now_s))
        left = min(AGENT_BURST, left + (now_s - at_s) / AGENT_EVERY_S)
        is_refused = left < 1.0
        # Newest last. One that is full again is as if there had been none: nodes may come and go for ever.
        self._buckets[grant.node] = (left if is_refused else left - 1.0, now_s)
        while now_s - next(iter(self._buckets.values()))[1] >= AGENT_BURST * AGENT_EVERY_S:
            del self._buckets[next(iter(self._buckets))]
        if is_refused:
            return Refusal(reason=Refused.TOO_OFTEN, detail=f"{grant.name}: more than one in {AGENT_EVERY_S:g} s")
        return None

    def __len__(self) -> int:
        return len(self._buckets)


# An agent connects once, and again to renew its token; a bus that comes and goes costs it a connection each time.
AGENT_BURST = 240.0
AGENT_EVERY_S = 5.0

_WHY_NODE = "its token names no node: it must be bound to a Pod, by Kubernetes 1.30 or later"
