"""Metrics of a service's bus connection and API requests, with the same names in every service."""

from typing import Protocol

from carico_core.runtime.bus import port as buses
from carico_core.runtime.bus.security import refusals
from carico_core.runtime.observe import metrics as metric

# Around the API's target of 1 s for one object (service level of sig-scalability); requests time out after 10 s.
_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0)


class Bus(Protocol):
    """The part of the bus that is read."""

    @property
    def connected(self) -> bool: ...

    @property
    def traffic(self) -> buses.Traffic: ...


class BusMetrics:
    """`carico_bus_...`; not connected until `watch` is called."""

    def __init__(self, metrics: metric.Metrics) -> None:
        self._bus: Bus | None = None
        self._trouble: refusals.Trouble | None = None
        self._troubles = metrics.counter(
            "bus_troubles", "what went wrong with the connection to NATS, by kind; each retry counts", ("kind",),
            shared=True,
        )  # fmt: skip
        metrics.reading("bus_connected", "1 while messages can be sent to NATS", self._connected, shared=True)
        for name, meaning, labels, read in (
            ("bus_messages", "messages on the connection to NATS", ("direction",), self._messages),
            ("bus_bytes", "bytes of those messages", ("direction",), self._bytes),
            ("bus_reconnects", "reconnects to NATS", (), self._reconnects),
        ):
            metrics.reading(name, meaning, read, labels=labels, kind=metric.Kind.COUNTER, shared=True)

    def watch(self, bus: Bus) -> None:
        """Read `bus` from now on."""
        self._bus = bus

    def trouble(self, found: refusals.Trouble) -> None:
        """Count what went wrong; pass it to `nats_bus.connect`."""
        self._trouble = found
        self._troubles.labels(found.kind.value).inc()

    def why_not(self) -> str | None:
        """Return why nothing can be sent now; None while connected."""
        if self._bus is not None and self._bus.connected:
            self._trouble = None
            return None
        why = "" if self._trouble is None else f": {self._trouble.text}"
        return f"not connected to NATS{why}"

    def _connected(self) -> metric.Readings:
        return [((), float(self._bus is not None and self._bus.connected))]

    @property
    def _traffic(self) -> buses.Traffic:
        return buses.Traffic() if self._bus is None else self._bus.traffic

    def _messages(self) -> metric.Readings:
        return [(("in",), self._traffic.in_messages), (("out",), self._traffic.out_messages)]

    def _bytes(self) -> metric.Readings:
        return [(("in",), self._traffic.in_bytes), (("out",), self._traffic.out_bytes)]

    def _reconnects(self) -> metric.Readings:
        return [((), self._traffic.reconnects)]


class KubeMetrics:
    """`carico_kube_...`; pass `asked` to `kube.connect` as the observer of requests."""

    def __init__(self, metrics: metric.Metrics) -> None:
        self._requests = metrics.counter(
            "kube_requests", "requests to the Kubernetes API; WATCH: watches that started; code none: no answer",
            ("verb", "code"), shared=True,
        )  # fmt: skip
        self._request_s = metrics.histogram(
            "kube_request_seconds", "time until the Kubernetes API answered, not counting waits for a slot",
            buckets=_SECONDS, labels=("verb",), shared=True,
        )  # fmt: skip

    def asked(self, verb: str, code: str, took_s: float) -> None:
        """Count one request."""
        self._requests.labels(verb, code).inc()
        self._request_s.labels(verb).observe(took_s)
