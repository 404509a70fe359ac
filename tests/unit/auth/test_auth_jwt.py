"""Questions and answers between NATS and the callout; that NATS takes the answers is shown by the integration tests."""

import base64

import pytest

from carico_auth import nats_jwt, policy
from carico_core.runtime.bus.security import nkeys
from carico_core.wire import roles
from tests.unit.auth import questions

ISSUER = nkeys.Signer(nkeys.generate(nkeys.Kind.ACCOUNT))


def grant_of(role: roles.Role, node: str | None = None, *, expires_s: int = 1) -> policy.Grant:
    account = policy.ServiceAccount("carico", f"carico-{role.value}")
    return policy.Grant(
        name=f"{role.value}/{node or account}", role=role, account=account, node=node, pod_uid=None,
        permissions=roles.permissions(role, node), expires_s=expires_s,
    )  # fmt: skip


def test_a_question_is_read() -> None:
    server = questions.Server()
    request = nats_jwt.decode_request(server.question())
    assert request == nats_jwt.Request(
        server_id=server.signer.public, user_key=server.user, token="token", connection="nats", client_name="agent",
        client_host="10.0.0.1",
    )  # fmt: skip


def test_a_client_without_a_token_is_still_a_question() -> None:
    server = questions.Server()
    claims = server.claims()
    claims["nats"]["connect_opts"] = {"protocol": 1}
    assert nats_jwt.decode_request(server.question(claims)).token == ""


def broken(change: str) -> bytes:
    """A question with one thing wrong."""
    server = questions.Server()
    claims, body = server.claims(), server.claims()["nats"]
    match change:
        case "audience":
            return server.question({**claims, "aud": "someone else"})
        case "another server's signature":
            return server.question(signer=questions.Server().signer)
        case "an account's signature":
            return server.question(signer=ISSUER)
        case "changed after it was signed":
            header, claimed, signature = server.question().split(b".")
            changed = base64.urlsafe_b64encode(base64.urlsafe_b64decode(claimed + b"==").replace(b"token", b"other"))
            return b".".join([header, changed.rstrip(b"="), signature])
        case "not a user's key":
            return server.question({**claims, "nats": {**body, "user_nkey": ISSUER.public}})
        case "no client":
            return server.question({**claims, "nats": {k: v for k, v in body.items() if k != "client_info"}})
        case "a token that is no text":
            return server.question({**claims, "nats": {**body, "connect_opts": {"auth_token": 7}}})
        case "no body":
            return server.question({"aud": claims["aud"]})
        case "another algorithm":
            _, claimed, signature = server.question().split(b".")
            return b".".join([base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"="), claimed, signature])
    return change.encode()


@pytest.mark.parametrize(
    "change",
    ["audience", "another server's signature", "an account's signature", "changed after it was signed",
     "not a user's key", "no client", "a token that is no text", "no body", "another algorithm",
     "", "a.b", "a.b.c", "....", "e30.e30.e30", "W10.W10.W10", "\xff.\xff.\xff"],
)  # fmt: skip
def test_what_is_no_question_of_a_server_is_refused(change: str) -> None:
    with pytest.raises(nats_jwt.NotARequest):
        nats_jwt.decode_request(broken(change))


def test_a_user_has_the_rights_of_the_role_until_the_token_ends() -> None:
    request = nats_jwt.decode_request(questions.Server().question())
    allowed = roles.permissions(roles.Role.AGENT, "n1")
    grant = grant_of(roles.Role.AGENT, "n1", expires_s=questions.NOW_S + 60)
    text = nats_jwt.encode_user(grant, request, signer=ISSUER, now_s=questions.NOW_S)
    claims = questions.claims_of(text)
    assert (claims["iss"], claims["sub"], claims["aud"]) == (ISSUER.public, request.user_key, "AGENTS")
    assert (claims["exp"], claims["name"]) == (questions.NOW_S + 60, "agent/n1")
    user = claims["nats"]
    assert (user["pub"], user["sub"]) == ({"allow": list(allowed.publish)}, {"allow": list(allowed.subscribe)})
    assert user["resp"] == {"max": 1, "ttl": 10_000_000_000}
    assert user["allowed_connection_types"] == ["STANDARD"]
    assert (user["payload"], user["subs"]) == (65_536, 32)


def test_a_role_that_only_requests_may_not_reply() -> None:
    request = nats_jwt.decode_request(questions.Server().question())
    grant = grant_of(roles.Role.READER)
    claims = questions.claims_of(nats_jwt.encode_user(grant, request, signer=ISSUER, now_s=1))
    assert claims["aud"] == "READERS"
    assert "resp" not in claims["nats"]


def test_services_and_administrators_are_placed_in_the_account_with_jetstream() -> None:
    request = nats_jwt.decode_request(questions.Server().question())
    for role in (roles.Role.AGGREGATOR, roles.Role.SCHEDULER, roles.Role.CLI, roles.Role.OWNER):
        grant = grant_of(role)
        assert questions.claims_of(nats_jwt.encode_user(grant, request, signer=ISSUER, now_s=1))["aud"] == "CARICO"


def test_an_answer_is_for_the_server_that_asked_about_the_client_it_asked_about() -> None:
    server = questions.Server()
    request = nats_jwt.decode_request(server.question())
    claims = questions.claims_of(
        nats_jwt.encode_answer(request, user="", error="no_role", signer=ISSUER, now_s=1).decode()
    )
    assert (claims["aud"], claims["sub"]) == (server.signer.public, server.user)
    assert claims["nats"] == {"error": "no_role", "type": "authorization_response", "version": 2}
