"""Binds that kube-scheduler asks for: reserved like our own, sent by the same kind of binder, answered once known."""

import asyncio
import dataclasses
from collections.abc import Callable

from carico_core.domain import cluster
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_scheduler.bind import binder as binders
from carico_scheduler.bind import outcomes
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import queue as queues
from carico_scheduler.report import decisions
from carico_scheduler.sharing import member as members
from carico_scheduler.state import state as states


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A bind that kube-scheduler asks for, sent only in leadership term `term`; the Pod has waited since `since_s`."""

    pod: cluster.Pod
    node: str
    facts: decisions.Facts
    since_s: float
    term: int


class Binds:
    """The binds for kube-scheduler."""

    def __init__(
        self, state: states.State, binder: binders.Binder, *, clock: clocks.Clock, log: decisions.Log,
        on_end: Callable[[str], None], member: members.Member | None,
    ) -> None:  # fmt: skip
        """`on_end` is called with the fate of each bind. `member`: claims the node first; None: no claim is needed."""
        self._state = state
        self._binder = binder
        self._clock = clock
        self._log = log
        self._on_end = on_end
        self._member = member
        self._line = logs.get("extender")

    async def bind(self, asked: Asked) -> str:
        """Bind the Pod; return "" once it is bound to the node, else why it is not."""
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def on_result(result: binders.Result) -> None:
            error = self._take(result)
            if not answer.done():
                answer.set_result(error)

        demand = demands.demand_of(asked.pod, is_baseline=self._state.baseline.includes(asked.pod))
        waiting = queues.Waiting(pod=asked.pod, demand=demand, since_s=asked.since_s, attempts=1)
        now_s = self._clock.monotonic_s()
        attempt = self._state.assume(waiting, asked.node, now_s)
        bind = binders.Bind(
            pod=asked.pod, node=asked.node, attempt=attempt, term=asked.term, waiting=waiting, facts=asked.facts,
            on_result=on_result,
        )  # fmt: skip
        if self._member is not None:
            self._member.own_claims.claim_first(
                bind, decided_s=now_s, is_open=lambda: self._state.is_open(asked.pod.uid, attempt)
            )  # fmt: skip
        self._binder.start(bind)
        # The caller may stop waiting: the bind continues, and its outcome is taken in.
        return await asyncio.shield(answer)

    def _take(self, result: binders.Result) -> str:
        """Take in the outcome of a bind; return "" if the Pod is bound to the node, else why it is not."""
        facts = result.bind.facts
        fate = outcomes.settle(self._state, result, self._clock.monotonic_s())
        error = "" if fate is binders.Fate.BOUND else f"not bound to {result.node}: {result.detail or fate.value}"
        if fate is not binders.Fate.WITHHELD:
            outcome = outcomes.outcome_of(fate, is_conflict=result.is_conflict)
            node = result.node if fate is binders.Fate.BOUND else None
            facts = facts._replace(outcome=outcome, node=node, message=error or facts.message)
            self._log.record(result.bind.waiting, facts)
        if self._member is not None:
            self._member.own_claims.take_result(result)
        self._on_end(fate.value)
        if fate is binders.Fate.ELSEWHERE and self._state.is_bound_to(result.uid, result.node):
            # By the bind of another replica, asked for the same. Whose it was makes no difference to kube-scheduler.
            return ""
        if error:
            self._line.warning("bind failed", uid=result.uid, node=result.node, detail=result.detail)
        return error
