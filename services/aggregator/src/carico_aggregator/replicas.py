"""The other replicas: which are alive, who leads where only one may, and the models that a follower continues from."""

from carico_aggregator import instruments, model
from carico_core.domain import errors, messages
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.wire import freshness, subjects
from carico_core.wire import messages as wire


class Replicas:
    """The other replicas that reported within a lease. Pure: time is an argument."""

    def __init__(self, own: str, *, lease_s: float) -> None:
        self._own = own
        self._lease_s = lease_s
        self._last_seen_s: dict[str, float] = {}
        self._guard = freshness.SequenceGuard(lease_s)

    def take(self, partial: messages.Partial, now_s: float) -> bool:
        """Note a partial; return whether it is another replica's and new."""
        if partial.replica == self._own:
            return False
        if self._guard.accept(partial.replica, partial.boot, partial.seq, now_s) is not None:
            return False
        # A replica has a new name after each start: one that is silent for a lease is forgotten.
        self._last_seen_s = {name: at_s for name, at_s in self._last_seen_s.items() if now_s - at_s < self._lease_s}
        self._last_seen_s[partial.replica] = now_s
        return True

    def others(self, now_s: float) -> list[str]:
        """Return the names of the others that are alive."""
        return sorted(name for name, seen_s in self._last_seen_s.items() if now_s - seen_s < self._lease_s)

    def leader(self, now_s: float) -> str:
        """Return the first live replica by name: all who see the same replicas choose the same one.

        Two may lead for up to a lease after a partition; `sequential` then broadcasts two models in turn, and agents
        follow the one they received last. No bind depends on it, so a lock is not worth its cost.
        """
        return min([self._own, *self.others(now_s)])


class Following:
    """Passes the models of other replicas to a merger that `is_led`."""

    def __init__(
        self, merger: model.Merger, counted: instruments.Instruments, *, replica: str, lease_s: float,
        clock: clocks.Clock,
    ) -> None:  # fmt: skip
        self._merger = merger
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
            self._merger.follow(found)
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
        self._merger.follow(found)

    def _read(self, subject: str, payload: bytes) -> messages.GlobalModel | None:
        """Return a model of the same merge; None if it cannot be followed or each replica makes its own."""
        if not self._merger.is_led:
            return None
        try:
            found = wire.decode_model(payload, subject=subject)
        except errors.MessageError as error:
            self._counted.dropped("model", subject, error)
            return None
        return found if found.merge == self._merger.name else None
