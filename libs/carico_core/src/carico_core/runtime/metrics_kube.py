"""Metrics of what a service asks of the Kubernetes API, of the same names in every service that does."""

from typing import TYPE_CHECKING

from carico_core.runtime import metrics as metric

if TYPE_CHECKING:
    import prometheus_client

# Around the API's own aim of 1 s for one object (Kubernetes' service levels, sig-scalability); requests end after 10 s.
_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0)


class KubeMetrics:
    """`carico_kube_...`; `asked` is what `kube.connect` tells of each request."""

    def __init__(self, metrics: metric.Metrics) -> None:
        self._requests = metrics.counter(
            "kube_requests", "requests to the Kubernetes API; WATCH: one that began; code none: no answer came",
            ("verb", "code"), shared=True,
        )  # fmt: skip
        self._request_s = metrics.histogram(
            "kube_request_seconds", "time until the Kubernetes API had answered, waits for a turn apart",
            buckets=_SECONDS, labels=("verb",), shared=True,
        )  # fmt: skip
        # Looking up labels costs more than counting, and a scheduler sends thousands of requests a second.
        self._counters: dict[tuple[str, str], prometheus_client.Counter] = {}
        self._histograms: dict[str, prometheus_client.Histogram] = {}

    def asked(self, verb: str, code: str, took_s: float) -> None:
        """Nothing; one request is counted."""
        counter = self._counters.get((verb, code))
        if counter is None:
            counter = self._counters[verb, code] = self._requests.labels(verb, code)
        histogram = self._histograms.get(verb)
        if histogram is None:
            histogram = self._histograms[verb] = self._request_s.labels(verb)
        counter.inc()
        histogram.observe(took_s)
