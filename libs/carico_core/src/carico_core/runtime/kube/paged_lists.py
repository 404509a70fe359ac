"""Lists of a collection of the API, of which only one page at a time is in memory.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#retrieving-large-results-sets-in-chunks
"""

import contextlib
import dataclasses
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Protocol

import orjson

from carico_core.domain import errors

Object = dict[str, Any]
Read = Callable[[Object], Any]
PAGE_LIMIT = 500
# Half a million objects; Kubernetes supports 150,000 Pods: https://kubernetes.io/docs/setup/best-practices/cluster-large/
PAGES_MOST = 1000
TIMEOUT_S = 60.0
# Maximum size of the bytes without the end of an object; the same as of a whole answer.
UNSPLIT_LIMIT_BYTES = 256 * 2**20
# The start of the first object, up to the colon after its first name.
_FIRST = re.compile(rb'"items"\s*:\s*\[\s*(\{\s*"[^"\\]*"\s*:)')
# The bytes between two objects may arrive in two parts, so the search goes this far back.
_LOOK_BACK_BYTES = 1024


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """All objects, each as `read` returned it. An object that is not among them does not exist."""

    objects: list[Any]
    resource_version: str


class Api(Protocol):
    """The part of a client that a list uses."""

    async def request(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, timeout_s: float = 10.0
    ) -> Any:
        """Return the decoded answer."""
        ...

    def stream(
        self, method: str, path: str, params: Mapping[str, str] | None = None, *, idle_timeout_s: float | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of the answer as they arrive."""
        ...


async def list_all(
    api: Api, path: str, *, params: Mapping[str, str], timeout_s: float = TIMEOUT_S, read: Read | None = None
) -> Listed:
    """Return all objects of a collection, in pages; if the pages' snapshot expires, from one streamed answer.

    `read` is applied to each object once it is decoded: 30,000 Pods as the API sends them take half a gigabyte, which a
    process does not return to the system completely.
    """
    try:
        return await _in_pages(api, path, {**params, "limit": str(PAGE_LIMIT)}, timeout_s, read)
    except errors.Gone:
        return await _as_it_comes(api, path, params, timeout_s, read)


async def _in_pages(api: Api, path: str, params: Mapping[str, str], timeout_s: float, read: Read | None) -> Listed:
    objects: list[Any] = []
    for _ in range(PAGES_MOST):
        part = _part(await api.request("GET", path, params=params, timeout_s=timeout_s), path)
        objects.extend(part.objects if read is None else map(read, part.objects))
        if not part.following:
            return Listed(objects=objects, resource_version=part.version)
        if part.following == params.get("continue"):
            raise errors.ApiUnavailable(f"GET {path}: the list has no end: each page is followed by itself")
        params = {**params, "continue": part.following}
        # Otherwise it stays in memory until the next one is decoded.
        del part
    raise errors.ApiUnavailable(f"GET {path}: the list has no end: {PAGES_MOST:,} pages are followed by another one")


async def _as_it_comes(api: Api, path: str, params: Mapping[str, str], timeout_s: float, read: Read | None) -> Listed:
    objects: list[Any] = []
    splitter = Splitter()
    async with contextlib.aclosing(api.stream("GET", path, params, idle_timeout_s=timeout_s)) as chunks:
        async for chunk in chunks:
            found = _checked(splitter.feed(chunk), path)
            objects.extend(found if read is None else map(read, found))
    last = _part(splitter.end(), path)
    objects.extend(last.objects if read is None else map(read, last.objects))
    return Listed(objects=objects, resource_version=last.version)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """One page of a list. `following` is empty for the last one."""

    objects: list[Object]
    version: str
    following: str


def _part(answer: Any, path: str) -> _Part:
    try:
        metadata = answer["metadata"]
        # An empty collection may be null: Go's nil slice.
        return _Part(
            objects=_checked(answer["items"] or [], path),
            version=str(metadata["resourceVersion"]),
            following=metadata.get("continue") or "",
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise _no_list(path) from error


def items_of(answer: Object, path: str) -> list[Object]:
    """Return the objects of a list that is no longer than a page. Raises `ApiUnavailable` where it is none."""
    return _checked(answer.get("items") or [], path)


def _checked(items: list[Any], path: str) -> list[Object]:
    """Return the items if all are objects with metadata, so that readers need no further checks."""
    try:
        if isinstance(items, list) and all(isinstance(item["metadata"], dict) for item in items):
            return items
    except (KeyError, TypeError) as error:
        raise _no_list(path) from error
    raise _no_list(path)


def _no_list(path: str) -> errors.ApiUnavailable:
    return errors.ApiUnavailable(f"GET {path}: the answer is not a list of objects")


class Splitter:
    """Splits the bytes of one answer into the objects of a list: `feed` each part, then `end`.

    An object ends where a brace, a comma and the start of the first object follow each other. The same bytes may be
    inside an object; but the start of an object is never an object itself, so whatever can be decoded up to there is
    the object. If a server writes its objects differently, they are all returned at the end.
    """

    def __init__(self) -> None:
        self._head = b""
        self._rest = bytearray()
        self._looked = 0
        self._between: re.Pattern[bytes] | None = None

    def feed(self, chunk: bytes) -> list[Any]:
        """Return the objects whose end, and the start of the next one, have arrived. Raises `ApiUnavailable`."""
        self._rest += chunk
        if self._between is None and not self._begin():
            return []
        assert self._between is not None
        objects: list[Any] = []
        begin = 0
        for between in self._between.finditer(self._rest, self._looked):
            with contextlib.suppress(orjson.JSONDecodeError):
                objects.append(orjson.loads(self._rest[begin : between.start() + 1]))
                begin = between.end()
        del self._rest[:begin]
        if len(self._rest) > UNSPLIT_LIMIT_BYTES:
            raise errors.ApiUnavailable(f"a list with an object of more than {UNSPLIT_LIMIT_BYTES} bytes")
        self._looked = max(0, len(self._rest) - _LOOK_BACK_BYTES)
        return objects

    def end(self) -> Any:
        """Return the list with the objects that were not returned yet; None if the answer is incomplete."""
        try:
            return orjson.loads(self._head + self._rest)
        except orjson.JSONDecodeError:
            return None

    def _begin(self) -> bool:
        """Return whether the first object has begun."""
        first = _FIRST.search(self._rest)
        if first is None:
            return False
        self._between = re.compile(rb"\}\s*,\s*(?=" + re.escape(first[1]) + rb")")
        self._head = bytes(self._rest[: first.start(1)])
        del self._rest[: first.start(1)]
        return True
