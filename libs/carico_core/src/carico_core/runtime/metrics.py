"""Prometheus metrics of one process, all named `carico_<service>_...`."""

from collections.abc import Sequence

import prometheus_client
from prometheus_client import exposition, process_collector, registry

CONTENT_TYPE = exposition.CONTENT_TYPE_LATEST


class Metrics:
    """A registry of its own: two services in one process, or two tests, do not meet in a global one."""

    def __init__(self, service: str) -> None:
        self._prefix = f"carico_{service.replace('-', '_')}_"
        self.registry = registry.CollectorRegistry(auto_describe=True)
        process_collector.ProcessCollector(registry=self.registry)

    def counter(self, name: str, meaning: str, labels: Sequence[str] = ()) -> prometheus_client.Counter:
        """A counter; Prometheus adds `_total` to its name."""
        return prometheus_client.Counter(self._prefix + name, meaning, labels, registry=self.registry)

    def gauge(self, name: str, meaning: str, labels: Sequence[str] = ()) -> prometheus_client.Gauge:
        """A gauge."""
        return prometheus_client.Gauge(self._prefix + name, meaning, labels, registry=self.registry)

    def histogram(
        self, name: str, meaning: str, *, buckets: Sequence[float], labels: Sequence[str] = ()
    ) -> prometheus_client.Histogram:
        """A histogram with the upper bounds of its buckets."""
        return prometheus_client.Histogram(
            self._prefix + name, meaning, labels, buckets=tuple(buckets), registry=self.registry
        )

    def value(self, name: str, labels: dict[str, str] | None = None) -> float | None:
        """The current value of a sample by its name without prefix, for tests and state queries; None: not known."""
        return self.registry.get_sample_value(self._prefix + name, labels or {})

    def render(self) -> bytes:
        """The text that Prometheus scrapes."""
        return exposition.generate_latest(self.registry)
