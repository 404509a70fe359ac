"""Metrics of a service's connection to the bus, of the same names in every service: read at each scrape."""

from typing import Protocol

from carico_core.runtime import bus as buses
from carico_core.runtime import metrics as metric


class Bus(Protocol):
    """What is read of the bus."""

    @property
    def connected(self) -> bool: ...

    @property
    def traffic(self) -> buses.Traffic: ...


class BusMetrics:
    """`carico_bus_...`; before there is a bus it counts as not connected."""

    def __init__(self, metrics: metric.Metrics) -> None:
        self._bus: Bus | None = None
        metrics.reading("bus_connected", "1 while messages can be sent to NATS", self._connected, shared=True)
        for name, meaning, labels, read in (
            ("bus_messages", "messages over the connection to NATS", ("direction",), self._messages),
            ("bus_bytes", "bytes of those messages", ("direction",), self._bytes),
            ("bus_reconnects", "times that the connection to NATS was made anew", (), self._reconnects),
        ):
            metrics.reading(name, meaning, read, labels=labels, kind=metric.Kind.COUNTER, shared=True)

    def watch(self, bus: Bus) -> None:
        """From now on `bus` is read."""
        self._bus = bus

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
