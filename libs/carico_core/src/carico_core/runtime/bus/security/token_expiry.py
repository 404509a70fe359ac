"""When a connection has to be replaced because its token expires.

A token that expires closes nats-py for good (nats.py issue 1019), so the connection is renewed before, at a time that
differs from agent to agent. The kubelet replaces projected tokens at 80 % of their life or after 24 hours:
https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/#serviceaccount-token-volume-projection
"""

import base64
import binascii
import pathlib
import random
from typing import Any

import orjson

# Parts of the life that is left: late enough that the file holds the next token, early enough for a slow reconnect.
EARLIEST = 0.75
LATEST = 0.85
# A file whose token has already run out: its replacement may come any moment.
AGAIN_S = 2.0
# A token that does not expire may be replaced by one that does.
LOOK_EVERY_S = 60.0


def read(path: pathlib.Path) -> str:
    """Return the token in a file; empty where it cannot be read now (it is being replaced)."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


def claims(token: str) -> dict[str, Any] | None:
    """Return the claims of a JWT, whose signature is the server's or the API's to verify; None for other text."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        header, found = (
            orjson.loads(base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True))
            for part in parts[:2]
        )
    except (ValueError, binascii.Error):
        return None
    return found if isinstance(header, dict) and isinstance(found, dict) else None


def expires_at_s(token: str) -> float | None:
    """Return the Unix time at which a JWT expires; None for a token that does not say, or is none."""
    found = claims(token)
    return None if found is None else expiry_s(found)


def expiry_s(found: dict[str, Any]) -> float | None:
    """Return the Unix time at which a JWT with these claims expires; None where they do not say."""
    expires = found.get("exp")
    return float(expires) if isinstance(expires, int | float) else None


def renew_in_s(token: str, *, now_s: float, rng: random.Random) -> float | None:
    """Seconds until the connection should be replaced; None where the token does not expire."""
    expires_s = expires_at_s(token)
    if expires_s is None:
        return None
    return max(AGAIN_S, (expires_s - now_s) * rng.uniform(EARLIEST, LATEST))
