"""Run one replica of the auth callout: take a server's request, review the token, answer with permissions.

A client learns only that it is refused; the reason goes to our log and counter, and to the server's log.
"""

import asyncio
import dataclasses
from collections.abc import Callable, Mapping
from typing import Protocol

from carico_auth import instruments, nats_jwt, policy, reviews
from carico_core.runtime.bus.security import nkeys
from carico_core.runtime.process import clock as clocks
from carico_core.wire import roles

# The curve key of the requesting server, in the header of an encrypted request.
XKEY_HEADER = "Nats-Server-Xkey"
# Replicas of the callout share the requests.
GROUP = "carico-auth"
# Below `server_config.ANSWER_TIMEOUT_S`, after which the server has dropped the client.
ANSWER_WITHIN_S = 3.0


class Reviewer(Protocol):
    """Identifies the bearer of a token."""

    async def review(self, token: str) -> reviews.Verdict: ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The key that signs answers, and the curve key that requests are encrypted for (None: not encrypted)."""

    issuer: nkeys.Signer
    sealer: nkeys.Sealer | None


class Callout:
    """Answers authorization requests of NATS servers."""

    def __init__(
        self, reviewer: Reviewer, keys: Keys, counted: instruments.Instruments, *,
        accounts: Mapping[policy.ServiceAccount, roles.Role], clock: clocks.Clock,
        refuse: Callable[[policy.Grant], policy.Refusal | None] = lambda _: None,
        answer_within_s: float = ANSWER_WITHIN_S,
    ) -> None:  # fmt: skip
        """`refuse` returns why a client with a good token is not let in all the same, if it is not."""
        self._reviewer = reviewer
        self._keys = keys
        self._counted = counted
        self._accounts = dict(accounts)
        self._refuse = refuse
        self._answer_within_s = answer_within_s
        self._pace = policy.ConnectionPace()
        self._clock = clock

    async def answer(self, payload: bytes, headers: Mapping[str, str]) -> bytes | None:
        """Return the answer to one request; None for what is not a request."""
        started_s = self._clock.monotonic_s()
        server_key = headers.get(XKEY_HEADER, "")
        try:
            request = nats_jwt.decode_request(self._opened(payload, server_key))
        except nats_jwt.NotARequest as error:
            self._counted.refused(policy.Refusal(reason=policy.Refused.NOT_A_REQUEST, detail=str(error)), None)
            return None
        decided = await self._decide(request)
        now_s = int(self._clock.wall_ns() / 1e9)
        issuer = self._keys.issuer
        if isinstance(decided, policy.Refusal):
            self._counted.refused(decided, request)
            answer = nats_jwt.encode_answer(request, user="", error=decided.reason.value, signer=issuer, now_s=now_s)
        else:
            self._counted.granted(decided, request)
            user = nats_jwt.encode_user(decided, request, signer=issuer, now_s=now_s)
            answer = nats_jwt.encode_answer(request, user=user, error="", signer=issuer, now_s=now_s)
        self._counted.answer_s.observe(self._clock.monotonic_s() - started_s)
        sealer = self._keys.sealer
        return answer if sealer is None else sealer.seal(answer, to=server_key)

    async def _decide(self, request: nats_jwt.Request) -> policy.Grant | policy.Refusal:
        try:
            async with asyncio.timeout(self._answer_within_s):
                verdict = await self._reviewer.review(request.token)
        except TimeoutError:
            return policy.Refusal(reason=policy.Refused.TOO_LATE, detail=f"no review within {self._answer_within_s} s")
        if isinstance(verdict, policy.Refusal):
            return verdict
        decided = policy.decide(verdict, self._accounts, connection=request.connection)
        if isinstance(decided, policy.Refusal):
            return decided
        return self._refuse(decided) or self._pace.refuse(decided, now_s=self._clock.monotonic_s()) or decided

    def _opened(self, payload: bytes, server_key: str) -> bytes:
        if self._keys.sealer is None:
            return payload
        if not server_key:
            # The client's token has crossed the bus unencrypted: reject it visibly.
            raise nats_jwt.NotARequest(
                "not encrypted: give the server our public curve key (authorization.auth_callout.xkey)"
            )
        try:
            return self._keys.sealer.open(payload, sender=server_key)
        except ValueError as error:
            why = "is --xkey the key of this cluster, whose public half NATS has in authorization.auth_callout.xkey?"
            raise nats_jwt.NotARequest(f"{error}; {why}") from None
