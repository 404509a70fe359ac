"""Attackers of the bus: an agent and a reader, and what each may publish and tries to reach."""

import itertools
from collections.abc import Iterator

from carico_core.wire import roles, streams, subjects
from tests.security import bus_site, raw_client

# (role, node) of each identity that may be in wrong hands.
IDENTITIES = ((roles.Role.AGENT, bus_site.ATTACKER), (roles.Role.READER, None))
FORGED = b"forged"
# Malformed and well-formed requests of JetStream's API, and what a receiver might believe.
PAYLOADS = (
    b"", b"{}", b"{bad", FORGED, b'{"seq":1}', b'{"last_by_subj":"carico.v1.capacity.node-b"}',
    b'{"multi_last":["carico.v1.>"],"batch":10}', b'{"name":"CARICO_CAPACITY","subjects":["stolen.>"]}',
)  # fmt: skip
_TOKENS = {"*": "node-x", ">": "x"}
_API = "$JS.API"


def own_subjects(role: roles.Role, node: str | None) -> tuple[str, ...]:
    """Return the subjects that the role may publish to, as patterns."""
    return roles.permissions(role, node).publish


def examples(patterns: tuple[str, ...]) -> Iterator[str]:
    """Return one subject of each pattern."""
    for pattern in patterns:
        yield ".".join(_TOKENS.get(token, token) for token in pattern.split("."))


def targets() -> Iterator[str]:
    """Return subjects on which a message would have an effect on others."""
    consumer = f"{streams.SUBSPACES}.{streams.CONSUMER}"
    for stream in streams.ALL:
        for verb in ("DELETE", "PURGE", "UPDATE", "CREATE", "MSG.DELETE", "SNAPSHOT", "LEADER.STEPDOWN"):
            yield f"{_API}.STREAM.{verb}.{stream}"
    for verb in ("DELETE", "PAUSE", "RESET", "UNPIN", "MSG.NEXT", "LEADER.STEPDOWN"):
        yield f"{_API}.CONSUMER.{verb}.{consumer}"
    yield from (
        f"{_API}.CONSUMER.CREATE.{streams.CAPACITY}.stolen",
        f"{_API}.CONSUMER.DURABLE.CREATE.{streams.SUBSPACES}.stolen",
        f"{_API}.STREAM.CREATE.STOLEN", f"{_API}.ACCOUNT.PURGE.CARICO", f"{_API}.META.LEADER.STEPDOWN",
        f"$JS.ACK.{consumer}.1.1.1.1700000000000000000.0", "$JS.FC.x",
        streams.usage_subject(0), subjects.usage(bus_site.VICTIM),
        streams.MODEL_SUBJECT, f"$KV.{streams.MODEL_BUCKET}.other", subjects.MODEL, subjects.partial("replica"),
        subjects.claim("node-b"), subjects.claimed(subjects.claim("node-b")), subjects.CLAIMS_EPOCH,
        subjects.member("replica"),
        subjects.capacity(bus_site.VICTIM), subjects.capacity("node-new"), subjects.subspace(bus_site.VICTIM),
        subjects.decision("default", "victim"), subjects.query("scheduler", "capacity.list"),
        subjects.query("agent", "state.get", bus_site.VICTIM),
        f"{roles.inbox(roles.Role.SCHEDULER)}.x", f"{roles.inbox(roles.Role.AGGREGATOR)}.x",
        f"{roles.inbox(roles.Role.OWNER)}.x", f"_INBOX.agent.{bus_site.VICTIM}.x",
        "$SYS.REQ.USER.AUTH", "$SYS.REQ.SERVER.PING", "_R_.x", "$SRV.PING",
    )  # fmt: skip


def redirect(client: raw_client.RawClient, own: tuple[str, ...]) -> None:
    """Publish every payload on every own subject with every target as the reply."""
    for subject, target, payload in itertools.product(examples(own), targets(), PAYLOADS):
        client.publish(subject, payload, reply=target)
    client.settle()
