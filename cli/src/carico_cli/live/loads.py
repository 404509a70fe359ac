"""What single Pods use, as their nodes' agents report it: asked for once it is looked at, and listened to from then on.

1,000 nodes send 100 reports a second, and who hears them needs a third more CPU (`python -m bench top`).
"""

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from carico_core.domain import errors, pod_telemetry
from carico_core.runtime.bus import port as buses
from carico_core.runtime.process import clock as clocks
from carico_core.wire import freshness, subjects
from carico_core.wire import messages as wire

# The interval of agents' reports: after it, each has sent one.
EVERY_S = 10.0
# An older report, after two that were lost, is not what a Pod uses now.
HOLDS_S = 3.0 * EVERY_S
AGAIN_S = 1.0
# An agent answers within milliseconds, and NATS at once for a node without one. Fewer at once than doctor asks: each
# answer may have 64 KiB.
ANSWER_S = 1.0
ASKED_AT_ONCE = 32


class Bus(Protocol):
    """The bus."""

    async def subscribe(self, subject: str, handler: buses.Handler) -> buses.Subscription: ...

    async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes: ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Heard:
    """The loads of one node's Pods by UID, and the monotonic time of their arrival."""

    loads: Mapping[str, pod_telemetry.PodLoad]
    at_s: float


class Loads:
    """The newest report of each node. `on_drop`: called with the reason for which a message could not be used.

    `names`: the nodes that are asked where all are looked at.
    """

    def __init__(
        self, *, clock: clocks.Clock, lease_s: float, on_drop: Callable[[errors.Drop], None],
        names: Callable[[], Iterable[str]],
    ) -> None:  # fmt: skip
        self._clock = clock
        self._names = names
        self._guard = freshness.SequenceGuard(lease_s)
        self._on_drop = on_drop
        self._nodes: dict[str, _Heard] = {}
        # What is looked at; None: nothing. The event is set once that has changed.
        self._subject: str | None = None
        self._changed = asyncio.Event()
        # Set once the agents of what is looked at have answered, or failed to.
        self.asked = asyncio.Event()

    def watch(self, node: str | None = None) -> None:
        """Listen to a node, or to all (None), in place of what was listened to before."""
        try:
            self._subject = subjects.PODS_ALL if node is None else subjects.pods(node)
        except errors.BadName:
            # No node has such a name.
            self._subject = None
        self.asked.clear()
        self._changed.set()

    def end(self) -> None:
        """Listen to no node any more."""
        self._subject = None
        self._changed.set()

    async def follow(self, bus: Bus) -> None:
        """Be subscribed to what is looked at, until cancelled."""
        heard: str | None = None
        subscription: buses.Subscription | None = None
        while True:
            self._changed.clear()
            wanted = self._subject
            if subscription is not None and wanted != heard:
                await subscription.unsubscribe()
                subscription = None
            if subscription is None and wanted is not None:
                try:
                    subscription, heard = await bus.subscribe(wanted, self.take), wanted
                except errors.BusUnavailable:
                    await asyncio.sleep(AGAIN_S)
                    continue
            if wanted is not None:
                # Also if it was subscribed to before: who looked away and back may have ended the questions.
                await self._ask(bus, wanted)
            await self._changed.wait()

    async def _ask(self, bus: Bus, subject: str) -> None:
        """Ask the agents for what they reported last: their next reports come within `EVERY_S`."""
        names = list(self._names()) if subject == subjects.PODS_ALL else [subjects.node_of(subject)]
        for begin in range(0, len(names), ASKED_AT_ONCE):
            if self._changed.is_set():
                return
            await asyncio.gather(*(self._ask_one(bus, name) for name in names[begin : begin + ASKED_AT_ONCE]))
        self.asked.set()

    async def _ask_one(self, bus: Bus, node: str) -> None:
        # A node that kwok plays has no agent.
        with contextlib.suppress(errors.BusError):
            answer = await bus.request(subjects.query("agent", "loads.get", node), b"", timeout_s=ANSWER_S)
            self.take(subjects.pods(node), answer)

    def take(self, subject: str, payload: bytes) -> None:
        """Take in a report."""
        now_s = self._clock.monotonic_s()
        try:
            found = wire.decode_loads(payload, subject=subject)
        except errors.MessageError as error:
            self._on_drop(error.reason)
            return
        refused = self._guard.accept(found.node, found.boot, found.seq, now_s)
        if refused is not None:
            self._on_drop(refused)
            return
        self._nodes[found.node] = _Heard(loads=found.loads, at_s=now_s)

    def now(self) -> dict[str, Mapping[str, pod_telemetry.PodLoad]]:
        """Return node -> UID -> load, without reports that are too old."""
        now_s = self._clock.monotonic_s()
        self._nodes = {name: heard for name, heard in self._nodes.items() if now_s - heard.at_s <= HOLDS_S}
        return {name: heard.loads for name, heard in self._nodes.items()}
