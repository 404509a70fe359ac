"""Sending: capacity as it changes, the local model to the aggregators. The newest replaces what was not sent yet."""

import asyncio
from collections.abc import Awaitable, Callable

from carico_agent import app, ports
from carico_core.domain import errors
from carico_core.wire import subjects

# Starts and ends of one moment share one message: a burst of Pods must not be a burst of messages.
COALESCE_S = 0.005


class Publishers:
    """Two senders, so that an aggregator's slow queue does not hold up the capacity."""

    def __init__(self, agent: app.Agent, bus: ports.Publisher, *, node: str) -> None:
        self._agent = agent
        self._bus = bus
        self._capacity_subject = subjects.capacity(node)
        self._subspace_subject = subjects.subspace(node)
        self._capacity_due = asyncio.Event()
        self._subspace_due = asyncio.Event()
        agent.when_due(capacity=self._capacity_due.set, subspace=self._subspace_due.set)

    def refresh(self) -> None:
        """Send everything again: after a reconnect others may have missed it."""
        self._capacity_due.set()
        self._subspace_due.set()

    async def send_capacities(self) -> None:
        """Publish each due advertisement until cancelled."""
        await self._whenever(self._capacity_due, "capacity", self._send_capacity)

    async def send_subspaces(self) -> None:
        """Enqueue each due local model until cancelled."""
        await self._whenever(self._subspace_due, "subspace", self._send_subspace)

    async def _send_capacity(self) -> None:
        payload = self._agent.next_capacity()
        if payload is not None:
            await self._bus.publish(self._capacity_subject, payload)
            await asyncio.sleep(COALESCE_S)

    async def _send_subspace(self) -> None:
        found = self._agent.next_subspace()
        if found is not None:
            await self._bus.enqueue(self._subspace_subject, found[0], msg_id=found[1])

    async def _whenever(self, due: asyncio.Event, kind: str, send: Callable[[], Awaitable[None]]) -> None:
        while True:
            await due.wait()
            due.clear()
            try:
                await send()
            except errors.BusError as error:
                self._agent.not_taken(kind, error)
