"""Binds Pods to the nodes chosen for them: several at a time, each exactly once, and none in doubt forever.

The API decides: a bind names the Pod's UID, and a second one is refused. If an answer is missing or reports a conflict,
the API is asked for the Pod until it answers or the watch shows the outcome; meanwhile the reservation stays and no
other node is tried. That the Pod has no node yet does not end the doubt: a server that was suspended, or a network that
was cut, may deliver the bind later. So it is sent again, to the same node, until the API answers it. A bind in doubt
occupies one of the places for binds under way and stops no other bind.

A bind belongs to the term of leadership in which it was decided: it is not sent in another term.

Schedulers that share the work may bind a Pod at the same time, also to the same node. So each of their binds has a name
of its own, which the API writes to the Pod with the node: whoever asks, or reads the watch, knows whose bind it was.
"""

import asyncio
import collections
import dataclasses
import enum
import functools
import random
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias

from carico_core.domain import cluster, errors
from carico_core.numerics import backoff
from carico_core.runtime.kube import api_actions
from carico_core.runtime.process import clock as clocks
from carico_core.wire.kubernetes import api_objects
from carico_scheduler.pods import queue as queues
from carico_scheduler.report import decisions

Step: TypeAlias = Callable[[], Awaitable[None]]
ASK_FIRST_S = 0.1
ASK_MOST_S = 2.0
# Longer than a watch can be silent unnoticed (45 s): if the bind had succeeded, the watch would have shown it. And the
# longest that kube-apiserver works on a request, by default (--request-timeout).
ASK_WITHIN_S = 60.0


class Fate(enum.StrEnum):
    """The outcome of a bind."""

    BOUND = "bound"
    # Bound by another bind, usually of another scheduler and to another node; `Result.pod` is the Pod.
    ELSEWHERE = "elsewhere"
    # Not bound: it waits again.
    UNBOUND = "unbound"
    # Not found, or replaced by another Pod of its name: it waits again until the watch shows that it is gone.
    GONE = "gone"
    # The watch showed the outcome before the API answered.
    SETTLED = "settled"
    # Not sent: another scheduler may lead by now, or has the room. It waits again.
    WITHHELD = "withheld"


class Withheld(errors.CaricoError):
    """A bind that was not sent: its term of leadership is over, or its claim is lost or too old."""


class Settled(errors.CaricoError):
    """A bind that was not sent: the Pod is already bound or gone."""


# Not frozen: each decision makes one, and that of a member of several is completed by what its claim needs.
@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Bind:
    """One bind: the Pod, the node chosen, and the decision that chose it."""

    pod: cluster.Pod
    node: str
    # The number of the decision in the Pod's record, and the term of leadership in which it was made.
    attempt: int
    term: int
    waiting: queues.Waiting
    facts: decisions.Facts
    # Called once with the outcome.
    on_result: Callable[["Result"], None]
    # Must return before the bind is sent; if it raises, the Pod is not bound.
    prepare: Step | None = None
    # Called at the last moment before the bind is sent; if it raises `Withheld`, it is not.
    permit: Callable[[], None] = lambda: None
    # The API refuses the bind if the Pod has another one by now. Empty: it binds any.
    resource_version: str = ""
    # Names this bind, and no other one of any scheduler. Empty: only this scheduler decides on the Pod.
    by: str = ""

    @property
    def is_shared(self) -> bool:
        """True if other schedulers may decide on the Pod at the same time, even for the same node."""
        return self.by != ""

    def has_bound(self, node: str, by: str) -> bool:
        """Return whether it was this bind that has bound its Pod, which the API shows on `node`, bound by `by`."""
        return node == self.node and self.by in ("", by)


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Result:
    """The outcome of one bind. `pod` is the Pod as the API returned it, if it was asked."""

    bind: Bind
    fate: Fate
    is_conflict: bool
    detail: str
    took_s: float = 0.0
    pod: cluster.Pod | None = None
    # True: no answer to one that was sent has arrived, so the API may carry it out later.
    is_doubtful: bool = False

    @property
    def uid(self) -> str:
        """The UID of the Pod."""
        return self.bind.pod.uid

    @property
    def node(self) -> str:
        """The node that was chosen."""
        return self.bind.node


class Pods(Protocol):
    """The records of the Pods."""

    def send(self, uid: str, attempt: int) -> bool:
        """Note that the bind is about to be sent. Return False if it must not be."""

    def is_open(self, uid: str, attempt: int) -> bool:
        """Return True while the outcome of this decision is not known."""


class Binder:
    """Up to `most` binds at a time."""

    def __init__(
        self,
        api: api_actions.BindApi,
        *,
        pods: Pods,
        clock: clocks.Clock,
        rng: random.Random,
        most: int,
        timeout_s: float,
        term: Callable[[], int | None],
    ) -> None:
        """`term` is asked at the last moment before each bind is sent; None: this scheduler may not bind now."""
        self._api = api
        self._pods = pods
        self._clock = clock
        self._rng = rng
        self._most = most
        self._timeout_s = timeout_s
        self._term = term
        self._tasks: set[asyncio.Task[None]] = set()
        # Those of them that are in `prepare`, possibly for minutes; they occupy no place.
        self._preparing: set[asyncio.Task[None]] = set()
        # Binds without an answer from the API.
        self._doubtful: set[Bind] = set()
        # Binds of a gang beyond `most`, which is decided on as a whole: not started yet.
        self._queued: collections.deque[Bind] = collections.deque()
        self._fault: BaseException | None = None

    @property
    def fault(self) -> BaseException | None:
        """The first exception of `on_result`, after which the outcome of its bind is lost; None if there was none."""
        return self._fault

    @property
    def room(self) -> int:
        """How many binds may be started now; below zero while more are queued than there are places."""
        return self._places - len(self._queued)

    @property
    def in_flight(self) -> int:
        """Binds under way."""
        return len(self._tasks)

    @property
    def is_idle(self) -> bool:
        """True while no bind has been sent whose outcome is not known."""
        return len(self._tasks) == len(self._preparing)

    @property
    def doubtful_count(self) -> int:
        """Binds whose outcome is unknown because the API does not answer."""
        return len(self._doubtful)

    @property
    def is_stalled(self) -> bool:
        """True if binds without an answer occupy every place, so that no other can start."""
        return len(self._doubtful) >= self._most

    @property
    def _places(self) -> int:
        return self._most - len(self._tasks) + len(self._preparing)

    def start(self, bind: Bind) -> None:
        """Start a bind, which is sent once its `prepare` has returned, and once there is a place."""
        if bind.prepare is None and self._places <= 0:
            self._queued.append(bind)
        else:
            self._start(bind)

    def _start_queued(self) -> None:
        while self._queued and self._places > 0:
            self._start(self._queued.popleft())

    def _start(self, bind: Bind) -> None:
        task = asyncio.create_task(self._bind(bind), name=f"bind {bind.pod.key}")
        self._tasks.add(task)
        if bind.prepare is not None:
            self._preparing.add(task)
        task.add_done_callback(self._end)

    async def drain(self, timeout_s: float) -> int:
        """Wait for the binds under way; return how many were still in doubt after `timeout_s`."""
        self._queued.clear()
        for task in list(self._preparing):
            # They are not in doubt: no bind was sent.
            self._tasks.discard(task)
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)
        left = list(self._tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        return len(left)

    def _end(self, task: asyncio.Task[None]) -> None:
        """Keep the exception of a task: the tasks are not awaited, so it would be lost with its Pod."""
        self._tasks.discard(task)
        self._preparing.discard(task)
        if not task.cancelled() and self._fault is None:
            self._fault = task.exception()

    async def _bind(self, bind: Bind) -> None:
        began_s = self._clock.monotonic_s()
        current, is_prepared = asyncio.current_task(), False
        try:
            if bind.prepare is not None:
                await bind.prepare()
                began_s = self._clock.monotonic_s()
                if current is not None:
                    self._preparing.discard(current)
            is_prepared = True
            result = await self._attempt(bind)
        except Withheld as error:
            result = _result(bind, Fate.WITHHELD, detail=str(error))
        except Settled as error:
            result = _result(bind, Fate.SETTLED, detail=str(error))
        except Exception as error:  # the boundary of one Pod: whatever happened, the Pod is not lost
            result = _result(bind, Fate.UNBOUND, detail=f"{type(error).__name__}: {error}")
            result.is_doubtful = is_prepared
        finally:
            self._doubtful.discard(bind)
        # Free the place before the outcome is reported, so that its receiver can use it.
        if current is not None:
            self._tasks.discard(current)
            self._preparing.discard(current)
        self._start_queued()
        result.took_s = self._clock.monotonic_s() - began_s
        bind.on_result(result)

    async def _attempt(self, bind: Bind) -> Result:
        """Send the bind, and again while an earlier one may still be carried out."""
        waits = backoff.Backoff(first_s=ASK_FIRST_S, most_s=ASK_MOST_S, rng=self._rng)
        until_s = self._clock.monotonic_s() + ASK_WITHIN_S
        result = last = await self._send(bind)
        # Who shares the work keeps its claim on the node instead, and may try another one meanwhile. A refusal ends the
        # doubt: it would be the answer to the earlier one, too.
        while last.fate is Fate.UNBOUND and last.is_doubtful and not bind.is_shared:
            if self._clock.monotonic_s() >= until_s:
                break
            await asyncio.sleep(waits.next_s())
            last = await self._send(bind)
            if last.fate is not Fate.WITHHELD:
                result = last
        return result

    async def _send(self, bind: Bind) -> Result:
        pod = bind.pod
        try:
            await api_actions.bind(
                self._api, namespace=pod.namespace, name=pod.name, uid=pod.uid, node=bind.node,
                timeout_s=self._timeout_s, permit=functools.partial(self._permit, bind),
                resource_version=bind.resource_version, by=bind.by,
            )  # fmt: skip
        except Withheld as error:
            return _result(bind, Fate.WITHHELD, detail=str(error))
        except Settled as error:
            return _result(bind, Fate.SETTLED, detail=str(error))
        except errors.NotFound as error:
            return _result(bind, Fate.GONE, detail=str(error))
        except errors.Conflict as error:
            return await self._ask(bind, detail=str(error), is_conflict=True)
        except errors.ApiUnavailable as error:
            self._doubtful.add(bind)
            found = await self._ask(bind, detail=str(error), is_conflict=False)
            found.is_doubtful = True
            return found
        except errors.ApiError as error:
            return _result(bind, Fate.UNBOUND, detail=str(error))
        return _result(bind, Fate.BOUND, detail="")

    def _permit(self, bind: Bind) -> None:
        if self._term() != bind.term:
            raise Withheld("not sent: another scheduler may lead by now")
        bind.permit()
        if not self._pods.send(bind.pod.uid, bind.attempt):
            raise Settled("not sent: the watch showed that the Pod is bound or gone")

    async def _ask(self, bind: Bind, *, detail: str, is_conflict: bool) -> Result:
        """Ask the API for the Pod until it answers or the watch shows the outcome.

        If the watch works and only this request fails, give up after a while: the watch shows the Pod without a node.
        """
        waits = backoff.Backoff(first_s=ASK_FIRST_S, most_s=ASK_MOST_S, rng=self._rng)
        until_s = self._clock.monotonic_s() + ASK_WITHIN_S
        path = api_actions.pod_path(bind.pod.namespace, bind.pod.name)
        while self._pods.is_open(bind.pod.uid, bind.attempt):
            try:
                found = await self._api.request("GET", path)
            except errors.NotFound:
                return _result(bind, Fate.GONE, detail=detail, is_conflict=is_conflict)
            except (errors.ApiError, errors.ApiUnavailable) as error:
                self._doubtful.add(bind)
                if self._clock.monotonic_s() >= until_s and self._term() is not None:
                    return _result(bind, Fate.UNBOUND, detail=f"{detail}; then: {error}", is_conflict=is_conflict)
                await asyncio.sleep(waits.next_s())
                continue
            return _read(bind, found, detail=detail, is_conflict=is_conflict)
        return _result(bind, Fate.SETTLED, detail=detail, is_conflict=is_conflict)


def _read(bind: Bind, found: Any, *, detail: str, is_conflict: bool) -> Result:
    """Return the outcome that the API's Pod shows."""
    now = api_objects.parse_pod(found)
    if now.uid != bind.pod.uid:
        return _result(bind, Fate.GONE, detail=detail, is_conflict=is_conflict)
    if now.node_name is None:
        fate = Fate.UNBOUND
    else:
        fate = Fate.BOUND if bind.has_bound(now.node_name, now.bound_by) else Fate.ELSEWHERE
    return _result(bind, fate, detail=detail, is_conflict=is_conflict, found=now)


def _result(
    bind: Bind, fate: Fate, *, detail: str, is_conflict: bool = False, found: cluster.Pod | None = None
) -> Result:
    return Result(bind=bind, fate=fate, is_conflict=is_conflict, detail=detail, pod=found)
