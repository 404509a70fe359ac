"""Hears the advertisements of all nodes by one subscription, and while a node floods, of each other node by its own.

NATS has no limit on the rate of messages, and sends a connection everything in the order in which it came: behind a
flood the reports of all nodes are late, and no Pod is bound by reports that are late. So the server must not send the
flood in the first place, and a subscription to all nodes cannot leave one out.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from carico_core.runtime.bus import port as buses
from carico_core.runtime.bus import serving
from carico_core.runtime.process import clock as clocks
from carico_core.wire import subjects

# What a node may send in WINDOW_S. An agent publishes once a second and 5 ms after a Pod's start or end. What has
# waited for a scheduler that was frozen comes all at once: this is a minute of 80 starts and ends a second.
MOST_MESSAGES = 5_000
WINDOW_S = 1.0
# For how long a node that has sent more is not heard. As long as carico-auth does not let it in.
REFUSED_S = 60.0
# Nodes that appear while another one floods are heard after so long.
_LOOK_S = 1.0
# All senders that are not Nodes count together: an agent's key that is not bound to a node can name any.
STRANGERS = subjects.CAPACITY_ALL
FLOOD = "flood"


class Bus(Protocol):
    """The part of the bus that delivers advertisements."""

    async def subscribe(self, subject: str, handler: buses.Handler) -> buses.Subscription:
        """Call `handler` with every message of `subject`."""

    async def subscribe_each(
        self, subjects: Collection[str], handler: buses.Handler
    ) -> Mapping[str, buses.Subscription]:
        """Call `handler` with every message of each of `subjects`."""


class Listening:
    """The subscriptions, and how much each node has sent lately.

    `names` returns the names of all Nodes. `on_drop(subject, reason, detail)` is called when a node is heard no more.
    """

    def __init__(
        self, take: buses.Handler, *, names: Callable[[], list[str]], on_drop: Callable[[str, str, str], None],
        clock: clocks.Clock,
    ) -> None:  # fmt: skip
        self._take = take
        self._names = names
        self._on_drop = on_drop
        self._clock = clock
        self._listed: list[str] = []
        # The subjects of these Nodes.
        self._known: set[str] = set()
        # How many messages each subject has had in this window.
        self._counts: dict[str, int] = {}
        self._window_end_s = 0.0
        # Until when, by subject.
        self._refused: dict[str, float] = {}
        self._flooded = asyncio.Event()
        # To all nodes, or to each of these.
        self._all: buses.Subscription | None = None
        self._each: dict[str, buses.Subscription] = {}

    async def run_forever(self, bus: Bus) -> None:
        """Keep the subscriptions as they should be, until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await self._flooded.wait()
            self._flooded.clear()
            await serving.until_taken(lambda: self.arrange(bus))

    async def arrange(self, bus: Bus) -> None:
        """Subscribe to all nodes, or while some flood, to each of the others. Raises `BusUnavailable`."""
        if (names := self._names()) != self._listed:
            self._listed, self._known = names, set(map(subjects.capacity, names))
        now_s = self._clock.monotonic_s()
        self._refused = {subject: until_s for subject, until_s in self._refused.items() if now_s < until_s}
        wanted = self._known - self._refused.keys() if self._refused else set()
        self._each.update(await bus.subscribe_each(wanted - self._each.keys(), self.on_message))
        # The server takes these in order: in between, nothing is missed.
        if not self._refused:
            self._all = self._all or await bus.subscribe(subjects.CAPACITY_ALL, self.on_message)
        elif self._all is not None:
            await self._all.unsubscribe()
            self._all = None
        for subject in self._each.keys() - wanted:
            await self._each.pop(subject).unsubscribe()

    def on_message(self, subject: str, payload: bytes) -> None:
        """Take in a message, unless its sender floods."""
        # Which names are strangers is not known before the first list of Nodes.
        if not self._known:
            self._take(subject, payload)
            return
        sender = subject if subject in self._known else STRANGERS
        if sender in self._refused:
            return
        now_s = self._clock.monotonic_s()
        if now_s >= self._window_end_s:
            self._window_end_s = now_s + WINDOW_S
            self._counts.clear()
        self._counts[sender] = count = self._counts.get(sender, 0) + 1
        if count <= MOST_MESSAGES:
            self._take(subject, payload)
            return
        self._refused[sender] = now_s + REFUSED_S
        self._flooded.set()
        self._on_drop(sender, FLOOD, f"sends far too many: not heard for {REFUSED_S:g} s")
