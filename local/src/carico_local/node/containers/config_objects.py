"""The ConfigMaps and Secrets that a Pod names, read one by one: a node may read no others, nor list them.

Source: kubernetes/pkg/kubelet/util/manager/watch_based_manager.go. A kubelet watches each of them; here each is read
when a container starts, which is when a variable takes its value.
"""

import asyncio
import base64
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from carico_core.domain import errors
from carico_local.node.spec import sources

_PLURALS = {sources.CONFIG_MAP: "configmaps", sources.SECRET: "secrets"}
# The Node authorizer learns a moment after the binding which objects the Pod names: in all as long as a kubelet waits.
_PAUSES_S = (0.1, 0.3, 0.6)
_TIMEOUT_S = 10.0
# Of an object that was read before: an API that is away holds up no restart for long.
_AGAIN_TIMEOUT_S = 2.0


class Api(Protocol):
    """What is needed of the Kubernetes API."""

    async def request(self, method: str, path: str, *, timeout_s: float = _TIMEOUT_S) -> Any:
        """Return the decoded answer."""
        ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What an object holds by key; `binaryData` of a ConfigMap is for files, which no node here has."""

    values: Mapping[str, bytes]
    # It never changes: read once.
    is_fixed: bool = False


class Unread(Exception):
    """What a Pod needs of an object cannot be had now; the text says why, as a kubelet says it."""


def not_found(kind: str, name: str) -> Unread:
    """Return an object that is not there."""
    return Unread(f'{kind} "{name}" not found')


class Objects:
    """The objects of one Pod's namespace. What was read last stands in while the API is away."""

    def __init__(self, api: Api, namespace: str, *, pauses_s: Sequence[float] = _PAUSES_S) -> None:
        self.namespace = namespace
        self._api = api
        self._pauses_s = pauses_s
        self._seen: dict[tuple[str, str], Content] = {}

    async def find(self, kind: str, name: str) -> Content | None:
        """Return what the object holds; None where there is none of the name. Raises `Unread`."""
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
