"""Lists of a collection of the API, of which no more is held at a time than a page.

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
TIMEOUT_S = 60.0
# What may come without an object's end in it; as much as a whole answer may be.
UNSPLIT_LIMIT_BYTES = 256 * 2**20
# The first object's beginning, up to the colon after its first name.
_FIRST = re.compile(rb'"items"\s*:\s*\[\s*(\{\s*"[^"\\]*"\s*:)')
# What lies between two objects is looked for again this far back, as it may have come in two parts.
_LOOK_BACK_BYTES = 1024


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """All objects there are: what is not among them is gone. Each is as `read` has made it."""

    objects: list[Any]
    resource_version: str


class Api(Protocol):
    """What a list needs of a client."""

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
    """All objects of a collection, read in pages; where the pages' snapshot expires, out of one answer as it comes.

    `read` is applied to each object as it is decoded: as the API shows them, 30,000 Pods at a time take half a
    gigabyte, which a process does not give back to the last of it.
    """
    try:
        return await _in_pages(api, path, {**params, "limit": str(PAGE_LIMIT)}, timeout_s, read)
    except errors.Gone:
        return await _as_it_comes(api, path, params, timeout_s, read)


async def _in_pages(api: Api, path: str, params: Mapping[str, str], timeout_s: float, read: Read | None) -> Listed:
    objects: list[Any] = []
    while True:
        part = _part(await api.request("GET", path, params=params, timeout_s=timeout_s), path)
        objects.extend(part.objects if read is None else map(read, part.objects))
        if not part.following:
            return Listed(objects=objects, resource_version=part.version)
        params = {**params, "continue": part.following}
        # Or it is held until the next one is decoded.
        del part


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
    """An answer to a list. `following` is empty where it is the last."""

    objects: list[Object]
    version: str
    following: str


def _part(answer: Any, path: str) -> _Part:
    try:
        metadata = answer["metadata"]
        # A collection that is empty may be null: Go's nil slice.
        return _Part(
            objects=_checked(answer["items"] or [], path),
            version=str(metadata["resourceVersion"]),
            following=metadata.get("continue") or "",
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise _no_list(path) from error


def _checked(items: list[Any], path: str) -> list[Object]:
    """Return the items, where they are objects with metadata; readers then need to ask no more."""
    try:
        if all(isinstance(item["metadata"], dict) for item in items):
            return items
    except (KeyError, TypeError) as error:
        raise _no_list(path) from error
    raise _no_list(path)


def _no_list(path: str) -> errors.ApiUnavailable:
    return errors.ApiUnavailable(f"GET {path}: the answer is not a list of objects")


class Splitter:
    """The objects of a list out of the bytes of one answer: `feed` each part, then `end`.

    An object follows another where a brace, a comma and the beginning of the first object stand. That may stand inside
    one too; but no beginning of an object is itself one, so that what can be decoded up to there is the object. Where
    a server writes its objects differently, they come all at the end.
    """

    def __init__(self) -> None:
        self._head = b""
        self._rest = bytearray()
        self._looked = 0
        self._between: re.Pattern[bytes] | None = None

    def feed(self, chunk: bytes) -> list[Any]:
        """Return the objects whose end, and the next one's start, have come. Raises `ApiUnavailable`."""
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
        """Return the list, with what was not given before; None where the answer is not whole."""
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
