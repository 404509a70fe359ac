"""The accounts of NATS, their limits, and the subjects that cross from one into another.

Agents and readers have accounts of their own, without JetStream, and only the subjects of `CROSSINGS` cross from one to
another. Agents import no service: an answer that lands in their account on the subject of another node's capacity would
be exported as such.
"""

import dataclasses
import enum
from collections.abc import Iterator

from carico_core.wire import codec, subjects


class Account(enum.StrEnum):
    """The accounts of NATS, by their names in its configuration. A subject of one is not visible in another."""

    CORE = "CARICO"
    AGENTS = "AGENTS"
    READERS = "READERS"
    AUTH = "AUTH"
    SYSTEM = "SYS"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of each connection of an account, and of their number."""

    payload_bytes: int
    subscriptions: int
    connections: int


# An agent has a dozen subscriptions, and two connections while it renews its token. A page has one for each question.
# All connections of agents with all subscriptions take NATS .9 GB with TLS, less than its memory limit in deploy/k8s.
LIMITS = {
    Account.AGENTS: Limits(payload_bytes=codec.PAYLOAD_MAX_BYTES, subscriptions=32, connections=12_000),
    Account.READERS: Limits(payload_bytes=codec.PAYLOAD_MAX_BYTES, subscriptions=512, connections=512),
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """A subject that crosses accounts: messages from `source`, or (`is_service`) questions that `source` answers.

    `many`: one question may have several answers. NATS replaces the reply subject of a question, not of a message.
    """

    subject: str
    source: Account
    to: tuple[Account, ...]
    is_service: bool = False
    many: bool = False


# Services of the account CORE that answer readers.
ANSWERING = ("scheduler", "aggregator", "rescheduler")
# Requests to a server, by its id, to disconnect one of its clients; in the system account.
KICK_SUBJECTS = "$SYS.REQ.SERVER.*.KICK"
# Accounts that Pods connect to.
POD_ACCOUNTS = (Account.CORE, Account.AGENTS, Account.READERS)


def connections(account: Account) -> str:
    """Return the subject that asks every server for its connections to an account; in the system account.

    >>> connections(Account.AGENTS)
    '$SYS.REQ.ACCOUNT.AGENTS.CONNZ'
    """
    return f"$SYS.REQ.ACCOUNT.{account.value}.CONNZ"


def _crossings() -> Iterator[Crossing]:
    core, agents, readers = Account.CORE, Account.AGENTS, Account.READERS
    for subject in (subjects.CAPACITY_ALL, subjects.PODS_ALL):
        yield Crossing(subject=subject, source=agents, to=(core, readers))
    for subject in (subjects.SUBSPACE_ALL, subjects.USAGE_ALL, subjects.TRAFFIC_ALL):
        yield Crossing(subject=subject, source=agents, to=(core,))
    yield Crossing(subject=subjects.MODEL, source=core, to=(agents, readers))
    yield Crossing(subject=subjects.ROSTER_ALL, source=core, to=(agents,))
    yield Crossing(subject=subjects.DECISION_ALL, source=core, to=(readers,))
    yield Crossing(subject=subjects.CLAIMED_ALL, source=core, to=(readers,))
    yield Crossing(subject=subjects.MEMBER_ALL, source=core, to=(readers,))
    yield Crossing(subject=subjects.SUMMARY, source=core, to=(readers,))
    yield Crossing(subject=f"{subjects.PREFIX}.query.agent.*.>", source=agents, to=(core, readers), is_service=True)
    # By their name alone: what is asked of all services does not reach agents, which could answer as another.
    for subject in named("*", "agent"):
        yield Crossing(subject=subject, source=agents, to=(core, readers), is_service=True, many=True)
    for service in ("scheduler", "aggregator"):
        yield Crossing(subject=f"{subjects.PREFIX}.query.{service}.>", source=core, to=(readers,), is_service=True)
    # Readers see plans and moves; to apply a plan, or to pause, is for administrators.
    for verb in ("plan.get", "moves.list", "pod.explain", "traffic.list"):
        yield Crossing(subject=subjects.query("rescheduler", verb), source=core, to=(readers,), is_service=True)
    of_services = (each for service in ANSWERING for each in named("*", service))
    for subject in ("$SRV.*", *of_services):
        yield Crossing(subject=subject, source=core, to=(readers,), is_service=True, many=True)
    yield Crossing(subject=KICK_SUBJECTS, source=Account.SYSTEM, to=(Account.AUTH,), is_service=True)
    for account in POD_ACCOUNTS:
        yield Crossing(
            subject=connections(account), source=Account.SYSTEM, to=(Account.AUTH,), is_service=True, many=True
        )  # fmt: skip


def named(verb: str, service: str) -> tuple[str, str]:
    """Return what the services framework listens to for a verb: for all of one name, and for one."""
    return f"$SRV.{verb}.carico-{service}", f"$SRV.{verb}.carico-{service}.*"


# All that crosses accounts.
CROSSINGS = tuple(_crossings())
