"""The ConfigMaps and Secrets that a Pod names, read one by one: a node may neither read others nor list them.

Source: kubernetes/pkg/kubelet/util/manager/watch_based_manager.go. A kubelet watches each of them; this node reads each
when a container starts, because only then do variables get their values.
"""

import asyncio
import base64
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from carico_core.domain import errors
from carico_local.node.spec import sources

_PLURALS = {sources.CONFIG_MAP: "configmaps", sources.SECRET: "secrets"}
# The Node authorizer learns shortly after the binding which objects the Pod names; in total a kubelet waits as long.
_PAUSES_S = (0.1, 0.3, 0.6)
_TIMEOUT_S = 10.0
# For an object that was read before: an unavailable API must not delay a restart for long.
_AGAIN_TIMEOUT_S = 2.0


class Api(Protocol):
    """What is needed of the Kubernetes API."""

    async def request(self, method: str, path: str, *, timeout_s: float = _TIMEOUT_S) -> Any:
        """Return the decoded answer."""
        ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The values of an object by key, without `binaryData` of ConfigMaps, which is only for files."""

    values: Mapping[str, bytes]
    # Immutable, so it is read once.
    is_fixed: bool = False


class Unread(Exception):
    """A Pod needs an object that cannot be read now; the message is that of a kubelet."""


def not_found(kind: str, name: str) -> Unread:
    """Return the error for an object that does not exist."""
    return Unread(f'{kind} "{name}" not found')


class Objects:
    """The objects in one Pod's namespace; while the API is unavailable, those last read."""

    def __init__(self, api: Api, namespace: str, *, pauses_s: Sequence[float] = _PAUSES_S) -> None:
        self.namespace = namespace
        self._api = api
        self._pauses_s = pauses_s
        self._seen: dict[tuple[str, str], Content] = {}

    async def find(self, kind: str, name: str) -> Content | None:
        """Return the content of an object; None where it does not exist. Raises `Unread`."""
        known = self._seen.get((kind, name))
        if known is not None and known.is_fixed:
            return known
        try:
            found = await self._get(kind, name, _TIMEOUT_S if known is None else _AGAIN_TIMEOUT_S)
        except errors.NotFound:
            self._seen.pop((kind, name), None)
            return None
        except errors.ApiUnavailable as error:
            if known is not None:
                return known
            raise Unread(f'failed to get {kind} "{name}": {error}') from error
        except errors.ApiError as error:
            raise Unread(f'failed to get {kind} "{name}": {error.message}') from error
        self._seen[kind, name] = _content(kind, found)
        return self._seen[kind, name]

    async def _get(self, kind: str, name: str, timeout_s: float) -> Mapping[str, Any]:
        path = f"/api/v1/namespaces/{self.namespace}/{_PLURALS[kind]}/{name}"
        for pause_s in self._pauses_s:
            try:
                found: Mapping[str, Any] = await self._api.request("GET", path, timeout_s=timeout_s)
                return found
            except errors.Forbidden:
                await asyncio.sleep(pause_s)
        last: Mapping[str, Any] = await self._api.request("GET", path, timeout_s=timeout_s)
        return last


def _content(kind: str, found: Mapping[str, Any]) -> Content:
    data, is_fixed = found.get("data") or {}, bool(found.get("immutable"))
    if kind == sources.SECRET:
        values = {key: base64.b64decode(value or "") for key, value in data.items()}
    else:
        values = {key: text.encode() for key, text in data.items()}
    return Content(values=values, is_fixed=is_fixed)
