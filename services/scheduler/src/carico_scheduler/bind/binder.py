"""Binds Pods to the nodes chosen for them: several at a time, each exactly once, and none in doubt for good.

The API decides: a bind names the Pod's UID, and a second one is refused. Where an answer is missing or says conflict,
the API is asked for the Pod until it answers or the watch shows the outcome; meanwhile its reservation stays and no
other node is tried. A bind in doubt takes one of the places for binds under way and stops no other.

A bind belongs to the term of leadership in which it was decided: it is not sent in another.
"""

import asyncio
import dataclasses
import enum
import functools
import random
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias

from carico_core.domain import cluster, errors
from carico_core.runtime.kube import api_actions, list_watch
from carico_core.runtime.process import clock as clocks
from carico_core.wire.kubernetes import api_objects
from carico_scheduler.pods import queue as queues
from carico_scheduler.report import decisions

Step: TypeAlias = Callable[[], Awaitable[None]]
ASK_FIRST_S = 0.1
ASK_MOST_S = 2.0
# Longer than a watch can be silent without being noticed (45 s): had the bind landed, the watch would have shown it.
ASK_WITHIN_S = 60.0


class Fate(enum.StrEnum):
    """How a bind came out."""

    BOUND = "bound"
    # Bound by someone else; `Result.pod` is the Pod.
    ELSEWHERE = "elsewhere"
    # Not bound: it may wait again.
    UNBOUND = "unbound"
    # Deleted, or replaced by another Pod of its name.
    GONE = "gone"
    # The watch showed the outcome before the API answered.
    SETTLED = "settled"
    # Not sent: another scheduler may lead by now.
    WITHHELD = "withheld"


class Withheld(errors.CaricoError):
    """A bind that was not sent: the term of leadership in which it was decided is over."""


class Settled(errors.CaricoError):
    """A bind that was not sent: the Pod is bound or gone."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
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
    # Has to have returned before the bind is sent; where it raises, the Pod is not bound.
    prepare: Step | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Result:
    """The outcome of one bind. `pod` is the Pod where the API was asked for it."""

    bind: Bind
    fate: Fate
    is_conflict: bool
    detail: str
    took_s: float = 0.0
    pod: cluster.Pod | None = None

    @property
    def uid(self) -> str:
        """The UID of the Pod that was to be bound."""
        return self.bind.pod.uid

    @property
    def node(self) -> str:
        """The node that it was to be bound to."""
        return self.bind.node


class Pods(Protocol):
    """The records of the Pods."""

    def send(self, uid: str, attempt: int) -> bool:
        """Note that the bind is about to be sent. False where it must not be."""

    def is_open(self, uid: str, attempt: int) -> bool:
        """True while it is not known what became of this decision."""


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
        term: Callable[[], int | None] = lambda: 0,
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
        # Those of them that wait for what must come before the bind; they may wait for minutes, and take no place.
        self._preparing: set[asyncio.Task[None]] = set()
        # Binds that the API has not answered.
        self._doubtful: set[Bind] = set()
        self._fault: BaseException | None = None

    @property
    def fault(self) -> BaseException | None:
        """What `on_result` raised, the first time it did; None so far. The outcome of its bind is lost then."""
        return self._fault

    @property
    def room(self) -> int:
        """How many binds may be begun now."""
        return self._most - len(self._tasks) + len(self._preparing)

    @property
    def in_flight(self) -> int:
        """Binds under way."""
        return len(self._tasks)

    @property
    def doubtful_count(self) -> int:
        """Binds whose outcome is not known because the API does not answer."""
        return len(self._doubtful)

    @property
    def is_stalled(self) -> bool:
        """True where binds without an answer have taken every place: no other can begin."""
        return len(self._doubtful) >= self._most

    def start(self, bind: Bind) -> None:
        """Begin a bind, once its `prepare` has returned."""
        task = asyncio.create_task(self._bind(bind), name=f"bind {bind.pod.key}")
        self._tasks.add(task)
        if bind.prepare is not None:
            self._preparing.add(task)
        task.add_done_callback(self._end)

    async def drain(self, timeout_s: float) -> int:
        """Wait for the binds under way; return how many were still in doubt after `timeout_s`."""
        for task in list(self._preparing):
            # Nothing is in doubt about them: no bind was sent.
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
        """Keep what a task raised: the tasks are not awaited, and it would be lost with its Pod."""
        self._tasks.discard(task)
        self._preparing.discard(task)
        if not task.cancelled() and self._fault is None:
            self._fault = task.exception()

    async def _bind(self, bind: Bind) -> None:
        began_s = self._clock.monotonic_s()
        current = asyncio.current_task()
        try:
            if bind.prepare is not None:
                await bind.prepare()
                began_s = self._clock.monotonic_s()
                if current is not None:
                    self._preparing.discard(current)
            result = await self._attempt(bind)
        except Exception as error:  # the boundary of one Pod: whatever happened, it is not lost
            result = _result(bind, Fate.UNBOUND, detail=f"{type(error).__name__}: {error}")
        finally:
            self._doubtful.discard(bind)
        # Makes room before the outcome is reported, so that its receiver finds it.
        if current is not None:
            self._tasks.discard(current)
            self._preparing.discard(current)
        bind.on_result(dataclasses.replace(result, took_s=self._clock.monotonic_s() - began_s))

    async def _attempt(self, bind: Bind) -> Result:
        pod = bind.pod
        try:
            await api_actions.bind(
                self._api, namespace=pod.namespace, name=pod.name, uid=pod.uid, node=bind.node,
                timeout_s=self._timeout_s, permit=functools.partial(self._permit, bind),
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
            return await self._ask(bind, detail=str(error), is_conflict=False)
        except errors.ApiError as error:
            return _result(bind, Fate.UNBOUND, detail=str(error))
        return _result(bind, Fate.BOUND, detail="")

    def _permit(self, bind: Bind) -> None:
        if self._term() != bind.term:
            raise Withheld("not sent: another scheduler may lead by now")
        if not self._pods.send(bind.pod.uid, bind.attempt):
            raise Settled("not sent: the watch showed the Pod bound, or gone")

    async def _ask(self, bind: Bind, *, detail: str, is_conflict: bool) -> Result:
        """Ask the API what has become of the Pod, until it answers or the watch shows it.

        Where the API answers others but not this, it is given up after a while: the watch shows the Pod without a node.
        """
        backoff = list_watch.Backoff(first_s=ASK_FIRST_S, most_s=ASK_MOST_S, rng=self._rng)
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
                    return _result(bind, Fate.UNBOUND, detail=f"{detail}; and then: {error}", is_conflict=is_conflict)
                await asyncio.sleep(backoff.next_s())
                continue
            return _read(bind, found, detail=detail, is_conflict=is_conflict)
        return _result(bind, Fate.SETTLED, detail=detail, is_conflict=is_conflict)


def _read(bind: Bind, found: Any, *, detail: str, is_conflict: bool) -> Result:
    """Return the outcome that the API's answer shows."""
    now = api_objects.parse_pod(found)
    if now.uid != bind.pod.uid:
        return _result(bind, Fate.GONE, detail=detail, is_conflict=is_conflict)
    fate = {None: Fate.UNBOUND, bind.node: Fate.BOUND}.get(now.node_name, Fate.ELSEWHERE)
    return _result(bind, fate, detail=detail, is_conflict=is_conflict, found=now)


def _result(
    bind: Bind, fate: Fate, *, detail: str, is_conflict: bool = False, found: cluster.Pod | None = None
) -> Result:
    return Result(bind=bind, fate=fate, is_conflict=is_conflict, detail=detail, pod=found)
