"""Keeps the cluster in step with the API: one list and watch for each collection."""

import asyncio
import contextlib
import dataclasses
import functools
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from typing import Any, Protocol

from carico_core.domain import errors
from carico_core.runtime.kube import api_client as kubes
from carico_core.runtime.kube import list_watch
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.wire.kubernetes import api_objects
from carico_rescheduler import instruments
from carico_rescheduler.context import cluster as clusters
from carico_rescheduler.context import objects, services

# A collection that the API does not serve is tried again after this time: an upgrade may add it.
RETRY_S = 60.0
# Nothing is moved by a copy that is older: as in the scheduler.
STALE_S = 45.0

Object = Mapping[str, Any]


class ListerWatcher(Protocol):
    """The part of the Kubernetes API that informers use."""

    def mirror(
        self, path: str, *, params: Mapping[str, str] | None = None, read: Callable[[Any], Any] | None = None,
        freshness: list_watch.CopyAge | None = None,
    ) -> AsyncGenerator[kubes.MirrorEvent, None]:  # fmt: skip
        """List and watch forever; apply `read` to each object of a list, and keep `freshness` up to date."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """One collection of the API, and the table that has its objects."""

    path: str
    kind: str
    parse: Callable[[Object], Any]
    table: clusters.Table[Any]
    freshness: list_watch.CopyAge


class Informers:
    """The informers of one rescheduler."""

    def __init__(
        self, kube: ListerWatcher, *, into: clusters.Cluster, clock: clocks.Clock, metrics: instruments.Instruments,
        has_autoscalers: bool = False,
    ) -> None:  # fmt: skip
        """`has_autoscalers`: whether HorizontalPodAutoscalers are followed, which takes a right of its own."""
        self._kube = kube
        self._metrics = metrics
        self._line = logs.get("rescheduler")
        self._odd_line = logs.RateLimited(self._line, clock=clock)
        self._into = into
        apps = "/apis/apps/v1"
        autoscalers = (
            "/apis/autoscaling/v2/horizontalpodautoscalers", "HorizontalPodAutoscaler", objects.parse_autoscaler,
            into.autoscalers,
        )  # fmt: skip
        self._collections = [
            Collection(path=path, kind=kind, parse=parse, table=table, freshness=list_watch.CopyAge(clock))
            for path, kind, parse, table in (
                ("/api/v1/pods", "pod", objects.parse_pod, into.pods),
                ("/api/v1/nodes", "node", api_objects.parse_node, into.nodes),
                (f"{apps}/replicasets", "ReplicaSet", objects.parse_replica_set, into.replica_sets),
                (f"{apps}/deployments", "Deployment", objects.parse_deployment, into.deployments),
                (
                    "/apis/policy/v1/poddisruptionbudgets", "PodDisruptionBudget",
                    api_objects.parse_disruption_budget, into.budgets,
                ),
                ("/api/v1/services", "Service", services.parse_service, into.services),
                (
                    "/apis/discovery.k8s.io/v1/endpointslices", "EndpointSlice", services.parse_slice, into.slices,
                ),
                *((autoscalers,) if has_autoscalers else ()),
            )
        ]  # fmt: skip

    def away(self) -> dict[str, str]:
        """Return why nothing may be moved, by kind; empty if all that is known is current."""
        lacking = self._into.lacking()
        for each in self._collections:
            age_s = each.freshness.age_s()
            if age_s is not None and age_s > STALE_S:
                lacking.setdefault(f"{each.kind}s", f"the API has sent nothing for {age_s:.0f} s")
        return lacking

    def works(self) -> dict[str, Coroutine[Any, Any, None]]:
        """Return an endless coroutine per collection, by the collection's name."""
        return {each.path.rpartition("/")[2]: self._follow(each) for each in self._collections}

    async def _follow(self, collection: Collection) -> None:
        while True:
            read = functools.partial(self._parsed, collection)
            mirror = self._kube.mirror(collection.path, read=read, freshness=collection.freshness)
            async with contextlib.aclosing(mirror) as events:
                async for event in events:
                    self._take(collection, event)
                    if isinstance(event, kubes.Away) and isinstance(event.error, errors.NotFound):
                        break
            await asyncio.sleep(RETRY_S)

    def _take(self, collection: Collection, event: kubes.MirrorEvent) -> None:
        table = collection.table
        match event:
            case kubes.Listed():
                table.put_all(dict(each for each in event.objects if each is not None))
            case kubes.Changed(type="DELETED"):
                table.remove(_key(event.object["metadata"]))
            case kubes.Changed():
                parsed = self._parsed(collection, event.object)
                if parsed is not None:
                    table.put(*parsed)
            case kubes.Away(error=errors.NotFound()):
                self._line.info("not served by this API", path=collection.path)
                table.put_all({})
            case kubes.Away():
                self._line.warning("API unavailable", path=collection.path, error=str(event.error))
                table.lacking = f"the API does not answer: {event.error}"

    def _parsed(self, collection: Collection, obj: Object) -> tuple[clusters.Key, Any] | None:
        """Return the key and record of an object; None if it cannot be parsed: one bad object must not stop all."""
        try:
            return _key(obj["metadata"]), collection.parse(obj)
        except ValueError as error:
            self._metrics.bad_objects.labels(collection.kind).inc()
            self._odd_line.warning((collection.kind, str(error)), "object cannot be parsed", error=str(error))
            return None


def _key(metadata: Object) -> clusters.Key:
    return str(metadata.get("namespace", "")), str(metadata.get("name", ""))
