"""Takes in the outcome of each bind: updates the state, and reports it."""

import dataclasses

from carico_core.domain import decision
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_scheduler.bind import binder as binders
from carico_scheduler.report import decisions, events, explain, instruments, notices
from carico_scheduler.report import traces as pod_traces
from carico_scheduler.state import state


class Outcomes:
    """Takes in the outcomes of binds."""

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
        """`traces` is None if Pods are not traced."""
        self._state = into
        self._clock = clock
        self._log = log
        self._events = events
        self._metrics = metrics
        self._notices = notices
        self._traces = traces
        self._line = logs.get("scheduler")

    def take(self, result: binders.Result) -> None:
        """Take in the outcome of a bind; if that fails it is counted, and the Pod is not lost."""
        try:
            self._take_in(result)
        except Exception as error:  # the boundary of one Pod
            self._metrics.lost_outcomes.inc()
            self._line.error(
                "outcome of a bind could not be handled", uid=result.uid, node=result.node, error=repr(error)
            )
            # Changes nothing if the state was updated before the failure.
            settle(self._state, dataclasses.replace(result, pod=None), self._clock.monotonic_s())

    def _take_in(self, result: binders.Result) -> None:
        waiting, facts = result.bind.waiting, result.bind.facts
        if result.fate is binders.Fate.WITHHELD:
            waiting.attempts -= 1
        fate = settle(self._state, result, self._clock.monotonic_s())
        if fate is binders.Fate.WITHHELD and result.bind.is_shared:
            # A lost claim, which is counted as such.
            return
        self._metrics.binds.labels(fate.value).inc()
        if fate is binders.Fate.WITHHELD:
            # Nothing was sent, and another scheduler decides about the Pod: nothing to report.
            return
        outcome, message = outcome_of(fate, is_conflict=result.is_conflict), self._message(result, fate, facts)
        self._metrics.bind_s.observe(result.took_s)
        self._metrics.decisions.labels(outcome.value).inc()
        if self._traces is not None:
            self._traces.bound(result, outcome)
        is_bound = outcome is decision.Outcome.BOUND
        node = facts.node if is_bound else None
        self._report(result, facts._replace(outcome=outcome, node=node, message=message))

    def _report(self, result: binders.Result, facts: decisions.Facts) -> None:
        """Record the outcome of a bind; write an Event if the Pod is bound, or waits although there is room."""
        waiting = result.bind.waiting
        is_bound = facts.outcome is decision.Outcome.BOUND
        self._log.record(waiting, facts)
        now_s = self._clock.monotonic_s()
        if is_bound:
            waited_s = max(now_s - waiting.began_s, 0.0)
            self._metrics.waited_s.observe(waited_s)
            self._metrics.waits.placed(waiting.pod, waited_s, now_s)
            self._events.scheduled(waiting.pod, explain.event_text(waiting.pod, result.node))
        elif facts.outcome is not decision.Outcome.DROPPED and waiting.pod.uid in self._state.queue:
            self._notices.notify(waiting, "bind", facts.message, now_s)

    def _message(self, result: binders.Result, fate: binders.Fate, facts: decisions.Facts) -> str:
        match fate:
            case binders.Fate.BOUND:
                return facts.message
            case binders.Fate.ELSEWHERE:
                return f"bound meanwhile, by another scheduler or an earlier bind: {result.detail}"
            case binders.Fate.GONE:
                return f"the Pod is gone: {result.detail}"
        self._line.warning("bind failed", uid=result.uid, node=result.node, detail=result.detail)
        return f"not bound to {result.node}: {result.detail}"


def outcome_of(fate: binders.Fate, *, is_conflict: bool) -> decision.Outcome:
    """Return the outcome that a decision record states; `is_conflict`: the API refused the bind with a conflict.

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
    """Update the state with a bind's outcome, and return it; if the watch showed the outcome first, return that one.

    The outcome of a decision that is no longer the Pod's newest changes nothing.
    """
    uid, attempt, fate = result.uid, result.bind.attempt, result.fate
    if result.pod is not None:
        into.see_pod(result.pod, now_s)
    match fate:
        case binders.Fate.BOUND:
            into.confirm(uid, attempt)
            return fate
        case binders.Fate.ELSEWHERE:
            return fate
        case binders.Fate.GONE:
            # Only the watch ends a record: a 404 may also come from a proxy, or from an API server that is starting.
            into.refuse(uid, attempt, now_s)
            return fate
    if into.is_open(uid, attempt):
        into.refuse(uid, attempt, now_s)
        return fate
    record = into.records.find(uid)
    if record is None or record.pod is None or record.booking is None or record.attempt != attempt:
        return binders.Fate.GONE
    is_own = result.bind.has_bound(record.booking.node, record.pod.bound_by)
    return binders.Fate.BOUND if is_own else binders.Fate.ELSEWHERE
