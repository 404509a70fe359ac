"""Binds that kube-scheduler asks for: reserved like our own, sent by the same kind of binder, answered when settled."""

import asyncio
import dataclasses
from collections.abc import Callable

from carico_core.domain import cluster
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.wire.kubernetes import placement
from carico_scheduler import state as states
from carico_scheduler.bind import binder as binders
from carico_scheduler.bind import outcomes
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import queue as queues
from carico_scheduler.report import decisions


@dataclasses.dataclass(slots=True, kw_only=True)
class _Asked:
    """A bind under way, and who waits for it."""

    waiting: queues.Waiting
    facts: decisions.Facts
    answer: "asyncio.Future[str]"


class Binds:
    """The binds under way for kube-scheduler."""

    def __init__(
        self, state: states.State, *, clock: clocks.Clock, log: decisions.Log, on_end: Callable[[str], None]
    ) -> None:
        """`on_end` is told how each bind came out. The binder is given later, as it reports to here: `use`."""
        self._state = state
        self._clock = clock
        self._log = log
        self._on_end = on_end
        self._line = logs.get("extender")
        self._asked: dict[str, _Asked] = {}
        self._binder: binders.Binder

    def use(self, binder: binders.Binder) -> None:
        """Nothing; binds are sent by this binder, whose results come to `on_result`."""
        self._binder = binder

    def __contains__(self, uid: str) -> bool:
        return uid in self._asked

    async def bind(
        self, pod: cluster.Pod, node: str, facts: decisions.Facts, *, since_s: float,
        placed_by: placement.Advertised | None,
    ) -> str:  # fmt: skip
        """Empty once the Pod, which has waited since `since_s`, is bound to the node; else why it is not."""
        now_s = self._clock.monotonic_s()
        # It may be one of ours: whoever binds it, it is placed once.
        self._state.queue.forget(pod.uid)
        waiting = queues.Waiting(pod=pod, demand=demands.demand_of(pod), since_s=since_s, attempts=1)
        asked = _Asked(waiting=waiting, facts=facts, answer=asyncio.get_running_loop().create_future())
        self._asked[pod.uid] = asked
        self._state.assume(waiting, node, now_s)
        self._binder.start(pod, node, placed_by=placed_by)
        # Whoever asked may give up waiting: the bind goes on, and its outcome is taken in.
        return await asyncio.shield(asked.answer)

    def on_result(self, result: binders.Result) -> None:
        """Takes in how a bind came out, and answers who asked for it."""
        asked = self._asked.pop(result.uid)
        fate = outcomes.settle(self._state, result, self._clock.monotonic_s())
        error = "" if fate is binders.Fate.BOUND else f"not bound to {result.node}: {result.detail or fate.value}"
        if fate is not binders.Fate.WITHHELD:
            outcome = outcomes.outcome_of(fate, is_conflict=result.is_conflict)
            node = result.node if fate is binders.Fate.BOUND else None
            message = error or asked.facts.message
            self._log.record(
                asked.waiting, dataclasses.replace(asked.facts, outcome=outcome, node=node, message=message)
            )
        if error:
            self._line.warning("bind failed", uid=result.uid, node=result.node, detail=result.detail)
        self._on_end(fate.value)
        if not asked.answer.done():
            asked.answer.set_result(error)
