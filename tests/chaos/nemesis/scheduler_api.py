"""A scheduler's own way to the API, on which its binds and its writes of the Lease are recorded."""

import asyncio
import contextlib
import json
import time
from collections.abc import Callable

import aiohttp
from aiohttp import web

from tests.chaos.nemesis import history
from tests.tools.api import api_proxy


class SchedulerApi(api_proxy.Proxy):
    """One scheduler's way to the API, which records each bind and each write of the Lease with its answer.

    `is_good`: whether a token is accepted.
    """

    def __init__(
        self, target: str, *, token: str, into: history.History, is_good: Callable[[str], bool]
    ) -> None:  # fmt: skip
        super().__init__(target, token=token)
        self._is_good = is_good
        # Of the process that uses this way now.
        self.identity = ""
        self._into = into

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Pass a request on; a write that is recorded is sent even if its client ends meanwhile."""
        if not self._is_good(request.headers.get("Authorization", "").removeprefix("Bearer ")):
            refusal = {"kind": "Status", "status": "Failure", "code": 401, "reason": "Unauthorized", "message": "token"}
            return web.json_response(refusal, status=401)
        is_write = request.method in ("POST", "PUT", "PATCH")
        if is_write and (request.path.endswith("/binding") or "/leases" in request.path):
            # Another process may use this way before the answer has come.
            by = self.identity
            return await asyncio.shield(asyncio.ensure_future(self._note(by, request, await request.read())))
        return await super().handle(request)

    async def _note(self, by: str, request: web.Request, body: bytes) -> web.Response:
        sent_s, status, payload = time.time(), 0, b""
        headers = {"Content-Type": request.headers.get("Content-Type", "application/json")}
        with contextlib.suppress(aiohttp.ClientError):
            url = self._target + request.path_qs
            async with self._session.request(request.method, url, data=body, headers=headers) as answer:
                payload = await answer.read()
                status = answer.status
        sent = json.loads(body)
        if request.path.endswith("/binding"):
            bind = history.Bind(
                scheduler=by, pod=sent["metadata"]["name"], uid=sent["metadata"]["uid"],
                node=sent["target"]["name"], sent_s=sent_s, status=status,
            )  # fmt: skip
            self._into.binds.append(bind)
        elif status in (200, 201):
            spec = sent["spec"]
            self._into.terms.append(
                history.Term(
                    holder=spec.get("holderIdentity") or "",
                    at_s=time.time(),
                    duration_s=float(spec.get("leaseDurationSeconds") or 0),
                )
            )
        return web.Response(body=payload, status=status or 503, content_type="application/json")
