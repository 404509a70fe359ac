"""Identify the bearer of a token with the Kubernetes API (TokenReview), for one audience only.

https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-review-v1/ ; unlike a check of the
signature alone it notices a Pod, Node or ServiceAccount that is gone. An API that knows no audiences answers without
them: such a token is refused, since it may be for anyone.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Protocol

from carico_auth import policy
from carico_core.domain import errors
from carico_core.runtime.bus.security import token_expiry
from carico_core.runtime.process import clock as clocks

PATH = "/apis/authentication.k8s.io/v1/tokenreviews"
# Kubernetes 1.30 and later: the node of the Pod that a token is bound to.
NODE = "authentication.kubernetes.io/node-name"
# Size of the cache; beyond it the oldest token is dropped.
REMEMBERED_MOST = 10_000
_LONGEST_TOKEN = 16_384

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

    async def review(self, token: str) -> Verdict:
        """Return the bearer of the token, or a refusal."""
        expires_s = token_expiry.expires_at_s(token)
        if not token or len(token) > _LONGEST_TOKEN:
            return policy.Refusal(reason=policy.Refused.NO_TOKEN)
        now_s = self._clock.monotonic_s()
        digest = hashlib.sha256(token.encode(errors="replace")).digest()
        until_s, identity = self._good.get(digest, (now_s, None))
        if identity is not None and until_s > now_s and identity.expires_s > self._clock.wall_ns() / 1e9:
            return identity
        verdict = await self._ask(token, expires_s)
        if isinstance(verdict, policy.Identity):
            self._remember(digest, now_s, verdict)
        return verdict

    async def _ask(self, token: str, expires_s: float | None) -> Verdict:
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

    def _judge(self, answer: Mapping[str, Any], expires_s: float | None) -> Verdict:
        status = _mapping(answer, "status")
        user = _mapping(status, "user")
        username = user.get("username")
        if status.get("authenticated") is not True or not isinstance(username, str):
            return policy.Refusal(reason=policy.Refused.TOKEN_REFUSED, detail=str(status.get("error", ""))[:500])
        if self._audience not in _list(status, "audiences"):
            return policy.Refusal(reason=policy.Refused.OTHER_AUDIENCE, detail=username)
        if expires_s is None:
            return policy.Refusal(reason=policy.Refused.NEVER_EXPIRES, detail=username)
        nodes = _list(_mapping(user, "extra"), NODE)
        node = nodes[0] if len(nodes) == 1 and isinstance(nodes[0], str) else None
        return policy.Identity(username=username, node=node, expires_s=int(expires_s))

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


def _list(found: Mapping[str, Any], key: str) -> list[Any]:
    value = found.get(key)
    return value if isinstance(value, list) else []
