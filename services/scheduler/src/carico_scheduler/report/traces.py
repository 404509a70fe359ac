"""The scheduler's part of a Pod's trace: the spans wait, decide, bind and cover, and the root span at its end."""

import collections
import dataclasses
from collections.abc import Callable
from typing import Protocol

from carico_core.domain import cluster, decision
from carico_core.runtime.observe import tracing
from carico_core.runtime.process import clock as clocks
from carico_scheduler.bind import binder
from carico_scheduler.pods import queue as queues
from carico_scheduler.report import decisions

# Maximum open traces; the oldest is dropped beyond it.
OPEN_MOST = 20_000


class Tracer(Protocol):
    """Where finished steps go."""

    def follows(self, uid: str) -> bool:
        """Return True if the Pod is traced."""

    def add(self, step: tracing.Step) -> None:
        """Add a finished step."""


@dataclasses.dataclass(slots=True, kw_only=True)
class _OpenTrace:
    """An open trace. `since_s`: when the Pod was created, or first seen if that is earlier by the API's clock."""

    since_s: float
    attributes: dict[str, str]
    # When the newest step ended and the next one starts.
    last_s: float
    is_bound: bool = False


class PodTraces:
    """Follows each Pod from its creation until its node accounts for it."""

    def __init__(self, tracer: Tracer, *, clock: clocks.Clock) -> None:
        self._tracer = tracer
        self._clock = clock
        self._open: collections.OrderedDict[str, _OpenTrace] = collections.OrderedDict()

    def decided(self, waiting: queues.Waiting, facts: decisions.Facts, now_s: float) -> None:
        """Note that a decision that started at `now_s` chose a node."""
        pod = waiting.pod
        if not self._tracer.follows(pod.uid):
            return
        trace = self._open.get(pod.uid) or self._begin(pod, waiting.since_s)
        ended_s = now_s + (facts.decided_us or 0.0) / 1e6
        self._add(pod.uid, "wait", trace.last_s, now_s, {"carico.attempt": waiting.attempts})
        self._add(pod.uid, "decide", now_s, ended_s, _why(facts))
        trace.last_s = ended_s

    def bound(self, result: binder.Result, outcome: decision.Outcome) -> None:
        """Note the outcome of a bind."""
        trace = self._open.get(result.uid)
        if trace is None:
            return
        now_s = self._clock.monotonic_s()
        trace.is_bound = outcome is decision.Outcome.BOUND
        failure = None if trace.is_bound else f"{outcome.value}: {result.detail}"
        attributes: tracing.Attributes = {"k8s.node.name": result.node, "carico.fate": result.fate.value}
        self._add(result.uid, "bind", now_s - result.took_s, now_s, attributes, failure)
        trace.last_s = now_s
        if trace.is_bound:
            trace.attributes["k8s.node.name"] = result.node

    def covered(self, uid: str) -> None:
        """Note that the node's advertisement covers the Pod, which ends its trace."""
        trace = self._open.pop(uid, None)
        if trace is None:
            return
        now_s = self._clock.monotonic_s()
        self._add(uid, "cover", trace.last_s, now_s, {})
        self._end(uid, trace, None)

    def sweep(self, is_there: Callable[[str], bool]) -> None:
        """End the traces of Pods that have ended or are gone."""
        for uid in [uid for uid in self._open if not is_there(uid)]:
            trace = self._open.pop(uid)
            self._end(uid, trace, None if trace.is_bound else "the Pod ended before it was bound")

    def _begin(self, pod: cluster.Pod, since_s: float) -> _OpenTrace:
        # The API's creation time is in whole seconds, by its own clock.
        created_s = self._clock.monotonic_s() - (self._clock.wall_ns() / 1e9 - pod.created_at_s)
        attributes = {"k8s.namespace.name": pod.namespace, "k8s.pod.name": pod.name}
        trace = _OpenTrace(since_s=min(created_s, since_s), attributes=attributes, last_s=since_s)
        self._open[pod.uid] = trace
        if len(self._open) > OPEN_MOST:
            self._open.popitem(last=False)
        return trace

    def _end(self, uid: str, trace: _OpenTrace, failure: str | None) -> None:
        ended_s = self._clock.monotonic_s()
        self._tracer.add(
            tracing.Step(
                name="pod", uid=uid, began_s=trace.since_s, ended_s=ended_s, attributes=trace.attributes,
                failure=failure, is_root=True,
            )
        )  # fmt: skip

    def _add(
        self, uid: str, name: str, began_s: float, ended_s: float, attributes: tracing.Attributes,
        failure: str | None = None,
    ) -> None:  # fmt: skip
        self._tracer.add(
            tracing.Step(name=name, uid=uid, began_s=began_s, ended_s=ended_s, attributes=attributes, failure=failure)
        )


def _why(facts: decisions.Facts) -> tracing.Attributes:
    """Return the attributes of a decision."""
    found: dict[str, str | int | float | bool] = {f"carico.refused.{name}": n for name, n in facts.refused.items()}
    if facts.node is not None:
        found["k8s.node.name"] = facts.node
    if facts.free is not None:
        found["carico.free_pods"] = facts.free
    chosen = next(iter(facts.candidates), None)
    if chosen is not None and chosen.seq is not None and chosen.age_s is not None:
        found |= {"carico.advertisement.seq": chosen.seq, "carico.advertisement.age_s": chosen.age_s}
    return found
