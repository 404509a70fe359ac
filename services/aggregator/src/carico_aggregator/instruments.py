"""The aggregator's metrics: carico_aggregator_..."""

from carico_core.domain import errors
from carico_core.runtime import clock as clocks
from carico_core.runtime import logs
from carico_core.runtime import metrics as metric

BATCH_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 257)


class Instruments:
    """Every series, and the log of dropped messages (once a minute per writer and reason)."""

    def __init__(self, metrics: metric.Metrics, *, clock: clocks.Clock) -> None:
        self.reports = metrics.counter("subspaces", "local subspaces taken in", ("result",))
        self.batch_messages = metrics.histogram("batch_messages", "messages of a batch", buckets=BATCH_BUCKETS)
        self.drops = metrics.counter("drops", "messages dropped", ("kind", "reason"))
        self.adopted = metrics.counter("entries_adopted", "entries taken over from other replicas")
        self.models = metrics.counter("models_published", "models broadcast")
        self.publish_errors = metrics.counter("publish_errors", "messages the bus did not take", ("kind",))
        self.nodes = metrics.gauge("nodes", "live nodes")
        self.odd_nodes = metrics.gauge("odd_nodes", "nodes left out because their dimensions are others'")
        self.replicas = metrics.gauge("replicas", "live replicas, this one included")
        self.model_s = metrics.histogram(
            "model_seconds", "time to make the model", buckets=(0.0001, 0.001, 0.01, 0.1, 1.0)
        )
        self._limited = logs.RateLimited(logs.get("intake"), clock=clock)

    def dropped(self, kind: str, subject: str, error: errors.MessageError) -> None:
        """Counts a message that was refused."""
        self.drops.labels(kind, error.reason.value).inc()
        self._limited.warning(
            (kind, subject, error.reason), "message dropped", subject=subject, reason=error.reason.value, why=str(error)
        )
