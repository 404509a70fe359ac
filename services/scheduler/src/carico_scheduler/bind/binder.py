"""Binds Pods to the nodes chosen for them: pipelined, each exactly once, and never in doubt for good.

The API decides: a bind names the Pod's UID, and a second one is refused. Where an answer is missing or says conflict,
the Pod itself is asked until it tells; meanwhile its reservation stays and no other node is tried. While the API does
not answer, no new bind is begun.
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
from carico_core.wire.kubernetes import api_objects, placement

Step: TypeAlias = Callable[[], Awaitable[None]]
ASK_FIRST_S = 0.1
ASK_MOST_S = 2.0


class Fate(enum.StrEnum):
    """How a bind came out."""

    BOUND = "bound"
    # Bound by someone else; `Result.pod` is the Pod.
    ELSEWHERE = "elsewhere"
    # Not bound: it may wait again.
    UNBOUND = "unbound"
    # Deleted, or replaced by another Pod of its name.
    GONE = "gone"
    # The watch told before the API answered.
    SETTLED = "settled"
    # Not sent: another scheduler may lead by now.
    WITHHELD = "withheld"


class Withheld(errors.CaricoError):
    """A bind that was not sent, since another scheduler may lead by now."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The outcome of one bind. `pod` is the Pod where the API was asked for it."""

    uid: str
    node: str
    fate: Fate
    is_conflict: bool
    detail: str
    took_s: float
    pod: cluster.Pod | None = None


class Witness(Protocol):
    """What the watch has told meanwhile."""

    def is_settled(self, uid: str) -> bool:
        """True where the Pod is known to be bound or gone."""


class Binder:
    """Up to `most` binds at a time; `on_result` gets every outcome, once per `start`."""

    def __init__(
        self,
        api: api_actions.BindApi,
        *,
        witness: Witness,
        clock: clocks.Clock,
        rng: random.Random,
        most: int,
        timeout_s: float,
        on_result: Callable[[Result], None],
        may_bind: Callable[[], bool] = lambda: True,
    ) -> None:
        """`may_bind` is asked at the last moment before each bind is sent."""
        self._api = api
        self._witness = witness
        self._clock = clock
        self._rng = rng
        self._most = most
        self._timeout_s = timeout_s
        self._on_result = on_result
        self._may_bind = may_bind
        self._tasks: set[asyncio.Task[None]] = set()
        # Those of them that wait for what must come before the bind; they may wait for minutes, and take no room.
        self._preparing: set[asyncio.Task[None]] = set()
        # Pods whose outcome the API has not told for want of an answer.
        self._doubtful: set[str] = set()
        self._fault: BaseException | None = None

    @property
    def fault(self) -> BaseException | None:
        """What `on_result` raised, the first time it did; None so far. Its Pod's bind is then told to nobody."""
        return self._fault

    @property
    def room(self) -> int:
        """How many binds may be begun now: none while the API leaves an earlier one in doubt."""
        return 0 if self._doubtful else self._most - len(self._tasks) + len(self._preparing)

    @property
    def in_flight(self) -> int:
        """Binds under way."""
        return len(self._tasks)

    @property
    def doubtful_count(self) -> int:
        """Binds whose outcome is not known because the API does not answer."""
        return len(self._doubtful)

    def start(
        self,
        pod: cluster.Pod,
        node: str,
        prepare: Step | None = None,
        *,
        placed_by: placement.Advertised | None = None,
    ) -> None:
        """Begins to bind `pod` to `node`, once `prepare` has returned; where that raises, it is not bound.

        `placed_by` is written on the Pod.
        """
        send = functools.partial(
            api_actions.bind, self._api, namespace=pod.namespace, name=pod.name, uid=pod.uid, node=node,
            annotations=None if placed_by is None else placement.format_advertised(placed_by),
            timeout_s=self._timeout_s, permit=self._permit,
        )  # fmt: skip
        task = asyncio.create_task(self._bind(pod, node, send, prepare), name=f"bind {pod.key}")
        self._tasks.add(task)
        if prepare is not None:
            self._preparing.add(task)
        task.add_done_callback(self._end)

    async def drain(self, timeout_s: float) -> int:
        """How many binds were still in doubt after `timeout_s`, and were left to the next start's watch."""
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
        """Nobody awaits the tasks: what one raises would be lost with its Pod."""
        self._tasks.discard(task)
        self._preparing.discard(task)
        if not task.cancelled() and self._fault is None:
            self._fault = task.exception()

    async def _bind(self, pod: cluster.Pod, node: str, send: Step, prepare: Step | None) -> None:
        began_s = self._clock.monotonic_s()
        current = asyncio.current_task()
        try:
            if prepare is not None:
                await prepare()
                began_s = self._clock.monotonic_s()
                if current is not None:
                    self._preparing.discard(current)
            result = await self._attempt(pod, node, send)
        except Exception as error:  # the boundary of one Pod: whatever happened, it is not lost
            result = _result(pod, node, Fate.UNBOUND, detail=f"{type(error).__name__}: {error}")
        finally:
            self._doubtful.discard(pod.uid)
        # Makes room before the outcome is told, so that whoever is told finds it.
        if current is not None:
            self._tasks.discard(current)
            self._preparing.discard(current)
        self._on_result(dataclasses.replace(result, took_s=self._clock.monotonic_s() - began_s))

    async def _attempt(self, pod: cluster.Pod, node: str, send: Step) -> Result:
        try:
            await send()
        except Withheld as error:
            return _result(pod, node, Fate.WITHHELD, detail=str(error))
        except errors.NotFound as error:
            return _result(pod, node, Fate.GONE, detail=str(error))
        except errors.Conflict as error:
            return await self._ask(pod, node, detail=str(error), is_conflict=True)
        except errors.ApiUnavailable as error:
            self._doubtful.add(pod.uid)
            return await self._ask(pod, node, detail=str(error), is_conflict=False)
        except errors.ApiError as error:
            return _result(pod, node, Fate.UNBOUND, detail=str(error))
        return _result(pod, node, Fate.BOUND, detail="")

    def _permit(self) -> None:
        if not self._may_bind():
            raise Withheld("not sent: another scheduler may lead by now")

    async def _ask(self, pod: cluster.Pod, node: str, *, detail: str, is_conflict: bool) -> Result:
        """What the API says has become of the Pod, asked until it answers or the watch tells."""
        backoff = list_watch.Backoff(first_s=ASK_FIRST_S, most_s=ASK_MOST_S, rng=self._rng)
        while not self._witness.is_settled(pod.uid):
            try:
                found = await self._api.request("GET", api_actions.pod_path(pod.namespace, pod.name))
            except errors.NotFound:
                return _result(pod, node, Fate.GONE, detail=detail, is_conflict=is_conflict)
            except (errors.ApiError, errors.ApiUnavailable):
                self._doubtful.add(pod.uid)
                await asyncio.sleep(backoff.next_s())
                continue
            return _read(pod, node, found, detail=detail, is_conflict=is_conflict)
        return _result(pod, node, Fate.SETTLED, detail=detail, is_conflict=is_conflict)


def _read(pod: cluster.Pod, node: str, found: Any, *, detail: str, is_conflict: bool) -> Result:
    """The outcome that the API's answer tells."""
    now = api_objects.parse_pod(found)
    if now.uid != pod.uid:
        return _result(pod, node, Fate.GONE, detail=detail, is_conflict=is_conflict)
    fate = {None: Fate.UNBOUND, node: Fate.BOUND}.get(now.node_name, Fate.ELSEWHERE)
    return _result(pod, node, fate, detail=detail, is_conflict=is_conflict, found=now)


def _result(
    pod: cluster.Pod,
    node: str,
    fate: Fate,
    *,
    detail: str,
    is_conflict: bool = False,
    found: cluster.Pod | None = None,
) -> Result:
    return Result(uid=pod.uid, node=node, fate=fate, is_conflict=is_conflict, detail=detail, took_s=0.0, pod=found)
