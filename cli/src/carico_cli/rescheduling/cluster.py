"""Asks the rescheduler of a running cluster: for a plan, to carry one out, to pause; and follows its moves."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from carico_cli.live import addresses, connection, service_queries

USER_AGENT = "carico-reschedule"
ANSWER_MOST_S = 30.0
LOOK_EVERY_S = 1.0
T = TypeVar("T")
Answer = dict[str, Any]


class ReschedulerAsker:
    """Questions to one rescheduler."""

    def __init__(self, bus: service_queries.Bus, at: addresses.Address) -> None:
        self._bus = bus
        self._at = at

    async def ask(self, verb: str, question: Mapping[str, object] | None = None) -> Answer:
        """Return the answer. Raises `NoAnswer`, `Refused`."""
        start, end = (self._at.carico(words) for words in ("up --control-plane real --rescheduler", "down"))
        how = (
            f"only a new cluster gets one, and this one's Pods end: `{end}`, then `{start}`"
            if self._at.is_local
            else "deploy its component (docs/rescheduling.md)"
        )
        return await service_queries.ask(
            self._bus, self._at, "rescheduler", verb, question or {}, within_s=ANSWER_MOST_S,
            hint=f"none is running, or none leads now; {how}; {self._at.look}",
        )  # fmt: skip

    async def plan(self, question: Mapping[str, object]) -> Answer:
        """Return a plan. It takes its search, a second by default, and a question to the scheduler for each move."""
        while (found := await self.ask("plan.get", question))["plan"] is None:
            pass
        return found

    async def apply(self, question: Mapping[str, object], say: Callable[[Answer], None]) -> Answer:
        """Have a plan carried out; `say` each move as it ends; return the last answer."""
        before = await self.ask("moves.list")
        known = {_key(each) for each in before["ended"]}
        asked = await self.ask("control.apply", question)
        while True:
            found = await self.ask("moves.list")
            if found["boot"] != asked["boot"]:
                raise service_queries.Refused(
                    "another rescheduler leads since then; it finishes or undoes the move that was under way, and does "
                    "not know of the request: repeat it if Pods are still to move"
                )
            self._say_new(found, known, say)
            if found["rounds"] >= asked["rounds"]:
                return found
            await asyncio.sleep(LOOK_EVERY_S)

    async def watch(self, say: Callable[[Answer], None], standing: Callable[[Answer], None]) -> None:
        """Say each move as it ends, and how things stand when that changes, until cancelled."""
        known = set[tuple[str, int]]()
        shown: object = None
        while True:
            found = await self.ask("moves.list")
            self._say_new(found, known, say)
            now = found["paused"], found["rests"], None if found["current"] is None else _key(found["current"])
            if now != shown:
                shown = now
                standing(found)
            await asyncio.sleep(LOOK_EVERY_S)

    def _say_new(self, found: Answer, known: set[tuple[str, int]], say: Callable[[Answer], None]) -> None:
        for each in reversed(found["ended"]):
            if _key(each) not in known:
                known.add(_key(each))
                say(each)


def run(at: addresses.Address, asking: Callable[[ReschedulerAsker], Awaitable[T]]) -> T:
    """Connect, and return what `asking` returns. Raises `CaricoError`."""
    return connection.on_bus(at, lambda bus: asking(ReschedulerAsker(bus, at)), name=USER_AGENT)


def _key(move: Answer) -> tuple[str, int]:
    # One that failed is tried again later, with the same Pod, target and name of the new Pod.
    return move["uid"], move["began_at_ns"]
