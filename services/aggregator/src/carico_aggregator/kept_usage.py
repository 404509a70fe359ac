"""What Pods use, at one replica: taken in from nodes, kept over restarts, answered as recommendations.

A replica that joins requests what is known, and holds the reports of nodes from then on. The keeper writes at once all
that it had received until then; if it is the keeper that is back, the next one does. The new one reads that after
`JOIN_S` and takes in what it has held, so that each report counts once with it, and either of them can be the one that
writes from then on. If there was nothing, it reads once more at its first turn: NATS may have come back without its
store, and the keeper later than this one.
"""

import asyncio
import collections
import contextlib
import itertools
import math
from collections.abc import Awaitable, Callable, Mapping

from carico_aggregator import bus as ports
from carico_aggregator import instruments, recommendations, usage
from carico_core.domain import errors, messages
from carico_core.domain import usage as domain
from carico_core.runtime.bus import listening, serving
from carico_core.runtime.process import clock as clocks
from carico_core.wire import codec, streams, subjects
from carico_core.wire import messages as wire

# A crash of all replicas at once loses so much of what was measured. One key is written each time even if it has not
# changed, so that a bucket that was deleted or restored to an older state is whole again after 16 times.
KEEP_EVERY_S = 20.0
# Within it the keeper writes its 16 keys, which takes it some 50 ms.
JOIN_S = 1.0
# Then entries come: each node's within a second or two. Reports of usage of a node without one wait for that, since
# without the node's size they are refused; for less than the 5 s between two of them, so that they stay in order.
ENTRIES_S = 3.0
# Reports of a second and more from 5,000 nodes, which report every 5 s; of more, the first are lost.
HELD_MOST = 2000
# A node reports every 5 s; what has waited for a replica that was frozen for ten minutes comes all at once. The others
# are nodes that have just started, each of which may report before its entry has come.
ALLOWED = listening.Allowance(most=120, of_strangers=10_000, window_s=60.0)
RECOMMENDED_EVERY_S = 5.0


class KeptUsage:
    """The usage that one replica knows. One of all replicas, the keeper, writes it to a bucket."""

    def __init__(
        self, bus: ports.Bus, counted: instruments.Instruments, *, clock: clocks.Clock, lease_s: float,
        names: Callable[[], list[str]], node_of: Callable[[str], messages.Entry | None],
        is_keeper: Callable[[], bool], publish: Callable[[str, Awaitable[None]], Awaitable[bool]],
    ) -> None:  # fmt: skip
        """`names`: the nodes with an entry; `node_of`: the newest of a node.

        `publish(kind, awaitable)` returns whether the bus accepted it.
        """
        self.known = usage.Usages(lease_s=lease_s)
        self._listening = listening.Listening(
            self.on_report, subject=subjects.USAGE_ALL, allowed=ALLOWED, names=names, on_drop=self._on_drop,
            clock=clock,
        )  # fmt: skip
        self._bus = bus
        self._counted = counted
        self._clock = clock
        self._node_of = node_of
        self._is_keeper = is_keeper
        self._publish = publish
        self._others_join = asyncio.Event()
        # What is still to be written, by key.
        self._due: dict[int, list[domain.KeptClass]] = {}
        self._turns = itertools.cycle(range(streams.USAGE_KEYS))
        # What nodes report while this replica joins.
        self._held: collections.deque[tuple[str, bytes]] | None = None
        # What nodes report whose entries have not come yet, for a moment after that.
        self._early: collections.deque[tuple[str, bytes]] | None = None
        # For metrics, and when it was made; monotonic seconds.
        self._recommended: list[tuple[str, dict[str, float]]] = []
        self._recommended_s = -math.inf
        self._joined_with_nothing = False
        bus.on_reconnect(self._on_reconnect)

    async def listen(self) -> None:
        """Subscribe to the nodes and continue from what is kept; waits while the bus is not available.

        The other replicas were notified before that this one joins.
        """
        self._held = collections.deque(maxlen=HELD_MOST)
        await serving.until_taken(lambda: self._listening.arrange(self._bus))
        await asyncio.sleep(JOIN_S)
        self._joined_with_nothing = not await self._resume()
        held, self._held, self._early = self._held, None, collections.deque(maxlen=HELD_MOST)
        for subject, payload in held:
            self.on_report(subject, payload)
        asyncio.get_running_loop().call_later(ENTRIES_S, self._take_early)

    async def listen_forever(self) -> None:
        """Leave out nodes that flood, until cancelled."""
        await self._listening.run_forever(self._bus)

    async def keep_forever(self) -> None:
        """Write what has changed to the bucket if this replica is the keeper, until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(KEEP_EVERY_S):
                    await self._others_join.wait()
            if self._joined_with_nothing:
                self._joined_with_nothing = False
                await self._resume()
            self.known.expire(now_ns=self._clock.wall_ns(), now_s=self._clock.monotonic_s())
            if self._others_join.is_set():
                self._others_join.clear()
                await self._write()
            else:
                await self.keep()

    def hand_on(self) -> None:
        """Write all classes at once, for another replica that joins; called at one of those that know."""
        # The new one holds what nodes report from now on: what is written must not contain it too.
        self.known.doubt_kept()
        self._due |= self.known.take_changed()
        self._others_join.set()

    async def keep(self) -> None:
        """Write what has changed to the bucket, and one key more, if this replica is the keeper."""
        if self._is_keeper():
            self._due |= self.known.take_changed(also=next(self._turns))
            await self._write()

    async def keep_all(self) -> None:
        """Write all classes to the bucket, as the last act of a keeper."""
        self.known.doubt_kept()
        await self.keep()

    def _on_reconnect(self) -> None:
        # The server may have come back with another store.
        if self._is_keeper():
            self.hand_on()

    async def _write(self) -> None:
        """Write the keys of the bucket that are due; those that cannot be written are due the next time."""
        for key in sorted(self._due):
            classes, is_written = self._due.pop(key), False
            try:
                # Not all at once: of many classes it takes half a second.
                payload = self._encode(key, classes)
                is_written = await self._publish("kept_usage", self._bus.put_usage(key, payload))
            finally:
                # Also if the replica is stopped meanwhile: its last act is to write what is still due.
                if not is_written:
                    self._due.setdefault(key, classes)

    def on_report(self, subject: str, payload: bytes) -> None:
        """Take in what a node's Pods have used."""
        if self._held is not None:
            self._held.append((subject, payload))
            return
        try:
            report = wire.decode_usage(payload, subject=subject)
            self.known.take(
                report, self._node_of(report.node),
                now_ns=self._clock.wall_ns(), now_s=self._clock.monotonic_s(),
            )  # fmt: skip
        except errors.MessageError as error:
            if error.reason is errors.Drop.FOREIGN_NODE and self._early is not None:
                self._early.append((subject, payload))
            else:
                self._counted.dropped("usage", subject, error)
        else:
            self._counted.usages.inc()

    def _on_drop(self, subject: str, reason: errors.Drop, detail: str) -> None:
        self._counted.dropped("usage", subject, errors.MessageError(reason, "", detail))

    def _take_early(self) -> None:
        early, self._early = self._early or (), None
        for subject, payload in early:
            self.on_report(subject, payload)

    def recommend(self, question: bytes, evidence: Mapping[str, messages.ClassEvidence]) -> bytes:
        """Return recommended requests; `evidence`: costs by class, of the model. Raises `CaricoError`."""
        return recommendations.answer(self.known, evidence, question, self._clock.wall_ns())

    def recommended(self) -> list[tuple[str, dict[str, float]]]:
        """Return the recommended requests of the classes with most Pods, for metrics."""
        now_s = self._clock.monotonic_s()
        # Two metrics of a scrape read it, and nodes report every 5 s.
        if now_s - self._recommended_s >= RECOMMENDED_EVERY_S:
            self._recommended = list(recommendations.series(self.known, now_ns=self._clock.wall_ns()))
            self._recommended_s = now_s
        return self._recommended

    def _encode(self, key: int, classes: list[domain.KeptClass]) -> bytes:
        """Return what is kept of the classes of a key, in their order: as many as readers accept."""
        payload = wire.encode_kept(classes)
        if len(payload) <= codec.MODEL_MAX_BYTES:
            return payload
        fitting, left = [], codec.MODEL_MAX_BYTES
        for each in classes:
            # Each alone is as large as among others, or larger.
            size = len(wire.encode_kept([each]))
            if size <= left:
                fitting.append(each)
                left -= size
                continue
            over = f"got {len(payload)} bytes, expected at most {codec.MODEL_MAX_BYTES}: a restart loses {each.name}"
            wrong = errors.MessageError(errors.Drop.OVERSIZED, "classes", over)
            self._counted.dropped("kept_usage", streams.usage_subject(key), wrong)
        return wire.encode_kept(fitting)

    async def _resume(self) -> bool:
        """Take in what is kept; return whether there was anything."""
        found = False
        for key in range(streams.USAGE_KEYS):
            stored = await serving.until_taken(lambda key=key: self._bus.get_usage(key))  # type: ignore[misc]  # a default binds the key
            if stored is None:
                continue
            found = True
            try:
                self.known.resume(wire.decode_kept(stored))
            except errors.MessageError as error:
                self._counted.dropped("kept_usage", streams.usage_subject(key), error)
        return found
