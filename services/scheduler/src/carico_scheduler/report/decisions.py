"""Decision records: created, remembered for queries, and published while the bus is available."""

import asyncio
import collections
from collections.abc import Callable
from typing import NamedTuple, Protocol

from carico_core.domain import decision, errors
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_scheduler.pods import queue as queues

# Newest decision per Pod, for `decision.get`; the stream on the bus keeps more of them, for longer.
REMEMBERED_MAX = 8192
# Records kept while the bus is unavailable. Beyond that the oldest is dropped: no decision depends on records.
UNPUBLISHED_MAX = 4096
RETRY_S = 0.5
# Records are published together with those that follow within this time: one write to the bus, not one for each.
TOGETHER_S = 0.02


class Publisher(Protocol):
    """The part of the bus that publishes."""

    async def publish(self, subject: str, payload: bytes) -> None:
        """Publish a message. Raises `BusUnavailable`."""


class Facts(NamedTuple):
    """The content of a record about one attempt, apart from the Pod and the time."""

    outcome: decision.Outcome
    node: str | None
    free: float | None
    candidates: tuple[decision.Candidate, ...]
    refused: dict[str, int]
    message: str
    decided_us: float = 0.0


class Log:
    """Decision records of this scheduler."""

    def __init__(
        self,
        *,
        boot: str,
        threshold: float,
        clock: clocks.Clock,
        on_record: Callable[[Facts], None],
        on_drop: Callable[[], None],
        scheduler: str = "",
    ) -> None:
        """`scheduler`: the name of its start."""
        self._boot = boot
        self._scheduler = scheduler
        self._threshold = threshold
        self._clock = clock
        self._on_record = on_record
        self._on_drop = on_drop
        self._seq = 0
        # The payload once it is published: of thousands of records, objects take three times as much memory, in small
        # pieces among those of others, which pages of the allocator are not given back for.
        self._latest: collections.OrderedDict[tuple[str, str], decision.Decision | bytes] = collections.OrderedDict()
        self._unpublished: collections.deque[decision.Decision] = collections.deque()
        self._more = asyncio.Event()

    def record(self, waiting: queues.Waiting, facts: Facts) -> decision.Decision:
        """Create a record of an attempt to place a Pod, remember it and queue it for the bus; return it."""
        self._seq += 1
        pod = waiting.pod
        made = decision.Decision(
            id=f"{self._boot}-{self._seq}",
            boot=self._boot,
            seq=self._seq,
            ts_ns=self._clock.wall_ns(),
            namespace=pod.namespace,
            pod=pod.name,
            uid=pod.uid,
            outcome=facts.outcome,
            node=facts.node,
            free=facts.free,
            threshold=self._threshold,
            attempt=waiting.attempts,
            waited_s=max(self._clock.monotonic_s() - waiting.began_s, 0.0),
            decided_us=facts.decided_us,
            candidates=facts.candidates,
            refused=facts.refused,
            message=facts.message,
            lost=dict(waiting.lost),
            scheduler=self._scheduler,
        )
        self._remember(made)
        self._on_record(facts)
        if len(self._unpublished) >= UNPUBLISHED_MAX:
            self._unpublished.popleft()
            self._on_drop()
        self._unpublished.append(made)
        self._more.set()
        return made

    def latest(self, namespace: str, pod: str) -> decision.Decision | None:
        """Return the newest decision about a Pod that this scheduler remembers."""
        found = self._latest.get((namespace, pod))
        if isinstance(found, bytes):
            return wire.decode_decision(found, subject=subjects.decision(namespace, pod))
        return found

    @property
    def unpublished_count(self) -> int:
        """Records that wait for the bus."""
        return len(self._unpublished)

    async def publish_forever(self, bus: Publisher) -> None:
        """Publish records as they are created, until cancelled; keep them while the bus is unavailable."""
        while True:
            await self._more.wait()
            await asyncio.sleep(TOGETHER_S)
            if not await self.publish_some(bus):
                await asyncio.sleep(RETRY_S)

    async def publish_some(self, bus: Publisher) -> bool:
        """Publish the waiting records; return False if the bus is unavailable."""
        while self._unpublished:
            made = self._unpublished[0]
            try:
                payload = wire.encode_decision(made)
                await bus.publish(subjects.decision(made.namespace, made.pod), payload)
            except errors.BusUnavailable:
                return False
            except errors.CaricoError:
                # One that is never taken must not keep those behind it waiting.
                self._on_drop()
            else:
                self._shrink(made, payload)
            if self._unpublished and self._unpublished[0] is made:
                self._unpublished.popleft()
        self._more.clear()
        return True

    def _shrink(self, made: decision.Decision, payload: bytes) -> None:
        key = (made.namespace, made.pod)
        if self._latest.get(key) is made:
            # A copy: orjson does not give back what its buffer, of 8 KiB at least, has too much.
            self._latest[key] = memoryview(payload).tobytes()

    def _remember(self, made: decision.Decision) -> None:
        key = (made.namespace, made.pod)
        self._latest[key] = made
        self._latest.move_to_end(key)
        if len(self._latest) > REMEMBERED_MAX:
            self._latest.popitem(last=False)
