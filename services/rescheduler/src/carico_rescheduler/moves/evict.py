"""Moves a Pod by the eviction API: it ends, its controller creates another, and the scheduler chooses the node.

A single replica is away meanwhile. Nothing needs to be finished or undone after a crash: the controller does the rest.
"""

import asyncio
import dataclasses
from collections.abc import Callable

from carico_core.domain import errors
from carico_core.runtime.kube import api_actions
from carico_core.runtime.process import clock as clocks
from carico_rescheduler.context import cluster as clusters
from carico_rescheduler.context import objects
from carico_rescheduler.moves import record as records

LOOK_EVERY_S = 0.5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Evict:
    """Evicts Pods, and waits for their successors as the informers show them."""

    api: api_actions.BindApi
    known: clusters.Cluster
    clock: clocks.Clock
    permit: Callable[[], None]
    within_s: float

    async def run(self, move: records.Record, pod: objects.KnownPod) -> None:
        """Evict a Pod and wait until a new one of its controller is ready. Raises `NotLeading`."""
        before = {each.uid for each in self._controlled(pod)}
        try:
            await api_actions.evict_pod(
                self.api, namespace=pod.pod.namespace, name=pod.pod.name, uid=pod.uid, permit=self.permit
            )
        except errors.ApiBusy as error:
            self._end(move, records.State.KEPT, f"refused for now: {error}")
            return
        except (errors.ApiError, errors.ApiUnavailable) as error:
            self._end(move, records.State.KEPT, f"not evicted: {error}")
            return
        move.advance(records.State.REPLACING, "its controller is to create another", now_s=self.clock.monotonic_s())
        until_s = self.clock.monotonic_s() + self.within_s
        while (found := self._successor(pod, before)) is None:
            if self.clock.monotonic_s() > until_s:
                # A replica is missing: no other Pod of the plan is to follow it.
                self._end(move, records.State.KEPT, f"no new Pod was ready within {self.within_s:.0f} s")
                return
            await asyncio.sleep(LOOK_EVERY_S)
        move.successor = found.pod.name
        where = found.pod.node_name or ""
        detail = "" if where == move.target else f"the scheduler chose {where}"
        # Back on its node: to evict it again each minute would end the same way.
        state = records.State.KEPT if where == move.source else records.State.MOVED
        move.target = where
        self._end(move, state, detail or "the new Pod is ready")

    def _successor(self, pod: objects.KnownPod, before: set[str]) -> objects.KnownPod | None:
        if any(each.uid == pod.uid for each in self._controlled(pod)):
            return None
        ready = (each for each in self._controlled(pod) if each.uid not in before and each.ready_at_s is not None)
        return next(ready, None)

    def _controlled(self, pod: objects.KnownPod) -> list[objects.KnownPod]:
        """Return the active Pods of a Pod's controller."""
        return [each for each in self.known.pods.found.values() if each.is_active and each.controller == pod.controller]

    def _end(self, move: records.Record, state: records.State, detail: str) -> None:
        move.advance(state, detail, now_s=self.clock.monotonic_s())
