"""The recommender's metrics: carico_recommender_..."""

import enum
from collections.abc import Callable

from carico_core.runtime.observe import metrics as metric


class Written(enum.StrEnum):
    """What became of a status that was to be written."""

    WRITTEN = "written"
    # The object has changed or is gone: the next round looks again.
    CHANGED = "changed"
    FAILED = "failed"


class State(enum.StrEnum):
    """What an object was given in the last round."""

    PROVIDED = "provided"
    LOW_CONFIDENCE = "low_confidence"
    WITHHELD = "withheld"
    # Amounts that a LimitRange of the namespace does not allow.
    NAMESPACE_REFUSES = "namespace_refuses"
    UNSUPPORTED = "unsupported"


class Instruments:
    """Every series."""

    def __init__(self, metrics: metric.Metrics) -> None:
        self.classes = metrics.gauge("classes", "classes in the aggregators' last answer")
        self.ask_errors = metrics.counter("ask_errors", "questions to the aggregators without a usable answer")
        self.objects = metrics.gauge(
            "autoscalers", "VerticalPodAutoscaler objects that name this recommender, by what they got", ("state",)
        )
        self.writes = metrics.counter("status_writes", "statuses of VerticalPodAutoscaler objects", ("result",))
        self.round_s = metrics.histogram(
            "round_seconds", "time to look at all VerticalPodAutoscaler objects, without writing",
            buckets=(0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0),
        )  # fmt: skip
        self.reviews = metrics.counter("reviews", "new Pods that the webhook was asked about", ("result",))
        self.refused_connections = metrics.counter(
            "refused_connections", "connections to the webhook that were closed, as there were too many"
        )
        self.review_s = metrics.histogram(
            "review_seconds", "time to answer about a new Pod, without the transport",
            buckets=(0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1),
        )  # fmt: skip
        self._metrics = metrics
        self.leading = metrics.gauge("leading", "1 if this replica writes, 0 if it is a standby")

    def read_certificate(self, left_s: Callable[[], float | None]) -> None:
        """Read how long the webhook's certificate is valid at each scrape."""
        self._metrics.reading(
            "certificate_left_seconds", "how long the webhook's certificate is still valid",
            lambda: [((), left)] if (left := left_s()) is not None else [],
        )  # fmt: skip
