"""Accept the cluster's newest plausible model for the pipeline; count and log what is dropped."""

from carico_agent.learning import pipeline
from carico_agent.reporting import instruments
from carico_core.domain import errors, messages
from carico_core.numerics import subspace
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.wire import freshness
from carico_core.wire import messages as wire


class Intake:
    """Passes the newest model to a pipeline. `lease_s`: how long a replica is alive after its last message."""

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
        # The model in use; None before the first.
        self.newest: messages.GlobalModel | None = None

    def age_s(self) -> float | None:
        """Return how long ago the newest model arrived; None before the first."""
        return None if self._at_s is None else self._clock.monotonic_s() - self._at_s

    def take(self, payload: bytes) -> None:
        """Use the model, or drop and count a message that cannot be used."""
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

    def _drop(self, reason: errors.Drop, detail: str) -> None:
        self._counted.model_drops.labels(reason.value).inc()
        self._log.warning(("model", reason.value), "model dropped", reason=reason.value, detail=detail)
