"""Who may do what on the bus: the one place that states it, for the auth callout, static configurations and tests.

A role may publish and subscribe what is listed here and nothing else; NATS denies the rest. A responder may
besides publish one answer to each question (`answers`), wherever its asker wants it.

Permissions cover the subject of a message, never its reply subject, onto which services and JetStream publish. Agents
and readers therefore have accounts of their own (`accounts`).

Each role that asks has inboxes of its own: with a shared `_INBOX.>`, everyone could read every answer. Rights
to create consumers are the owner's alone, since a consumer delivers what is stored to any subject its maker names,
past all that its maker may publish.
"""

import dataclasses
import enum
from collections.abc import Iterator

from carico_core.domain import names
from carico_core.wire import accounts, streams, subjects

INBOX = "_INBOX"
# An answer is due at once; a server forgets the right to it after that.
ANSWER_WITHIN_S = 10.0
ANSWERS_EACH = 1

# What connects by a plain or TLS socket; web pages come by WebSocket. Leaf nodes and MQTT are allowed to no role.
STANDARD = "STANDARD"
WEBSOCKET = "WEBSOCKET"

_API = "$JS.API"
_MODEL_GET = f"{_API}.DIRECT.GET.{streams.MODEL_STREAM}.{streams.MODEL_SUBJECT}"
_SERVICE_VERBS = ("PING", "INFO", "STATS")


class Role(enum.StrEnum):
    """Everyone on the bus."""

    AGENT = "agent"
    AGGREGATOR = "aggregator"
    SCHEDULER = "scheduler"
    RESCHEDULER = "rescheduler"
    RECOMMENDER = "recommender"
    READER = "reader"
    CLI = "cli"
    OWNER = "owner"
    AUTH = "auth"


MEANING = {
    Role.AGENT: "one node's agent",
    Role.AGGREGATOR: "replicas of the aggregator",
    Role.SCHEDULER: "replicas of the scheduler",
    Role.RESCHEDULER: "replicas of the rescheduler",
    Role.RECOMMENDER: "replicas of the recommender: they ask aggregators what is recommended",
    Role.READER: "people and the web page: they look and ask",
    Role.CLI: "administrators with the nats CLI: they also see the state of streams and consumers",
    Role.OWNER: "the operator who changes or removes streams",
    Role.AUTH: "carico-auth, in an account of its own",
}
# Roles that take part in CARICO's messages.
MEMBERS = tuple(role for role in Role if role is not Role.AUTH)
_ACCOUNTS = {
    Role.AGENT: accounts.Account.AGENTS, Role.READER: accounts.Account.READERS, Role.AUTH: accounts.Account.AUTH,
}  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """What one identity may do."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    answers: bool
    connections: tuple[str, ...]


def account(role: Role) -> accounts.Account:
    """Return the account that a role connects to."""
    return _ACCOUNTS.get(role, accounts.Account.CORE)


def inbox(role: Role) -> str:
    """Return the prefix of a role's inboxes.

    >>> inbox(Role.READER)
    '_INBOX.reader'
    """
    return f"{INBOX}.{role.value}"


def permissions(role: Role, node: str | None = None) -> Permissions:
    """Return what `role` may do. `node` is for agents alone: without it, the agent of any node (static set-ups).

    Raises `BadName` for a node that is none, `ValueError` for a node of another role.
    """
    if node is not None and role is not Role.AGENT:
        raise ValueError(f"got node {node!r} for role {role.value}, expected none: only agents belong to a node")
    publish, subscribe = _SUBJECTS[role](node)
    if role is not Role.AGENT:
        subscribe = (*subscribe, f"{inbox(role)}.>")
    return Permissions(
        publish=publish,
        subscribe=subscribe,
        answers=role in (Role.AGENT, Role.AGGREGATOR, Role.SCHEDULER, Role.RESCHEDULER, Role.AUTH),
        connections=(STANDARD, WEBSOCKET) if role is Role.READER else (STANDARD,),
    )


def allows(patterns: tuple[str, ...], subject: str) -> bool:
    """Return whether one of `patterns` covers `subject`, which may hold wildcards itself, as NATS judges it.

    A wildcard in `subject` is a token like any other, so that `*` covers `>`; as NATS has it.

    >>> allows(("carico.v1.capacity.n1", "$SRV.>"), "carico.v1.capacity.n2"), allows(("a.*",), "a.>")
    (False, True)
    """
    return any(_covers(pattern.split("."), subject.split(".")) for pattern in patterns)


_Subjects = tuple[tuple[str, ...], tuple[str, ...]]


def _agent(node: str | None) -> _Subjects:
    token = "*" if node is None else names.to_token(node)
    roster = subjects.ROSTER_ALL if node is None else subjects.roster(node)
    heard = (subjects.MODEL, roster, f"{subjects.PREFIX}.query.agent.{token}.>")
    return subjects.of_agent(node), (*heard, *_service("agent"))


def _aggregator(_: str | None) -> _Subjects:
    publish = (
        subjects.PARTIAL_ALL,
        subjects.MODEL,
        streams.MODEL_SUBJECT,
        _MODEL_GET,
        streams.USAGE_SUBJECTS,
        f"{_API}.DIRECT.GET.{streams.USAGE_STREAM}.{streams.USAGE_SUBJECTS}",
        *(f"{_API}.DIRECT.GET.{stream}" for stream in (streams.CAPACITY, streams.DECISIONS, streams.HISTORY)),
        f"{_API}.CONSUMER.MSG.NEXT.{streams.SUBSPACES}.{streams.CONSUMER}",
        f"$JS.ACK.{streams.SUBSPACES}.{streams.CONSUMER}.>",
        *_making_of_streams(),
    )
    return publish, (subjects.PARTIAL_ALL, subjects.MODEL, subjects.USAGE_ALL, *_questions("aggregator"))


def _scheduler(_: str | None) -> _Subjects:
    publish = (
        *(subjects.DECISION_ALL, subjects.ROSTER_ALL, subjects.SUMMARY),
        *(subjects.CLAIM_ALL, subjects.CLAIMS_EPOCH, subjects.MEMBER_ALL),
        *(f"{_API}.DIRECT.GET.{stream}" for stream in (streams.CAPACITY, streams.CLAIMS)),
        *_making_of_streams(),
    )
    return publish, (subjects.CAPACITY_ALL, subjects.CLAIMED_ALL, subjects.MEMBER_ALL, *_questions("scheduler"))


def _rescheduler(_: str | None) -> _Subjects:
    # No right at JetStream: a request of its own could be directed at any stream.
    publish = tuple(f"{subjects.PREFIX}.query.{service}.>" for service in ("scheduler", "aggregator"))
    heard = (subjects.CAPACITY_ALL, subjects.PODS_ALL, subjects.TRAFFIC_ALL)
    return publish, (*heard, *_questions("rescheduler"))


def _recommender(_: str | None) -> _Subjects:
    # Not a reader: readers share an account, in which one could forge the answer to another.
    return (subjects.query("aggregator", "recommend"),), ()


def _reader(_: str | None) -> _Subjects:
    publish = [f"{subjects.PREFIX}.query.>"]
    for verb in _SERVICE_VERBS:
        publish += [f"$SRV.{verb}", f"$SRV.{verb}.>"]
    heard = (
        subjects.CAPACITY_ALL, subjects.DECISION_ALL, subjects.CLAIMED_ALL, subjects.MEMBER_ALL, subjects.MODEL,
        subjects.PODS_ALL, subjects.SUMMARY,
    )  # fmt: skip
    return tuple(publish), heard


def _cli(node: str | None) -> _Subjects:
    publish, subscribe = _reader(node)
    looks = (
        f"{_API}.INFO", f"{_API}.STREAM.NAMES", f"{_API}.STREAM.LIST", f"{_API}.STREAM.INFO.*",
        f"{_API}.CONSUMER.NAMES.*", f"{_API}.CONSUMER.LIST.*", f"{_API}.CONSUMER.INFO.*.*",
        *(f"{_API}.STREAM.MSG.GET.{stream}" for stream in streams.PUBLIC),
    )  # fmt: skip
    heard = (subjects.PARTIAL_ALL, subjects.ROSTER_ALL, subjects.TRAFFIC_ALL)
    return (*publish, *_direct_gets(), *looks), (*subscribe, *heard)


def _owner(node: str | None) -> _Subjects:
    # The account holds CARICO's streams alone.
    publish, subscribe = _cli(node)
    changes = (f"{_API}.STREAM.>", f"{_API}.CONSUMER.>", "$JS.ACK.>", "$JS.FC.>")
    return (*publish, *changes), (*subscribe, subjects.SUBSPACE_ALL, subjects.USAGE_ALL, "$JS.EVENT.ADVISORY.>")


def _auth(_: str | None) -> _Subjects:
    # It answers what the server asks, and disconnects those whose Pod is gone.
    return (accounts.KICK_SUBJECTS, *map(accounts.connections, accounts.POD_ACCOUNTS)), (AUTHORIZATION_SUBJECT,)


# https://docs.nats.io/running-a-nats-service/configuration/securing_nats/auth_callout
AUTHORIZATION_SUBJECT = "$SYS.REQ.USER.AUTH"


_SUBJECTS = {
    Role.AGENT: _agent,
    Role.AGGREGATOR: _aggregator,
    Role.SCHEDULER: _scheduler,
    Role.RESCHEDULER: _rescheduler,
    Role.RECOMMENDER: _recommender,
    Role.READER: _reader,
    Role.CLI: _cli,
    Role.OWNER: _owner,
    Role.AUTH: _auth,
}


def _questions(service: str) -> tuple[str, ...]:
    return (f"{subjects.PREFIX}.query.{service}.>", *_service(service))


def _service(service: str) -> Iterator[str]:
    """Yield what the services framework listens to: for all, for all of one name, for one (ADR-32)."""
    for verb in _SERVICE_VERBS:
        yield f"$SRV.{verb}"
        yield from accounts.named(verb, service)


def _direct_gets() -> Iterator[str]:
    for stream in streams.PUBLIC:
        yield f"{_API}.DIRECT.GET.{stream}"
        yield f"{_API}.DIRECT.GET.{stream}.>"


def _making_of_streams() -> Iterator[str]:
    """To look at streams and the consumer, and to make them; to change or remove them is the owner's."""
    for stream in streams.ALL:
        yield f"{_API}.STREAM.INFO.{stream}"
        yield f"{_API}.STREAM.CREATE.{stream}"
    yield f"{_API}.CONSUMER.INFO.{streams.SUBSPACES}.{streams.CONSUMER}"
    yield f"{_API}.CONSUMER.CREATE.{streams.SUBSPACES}.{streams.CONSUMER}.{subjects.SUBSPACE_ALL}"


def _covers(pattern: list[str], subject: list[str]) -> bool:
    for index, token in enumerate(pattern):
        if token == ">":
            return len(subject) > index
        if index >= len(subject) or token not in ("*", subject[index]):
            return False
    return len(pattern) == len(subject)
