"""Writes evictions to the API, as kube-scheduler does.

The Pod that needs the room gets its nominated node; each victim the condition DisruptionTarget, its deletion with its
own grace period, and an Event. A gang that is given back is evicted in the same way.

Each request is sent only in the term of leadership in which the eviction was decided, and only until the nomination
ends: a Pod that has found room elsewhere, or is gone, needs no further victim.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

from carico_core.domain import cluster, errors
from carico_core.runtime.kube import api_actions
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.wire.kubernetes import api_objects, instants
from carico_scheduler.preempt import nominations

# The time between two rounds of decisions.
EVERY_S = 0.5
# Requests at a time: evictions must leave room for binds.
IN_FLIGHT_MAX = 8
# As for a bind: one that was sent at the end of a term has ended when the next leader begins.
TIMEOUT_S = 5.0
# https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
_CONDITION = "DisruptionTarget"
REASON = "PreemptionByScheduler"


class _NotSent(errors.CaricoError):
    """An eviction that was not sent: its term or its nomination is over."""


class Cause(NamedTuple):
    """Why Pods are evicted: the condition DisruptionTarget, and their Event."""

    reason: str
    message: str
    event: str


class Evictor:
    """Evicts Pods, several at a time."""

    def __init__(
        self, api: api_actions.BindApi, *, clock: clocks.Clock, write_event: Callable[[cluster.Pod, str], None],
        count: Callable[[str], None], term: Callable[[], int | None], leaving: nominations.Nominations,
    ) -> None:  # fmt: skip
        """`count` is called with the outcome of each eviction: "evicted", or the name of the error.

        `leaving`: where Pods are noted that are evicted for no nomination.
        """
        self._api = api
        self._clock = clock
        self._write_event = write_event
        self._count = count
        self._term = term
        self._tasks: set[asyncio.Task[object]] = set()
        self._leaving = leaving
        # UIDs of the Pods that `evict` is evicting.
        self._under_way: set[str] = set()
        self._places = asyncio.Semaphore(IN_FLIGHT_MAX)
        self._line = logs.get("scheduler")

    def start(self, nomination: nominations.Nomination, term: int) -> None:
        """Start the evictions of a nomination; one that fails is noted in it."""
        self._run(self._evict_all(nomination, term))

    def evict(self, victim: cluster.Pod, cause: Cause, may_write: Callable[[], bool]) -> None:
        """Start to evict one Pod, unless that is under way; `may_write` is asked before each request."""
        if victim.uid not in self._under_way:
            self._under_way.add(victim.uid)
            self._leaving.note_evicted(victim)
            self._run(self._evict_noted(victim, cause, may_write))

    def clear(self, pod: cluster.Pod, term: int) -> None:
        """Start to remove the nominated node of a Pod that did not get the room."""
        self._run(self._nominate(pod, None, may_write=lambda: self._term() == term))

    async def work_forever(self, decide: Callable[[], Awaitable[None]]) -> None:
        """Have `decide` start evictions, twice a second, until cancelled; then cancel those that are under way."""
        try:
            while True:
                await asyncio.sleep(EVERY_S)
                await decide()
        finally:
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _run(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _evict_all(self, nomination: nominations.Nomination, term: int) -> None:
        def may_write() -> bool:
            return self._term() == term and not nomination.is_over

        await self._nominate(nomination.pod, nomination.node, may_write=may_write)
        name, preemptor = nomination.pod.scheduler_name, nomination.pod.uid
        cause = Cause(
            REASON, f"{name}: preempting to accommodate a higher priority pod",
            f"Preempted by pod {preemptor} on node {nomination.node}",
        )  # fmt: skip
        done = await asyncio.gather(*(self._evict(each, cause, may_write) for each in nomination.evicted))
        nomination.has_failed |= not all(done)

    async def _nominate(self, pod: cluster.Pod, node: str | None, *, may_write: Callable[[], bool]) -> None:
        """Set or remove `status.nominatedNodeName`, which only informs: the room is held in the scheduler's state."""
        try:
            async with self._places:
                if not may_write():
                    return
                await api_actions.patch_pod_status(
                    self._api, namespace=pod.namespace, name=pod.name, uid=pod.uid, status={"nominatedNodeName": node}
                )
        except errors.CaricoError as error:
            self._line.warning("nominated node not written", pod=pod.key, node=node, error=str(error))

    async def _evict_noted(self, victim: cluster.Pod, cause: Cause, may_write: Callable[[], bool]) -> None:
        """Evict one Pod; if it stays, it is not noted any more."""
        leaves = False
        try:
            leaves = await self._evict(victim, cause, may_write)
        finally:
            self._under_way.discard(victim.uid)
            if not leaves:
                self._leaving.note_stays(victim.uid)

    async def _evict(self, victim: cluster.Pod, cause: Cause, may_write: Callable[[], bool]) -> bool:
        """Evict one Pod; return False if it stays."""
        try:
            async with self._places:
                if not may_write():
                    return False
                await self._mark(victim, cause)
                await api_actions.delete_pod(
                    self._api, namespace=victim.namespace, name=victim.name, uid=victim.uid, timeout_s=TIMEOUT_S,
                    permit=functools.partial(_permit, may_write),
                )  # fmt: skip
        except _NotSent:
            return False
        except errors.CaricoError as error:
            if await self._is_gone(victim, error):
                return True
            self._count(type(error).__name__)
            self._line.warning("not evicted", pod=victim.key, cause=cause.event, error=str(error))
            return False
        self._count("evicted")
        self._write_event(victim, cause.event)
        return True

    async def _is_gone(self, victim: cluster.Pod, error: errors.CaricoError) -> bool:
        """Return True if a request failed since the victim is gone, perhaps replaced by another Pod of its name."""
        if not isinstance(error, errors.Conflict):
            return isinstance(error, errors.NotFound)
        # It is also the answer if others change the Pod at the same time.
        try:
            async with self._places:
                found = await self._api.request("GET", api_actions.pod_path(victim.namespace, victim.name))
        except errors.CaricoError as asked:
            return isinstance(asked, errors.NotFound)
        return api_objects.parse_pod(found).uid != victim.uid

    async def _mark(self, victim: cluster.Pod, cause: Cause) -> None:
        """Set the condition that states why the victim ends: controllers do not count it as a failure of its own."""
        condition = {
            "type": _CONDITION, "status": "True", "reason": cause.reason, "message": cause.message,
            "lastTransitionTime": instants.format_time(self._clock.wall_ns()), **api_objects.observed(victim),
        }  # fmt: skip
        await api_actions.patch_pod_status(
            self._api, namespace=victim.namespace, name=victim.name, uid=victim.uid, status={"conditions": [condition]}
        )


def _permit(may_write: Callable[[], bool]) -> None:
    """Raise `_NotSent` if a request must not be sent: it may have waited long for a place among other requests."""
    if not may_write():
        raise _NotSent("not sent: the term or the nomination is over")
