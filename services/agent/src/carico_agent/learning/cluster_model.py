"""The model of the cluster as an agent takes it in: what is newest and plausible is followed, the rest counted."""

from carico_agent.learning import pipeline
from carico_agent.reporting import instruments
from carico_core.domain import errors, messages
from carico_core.numerics import subspace
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.wire import freshness
from carico_core.wire import messages as wire


class Intake:
    """Has a pipeline follow the newest model. `lease_s`: how long a replica counts after its last message."""

    def __init__(
        self, learning: pipeline.Pipeline, counted: instruments.Instruments, *,
        lease_s: float, clock: clocks.Clock, log: logs.RateLimited,
    ) -> None:  # fmt: skip
        self._pipeline = learning
        self._counted = counted
        self._guard = freshness.SequenceGuard(lease_s)
        self._clock = clock
        self._log = log
        self._at_s: float | None = None
        # That which is followed; None before the first.
        self.newest: messages.GlobalModel | None = None

    def age_s(self) -> float | None:
        """Return how long ago the newest model came; None before the first."""
        return None if self._at_s is None else self._clock.monotonic_s() - self._at_s

    def take(self, payload: bytes) -> None:
        """Follow the model, or drop and count a message that cannot be used."""
        try:
            model = wire.decode_model(payload)
        except errors.MessageError as error:
            self._drop(error.reason, str(error))
            return
        now_s = self._clock.monotonic_s()
        refused = self._guard.accept(model.replica, model.boot, model.seq, now_s)
        if refused is not None:
            self._drop(refused, f"replica {model.replica} seq {model.seq}")
        elif float(model.gram.max()) > subspace.GRAM_MOST:
            self._drop(errors.Drop.OUT_OF_RANGE, f"gram up to {model.gram.max():g}, expected at most 1")
        elif not self._pipeline.follow(model, now_s=now_s):
            dims = self._pipeline.config.node.dims
            self._drop(errors.Drop.WRONG_SHAPE, f"dims {model.dims}, expected {dims} among them")
        else:
            self.newest = model
            self._at_s = now_s
            self._counted.models.inc()

    def take_stored(self, payload: bytes | None) -> None:
        """Follow the model stored on the bus, unless it is too old to be of use."""
        if payload is None:
            return
        try:
            age_s = (self._clock.wall_ns() - wire.decode_model(payload).ts_ns) / 1e9
        except errors.MessageError as error:
            self._drop(error.reason, str(error))
            return
        if abs(age_s) <= self._pipeline.config.model_max_age_s:
            self.take(payload)
        else:
            self._drop(errors.Drop.TOO_OLD, f"stored {age_s:.0f} s ago")

    def _drop(self, reason: errors.Drop, detail: str) -> None:
        self._counted.model_drops.labels(reason.value).inc()
        self._log.warning(("model", reason.value), "model dropped", reason=reason.value, detail=detail)
