"""The scheduler's part of a Pod's trace: waited, decided, bound, covered; and the whole way, once it is over."""

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

# Ways that are followed at a time; the oldest gives way.
OPEN_MOST = 20_000


class Tracer(Protocol):
    """Where steps go."""

    def follows(self, uid: str) -> bool:
        """Return whether the Pod is traced."""

    def add(self, step: tracing.Step) -> None:
        """Add a step that is over."""


@dataclasses.dataclass(slots=True, kw_only=True)
class _Way:
    """A Pod's way so far. `since_s`: when it was created, or first seen where the API's clock says later than that."""

    since_s: float
    attributes: dict[str, str]
    # When the newest step ended, which the next one follows.
    last_s: float
    is_bound: bool = False


class PodTraces:
    """Follows each Pod from its creation until its node accounts for it."""

    def __init__(self, tracer: Tracer, *, clock: clocks.Clock) -> None:
        self._tracer = tracer
        self._clock = clock
        self._open: collections.OrderedDict[str, _Way] = collections.OrderedDict()

    def decided(self, waiting: queues.Waiting, facts: decisions.Facts, now_s: float) -> None:
        """Note that a decision which began at `now_s` chose a node."""
        pod = waiting.pod
        if not self._tracer.follows(pod.uid):
            return
        way = self._open.get(pod.uid) or self._begin(pod, waiting.since_s)
        ended_s = now_s + (facts.decided_us or 0.0) / 1e6
        self._add(pod.uid, "wait", way.last_s, now_s, {"carico.attempt": waiting.attempts})
        self._add(pod.uid, "decide", now_s, ended_s, _why(facts))
        way.last_s = ended_s

    def came_out(self, result: binder.Result, outcome: decision.Outcome) -> None:
        """Note the outcome of the bind."""
        way = self._open.get(result.uid)
        if way is None:
            return
        now_s = self._clock.monotonic_s()
        way.is_bound = outcome is decision.Outcome.BOUND
        failure = None if way.is_bound else f"{outcome.value}: {result.detail}"
        attributes: tracing.Attributes = {"k8s.node.name": result.node, "carico.fate": result.fate.value}
        self._add(result.uid, "bind", now_s - result.took_s, now_s, attributes, failure)
        way.last_s = now_s
        if way.is_bound:
            way.attributes["k8s.node.name"] = result.node

    def covered(self, uid: str) -> None:
        """Note that the node's advertisement accounts for the Pod, which ends its trace."""
        way = self._open.pop(uid, None)
        if way is None:
            return
        now_s = self._clock.monotonic_s()
        self._add(uid, "cover", way.last_s, now_s, {})
        self._end(uid, way, None)

    def sweep(self, is_there: Callable[[str], bool]) -> None:
        """End the traces of Pods that have ended or gone."""
        for uid in [uid for uid in self._open if not is_there(uid)]:
            way = self._open.pop(uid)
            self._end(uid, way, None if way.is_bound else "the Pod has gone before it was bound")

    def _begin(self, pod: cluster.Pod, since_s: float) -> _Way:
        # The API says whole seconds, by its own clock.
        created_s = self._clock.monotonic_s() - (self._clock.wall_ns() / 1e9 - pod.created_at_s)
        attributes = {"k8s.namespace.name": pod.namespace, "k8s.pod.name": pod.name}
        way = _Way(since_s=min(created_s, since_s), attributes=attributes, last_s=since_s)
        self._open[pod.uid] = way
        if len(self._open) > OPEN_MOST:
            self._open.popitem(last=False)
        return way

    def _end(self, uid: str, way: _Way, failure: str | None) -> None:
        ended_s = self._clock.monotonic_s()
        self._tracer.add(
            tracing.Step(
                name="pod", uid=uid, began_s=way.since_s, ended_s=ended_s, attributes=way.attributes, failure=failure,
                is_root=True,
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
    """Return what a decision rested on."""
    found: dict[str, str | int | float | bool] = {f"carico.refused.{name}": n for name, n in facts.refused.items()}
    if facts.node is not None:
        found["k8s.node.name"] = facts.node
    if facts.free is not None:
        found["carico.free_pods"] = facts.free
    chosen = next(iter(facts.candidates), None)
    if chosen is not None and chosen.seq is not None and chosen.age_s is not None:
        found |= {"carico.advertisement.seq": chosen.seq, "carico.advertisement.age_s": chosen.age_s}
    return found
