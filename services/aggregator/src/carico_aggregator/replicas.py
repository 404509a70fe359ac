"""The models of other replicas, from which a follower continues."""

from collections.abc import Callable

from carico_aggregator import instruments, model
from carico_core.domain import errors, messages
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.wire import freshness, subjects
from carico_core.wire import messages as wire


class Following:
    """Passes the models of other replicas on, if its merger `is_led`."""

    def __init__(
        self, merger: model.Merger, counted: instruments.Instruments, *, replica: str, lease_s: float,
        clock: clocks.Clock, follow: Callable[[messages.GlobalModel], None],
    ) -> None:  # fmt: skip
        self._merger = merger
        self._follow = follow
        self._counted = counted
        self._replica = replica
        self._clock = clock
        self._max_age_s = freshness.MODEL_LEASES * lease_s
        # Two replicas have no order between them: the one received last counts.
        self._guard = freshness.SequenceGuard(lease_s)
        self._log = logs.get("aggregator", replica=replica)

    def take(self, subject: str, payload: bytes) -> None:
        """Continue from a model that another replica has broadcast."""
        found = self._read(subject, payload)
        if found is None or found.replica == self._replica:
            return
        refused = self._guard.accept(found.replica, found.boot, found.seq, self._clock.monotonic_s())
        if refused is None:
            self._follow(found)
        else:
            got = f"got {found.seq} of replica {found.replica}, expected a later one"
            self._counted.dropped("model", subject, errors.MessageError(refused, "seq", got))

    def resume(self, payload: bytes) -> None:
        """Continue from the stored model, also from one of our own, unless it is too old for agents to merge."""
        found = self._read(subjects.MODEL, payload)
        # A model is stored after its broadcast: one that was received while this was read is newer.
        if found is None or len(self._guard):
            return
        age_s = (self._clock.wall_ns() - found.ts_ns) / 1e9
        # A negative age comes from the other clock.
        if abs(age_s) > self._max_age_s:
            got = f"got a stored model {age_s:.0f} s old, expected at most {self._max_age_s:g} s: starting without it"
            self._counted.dropped("model", subjects.MODEL, errors.MessageError(errors.Drop.TOO_OLD, "ts", got))
            return
        self._log.info("continuing from the stored model", of=found.replica, age_s=round(age_s, 1))
        self._follow(found)

    def _read(self, subject: str, payload: bytes) -> messages.GlobalModel | None:
        """Return a model of the same merge; None if it cannot be followed or each replica makes its own."""
        if not self._merger.is_led:
            return None
        try:
            found = wire.decode_model(payload)
        except errors.MessageError as error:
            self._counted.dropped("model", subject, error)
            return None
        return found if found.merge == self._merger.name else None
