"""Plans that queries ask for: each is made once, however many wait for it, and few at the same time."""

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine
from typing import Any

from carico_core.domain import errors
from carico_rescheduler.plan import decision, planning

# How long a plan is kept for a query that was not repeated.
KEPT_S = 15.0
# Readers may ask, and each plan costs a second of the processor.
AT_ONCE_MOST = 4

Make = Callable[[planning.Question], Coroutine[Any, Any, decision.Plan]]


class NotReady(errors.CaricoError):
    """No plan can be made now; the message says why."""


@dataclasses.dataclass(slots=True)
class _Asked:
    """A plan that is being made, and when it was last asked for."""

    task: asyncio.Task[decision.Plan]
    asked_s: float


class AskedPlans:
    """Plans by question, until they are fetched or old. `now_s`: the monotonic clock."""

    def __init__(self, make: Make, *, now_s: Callable[[], float]) -> None:
        self._make = make
        self._now_s = now_s
        self._plans: dict[planning.Question, _Asked] = {}

    async def within(self, asked: planning.Question, within_s: float) -> decision.Plan | None:
        """Return a plan for the cluster as it is now; None if it takes longer: ask again. Raises `NotReady`.

        Queries that ask the same meanwhile wait for the same search.
        """
        self._forget_old()
        found = self._plans.get(asked)
        if found is None:
            if len(self._plans) >= AT_ONCE_MOST:
                raise NotReady(f"{AT_ONCE_MOST} other plans are being made for queries: ask again in {KEPT_S:.0f} s")
            found = self._plans[asked] = _Asked(asyncio.create_task(self._make(asked)), self._now_s())
            # An error that no query fetches is none of the event loop's.
            found.task.add_done_callback(lambda task: task.cancelled() or task.exception())
        found.asked_s = self._now_s()
        await asyncio.wait((found.task,), timeout=within_s)
        if not found.task.done():
            return None
        if self._plans.get(asked) is found:
            del self._plans[asked]
        return found.task.result()

    def _forget_old(self) -> None:
        oldest_s = self._now_s() - KEPT_S
        for each in [each for each, known in self._plans.items() if known.asked_s < oldest_s]:
            self._plans.pop(each).task.cancel()

    async def close(self) -> None:
        """End all searches."""
        ending = [each.task for each in self._plans.values()]
        for each in ending:
            each.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
