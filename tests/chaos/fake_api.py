"""A Kubernetes API that fails as real ones do: overloaded, forgetful, or mute after the fact."""

import asyncio
import json
import random
from collections.abc import Callable

from aiohttp import web

from tests.tools.api import api_proxy

Fault = Callable[[web.Request], web.Response | None]


class FaultyApi(api_proxy.Proxy):
    """A way to the API on which `fault` may answer in its place, and a bind's answer may be lost once it has landed."""

    def __init__(self, target: str, *, token: str) -> None:
        super().__init__(target, token=token)
        self.fault: Fault = lambda request: None
        self.loses_answer: Callable[[api_proxy.Bind], bool] = lambda bind: False
        self.faults = 0
        self.lost: list[str] = []
        # Watches that are open; `expire_watches` ends them.
        self._watches: list[asyncio.Event] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """The API's answer, or a fault's."""
        fault = self.fault(request)
        if fault is not None:
            self.faults += 1
            return fault
        if request.query.get("watch"):
            return await self._watch(request)
        answer = await super().handle(request)
        if request.path.endswith("/binding") and self.binds and self._is_lost(request.path.split("/")[-2]):
            assert request.transport is not None
            request.transport.close()
        return answer

    def expire_watches(self) -> None:
        """Every watch ends with "too old resource version", as after a compaction."""
        for each in self._watches:
            each.set()

    def _is_lost(self, pod: str) -> bool:
        bind = next(each for each in reversed(self.binds) if each.pod == pod)
        if bind.status != 201 or not self.loses_answer(bind):
            return False
        self.lost.append(pod)
        return True

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        expired = asyncio.Event()
        self._watches.append(expired)
        response = web.StreamResponse()
        await response.prepare(request)
        passing = asyncio.ensure_future(self._copy(request, response))
        ending = asyncio.ensure_future(expired.wait())
        try:
            await asyncio.wait([passing, ending], return_when=asyncio.FIRST_COMPLETED)
            if expired.is_set():
                self.faults += 1
                gone = status(410, "Expired", "too old resource version")
                await response.write(json.dumps({"type": "ERROR", "object": gone}).encode() + b"\n")
            return response
        finally:
            passing.cancel()
            ending.cancel()
            await asyncio.gather(passing, ending, return_exceptions=True)
            self._watches.remove(expired)

    async def _copy(self, request: web.Request, response: web.StreamResponse) -> None:
        async with self._session.get(self._target + request.path_qs) as answer:
            async for chunk in answer.content.iter_any():
                await response.write(chunk)


def status(code: int, reason: str, message: str) -> dict[str, object]:
    """A Status object of the API."""
    return {
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
    }  # fmt: skip


def refused(code: int, reason: str, message: str, **headers: str) -> web.Response:
    """An answer with a Status."""
    return web.json_response(status(code, reason, message), status=code, headers=headers)


def overloaded(rng: random.Random, share: float) -> Fault:
    """This share of all requests is answered with 429 or 5xx."""

    def fault(request: web.Request) -> web.Response | None:
        if rng.random() >= share:
            return None
        code, reason = rng.choice(((429, "TooManyRequests"), (500, "InternalError"), (503, "ServiceUnavailable")))
        return refused(code, reason, "the server is busy", **({"Retry-After": "1"} if code == 429 else {}))

    return fault


def wants_token(valid: Callable[[], str]) -> Fault:
    """Answer 401 to a request without this token."""

    def fault(request: web.Request) -> web.Response | None:
        if request.headers.get("Authorization") == f"Bearer {valid()}":
            return None
        return refused(401, "Unauthorized", "Unauthorized")

    return fault
