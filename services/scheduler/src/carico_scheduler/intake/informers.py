"""Keeps the state in step with the API: one list and watch per collection, and what each of them lacks."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from typing import Any, Protocol

from carico_core.domain import errors
from carico_core.runtime.kube import api_client as kubes
from carico_core.runtime.kube import list_watch
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_scheduler import state
from carico_scheduler.intake import api_collections
from carico_scheduler.report import instruments

# An API that does not serve a collection is asked again this seldom: it may learn to.
ASK_AGAIN_S = 60.0
_NOT_LISTED = "not listed yet"
# Nothing is decided by what is older, whatever its connection still looks like: as long as client-go takes to notice a
# stopped server. Mirrors themselves give one up after 43 s (`list_watch.FRESH_OPTIONS`).
STALE_S = 45.0


class Kube(Protocol):
    """What is needed of the Kubernetes API."""

    def mirror(
        self, path: str, *, params: Mapping[str, str] | None = None, read: Callable[[Any], Any] | None = None,
        freshness: list_watch.Freshness | None = None,
    ) -> AsyncGenerator[kubes.MirrorEvent, None]:  # fmt: skip
        """List and watch for ever; `read` is applied to each object of a list, `freshness` kept up to date."""


class Informers:
    """The mirrors of one scheduler; `wake` is called after every event of any of them."""

    def __init__(
        self,
        kube: Kube,
        *,
        into: state.State,
        clock: clocks.Clock,
        metrics: instruments.Instruments,
        wake: Callable[[], None],
    ) -> None:
        self._kube = kube
        self._clock = clock
        self._metrics = metrics
        self._wake = wake
        self._line = logs.get("scheduler")
        self._odd_line = logs.RateLimited(self._line, clock=clock)
        self._collections = api_collections.all_of(into, clock)
        # When one of them last brought something.
        self.heard_s = clock.monotonic_s()
        self._lacking: dict[str, str] = {}
        self._freshness = {each.path: list_watch.Freshness(clock) for each in self._collections}
        # Those without which nothing can be decided.
        self._needed = [self._freshness[each.path] for each in self._collections if each.lacks is None]
        for each in self._collections:
            self._note_lack(each, _NOT_LISTED)

    @property
    def is_current(self) -> bool:
        """True where decisions may be made: as `away` is empty, at a fraction of the cost, as each bind asks for it."""
        return not self._lacking and all((each.age_s() or 0.0) <= STALE_S for each in self._needed)

    @property
    def away(self) -> dict[str, str]:
        """What each mirror lacks without which nothing can be decided; empty: decisions may be made."""
        lacking = dict(self._lacking)
        for each in self._collections:
            age_s = self._freshness[each.path].age_s()
            if each.lacks is None and age_s is not None and age_s > STALE_S:
                lacking.setdefault(each.path, f"{each.kind}s: the API has sent nothing for {age_s:.0f} s")
        return lacking

    def works(self) -> dict[str, Coroutine[Any, Any, None]]:
        """One work without end per collection, by the collection's name."""
        return {each.path.rpartition("/")[2]: self._follow(each) for each in self._collections}

    async def _follow(self, collection: api_collections.Collection) -> None:
        """Keep the state in step with one collection, until cancelled."""
        while True:
            read, fresh = functools.partial(self._parsed, collection), self._freshness[collection.path]
            async with contextlib.aclosing(self._kube.mirror(collection.path, read=read, freshness=fresh)) as mirror:
                async for event in mirror:
                    self._take(collection, event)
                    if collection.lacks is not None and _is_not_served(event):
                        break
            await asyncio.sleep(ASK_AGAIN_S)

    def _take(self, collection: api_collections.Collection, event: kubes.MirrorEvent) -> None:
        if not isinstance(event, kubes.Away):
            self.heard_s = self._clock.monotonic_s()
        match event:
            case kubes.Listed():
                collection.put_all([each for each in event.objects if each is not None])
                self._note_listed(collection, len(event.objects))
            case kubes.Changed(type="DELETED"):
                collection.remove(event.object["metadata"])
            case kubes.Changed():
                parsed = self._parsed(collection, event.object)
                if parsed is not None:
                    collection.put(parsed)
            case kubes.Away():
                self._note_away(collection, event.error)
        self._wake()

    def _parsed(self, collection: api_collections.Collection, obj: api_collections.Object) -> Any:
        """The object as a record; None where it cannot be read: one odd object must not stop the scheduler."""
        try:
            return collection.parse(obj)
        except ValueError as error:
            kind = collection.kind
            self._metrics.bad_objects.labels(kind).inc()
            self._odd_line.warning((kind, str(error)), "object cannot be read", kind=kind, error=str(error))
            return None

    def _note_listed(self, collection: api_collections.Collection, count: int) -> None:
        if collection.lacks is not None:
            collection.lacks(None)
        elif self._lacking.pop(collection.path, None) is not None:
            self._line.info("listed", path=collection.path, objects=count)

    def _note_away(self, collection: api_collections.Collection, error: errors.CaricoError) -> None:
        """Notes that a mirror cannot be relied on, or that there is nothing to mirror."""
        if collection.lacks is not None and isinstance(error, errors.NotFound):
            self._line.info("not served by this API", path=collection.path)
            collection.put_all([])
            collection.lacks(None)
            return
        self._line.warning("API away", path=collection.path, error=str(error))
        if collection.lacks is None or isinstance(error, errors.Forbidden):
            self._note_lack(collection, f"the API does not answer: {error}")

    def _note_lack(self, collection: api_collections.Collection, why: str) -> None:
        if collection.lacks is not None:
            collection.lacks(why)
        else:
            self._lacking[collection.path] = f"{collection.kind}s: {why}"


def _is_not_served(event: kubes.MirrorEvent) -> bool:
    return isinstance(event, kubes.Away) and isinstance(event.error, errors.NotFound)
