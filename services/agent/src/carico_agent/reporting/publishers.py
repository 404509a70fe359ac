"""Send capacity whenever it changes, the local model and the Pods' usage to the aggregators, and the Pods' loads
and traffic.

All are plain publishes without acknowledgements. The next capacity and the next model are newer, and follow within a
second; a report of usage that was not sent is part of the next one.
"""

import asyncio
from collections.abc import Awaitable, Callable

from carico_agent import app, ports
from carico_agent.reporting import traffic_reports
from carico_core.domain import errors
from carico_core.wire import codec, subjects
from carico_core.wire import messages as wire

# Starts and ends within this time share one message: a burst of Pods must not cause a burst of messages.
COALESCE_S = 0.005


class Publishers:
    """Senders, one for each kind of report."""

    def __init__(self, agent: app.Agent, bus: ports.Publisher, *, node: str) -> None:
        self._agent = agent
        self._bus = bus
        self._capacity_subject = subjects.capacity(node)
        self._subspace_subject = subjects.subspace(node)
        self._usage_subject = subjects.usage(node)
        self._loads_subject = subjects.pods(node)
        self._traffic_subject = subjects.traffic(node)
        self._capacity_due = asyncio.Event()
        self._subspace_due = asyncio.Event()
        self._usage_due = asyncio.Event()
        self._loads_due = asyncio.Event()
        agent.when_due(capacity=self._capacity_due.set, subspace=self._subspace_due.set)
        if agent.usage_reports is not None:
            agent.usage_reports.when_due(usage=self._usage_due.set, loads=self._loads_due.set)

    def refresh(self) -> None:
        """Send everything again: after a reconnect others may have missed it."""
        self._capacity_due.set()
        self._subspace_due.set()

    async def send_capacities(self) -> None:
        """Publish each due advertisement until cancelled."""
        await self._whenever(self._capacity_due, "capacity", self._send_capacity)

    async def send_subspaces(self) -> None:
        """Publish each due local model until cancelled."""
        await self._whenever(self._subspace_due, "subspace", self._send_subspace)

    async def send_usages(self) -> None:
        """Publish each due report of usage until cancelled."""
        await self._whenever(self._usage_due, "usage", self._send_usage)

    async def send_loads(self) -> None:
        """Publish each due report of the Pods' loads until cancelled."""
        await self._whenever(self._loads_due, "pods", self._send_loads)

    async def send_traffic(self, reports: traffic_reports.TrafficReports) -> None:
        """Publish a report of traffic at each interval until cancelled. One that was not sent is part of the next."""
        while True:
            await asyncio.sleep(traffic_reports.TRAFFIC_EVERY_S)
            report = reports.next()
            try:
                await self._send(self._traffic_subject, wire.encode_traffic(report))
                self._agent.sent("traffic")
            except errors.BusError as error:
                reports.put_back(report)
                self._agent.not_taken("traffic", error)

    async def _send_capacity(self) -> None:
        payload = self._agent.next_capacity()
        if payload is not None:
            await self._send(self._capacity_subject, payload)
            await asyncio.sleep(COALESCE_S)

    async def _send_subspace(self) -> None:
        found = self._agent.next_subspace()
        if found is not None:
            await self._send(self._subspace_subject, found)

    async def _send_loads(self) -> None:
        reports = self._agent.usage_reports
        if reports is not None:
            self._agent.sent("pods")
            await self._send(self._loads_subject, wire.encode_loads(reports.next_loads()))

    async def _send_usage(self) -> None:
        reports = self._agent.usage_reports
        report = None if reports is None else reports.next_usage()
        if reports is None or report is None:
            return
        self._agent.sent("usage")
        try:
            await self._send(self._usage_subject, wire.encode_usage(report))
        except errors.BusError:
            reports.put_back(report)
            raise

    async def _send(self, subject: str, payload: bytes) -> None:
        if len(payload) > codec.PAYLOAD_MAX_BYTES:
            # NATS would close the connection of an agent that sends more, and readers accept no more.
            raise errors.BusUnavailable(f"{subject}: {len(payload)} bytes, more than {codec.PAYLOAD_MAX_BYTES}")
        await self._bus.publish(subject, payload)

    async def _whenever(self, due: asyncio.Event, kind: str, send: Callable[[], Awaitable[None]]) -> None:
        while True:
            await due.wait()
            due.clear()
            try:
                await send()
            except errors.BusError as error:
                self._agent.not_taken(kind, error)
