"""Keeps the cluster in step with the API: one list and watch for each collection."""

import asyncio
import dataclasses
import functools
from collections.abc import Callable, Coroutine
from typing import Any

from carico_core.domain import errors
from carico_core.runtime.kube import api_client as kubes
from carico_core.runtime.kube import informer, list_watch
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.wire.kubernetes import api_objects
from carico_rescheduler import instruments
from carico_rescheduler.context import cluster as clusters
from carico_rescheduler.context import objects, services


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """One collection of the API, and the table that has its objects."""

    path: str
    kind: str
    parse: Callable[[informer.Object], Any]
    table: clusters.Table[Any]
    freshness: list_watch.CopyAge


class Informers:
    """The informers of one rescheduler."""

    def __init__(
        self, kube: informer.ListerWatcher, *, into: clusters.Cluster, clock: clocks.Clock,
        metrics: instruments.Instruments, has_autoscalers: bool = False,
    ) -> None:  # fmt: skip
        """`has_autoscalers`: whether HorizontalPodAutoscalers are followed, which takes a right of its own."""
        self._kube = kube
        self._line = logs.get("rescheduler")
        self._parser = informer.Parser(lambda kind: metrics.bad_objects.labels(kind).inc(), self._line, clock=clock)
        self._into = into
        # Whether it is known which Nodes there are.
        self.nodes_listed = asyncio.Event()
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
            if age_s is not None and age_s > informer.STALE_S:
                lacking.setdefault(f"{each.kind}s", f"the API has sent nothing for {age_s:.0f} s")
        return lacking

    def works(self) -> dict[str, Coroutine[Any, Any, None]]:
        """Return an endless coroutine per collection, by the collection's name."""
        return {each.path.rpartition("/")[2]: self._follow(each) for each in self._collections}

    async def _follow(self, collection: Collection) -> None:
        await informer.follow(
            self._kube, collection.path, functools.partial(self._take, collection),
            read=functools.partial(self._parsed, collection), freshness=collection.freshness,
        )  # fmt: skip

    def _take(self, collection: Collection, event: kubes.MirrorEvent) -> None:
        table = collection.table
        match event:
            case kubes.Listed():
                table.put_all(dict(each for each in event.objects if each is not None))
                if table is self._into.nodes:
                    self.nodes_listed.set()
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

    def _parsed(self, collection: Collection, obj: informer.Object) -> tuple[clusters.Key, Any] | None:
        """Return the key and record of an object; None if it cannot be parsed."""
        return self._parser.read(collection.kind, lambda each: (_key(each["metadata"]), collection.parse(each)), obj)


def _key(metadata: informer.Object) -> clusters.Key:
    return str(metadata.get("namespace", "")), str(metadata.get("name", ""))
