"""Whether moves are paused: a ConfigMap, which outlives every process. It is read before each plan and each move."""

import dataclasses
from collections.abc import Callable

from carico_core.domain import errors
from carico_core.runtime.kube import api_actions
from carico_core.runtime.process import clock as clocks
from carico_core.wire.kubernetes import instants

NAME = "carico-rescheduler"
_PAUSED, _SINCE = "paused", "since"


@dataclasses.dataclass(slots=True, kw_only=True)
class Pausing:
    """The ConfigMap in the namespace of the Lease. `seen`: what the last look has shown, None before it."""

    api: api_actions.BindApi
    namespace: str
    clock: clocks.Clock
    permit: Callable[[], None]
    seen: str | None = None

    async def why(self) -> str:
        """Return since when moves are paused; empty if they are not. Raises `ApiError` and `ApiUnavailable`."""
        try:
            found = await self.api.request("GET", f"{self._path}/{NAME}")
        except errors.NotFound:
            found = {}
        data = found.get("data") or {}
        self.seen = f"paused since {data.get(_SINCE, 'an unknown time')}" if data.get(_PAUSED) == "true" else ""
        return self.seen

    async def put(self, *, paused: bool) -> None:
        """Pause or resume. Raises `ApiError` and `ApiUnavailable`."""
        data = {_PAUSED: str(paused).lower(), _SINCE: instants.format_time(self.clock.wall_ns())}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": data}
        try:
            await self.api.request(
                "PATCH", f"{self._path}/{NAME}", body={"data": data}, content_type=api_actions.MERGE_PATCH,
                permit=self.permit,
            )  # fmt: skip
        except errors.NotFound:
            await self.api.request("POST", self._path, body=body, permit=self.permit)
        await self.why()

    @property
    def _path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/configmaps"
