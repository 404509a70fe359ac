"""Decode and encode the JWTs of nats-server's auth callout; pure.

Form: https://docs.nats.io/running-a-nats-service/configuration/securing_nats/auth_callout and jwt/v2's
authorization_claims.go and user_claims.go. Signed with Ed25519 by nkeys, `alg` ed25519-nkey.
"""

import base64
import binascii
import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

import orjson

from carico_auth import policy
from carico_core.runtime.bus.security import nkeys
from carico_core.wire import accounts, roles

_HEADER = {"typ": "JWT", "alg": "ed25519-nkey"}
_REQUEST_AUDIENCE = "nats-authorization-request"
_UNLIMITED = -1


class NotARequest(Exception):
    """The payload is not an authorization request of a NATS server."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A client that wants to connect. `user_key`: created by the server for this request, expected in the answer."""

    server_id: str
    user_key: str
    token: str
    connection: str
    client_name: str
    client_host: str


def decode_request(text: bytes) -> Request:
    """Decode a server's request and verify its signature. Raises `NotARequest`."""
    claims = decode(text)
    question = _mapping(claims, "nats")
    server, client = _mapping(question, "server_id"), _mapping(question, "client_info")
    server_id = _text(server, "id")
    if claims.get("aud") != _REQUEST_AUDIENCE or claims.get("iss") != server_id:
        raise NotARequest("not for an auth callout, or not from the server it names")
    user_key = _text(question, "user_nkey")
    try:
        nkeys.decode(nkeys.Kind.USER, user_key)
    except ValueError as error:
        raise NotARequest(f"user_nkey is {error}") from None
    return Request(
        server_id=server_id,
        user_key=user_key,
        token=_text(_mapping(question, "connect_opts"), "auth_token"),
        connection=_text(client, "type"),
        client_name=_text(client, "name"),
        client_host=_text(client, "host"),
    )


def encode_user(grant: policy.Grant, request: Request, *, signer: nkeys.Signer, now_s: int) -> str:
    """Return the user as whom the server should accept the client, in the account of its role."""
    allowed, account = grant.permissions, roles.account(grant.role)
    limits = accounts.LIMITS.get(account)
    answers = {"max": roles.ANSWERS_EACH, "ttl": int(roles.ANSWER_WITHIN_S * 1e9)}
    user = {
        "pub": {"allow": list(allowed.publish)} if allowed.publish else {"deny": [">"]},
        "sub": {"allow": list(allowed.subscribe)},
        **({"resp": answers} if allowed.answers else {}),
        "subs": limits.subscriptions if limits else _UNLIMITED,
        "data": _UNLIMITED,
        "payload": limits.payload_bytes if limits else _UNLIMITED,
        "allowed_connection_types": list(allowed.connections),
        "type": "user", "version": 2,
    }  # fmt: skip
    claims = {
        "aud": account.value,
        "exp": grant.expires_s,
        "name": grant.bus_name,
        "sub": request.user_key,
        "nats": user,
    }
    return encode(claims, signer, now_s=now_s)


def encode_answer(request: Request, *, user: str, error: str, signer: nkeys.Signer, now_s: int) -> bytes:
    """Encode the answer to a request: a user, or an error."""
    body = {"jwt": user} if user else {"error": error}
    claims = {
        "aud": request.server_id, "sub": request.user_key,
        "nats": {**body, "type": "authorization_response", "version": 2},
    }  # fmt: skip
    return encode(claims, signer, now_s=now_s).encode()


def encode(claims: Mapping[str, Any], signer: nkeys.Signer, *, now_s: int) -> str:
    """Return a signed JWT of these claims, with issuer, time and id."""
    body = {**claims, "iss": signer.public, "iat": now_s}
    body["jti"] = base64.b32encode(hashlib.sha256(orjson.dumps(body)).digest()).decode().rstrip("=")
    signed = f"{_to_base64(orjson.dumps(_HEADER))}.{_to_base64(orjson.dumps(body))}"
    return f"{signed}.{_to_base64(signer.sign(signed.encode()))}"


def decode(text: bytes) -> dict[str, Any]:
    """Return the claims of a JWT that is signed by the server it names as issuer. Raises `NotARequest`."""
    parts = text.split(b".")
    if len(parts) != 3:
        raise NotARequest("no JWT")
    try:
        header, claims = (orjson.loads(_from_base64(part)) for part in parts[:2])
        signature = _from_base64(parts[2])
    except (ValueError, binascii.Error):
        raise NotARequest("no JWT") from None
    if not isinstance(header, dict) or not isinstance(claims, dict) or header.get("alg") != _HEADER["alg"]:
        raise NotARequest("no JWT of NATS")
    issuer = _text(claims, "iss")
    if not nkeys.verify(issuer, nkeys.Kind.SERVER, b".".join(parts[:2]), signature):
        raise NotARequest("not signed by the server that it names")
    return claims


def _mapping(claims: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = claims.get(key)
    if not isinstance(found, dict):
        raise NotARequest(f"it has no {key}")
    return found


def _text(claims: Mapping[str, Any], key: str) -> str:
    found = claims.get(key, "")
    if not isinstance(found, str):
        raise NotARequest(f"{key} is not text")
    return found


def _to_base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _from_base64(text: bytes) -> bytes:
    return base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4))
