"""Hears what agents report by one subscription to all nodes, and while a node floods, by one for each other node.

NATS has no limit on the rate of messages, and sends a connection everything in the order in which it came: behind a
flood all else is late, and a service's memory and CPU are the flood's. So the server must not send the flood in the
first place, and a subscription to all nodes cannot leave one out.
"""

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from carico_core.domain import errors
from carico_core.runtime.bus import port as buses
from carico_core.runtime.bus import serving
from carico_core.runtime.process import clock as clocks
from carico_core.wire import subjects

# For how long a node that has sent too much is not heard. As long as carico-auth does not let it in.
REFUSED_S = 60.0
# Nodes that appear while another one floods are heard after so long.
_LOOK_S = 1.0


class Bus(Protocol):
    """The part of the bus that delivers what agents report."""

    async def subscribe(self, subject: str, handler: buses.Handler) -> buses.Subscription:
        """Call `handler` with every message of `subject`."""
        ...

    async def subscribe_each(
        self, subjects: Collection[str], handler: buses.Handler
    ) -> Mapping[str, buses.Subscription]:
        """Call `handler` with every message of each of `subjects`."""
        ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """How many messages are taken within `window_s`: `most` of a node, and `of_strangers` of all other senders.

    Those count together: an agent's key that is not bound to a node can name any.
    """

    most: int
    of_strangers: int
    window_s: float


class Listening:
    """The subscriptions to one kind of report, and how much each node has sent lately."""

    def __init__(
        self, take: buses.Handler, *, subject: str, allowed: Allowance, names: Callable[[], list[str]],
        on_drop: Callable[[str, errors.Drop, str], None], clock: clocks.Clock,
    ) -> None:  # fmt: skip
        """`subject` is that of all nodes, `names` returns those that are known.

        `on_drop(subject, reason, detail)` is called when a node is heard no more.
        """
        self._take = take
        self._subject = subject
        self._allowed = allowed
        self._names = names
        self._on_drop = on_drop
        self._clock = clock
        self._listed: list[str] = []
        # The subjects of these nodes.
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
            self._listed, self._known = names, {subjects.of_node(self._subject, name) for name in names}
        now_s = self._clock.monotonic_s()
        self._refused = {subject: until_s for subject, until_s in self._refused.items() if now_s < until_s}
        wanted = self._known - self._refused.keys() if self._refused else set()
        self._each.update(await bus.subscribe_each(wanted - self._each.keys(), self.on_message))
        # The server takes these in order: in between, nothing is missed.
        if not self._refused:
            self._all = self._all or await bus.subscribe(self._subject, self.on_message)
        elif self._all is not None:
            await self._all.unsubscribe()
            self._all = None
        for subject in self._each.keys() - wanted:
            await self._each.pop(subject).unsubscribe()

    def on_message(self, subject: str, payload: bytes) -> None:
        """Take in a message, unless its sender floods."""
        # Which names are strangers is not known before the first nodes are: until then, each counts by itself.
        is_known = subject in self._known or not self._known
        sender = subject if is_known else self._subject
        if sender in self._refused:
            return
        now_s = self._clock.monotonic_s()
        if now_s >= self._window_end_s:
            self._window_end_s = now_s + self._allowed.window_s
            self._counts.clear()
        self._counts[sender] = count = self._counts.get(sender, 0) + 1
        if count <= (self._allowed.most if is_known else self._allowed.of_strangers):
            self._take(subject, payload)
            return
        self._refused[sender] = now_s + REFUSED_S
        self._flooded.set()
        self._on_drop(sender, errors.Drop.FLOOD, f"sends far too many: not heard for {REFUSED_S:g} s")
