"""Prometheus metrics of one process: `carico_<service>_...`, and `carico_...` for those of every service."""

import asyncio
import dataclasses
import enum
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from carico_core.runtime.process import memory_use

# prometheus_client's own servers and its push gateway client take 1.2 MB, and `health` does not need them.
with memory_use.left_out("gzip", "http.server", "urllib.error", "urllib.request", "wsgiref.simple_server"):
    import prometheus_client
    from prometheus_client import exposition, metrics_core, process_collector, registry

CONTENT_TYPE = exposition.CONTENT_TYPE_LATEST
# Often enough to notice a stall of a second between two scrapes, rarely enough to cost nothing.
MEASURE_EVERY_S = 1.0
BUCKETS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


class Kind(enum.StrEnum):
    """The type of a metric in Prometheus."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """One metric in the documentation; `name` as in queries (a histogram's without its suffixes)."""

    name: str
    kind: Kind
    meaning: str
    labels: tuple[str, ...]
    buckets: tuple[float, ...]


_Labelled = TypeVar("_Labelled", prometheus_client.Counter, prometheus_client.Histogram)
# (values of the labels, value) of each series.
Readings = Iterable[tuple[tuple[str, ...], float]]


class Metrics:
    """The metrics of one service, in a registry of its own: services and tests in one process do not share one."""

    def __init__(self, service: str) -> None:
        self._prefix = f"carico_{service.replace('-', '_')}_"
        # Creation times of series are a third of the text, and Prometheus detects resets without them.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # the package leaves it without
        self.registry = registry.CollectorRegistry(auto_describe=True)
        process_collector.ProcessCollector(registry=self.registry)
        self._readings: dict[str, _Reading] = {}
        self._declared: dict[str, Declared] = {}

    @property
    def declared(self) -> tuple[Declared, ...]:
        """Every metric of this registry in the order of declaration, except those of the process itself."""
        return tuple(self._declared.values())

    def counter(
        self, name: str, meaning: str, labels: Sequence[str] = (), *, shared: bool = False
    ) -> prometheus_client.Counter:  # fmt: skip
        """Return a counter; Prometheus adds `_total` to its name. `shared`: with the same name in every service."""
        full = ("carico_" if shared else self._prefix) + name
        self._declare(f"{full}_total", Kind.COUNTER, meaning, labels)
        return _remembering(prometheus_client.Counter(full, meaning, labels, registry=self.registry))

    def gauge(self, name: str, meaning: str, labels: Sequence[str] = ()) -> prometheus_client.Gauge:
        """Return a gauge."""
        full = self._prefix + name
        self._declare(full, Kind.GAUGE, meaning, labels)
        return prometheus_client.Gauge(full, meaning, labels, registry=self.registry)

    def histogram(
        self, name: str, meaning: str, *, buckets: Sequence[float], labels: Sequence[str] = (), shared: bool = False
    ) -> prometheus_client.Histogram:
        """Return a histogram; `buckets` are upper bounds. `shared`: with the same name in every service."""
        full = ("carico_" if shared else self._prefix) + name
        self._declare(full, Kind.HISTOGRAM, meaning, labels, buckets)
        made = prometheus_client.Histogram(full, meaning, labels, buckets=tuple(buckets), registry=self.registry)
        return _remembering(made)

    def reading(
        self, name: str, meaning: str, read: Callable[[], Readings], *,
        labels: Sequence[str] = (), kind: Kind = Kind.GAUGE, shared: bool = False,
    ) -> None:  # fmt: skip
        """Declare a metric that is read at each scrape, and costs nothing in between. `shared` as for histograms.

        It replaces a reading with the same name, because its source may have been replaced, as a server is.
        """
        full = ("carico_" if shared else self._prefix) + name
        self._declare(full + ("_total" if kind is Kind.COUNTER else ""), kind, meaning, labels)
        old = self._readings.pop(full, None)
        if old is not None:
            self.registry.unregister(old)
        found = _Reading(full, meaning, read, labels=tuple(labels), kind=kind)
        self.registry.register(found)
        self._readings[full] = found

    def value(self, name: str, labels: dict[str, str] | None = None) -> float | None:
        """Return the current value of a sample by its name without prefix; None if it is unknown."""
        return self.registry.get_sample_value(self._prefix + name, labels or {})

    def render(self) -> bytes:
        """Return the text that Prometheus scrapes."""
        return exposition.generate_latest(self.registry)

    def _declare(
        self, name: str, kind: Kind, meaning: str, labels: Sequence[str], buckets: Sequence[float] = ()
    ) -> None:
        self._declared[name] = Declared(
            name=name, kind=kind, meaning=meaning, labels=tuple(labels), buckets=tuple(buckets)
        )


class _Reading(registry.Collector):
    """A metric whose series are read at each scrape."""

    def __init__(
        self, name: str, meaning: str, read: Callable[[], Readings], *, labels: tuple[str, ...], kind: Kind
    ) -> None:
        self._name = name
        self._meaning = meaning
        self._read = read
        self._labels = labels
        self._kind = kind

    def describe(self) -> Iterable[metrics_core.Metric]:
        """Return the family without series, so that registration reads nothing."""
        return [self._family()]

    def collect(self) -> Iterable[metrics_core.Metric]:
        """Return the family with its current values."""
        found = self._family()
        for labels, value in self._read():
            found.add_metric(labels, value)
        return [found]

    def _family(self) -> metrics_core.CounterMetricFamily | metrics_core.GaugeMetricFamily:
        kind = metrics_core.CounterMetricFamily if self._kind is Kind.COUNTER else metrics_core.GaugeMetricFamily
        return kind(self._name, self._meaning, labels=self._labels)


def _remembering(made: _Labelled) -> _Labelled:
    """Let a metric remember its series by their labels: to look one up takes five times as long as to count.

    A scheduler counts several times a Pod. No series is ever removed: what is remembered would count on.
    """
    made.labels = functools.cache(made.labels)  # type: ignore[method-assign]
    return made


class LoopWatch:
    """Measures `carico_loop_lag_seconds`."""

    def __init__(self, metrics: Metrics) -> None:
        self._lag_s = metrics.histogram(
            "loop_lag_seconds", "how late the event loop woke a sleeping task", buckets=BUCKETS_S,
            shared=True,
        )  # fmt: skip

    async def run(self) -> None:
        """Measure the lag once a second until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + MEASURE_EVERY_S
            await asyncio.sleep(MEASURE_EVERY_S)
            self._lag_s.observe(max(loop.time() - due_s, 0.0))
