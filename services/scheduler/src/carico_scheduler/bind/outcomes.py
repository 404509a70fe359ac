"""What came of each bind: brings the state up to date, and tells people."""

import dataclasses

from carico_core.domain import decision
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_scheduler import state
from carico_scheduler.bind import binder as binders
from carico_scheduler.pods import queue as queues
from carico_scheduler.report import decisions, events, explain, instruments, notices
from carico_scheduler.report import traces as pod_traces


class Outcomes:
    """Binds that were begun, until each has come out."""

    def __init__(
        self,
        into: state.State,
        *,
        clock: clocks.Clock,
        log: decisions.Log,
        events: events.Writer,
        metrics: instruments.Instruments,
        notices: notices.Notices,
        traces: pod_traces.PodTraces | None,
    ) -> None:
        """`traces` None: nothing is traced."""
        self._state = into
        self._clock = clock
        self._log = log
        self._events = events
        self._metrics = metrics
        self._notices = notices
        self._traces = traces
        self._line = logs.get("scheduler")
        self._facts: dict[str, decisions.Facts] = {}

    def expect(self, uid: str, facts: decisions.Facts) -> None:
        """Remembers why a Pod is being bound where it is, until that has come out."""
        self._facts[uid] = facts

    def take(self, result: binders.Result) -> None:
        """Takes in how a bind came out; an outcome that cannot be taken in is counted, and its Pod is not lost."""
        try:
            self._take_in(result)
        except Exception as error:  # the boundary of one Pod
            self._metrics.lost_outcomes.inc()
            self._line.error("outcome of a bind not taken in", uid=result.uid, node=result.node, error=repr(error))
            if result.fate in (binders.Fate.BOUND, binders.Fate.ELSEWHERE):
                # The claim stays, and follows the Pod as the watch shows it.
                self._state.confirm(result.uid)
            else:
                self._state.revoke(result.uid, self._clock.monotonic_s())

    def _take_in(self, result: binders.Result) -> None:
        # None where the Pod went, came back and was bound again meanwhile: the earlier outcome took them.
        facts = self._facts.pop(result.uid, None) or _no_facts(result.node)
        waiting = self._state.binding(result.uid)
        if result.fate is binders.Fate.WITHHELD and waiting is not None:
            waiting.attempts -= 1
        fate = settle(self._state, result, self._clock.monotonic_s())
        self._metrics.binds.labels(fate.value).inc()
        if fate is binders.Fate.WITHHELD:
            # Nothing happened, and who leads now decides about the Pod: there is nothing to tell.
            return
        outcome, message = outcome_of(fate, is_conflict=result.is_conflict), self._message(result, fate, facts)
        self._metrics.bind_s.observe(result.took_s)
        self._metrics.decisions.labels(outcome.value).inc()
        if self._traces is not None:
            self._traces.came_out(result, outcome)
        if waiting is not None:
            self._tell(waiting, result, dataclasses.replace(facts, outcome=outcome, message=message))

    def _tell(self, waiting: queues.Waiting, result: binders.Result, facts: decisions.Facts) -> None:
        """Records the outcome of a bind, with an Event where the Pod was bound, or waits although there is room."""
        is_bound = facts.outcome is decision.Outcome.BOUND
        self._log.record(waiting, dataclasses.replace(facts, node=facts.node if is_bound else None))
        now_s = self._clock.monotonic_s()
        if is_bound:
            self._metrics.waited_s.observe(max(now_s - waiting.since_s, 0.0))
            self._events.scheduled(waiting.pod, explain.event_text(waiting.pod, result.node))
        elif waiting.pod.uid in self._state.queue:
            self._notices.tell(waiting, "bind", facts.message, now_s)

    def _message(self, result: binders.Result, fate: binders.Fate, facts: decisions.Facts) -> str:
        match fate:
            case binders.Fate.BOUND:
                return facts.message
            case binders.Fate.ELSEWHERE:
                return f"bound elsewhere meanwhile: {result.detail}"
            case binders.Fate.GONE:
                return f"the Pod has gone: {result.detail}"
        self._line.warning("bind failed", uid=result.uid, node=result.node, detail=result.detail)
        return f"not bound to {result.node}: {result.detail}"


def outcome_of(fate: binders.Fate, *, is_conflict: bool) -> decision.Outcome:
    """As what a record names a bind that was sent and came out so; `is_conflict`: the API refused it as one.

    >>> outcome_of(binders.Fate.UNBOUND, is_conflict=False).value
    'bind_failed'
    """
    match fate:
        case binders.Fate.BOUND:
            return decision.Outcome.BOUND
        case binders.Fate.ELSEWHERE:
            return decision.Outcome.BIND_CONFLICT
        case binders.Fate.GONE:
            return decision.Outcome.DROPPED
    return decision.Outcome.BIND_CONFLICT if is_conflict else decision.Outcome.BIND_FAILED


def settle(into: state.State, result: binders.Result, now_s: float) -> binders.Fate:
    """How a bind came out, by what the watch has told where it told first; the state is brought up to date."""
    uid = result.uid
    if result.pod is not None and into.pod(uid) is not None:
        into.put_pod(result.pod, now_s)
    fate = result.fate
    if fate is binders.Fate.SETTLED:
        claim = into.ledger.find(uid)
        if claim is None:
            fate = binders.Fate.GONE
        else:
            fate = binders.Fate.BOUND if claim.node == result.node else binders.Fate.ELSEWHERE
    match fate:
        case binders.Fate.BOUND | binders.Fate.ELSEWHERE:
            into.confirm(uid)
        case binders.Fate.GONE:
            into.remove_pod(uid)
        case _:
            into.revoke(uid, now_s)
    return fate


def _no_facts(node: str) -> decisions.Facts:
    """What a record says of a bind whose decision is not remembered."""
    return decisions.Facts(
        outcome=decision.Outcome.BOUND, node=node, free=None, candidates=(), refused={}, message="bound once more"
    )
