"""Identify the bearer of a token with the Kubernetes API (TokenReview), for one audience only.

https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-review-v1/ ; unlike a check of the
signature alone it notices a Pod, Node or ServiceAccount that is gone. An API that knows no audiences answers without
them: such a token is refused, since it may be for anyone.

Everyone who reaches NATS can have a token reviewed, so the API is asked only about JWTs that state our audience and
have not expired, and about a bounded number at a time: a flood of connections becomes no flood of reviews.
"""

import asyncio
import hashlib
import math
from collections.abc import Mapping
from typing import Any, Protocol

from carico_auth import policy
from carico_core.domain import errors
from carico_core.runtime.bus.security import token_expiry
from carico_core.runtime.process import clock as clocks

PATH = "/apis/authentication.k8s.io/v1/tokenreviews"
# Kubernetes 1.30 and later: the node of the Pod that a token is bound to.
NODE = "authentication.kubernetes.io/node-name"
POD_UID = "authentication.kubernetes.io/pod-uid"
# Size of the cache; beyond it the oldest token is dropped.
REMEMBERED_MOST = 10_000
_LONGEST_TOKEN = 16_384
# Reviews that wait for the API at a time: a review takes some 5 ms, so a thousand agents that reconnect wait 0.3 s.
AT_ONCE_MOST = 16
# The API's clock may be this far behind ours; a token that expired longer ago is not asked about.
CLOCK_OFF_MOST_S = 60.0

Verdict = policy.Identity | policy.Refusal


class Api(Protocol):
    """The part of the Kubernetes API that reviews use."""

    async def request(self, method: str, path: str, *, body: Any = None) -> Any: ...


class Reviewer:
    """Reviews tokens, and caches valid ones briefly."""

    def __init__(self, api: Api, *, audience: str, remember_s: float, clock: clocks.Clock) -> None:
        self._api = api
        self._audience = audience
        self._remember_s = remember_s
        self._clock = clock
        self._good: dict[bytes, tuple[float, policy.Identity]] = {}
        self._slots = asyncio.Semaphore(AT_ONCE_MOST)

    async def review(self, token: str) -> Verdict:
        """Return the bearer of the token, or a refusal."""
        expires_s = self._stated_expiry(token)
        if isinstance(expires_s, policy.Refusal):
            return expires_s
        digest = hashlib.sha256(token.encode(errors="replace")).digest()
        if (known := self._recall(digest)) is not None:
            return known
        async with self._slots:
            # Reviewed for another connection meanwhile?
            if (known := self._recall(digest)) is not None:
                return known
            asked_s = self._clock.monotonic_s()
            verdict = await self._ask(token, expires_s)
        if isinstance(verdict, policy.Identity):
            self._remember(digest, asked_s, verdict)
        return verdict

    def _stated_expiry(self, token: str) -> float | policy.Refusal:
        """Return the Unix time at which a token expires by its own statement, or why the API need not be asked."""
        if not token or len(token) > _LONGEST_TOKEN:
            return policy.Refusal(reason=policy.Refused.NO_TOKEN)
        claims = token_expiry.claims(token)
        if claims is None:
            return policy.Refusal(reason=policy.Refused.TOKEN_REFUSED, detail="it is not a JWT")
        expires_s = claims.get("exp")
        if not isinstance(expires_s, int | float) or not math.isfinite(expires_s):
            return policy.Refusal(reason=policy.Refused.NEVER_EXPIRES)
        audiences = claims.get("aud")
        if self._audience not in (audiences if isinstance(audiences, list) else [audiences]):
            return policy.Refusal(reason=policy.Refused.OTHER_AUDIENCE)
        if expires_s < self._clock.wall_ns() / 1e9 - CLOCK_OFF_MOST_S:
            return policy.Refusal(reason=policy.Refused.TOKEN_REFUSED, detail="it has expired")
        return float(expires_s)

    def _recall(self, digest: bytes) -> policy.Identity | None:
        until_s, identity = self._good.get(digest, (0.0, None))
        if identity is None or until_s <= self._clock.monotonic_s():
            return None
        return identity if identity.expires_s > self._clock.wall_ns() / 1e9 else None

    async def _ask(self, token: str, expires_s: float) -> Verdict:
        body = {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "spec": {"token": token, "audiences": [self._audience]},
        }  # fmt: skip
        try:
            answer = await self._api.request("POST", PATH, body=body)
        except errors.ApiUnavailable as error:
            return policy.Refusal(reason=policy.Refused.API_AWAY, detail=str(error))
        except errors.ApiError as error:
            return policy.Refusal(reason=policy.Refused.API_REFUSES, detail=f"{error}: is its ClusterRole bound?")
        return self._judge(answer if isinstance(answer, dict) else {}, expires_s)

    def _judge(self, answer: Mapping[str, Any], expires_s: float) -> Verdict:
        status = _mapping(answer, "status")
        user = _mapping(status, "user")
        username = user.get("username")
        if status.get("authenticated") is not True or not isinstance(username, str):
            return policy.Refusal(reason=policy.Refused.TOKEN_REFUSED, detail=str(status.get("error", ""))[:500])
        if self._audience not in _list(status, "audiences"):
            return policy.Refusal(reason=policy.Refused.OTHER_AUDIENCE, detail=username)
        extra = _mapping(user, "extra")
        return policy.Identity(
            username=username, node=_only(extra, NODE), pod_uid=_only(extra, POD_UID), expires_s=int(expires_s)
        )

    def _remember(self, digest: bytes, now_s: float, identity: policy.Identity) -> None:
        if self._remember_s <= 0.0:
            return
        self._good.pop(digest, None)
        self._good[digest] = (now_s + self._remember_s, identity)
        if len(self._good) > REMEMBERED_MOST:
            del self._good[next(iter(self._good))]


def _mapping(found: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = found.get(key)
    return value if isinstance(value, dict) else {}


def _only(found: Mapping[str, Any], key: str) -> str | None:
    values = _list(found, key)
    return values[0] if len(values) == 1 and isinstance(values[0], str) else None


def _list(found: Mapping[str, Any], key: str) -> list[Any]:
    value = found.get(key)
    return value if isinstance(value, list) else []
