"""Keeps the state in step with the API: one list and watch per collection, and what each of them lacks."""

import contextlib
import dataclasses
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping
from typing import Any, Protocol

from carico_core.runtime import clock as clocks
from carico_core.runtime import kube as kubes
from carico_core.runtime import logs
from carico_core.wire import kubernetes
from carico_scheduler import instruments, state

PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"

Object = Mapping[str, Any]


class Kube(Protocol):
    """What is needed of the Kubernetes API."""

    def mirror(self, path: str, *, params: Mapping[str, str] | None = None) -> AsyncGenerator[kubes.MirrorEvent, None]:
        """List and watch for ever."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Collection:
    """One collection of the API, and where its objects go. `kind` names it in logs and metrics."""

    path: str
    kind: str
    parse: Callable[[Object], Any]
    put_all: Callable[[Iterable[Any]], None]
    put: Callable[[Any], None]
    remove: Callable[[Object], None]


class Mirrors:
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
        self._state = into
        self._clock = clock
        self._metrics = metrics
        self._wake = wake
        self._line = logs.get("scheduler")
        self._odd_line = logs.RateLimited(self._line, clock=clock)
        # What each mirror lacks; empty: decisions may be made.
        self.away: dict[str, str] = {PODS: "Pods not listed yet", NODES: "Nodes not listed yet"}

    def works(self) -> dict[str, Coroutine[Any, Any, None]]:
        """One work without end per collection, by the collection's name."""
        return {each.path.rpartition("/")[2]: self._follow(each) for each in (self._pods(), self._nodes())}

    async def _follow(self, collection: _Collection) -> None:
        """Never; keeps the state in step with one collection."""
        async with contextlib.aclosing(self._kube.mirror(collection.path)) as mirror:
            async for event in mirror:
                match event:
                    case kubes.Listed():
                        collection.put_all(self._parsed(collection, event.objects))
                    case kubes.Changed(type="DELETED"):
                        collection.remove(event.object["metadata"])
                    case kubes.Changed():
                        for parsed in self._parsed(collection, [event.object]):
                            collection.put(parsed)
                self._note(collection.path, event)

    def _pods(self) -> _Collection:
        return _Collection(
            path=PODS,
            kind="pod",
            parse=kubernetes.parse_pod,
            put_all=lambda pods: self._state.put_pods(pods, self._clock.monotonic_s()),
            put=lambda pod: self._state.put_pod(pod, self._clock.monotonic_s()),
            remove=lambda metadata: self._state.remove_pod(str(metadata.get("uid", ""))),
        )

    def _nodes(self) -> _Collection:
        return _Collection(
            path=NODES,
            kind="node",
            parse=kubernetes.parse_node,
            put_all=self._state.put_nodes,
            put=self._state.put_node,
            remove=lambda metadata: self._state.remove_node(str(metadata.get("name", ""))),
        )

    def _parsed(self, collection: _Collection, objects: Iterable[Object]) -> Iterable[Any]:
        """The objects as records, without those that cannot be read: one odd object must not stop the scheduler."""
        for obj in objects:
            try:
                parsed = collection.parse(obj)
            except ValueError as error:
                kind = collection.kind
                self._metrics.bad_objects.labels(kind).inc()
                self._odd_line.warning((kind, str(error)), "object cannot be read", kind=kind, error=str(error))
            else:
                yield parsed

    def _note(self, path: str, event: kubes.MirrorEvent) -> None:
        """Notes whether the mirror of `path` can be relied on."""
        match event:
            case kubes.Listed():
                if self.away.pop(path, None) is not None:
                    self._line.info("listed", path=path, objects=len(event.objects))
            case kubes.Away():
                self.away[path] = f"the API does not answer: {event.error}"
                self._line.warning("API away", path=path, error=str(event.error))
        self._wake()
