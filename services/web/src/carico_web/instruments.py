"""The page server's metrics: carico_web_..."""

from carico_core.runtime.observe import metrics as metric

ANSWER_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.02, 0.1, 1.0)


class Instruments:
    """All series."""

    def __init__(self, metrics: metric.Metrics) -> None:
        self.responses = metrics.counter("responses", "responses by status", ["status"])
        self.answer_s = metrics.histogram("answer_seconds", "time to compute a response", buckets=ANSWER_BUCKETS_S)
