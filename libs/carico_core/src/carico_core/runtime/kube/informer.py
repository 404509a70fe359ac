"""Follows collections of the API for a service, which one bad object must not stop."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Protocol, TypeVar

from carico_core.domain import errors
from carico_core.runtime.kube import list_watch
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks

# How often a collection is tried again that the API does not serve: an upgrade may add it.
RETRY_S = 60.0
# Nothing is done by a copy that is older, even if its connection looks alive: client-go takes as long to notice a
# stopped server. A copy gives its connection up after 43 s (`list_watch.FRESH_OPTIONS`).
STALE_S = 45.0

Object = Mapping[str, Any]
T = TypeVar("T")


class ListerWatcher(Protocol):
    """The part of the Kubernetes API that informers use."""

    def mirror(
        self, path: str, *, params: Mapping[str, str] | None = None, read: Callable[[Any], Any] | None = None,
        freshness: list_watch.CopyAge | None = None,
    ) -> AsyncGenerator[list_watch.MirrorEvent, None]:  # fmt: skip
        """List and watch forever; apply `read` to each object of a list, and keep `freshness` up to date."""


class Parser:
    """Parses objects; those that cannot be parsed are counted and logged."""

    def __init__(self, count: Callable[[str], None], line: logs.Log, *, clock: clocks.Clock) -> None:
        """`count` counts one object of a kind."""
        self._count = count
        self._line = logs.RateLimited(line, clock=clock)

    def read(self, kind: str, parse: Callable[[Object], T], obj: Object) -> T | None:
        """Return the object as a record, or None."""
        try:
            return parse(obj)
        except ValueError as error:
            self._count(kind)
            self._line.warning((kind, str(error)), "object cannot be parsed", kind=kind, error=str(error))
            return None


async def follow(
    kube: ListerWatcher, path: str, take: Callable[[list_watch.MirrorEvent], None], *,
    read: Callable[[Any], Any], freshness: list_watch.CopyAge, is_optional: bool = True,
) -> None:  # fmt: skip
    """Pass the events of a collection to `take`, until cancelled.

    read: as for `mirror`. is_optional: the API may not serve the collection, which is tried again now and then.
    """
    while True:
        async with contextlib.aclosing(kube.mirror(path, read=read, freshness=freshness)) as events:
            async for event in events:
                take(event)
                if is_optional and is_not_served(event):
                    break
                # A list would stay in memory until the next event.
                del event
        await asyncio.sleep(RETRY_S)


def is_not_served(event: list_watch.MirrorEvent) -> bool:
    """Return True if the API does not have the collection."""
    return isinstance(event, list_watch.Away) and isinstance(event.error, errors.NotFound)
