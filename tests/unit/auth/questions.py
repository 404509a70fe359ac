"""Questions as a NATS server asks them."""

import base64
from typing import Any

import orjson

from carico_auth import nats_jwt
from carico_core.runtime.bus.security import nkeys

NOW_S = 1_700_000_000


class Server:
    """A server with its keys; `user`: the key it makes for one connecting client."""

    def __init__(self) -> None:
        self.signer = nkeys.Signer(nkeys.generate(nkeys.Kind.SERVER))
        self.sealer = nkeys.Sealer(nkeys.generate(nkeys.Kind.CURVE))
        self.user = nkeys.Signer(nkeys.generate(nkeys.Kind.USER)).public

    def claims(self, *, token: str = "token", connection: str = "nats") -> dict[str, Any]:
        """What it asks about a client."""
        return {
            "aud": "nats-authorization-request",
            "sub": "ACCOUNT",
            "nats": {
                "server_id": {"name": "nats-0", "id": self.signer.public},
                "user_nkey": self.user,
                "client_info": {"id": 7, "name": "agent", "host": "10.0.0.1", "type": connection, "kind": "Client"},
                "connect_opts": {"auth_token": token, "protocol": 1},
                "type": "authorization_request",
                "version": 2,
            },
        }

    def question(self, claims: dict[str, Any] | None = None, *, signer: nkeys.Signer | None = None) -> bytes:
        """The question, signed."""
        return nats_jwt.encode(claims or self.claims(), signer or self.signer, now_s=NOW_S).encode()


def claims_of(token: str) -> dict[str, Any]:
    """The claims of a JWT of ours, its signature checked."""
    header, body, signature = token.split(".")
    claims: dict[str, Any] = orjson.loads(base64.urlsafe_b64decode(body + "=="))
    raw = base64.urlsafe_b64decode(signature + "==")
    assert nkeys.verify(claims["iss"], nkeys.Kind.ACCOUNT, f"{header}.{body}".encode(), raw)
    return claims
