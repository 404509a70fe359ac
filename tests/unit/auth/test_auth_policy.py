"""Who gets which role, and who gets none."""

import dataclasses
from typing import Any

import pytest

from carico_auth import policy, settings
from carico_core.domain import errors
from carico_core.runtime.process import settings as loader
from carico_core.wire import accounts, roles

CHOSEN = settings.AuthSettings(issuer="x", owners="ops/owner, ops/second")
AGENT = policy.Identity(username="system:serviceaccount:carico:carico-agent", node="n1", pod_uid="u1", expires_s=100)


def decide(identity: policy.Identity, connection: str = "nats") -> policy.Grant | policy.Refusal:
    return policy.decide(identity, CHOSEN.accounts(), connection=connection)


def test_an_agent_is_the_agent_of_the_node_its_pod_is_on() -> None:
    grant = decide(AGENT)
    assert isinstance(grant, policy.Grant)
    assert (grant.name, grant.role, grant.node, grant.expires_s) == ("agent/n1", roles.Role.AGENT, "n1", 100)
    assert grant.permissions == roles.permissions(roles.Role.AGENT, "n1")


@pytest.mark.parametrize(
    ("account", "role"),
    [("carico:carico-aggregator", "aggregator"), ("carico:carico-scheduler", "scheduler"),
     ("carico:carico-reader", "reader"), ("carico:carico-cli", "cli"), ("ops:owner", "owner"), ("ops:second", "owner")],
)  # fmt: skip
def test_other_roles_are_not_of_a_node(account: str, role: str) -> None:
    grant = decide(dataclasses.replace(AGENT, username=f"system:serviceaccount:{account}"))
    assert isinstance(grant, policy.Grant)
    assert (grant.role.value, grant.node) == (role, None)
    assert grant.permissions == roles.permissions(grant.role)


@pytest.mark.parametrize(
    ("change", "connection", "reason"),
    [({"username": "kubernetes-admin"}, "nats", "no_service_account"),
     ({"username": ""}, "nats", "no_service_account"),
     ({"username": "system:serviceaccount:carico:carico-agent:x"}, "nats", "no_service_account"),
     ({"username": "system:serviceaccount:other:carico-agent"}, "nats", "no_role"),
     ({"username": "system:serviceaccount:carico:default"}, "nats", "no_role"),
     ({"node": None}, "nats", "no_node"), ({"node": "*"}, "nats", "no_node"), ({"node": ""}, "nats", "no_node"),
     ({}, "websocket", "connection"), ({}, "leafnode", "connection"), ({}, "mqtt", "connection"),
     ({}, "", "connection"),
     ({"username": "system:serviceaccount:carico:carico-reader"}, "mqtt", "connection")],
)  # fmt: skip
def test_who_is_refused_and_why(change: dict[str, Any], connection: str, reason: str) -> None:
    refusal = decide(dataclasses.replace(AGENT, **change), connection)
    assert isinstance(refusal, policy.Refusal)
    assert refusal.reason.value == reason


def test_a_reader_may_come_by_websocket() -> None:
    reader = dataclasses.replace(AGENT, username="system:serviceaccount:carico:carico-reader")
    assert isinstance(decide(reader, "websocket"), policy.Grant)


@pytest.mark.parametrize(
    ("flags", "words"),
    [({"agents": "carico-agent"}, "--agents: got 'carico-agent', expected namespace/name"),
     ({"readers": "a/b/c!"}, "--readers: got 'a/b/c!'"),
     ({"readers": "carico/carico-agent"}, "--readers: got carico/carico-agent, which is agent already"),
     ({"audience": ""}, "--audience: got none"),
     ({"account": "CARICO"}, "--account was removed: agents and all others have accounts of fixed names")],
)  # fmt: skip
def test_settings_without_sense_are_refused_in_one_line(flags: dict[str, str], words: str) -> None:
    argv = ["--issuer", "x", *(part for key, value in flags.items() for part in (f"--{key}", value))]
    with pytest.raises(errors.SettingsError, match=words):
        loader.load(settings.AuthSettings, prefix="auth", argv=argv, environ={}, program="carico-auth")


def test_an_agent_that_connects_too_often_is_refused_until_it_waits_and_others_are_not() -> None:
    pace = policy.ConnectionPace()
    flooding, other = decide(AGENT), decide(dataclasses.replace(AGENT, node="n2"))
    assert isinstance(flooding, policy.Grant)
    assert isinstance(other, policy.Grant)
    accepted = [pace.refuse(flooding, now_s=0.0) is None for _ in range(1000)]
    assert accepted.count(True) == policy.AGENT_BURST
    refusal = pace.refuse(flooding, now_s=policy.AGENT_EVERY_S - 0.1)
    assert refusal is not None
    assert refusal.reason is policy.Refused.TOO_OFTEN
    assert pace.refuse(other, now_s=0.0) is None
    assert pace.refuse(flooding, now_s=policy.AGENT_EVERY_S) is None
    assert pace.refuse(flooding, now_s=policy.AGENT_EVERY_S) is not None


def test_agents_that_may_connect_again_as_often_as_at_first_are_forgotten() -> None:
    pace = policy.ConnectionPace()
    for number in range(100):
        grant = decide(dataclasses.replace(AGENT, node=f"n{number}"))
        assert isinstance(grant, policy.Grant)
        assert pace.refuse(grant, now_s=60.0 * number) is None
    # Nodes that come and go each minute: those of the last twenty.
    assert len(pace) == policy.AGENT_BURST * policy.AGENT_EVERY_S / 60.0


def test_no_agent_can_use_up_the_connections_of_its_account_within_the_life_of_a_token() -> None:
    replicas, token_life_s, nodes = 2, 3600.0, 5000
    mine = replicas * (policy.AGENT_BURST + token_life_s / policy.AGENT_EVERY_S)
    # Each of the others has two while it renews its token.
    assert mine + 2 * nodes <= accounts.LIMITS[accounts.Account.AGENTS].connections


def test_people_and_replicas_that_share_an_identity_are_not_paced() -> None:
    pace = policy.ConnectionPace()
    reader = decide(dataclasses.replace(AGENT, username="system:serviceaccount:carico:carico-reader", node=None))
    assert isinstance(reader, policy.Grant)
    assert all(pace.refuse(reader, now_s=0.0) is None for _ in range(1000))


def test_no_account_is_owner_by_default() -> None:
    assert roles.Role.OWNER not in settings.AuthSettings(issuer="x").accounts().values()
