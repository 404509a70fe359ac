"""The aggregator's metrics: carico_aggregator_..."""

import functools
from collections.abc import Callable

from carico_core.domain import errors
from carico_core.runtime.bus import port as buses
from carico_core.runtime.observe import logs
from carico_core.runtime.observe import metrics as metric
from carico_core.runtime.process import clock as clocks

BATCH_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 257)


class Instruments:
    """Every series, and the log of dropped messages (once a minute per writer and reason)."""

    def __init__(self, metrics: metric.Metrics, *, clock: clocks.Clock) -> None:
        self.reports = metrics.counter("subspaces", "local subspaces taken in", ("result",))
        self.batch_messages = metrics.histogram("batch_messages", "messages of a batch", buckets=BATCH_BUCKETS)
        self.drops = metrics.counter("drops", "messages dropped", ("kind", "reason"))
        self.adopted = metrics.counter("entries_adopted", "entries taken over from other replicas")
        self.models = metrics.counter("models_published", "models broadcast")
        self.publish_errors = metrics.counter("publish_errors", "messages that the bus did not accept", ("kind",))
        self.nodes = metrics.gauge("nodes", "live nodes")
        self.odd_nodes = metrics.gauge("odd_nodes", "nodes left out because they measure other dimensions")
        self.doubted_nodes = metrics.gauge(
            "doubted_nodes", "nodes of which something is left out because no other supports it"
        )
        self.replicas = metrics.gauge("replicas", "live replicas, this one included")
        self.model_s = metrics.histogram(
            "model_seconds", "time to make the model", buckets=(0.0001, 0.001, 0.01, 0.1, 1.0)
        )
        self.take_s = metrics.histogram(
            "take_seconds", "time to take in a batch", buckets=(0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 1.0)
        )
        self.oldest_s = metrics.gauge("oldest_entry_seconds", "age of the oldest entry of a live node")
        self._stream_messages = metrics.gauge("stream_messages", "messages in a stream", ("stream",))
        self._stream_bytes = metrics.gauge("stream_bytes", "bytes in a stream", ("stream",))
        self._pending = metrics.gauge("queue_pending_messages", "reports not yet delivered to a replica")
        self._given = metrics.gauge("queue_unacknowledged_messages", "reports delivered and not yet acknowledged")
        self._again = metrics.gauge("queue_redelivered_messages", "of those, delivered more than once")
        self.looks_failed = metrics.counter("stream_looks_failed", "failed reads of the streams' state")
        self.usages = metrics.counter("usage_reports", "reports of what Pods use that were taken in")
        self._metrics = metrics
        self._limited = logs.RateLimited(logs.get("intake"), clock=clock)

    def read_recommended(self, read: Callable[[], list[tuple[str, dict[str, float]]]]) -> None:
        """Read the recommended requests from `read` at each scrape."""
        for name, dimension, meaning in (
            ("recommended_cpu_cores", "cpu", "recommended CPU request of a Pod, of the classes with most Pods"),
            (
                "recommended_memory_bytes",
                "memory",
                "recommended memory request of a Pod; the 50 classes with most Pods",
            ),
        ):
            self._metrics.reading(name, meaning, functools.partial(_series, read, dimension), labels=("class",))

    def show_backlog(self, found: buses.Backlog) -> None:
        """Set the gauges of the streams and the queue."""
        for each in found.streams:
            self._stream_messages.labels(each.stream).set(each.messages)
            self._stream_bytes.labels(each.stream).set(each.size_bytes)
        self._pending.set(found.pending)
        self._given.set(found.unacknowledged)
        self._again.set(found.redelivered)

    def dropped(self, kind: str, subject: str, error: errors.MessageError) -> None:
        """Count a message that was refused, and log it at most once a minute per writer and reason."""
        self.drops.labels(kind, error.reason.value).inc()
        self._limited.warning(
            (kind, subject, error.reason), "message dropped", subject=subject, reason=error.reason.value, why=str(error)
        )


def _series(read: Callable[[], list[tuple[str, dict[str, float]]]], dimension: str) -> metric.Readings:
    return [((name,), requests[dimension]) for name, requests in read() if dimension in requests]
