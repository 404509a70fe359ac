"""Keeps the state in step with the API: one list and watch per collection, and why a collection is not known.

`ApiProbe` distinguishes an API that does not answer from a quiet one.
"""

import asyncio
import dataclasses
import functools
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from carico_core.domain import errors
from carico_core.runtime.kube import api_actions, informer, list_watch
from carico_core.runtime.kube import api_client as kubes
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_scheduler.intake import api_collections
from carico_scheduler.report import instruments
from carico_scheduler.state import state

_NOT_LISTED = "not listed yet"
# A copy gives its connection up 2 s before it is too old (`list_watch.FRESH_OPTIONS`).
AGES_EVERY_S = 1.0
# An API that sent something this recently is not probed. `/version` is answered at once, from memory, to any client.
QUIET_S = 2.0
ANSWER_S = 1.0
_PROBED = "/version"


class Informers:
    """The informers of one scheduler; `wake` is called after every event of any of them."""

    def __init__(
        self,
        kube: informer.ListerWatcher,
        *,
        into: state.State,
        clock: clocks.Clock,
        metrics: instruments.Instruments,
        wake: Callable[[], None],
        before_pods: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Pods are first listed once `before_pods` has returned."""
        self._before_pods = before_pods
        # Called when a list of all Pods has been taken in.
        self.on_listed: Callable[[], None] = lambda: None
        self._kube = kube
        self._clock = clock
        self._wake = wake
        self._line = logs.get("scheduler")
        self._parser = informer.Parser(lambda kind: metrics.bad_objects.labels(kind).inc(), self._line, clock=clock)
        self._collections = api_collections.all_of(into, clock)
        # When one of them last received something.
        self.heard_s = clock.monotonic_s()
        self._lacking: dict[str, str] = {}
        self._freshness = {each.path: list_watch.CopyAge(clock) for each in self._collections}
        # The paths of the optional ones that were listed, and of those of them whose copies are too old by now.
        self._served: set[str] = set()
        self._old: set[str] = set()
        # The collections without which nothing can be decided.
        self._needed = [self._freshness[each.path] for each in self._collections if each.lacks is None]
        for each in self._collections:
            self._note_lack(each, _NOT_LISTED)

    @property
    def is_current(self) -> bool:
        """True if decisions may be made: equals `not away` at a fraction of the cost, since each bind asks for it."""
        return not self._lacking and all((each.age_s() or 0.0) <= informer.STALE_S for each in self._needed)

    @property
    def age_s(self) -> float | None:
        """The age of the oldest collection without which nothing can be decided; None before the first lists."""
        ages = [each.age_s() for each in self._needed]
        known = [age_s for age_s in ages if age_s is not None]
        return max(known, default=None) if len(known) == len(ages) else None

    @property
    def away(self) -> dict[str, str]:
        """Why collections are not known without which nothing can be decided; empty if decisions may be made."""
        lacking = dict(self._lacking)
        for each in self._collections:
            age_s = self._freshness[each.path].age_s()
            if each.lacks is None and age_s is not None and age_s > informer.STALE_S:
                lacking.setdefault(each.path, f"{each.kind}s: the API has sent nothing for {age_s:.0f} s")
        return lacking

    def works(self) -> dict[str, Coroutine[Any, Any, None]]:
        """Return an endless coroutine per collection, by the collection's path, and the one that notes their ages."""
        return {each.path: self._follow(each) for each in self._collections} | {"ages": self._note_ages_forever()}

    async def _note_ages_forever(self) -> None:
        while True:
            self.note_ages()
            await asyncio.sleep(AGES_EVERY_S)

    async def _follow(self, collection: api_collections.Collection) -> None:
        """Keep the state in step with one collection, until cancelled."""
        if self._before_pods is not None and collection.path == api_collections.PODS:
            await self._before_pods()
        await informer.follow(
            self._kube, collection.path, functools.partial(self._take, collection),
            read=functools.partial(self._parser.read, collection.kind, collection.parse),
            freshness=self._freshness[collection.path], is_optional=collection.lacks is not None,
        )  # fmt: skip

    def note_ages(self) -> None:
        """Note which optional collections are too old to decide by, or will be before the next look.

        Each watch may be of another API server.
        """
        for each in self._collections:
            age_s = self._freshness[each.path].age_s()
            if each.lacks is None or each.path not in self._served or age_s is None:
                continue
            is_old = age_s > informer.STALE_S - AGES_EVERY_S
            if is_old is (each.path in self._old):
                continue
            if is_old:
                self._old.add(each.path)
                self._line.warning("API silent", path=each.path, age_s=round(age_s, 1))
            else:
                self._old.discard(each.path)
            each.lacks(f"the API has sent nothing for {age_s:.0f} s" if is_old else None)
            self._wake()

    def _take(self, collection: api_collections.Collection, event: kubes.MirrorEvent) -> None:
        if not isinstance(event, kubes.Away):
            self.heard_s = self._clock.monotonic_s()
        match event:
            case kubes.Listed():
                collection.put_all([each for each in event.objects if each is not None])
                self._note_listed(collection, len(event.objects))
                if collection.path == api_collections.PODS:
                    self.on_listed()
            case kubes.Changed(type="DELETED"):
                collection.remove(event.object["metadata"])
            case kubes.Changed():
                parsed = self._parser.read(collection.kind, collection.parse, event.object)
                if parsed is not None:
                    collection.put(parsed)
            case kubes.Away():
                self._note_away(collection, event.error)
        self._wake()

    def _note_listed(self, collection: api_collections.Collection, count: int) -> None:
        if collection.lacks is not None:
            self._served.add(collection.path)
            self._old.discard(collection.path)
            collection.lacks(None)
        elif self._lacking.pop(collection.path, None) is not None:
            self._line.info("listed", path=collection.path, objects=count)

    def _note_away(self, collection: api_collections.Collection, error: errors.CaricoError) -> None:
        """Note that a collection is not up to date, or that the API does not serve it."""
        if collection.lacks is not None and isinstance(error, errors.NotFound):
            self._line.info("not served by this API", path=collection.path)
            self._served.discard(collection.path)
            collection.put_all([])
            collection.lacks(None)
            return
        self._line.warning("API unavailable", path=collection.path, error=str(error))
        if collection.lacks is None or isinstance(error, errors.Forbidden):
            self._note_lack(collection, f"the API does not answer: {error}")

    def _note_lack(self, collection: api_collections.Collection, why: str) -> None:
        if collection.lacks is not None:
            # What this says of it holds until it is listed again.
            self._served.discard(collection.path)
            collection.lacks(why)
        else:
            self._lacking[collection.path] = f"{collection.kind}s: {why}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ApiProbe:
    """Finds out whether an API from which nothing comes is still there.

    A watch shows when it last received something, but not whether there was nothing to receive: the watches of a frozen
    API stay open and silent for minutes, as those of a quiet one do. So the API is sent a request. `heard_s`: when
    anything last came from the API, on the monotonic clock; answers to renewals of the Lease count as well.
    """

    api: api_actions.Api
    heard_s: Callable[[], float]
    clock: clocks.Clock

    async def silent_s(self) -> float | None:
        """Return for how long nothing has come from an API that does not answer within a second; None if it does."""
        if self.clock.monotonic_s() - self.heard_s() <= QUIET_S:
            return None
        try:
            await self.api.request("GET", _PROBED, timeout_s=ANSWER_S)
        except errors.ApiUnavailable:
            return self.clock.monotonic_s() - self.heard_s()
        except errors.ApiError:
            # A refusal is an answer.
            return None
        return None
