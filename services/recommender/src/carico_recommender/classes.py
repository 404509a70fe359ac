"""What is recommended for each class: asked of the aggregators every few seconds."""

import asyncio
from collections.abc import Mapping
from typing import Protocol

import orjson

from carico_core.domain import errors, usage
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages, subjects
from carico_recommender import instruments

SUBJECT = subjects.query("aggregator", "recommend")
ANSWER_MOST_S = 10.0
# Nothing is concluded from an older answer, such as that a class has no Pods.
STALE_S = 120.0


class Bus(Protocol):
    """The part of the bus that asks."""

    async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes: ...


class Classes:
    """The last complete answer. `rule`: percentile and margin."""

    def __init__(self, rule: Mapping[str, float], counted: instruments.Instruments, *, clock: clocks.Clock) -> None:
        self._rule = dict(rule)
        self._counted = counted
        self._clock = clock
        self._known: dict[str, usage.Recommended] = {}
        self._answered_s: float | None = None
        self._why = "no aggregator has been asked yet"
        self._limited = logs.RateLimited(logs.get("classes"), clock=clock)

    def get(self, name: str) -> usage.Recommended | None:
        """Return what is recommended for a class; None for an unknown one."""
        return self._known.get(name)

    @property
    def is_current(self) -> bool:
        """True while the last answer is recent enough to conclude that a class is not known, or has no Pods."""
        return self._answered_s is not None and self._clock.monotonic_s() - self._answered_s < STALE_S

    def trouble(self) -> str | None:
        """Return why there is no recent answer; None if there is one."""
        return None if self.is_current else self._why

    async def ask_forever(self, bus: Bus, *, interval_s: float) -> None:
        """Ask until cancelled; an answer that fails leaves the one before."""
        while True:
            await self.ask(bus)
            await asyncio.sleep(interval_s)

    async def ask(self, bus: Bus) -> bool:
        """Take in all pages of an answer, or none of them; return whether it was taken in."""
        try:
            found = await self._pages(bus)
        except (errors.BusError, errors.MessageError) as error:
            self._why = f"no answer of an aggregator: {error}"
            self._counted.ask_errors.inc()
            self._limited.warning(type(error).__name__, "no answer of an aggregator", error=str(error))
            return False
        self._known = found
        self._answered_s = self._clock.monotonic_s()
        self._counted.classes.set(len(found))
        return True

    async def _pages(self, bus: Bus) -> dict[str, usage.Recommended]:
        found: dict[str, usage.Recommended] = {}
        after: dict[str, str] = {}
        while True:
            payload = await bus.request(SUBJECT, orjson.dumps({**self._rule, **after}), timeout_s=ANSWER_MOST_S)
            page, is_last = messages.decode_recommended(payload)
            found |= {each.name: each for each in page}
            if is_last or not page:
                return found
            after = {"after": page[-1].name}
