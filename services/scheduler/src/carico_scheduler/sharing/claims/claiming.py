"""The claim of one decision: stored before its bind is sent, and looked at again right before.

The claims of a gang are a set: no bind is sent before all of them are stored, and if one is given up, all are. Each
node's claim is written by itself, as always; a transaction over all nodes would only have to be repeated as a whole
after each conflict, and no two members claim for gangs at the same time.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

from carico_scheduler.bind import binder
from carico_scheduler.pods import queue as queues

_T = TypeVar("_T")


class Meeting:
    """One step that all Pods of a gang take: it ends when each has taken it or has failed."""

    def __init__(self, size: int) -> None:
        self._missing = size
        self._ended = asyncio.Event()
        # True if one of them cannot go on.
        self.is_broken = False
        # Whether all Pods go back to the queue without a backoff then: all that lost a claim may.
        self.goes_at_once = True

    @property
    def has_ended(self) -> bool:
        """True once all have come."""
        return not self._missing

    async def join(self, lost: queues.Waiting | None) -> None:
        """Wait until all have come. `lost`: the Pod that comes has failed."""
        if lost is not None:
            self.is_broken = True
            self.goes_at_once &= lost.goes_at_once
        self._missing -= 1
        if self.has_ended:
            self._ended.set()
        else:
            await self._ended.wait()


class Together:
    """Where the decisions on the Pods of a gang wait for each other, also for those that have failed.

    So a gang is decided on again only once all of its Pods are back in the queue.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._meeting = Meeting(size)

    async def meet(self, lost: queues.Waiting | None = None) -> Meeting:
        """Wait until all have taken the present step, and return how it ended. `lost`: the Pod that comes has failed.

        Each step has a meeting of its own: one that fails in the next step does not change how this one ended for those
        that have not looked yet.
        """
        meeting = self._meeting
        if meeting.has_ended:
            meeting = self._meeting = Meeting(self._size)
        await meeting.join(lost)
        return meeting


class Claiming:
    """One claim: `prepare` stores it, and `permit` is asked right before the bind is sent."""

    def __init__(
        self, *, ready: Callable[[], Awaitable[None]], store: Callable[[], Awaitable[float]],
        check: Callable[[float], None], waiting: queues.Waiting, together: Together | None,
    ) -> None:  # fmt: skip
        """`ready` prepares the Pod's volumes, `store` returns when the claim was sent, which `check` is called with.

        All of them raise `binder.Withheld` if the Pod must not be bound. `together`: the Pods of its gang.
        """
        self._ready = ready
        self._store = store
        self._check = check
        self._waiting = waiting
        self._together = together
        self._sent_s = -math.inf

    async def prepare(self) -> None:
        """Store the claim. Raises `binder.Withheld`."""
        if self._together is None:
            await self._ready()
            self._sent_s = await self._store()
        else:
            # Volumes may take minutes, and a claim must not be so old when it is bound.
            await _met(self._ready(), self._together, self._waiting)
            self._sent_s = await _met(self._store(), self._together, self._waiting)

    def permit(self) -> None:
        """Raise `binder.Withheld` if the bind must not be sent."""
        self._check(self._sent_s)


async def _met(step: Awaitable[_T], together: Together, waiting: queues.Waiting) -> _T:
    """Return the result of a step once all of a gang have done it. Raises `binder.Withheld` if one of them failed."""
    try:
        found = await step
    except Exception:
        waiting.goes_at_once = (await together.meet(waiting)).goes_at_once
        raise
    meeting = await together.meet()
    if meeting.is_broken:
        waiting.goes_at_once = meeting.goes_at_once
        raise binder.Withheld("not sent: another Pod of its gang lost its claim")
    return found
