"""Starts the bind of each Pod that a cycle has placed, and passes its outcome on."""

import collections
from collections.abc import Callable, Iterable, Sequence

from carico_core.domain import gangs
from carico_scheduler.bind import binder as binders
from carico_scheduler.bind import outcomes, volume_binding
from carico_scheduler.decide import cycle as cycles
from carico_scheduler.engine import parts as engine_parts
from carico_scheduler.report import decisions, notices
from carico_scheduler.sharing import member
from carico_scheduler.sharing.claims import claiming
from carico_scheduler.state import state


class Starter:
    """Starts binds over one binder."""

    def __init__(
        self, parts: engine_parts.EngineParts, into: state.State, *, notices: notices.Notices,
        member: member.Member | None, term: Callable[[], int | None], wake: Callable[[], None],
    ) -> None:  # fmt: skip
        """`wake` is called after each outcome."""
        self._state = into
        self._clock = parts.clock
        self._metrics = parts.metrics
        self._traces = parts.traces
        self._member = member
        self._term = term
        self._wake = wake
        self.outcomes = outcomes.Outcomes(
            into, clock=parts.clock, log=parts.log, events=parts.events, metrics=parts.metrics, notices=notices,
            traces=parts.traces,
        )  # fmt: skip
        self.binder = binders.Binder(
            parts.kube, pods=into, clock=parts.clock, rng=parts.rng, most=parts.binds_in_flight,
            timeout_s=parts.bind_timeout_s, term=term,
        )  # fmt: skip
        self._volumes = volume_binding.VolumeBinding(parts.kube, into.fleet)
        into.on_volumes = self._volumes.notify
        into.on_covered = self._on_covered

    def start(
        self, placed: Sequence[cycles.Placement], facts: Sequence[decisions.Facts], *, term: int, now_s: float
    ) -> None:
        """Reserve the node of each placement and start its bind; `facts` of each, in the same order."""
        sets = self._sets_of(placed)
        for placement, each in zip(placed, facts, strict=True):
            self._start(placement, each, term, now_s, together=sets.get(placement.waiting.demand.gang))

    def _sets_of(self, placed: Iterable[cycles.Placement]) -> dict[gangs.Key | None, claiming.Together]:
        """Return where the Pods of each gang wait for each other's claims; nothing unless nodes are claimed."""
        if self._member is None:
            return {}
        sizes = collections.Counter(each.waiting.demand.gang for each in placed)
        return {key: claiming.Together(size) for key, size in sizes.items() if key is not None}

    def _start(
        self, placement: cycles.Placement, facts: decisions.Facts, term: int, now_s: float,
        together: claiming.Together | None,
    ) -> None:  # fmt: skip
        """Reserve the node and start the bind; `together`: see `claims.claiming`."""
        waiting, pod = placement.waiting, placement.waiting.pod
        waiting.attempts += 1
        node = placement.row.node.name
        attempt = self._state.assume(waiting, node, now_s)
        if self._traces is not None:
            self._traces.decided(waiting, facts, now_s)

        def may_write() -> bool:
            return self._term() == term and self._state.is_open(pod.uid, attempt)

        prepare = self._volumes.preparation(pod, placement.row, may_write=may_write)
        bind = binders.Bind(
            pod=pod, node=node, attempt=attempt, term=term, waiting=waiting, facts=facts, on_result=self._on_result,
            prepare=prepare,
        )  # fmt: skip
        if self._member is not None:
            self._member.own_claims.claim_first(
                bind, decided_s=now_s, is_open=lambda: self._state.is_open(pod.uid, attempt), together=together
            )  # fmt: skip
        self.binder.start(bind)
        if placement.row.is_advertised:
            self._metrics.age_s.observe(max(now_s - placement.row.sampled_s, 0.0))

    def _on_result(self, result: binders.Result) -> None:
        try:
            self.outcomes.take(result)
            if self._member is not None:
                self._member.own_claims.take_result(result)
        finally:
            self._wake()

    def _on_covered(self, uid: str, reserved_s: float) -> None:
        self._metrics.covered_s.observe(max(self._clock.monotonic_s() - reserved_s, 0.0))
        if self._traces is not None:
            self._traces.covered(uid)
