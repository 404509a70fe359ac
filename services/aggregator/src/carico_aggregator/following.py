"""The models of other replicas, where one alone makes the model and the others go on from it."""

from carico_aggregator import instruments, model
from carico_core.domain import errors, messages
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.wire import freshness, subjects
from carico_core.wire import messages as wire


class Following:
    """Hands models on to the merger of a replica, which asks for them where it `is_led`."""

    def __init__(
        self, merger: model.Merger, counted: instruments.Instruments, *, replica: str, lease_s: float,
        clock: clocks.Clock,
    ) -> None:  # fmt: skip
        self._merger = merger
        self._counted = counted
        self._replica = replica
        self._clock = clock
        self._max_age_s = freshness.MODEL_LEASES * lease_s
        # Between two replicas there is no order: the one heard last counts.
        self._heard = freshness.SequenceGuard(lease_s)
        self._log = logs.get("aggregator", replica=replica)

    def hear(self, subject: str, payload: bytes) -> None:
        """Goes on from the model that another replica has broadcast."""
        found = self._read(subject, payload)
        if found is None or found.replica == self._replica:
            return
        refused = self._heard.accept(found.replica, found.boot, found.seq, self._clock.monotonic_s())
        if refused is None:
            self._merger.follow(found)
        else:
            got = f"got {found.seq} of replica {found.replica}, expected a later one"
            self._counted.dropped("model", subject, errors.MessageError(refused, "seq", got))

    def recall(self, payload: bytes) -> None:
        """Goes on from the model kept for late joiners, its own too, unless agents would not merge it any more."""
        found = self._read(subjects.MODEL, payload)
        # A model is kept once it has been broadcast: one that was heard while this was read is newer.
        if found is None or len(self._heard):
            return
        age_s = (self._clock.wall_ns() - found.ts_ns) / 1e9
        # The sign is the other clock's fault.
        if abs(age_s) > self._max_age_s:
            got = f"got a stored model {age_s:.0f} s old, expected at most {self._max_age_s:g} s: begun anew"
            self._counted.dropped("model", subjects.MODEL, errors.MessageError(errors.Drop.TOO_OLD, "ts", got))
            return
        self._log.info("going on from the stored model", of=found.replica, age_s=round(age_s, 1))
        self._merger.follow(found)

    def _read(self, subject: str, payload: bytes) -> messages.GlobalModel | None:
        """A model of the same merge; None for what cannot be followed, or where every replica makes the same."""
        if not self._merger.is_led:
            return None
        try:
            found = wire.decode_model(payload, subject=subject)
        except errors.MessageError as error:
            self._counted.dropped("model", subject, error)
            return None
        return found if found.merge == self._merger.name else None
