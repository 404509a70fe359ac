"""Run one replica: receive local models, exchange entries with other replicas, broadcast the cluster's model.

Independent tasks: `intake` pulls from the work queue, `exchange` sends changes to the other replicas, `broadcast`
publishes the model, at most once a second and at least every five. `kept_usage` is about what Pods use.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Iterable

import orjson

from carico_aggregator import bus as ports
from carico_aggregator import instruments, kept_usage, members, model, replicas
from carico_aggregator import settings as setting
from carico_core.domain import errors, messages
from carico_core.runtime.bus import port as buses
from carico_core.runtime.bus import serving
from carico_core.runtime.bus.streams import kept
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import tasks
from carico_core.wire import messages as wire
from carico_core.wire import replicas as live_replicas
from carico_core.wire import subjects

BROADCAST_EVERY_S = 1.0
REPEAT_EVERY_S = 5.0
# Entries that change within this time share a message: another replica is at most this far behind.
EXCHANGE_EVERY_S = 0.05
COMPLETE_EVERY_S = 5.0
# Five requests to the server each time; scrapes are less frequent.
LOOK_EVERY_S = 5.0
# Of lists of all nodes, as a multiple of the time that the last one took: who asks without end gets a tenth of all.
LIST_REST = 9.0


class Aggregator:
    """One replica over a bus, which it does not close."""

    def __init__(
        self, chosen: setting.AggregatorSettings, bus: ports.Bus, counted: instruments.Instruments, *,
        replica: str, boot: str, clock: clocks.Clock,
    ) -> None:  # fmt: skip
        by_round = chosen.merge is setting.Merge.ROUND
        self.replica = replica
        self.members = members.Members(lease_s=chosen.bus.lease_s, horizon_s=chosen.horizon_s if by_round else None)
        self.replicas = live_replicas.Replicas(replica, lease_s=chosen.bus.lease_s)
        self.merger: model.Merger = model.RoundMerger() if by_round else model.SequentialMerger()
        # The newest model, of the replica that leads if the merger is led.
        self.last: messages.GlobalModel | None = None
        self.following = replicas.Following(
            self.merger, counted, replica=replica, lease_s=chosen.bus.lease_s, clock=clock, follow=self._follow
        )
        self._bus = bus
        self._boot = boot
        self._clock = clock
        self._counted = counted
        self._log = logs.get("aggregator", replica=replica)
        self._limited = logs.RateLimited(self._log, clock=clock)
        self._changed: set[str] = set()
        self._complete_due = asyncio.Event()
        self._seq = 0
        # Nodes that a warning has named already, by its text.
        self._warned: dict[str, frozenset[str]] = {}
        self.usage = kept_usage.KeptUsage(
            bus, counted, clock=clock, lease_s=chosen.bus.lease_s,
            names=self.members.names, node_of=self.members.entry,
            is_keeper=lambda: self.replicas.leader(clock.monotonic_s()) == replica, publish=self._try_publish,
        )  # fmt: skip
        bus.on_reconnect(self._complete_due.set)

    async def listen(self) -> None:
        """Subscribe to the other replicas and request their entries; waits while the bus is not available."""
        # Step by step: a retry of the whole would subscribe again each time.
        await serving.until_taken(lambda: self._bus.subscribe(subjects.PARTIAL_ALL, self.on_partial))
        await serving.until_taken(lambda: self._bus.subscribe(subjects.MODEL, self.following.take))
        await serving.until_taken(lambda: self._send_partial(complete=False, joining=True, entries=()))
        await self.usage.listen()
        stored = await serving.until_taken(self._bus.get_model)
        if stored is not None:
            self.following.resume(stored)

    async def intake_forever(self) -> None:
        """Take in batches from the work queue until cancelled."""
        # Closed here; otherwise pulled messages go back to the queue only once the bus is closed.
        async with contextlib.aclosing(self._bus.pull()) as batches:
            async for batch in batches:
                await self._take(batch)

    async def exchange_forever(self) -> None:
        """Send changes to the other replicas at once, and everything every few seconds, until cancelled."""
        complete_s = self._clock.monotonic_s()
        while True:
            await asyncio.sleep(EXCHANGE_EVERY_S)
            now_s = self._clock.monotonic_s()
            if self._complete_due.is_set() or now_s - complete_s >= COMPLETE_EVERY_S:
                self._complete_due.clear()
                complete_s = now_s
                self._changed.clear()
                # Alone, a sign of life is enough: a replica that joins requests the rest.
                entries = self.members.entries(now_s) if self.replicas.others(now_s) else ()
                await self._try_publish(
                    "partial", self._send_partial(complete=bool(entries), joining=False, entries=entries)
                )
            elif self._changed and self.replicas.others(now_s):
                nodes, self._changed = self._changed, set()
                entries = self.members.entries(now_s, nodes)
                await self._try_publish("partial", self._send_partial(complete=False, joining=False, entries=entries))

    async def broadcast_forever(self) -> None:
        """Publish the model when it has changed, and repeat it, until cancelled."""
        version, repeated_s = -1, -REPEAT_EVERY_S
        while True:
            await asyncio.sleep(BROADCAST_EVERY_S)
            now_s = self._clock.monotonic_s()
            gone = self.members.expire(now_s)
            if gone:
                self._log.info("nodes left", nodes=gone[:10], count=len(gone))
            self._counted.nodes.set(len(self.members))
            self._counted.oldest_s.set(self.members.oldest_s(now_s))
            self._counted.replicas.set(1 + len(self.replicas.others(now_s)))
            # What arrives during the publish is due the next time.
            current = self.members.version
            due = current != version or now_s - repeated_s >= REPEAT_EVERY_S
            if due and self._may_broadcast(now_s) and await self._try_publish("model", self._broadcast()):
                version, repeated_s = current, now_s

    async def look_forever(self) -> None:
        """Measure the queue's backlog and the streams' contents until cancelled."""
        while True:
            try:
                self._counted.show_backlog(await self._bus.backlog())
            except errors.BusError as error:
                self._counted.looks_failed.inc()
                self._log.debug("streams not looked at", error=str(error))
            await asyncio.sleep(LOOK_EVERY_S)

    def on_partial(self, subject: str, payload: bytes) -> None:
        """Take over the entries that are newer at another replica."""
        now_s = self._clock.monotonic_s()
        try:
            partial = wire.decode_partial(payload, subject=subject)
        except errors.MessageError as error:
            self._counted.dropped("partial", subject, error)
            return
        if not self.replicas.take(partial.replica, boot=partial.boot, seq=partial.seq, now_s=now_s):
            return
        if partial.joining:
            self._complete_due.set()
            # The first of those that know: one that joins knows nothing, also under a name that was the keeper's.
            if self.replicas.leader(now_s, besides=partial.replica) == self.replica:
                self.usage.hand_on()
        each_bytes = len(payload) // max(len(partial.entries), 1)
        adopted = [entry for entry in partial.entries if self.members.adopt(entry, now_s, each_bytes)]
        self.merger.arrived(adopted, len(self.members))
        self._counted.adopted.inc(len(adopted))

    async def _take(self, batch: list[buses.QueueItem]) -> None:
        begun_s = self._clock.monotonic_s()
        self._counted.batch_messages.observe(len(batch))
        reports, read = [], []
        verdicts = wire.decode_subspaces([(item.subject, item.payload) for item in batch])
        for item, verdict in zip(batch, verdicts, strict=True):
            if isinstance(verdict, errors.MessageError):
                self._counted.dropped("subspace", item.subject, verdict)
                await item.term()
            else:
                reports.append(verdict)
                read.append(item)
        changed = self.members.take(reports, self._clock.monotonic_s(), [len(item.payload) for item in read])
        for node, wrong in self.members.refused:
            self._counted.dropped("subspace", subjects.subspace(node), wrong)
        await self._bus.acknowledge(read)
        self.merger.arrived(changed, len(self.members))
        self._changed.update(entry.node for entry in changed)
        self._counted.reports.labels("taken").inc(len(changed))
        self._counted.reports.labels("not_newer").inc(len(reports) - len(changed) - len(self.members.refused))
        self._counted.take_s.observe(self._clock.monotonic_s() - begun_s)

    def _follow(self, found: messages.GlobalModel) -> None:
        self.merger.follow(found)
        self.last = found

    def _may_broadcast(self, now_s: float) -> bool:
        return not self.merger.is_led or self.replicas.leader(now_s) == self.replica

    async def _broadcast(self) -> None:
        started_s = self._clock.monotonic_s()
        mergeable = self.members.mergeable()
        self._counted.odd_nodes.set(len(mergeable.odd))
        self._warn("nodes measure other dimensions than most: left out of the model", mergeable.odd)
        content = model.make(mergeable, self.merger)
        self._counted.model_s.observe(self._clock.monotonic_s() - started_s)
        if content is None:
            return
        self._counted.doubted_nodes.set(len(content.doubted))
        self._warn("nodes report values that no other node confirms: left out of the model", content.doubted)
        self.last = messages.GlobalModel(
            replica=self.replica, boot=self._boot, seq=self._next_seq(), ts_ns=self._clock.wall_ns(),
            epoch=content.epoch, merge=content.merge, contributors=content.contributors, weight=content.weight,
            dims=content.dims, gram=content.gram, evidence=content.evidence,
            peak_pods_per_core=content.peak_pods_per_core,
        )  # fmt: skip
        payload = model.encode(self.last)
        await self._bus.publish(subjects.MODEL, payload)
        await self._bus.put_model(payload)
        self._counted.models.inc()

    async def _send_partial(self, *, complete: bool, joining: bool, entries: Iterable[messages.Entry]) -> None:
        partial = messages.Partial(
            replica=self.replica, boot=self._boot, seq=self._next_seq(), ts_ns=self._clock.wall_ns(),
            complete=complete, joining=joining, entries=tuple(entries),
        )  # fmt: skip
        for part in wire.split_partial(partial):
            self._seq = max(self._seq, part.seq)
            await self._bus.publish(subjects.partial(self.replica), wire.encode_partial(part))

    async def _try_publish(self, kind: str, message: Awaitable[None]) -> bool:
        """Publish; return whether the bus accepted it. The next round repeats what it did not."""
        try:
            await message
        except errors.BusError as error:
            self._counted.publish_errors.labels(kind).inc()
            self._limited.warning(("publish", kind), "not published", kind=kind, error=str(error))
            return False
        return True

    def _warn(self, what: str, nodes: tuple[str, ...]) -> None:
        new = frozenset(nodes) - self._warned.get(what, frozenset())
        if new:
            self._log.warning(what, nodes=sorted(new)[:10])
        self._warned[what] = frozenset(nodes)

    def _next_seq(self) -> int:
        self._seq += 1
        return self._seq


def answers(aggregator: Aggregator, *, clock: clocks.Clock) -> dict[str, buses.Endpoint]:
    """Return the queries that this service answers: verb -> endpoint."""

    async def get_model(_: bytes) -> bytes:
        if aggregator.last is None:
            raise errors.CaricoError("no model yet: no agent has reported")
        return wire.model_as_json(aggregator.last)

    async def nodes(after: str) -> bytes:
        entries = {each.node: each for each in aggregator.members.entries(clock.monotonic_s())}
        names, more = serving.page(entries, after)
        rows = [
            {"node": e.node, "boot": e.boot, "seq": e.seq, "age_s": round(e.age_s, 3), "cores": e.weight,
             "dims": list(e.dims), "peak_pods_per_core": e.peak_pods_per_core}
            for e in map(entries.__getitem__, names)
        ]  # fmt: skip
        return orjson.dumps({"nodes": rows, **more})

    lists, turns = tasks.OneAtATime(rest=LIST_REST), tasks.OneAtATime(rest=kept.REST)

    async def list_nodes(question: bytes) -> bytes:
        after = serving.after_of(serving.read_question(question))
        return await lists.take(lambda: nodes(after))

    async def recommend(question: bytes) -> bytes:
        async def work() -> bytes:
            return aggregator.usage.recommend(question, {} if aggregator.last is None else aggregator.last.evidence)

        return await turns.take(work)

    return {"model.get": get_model, "nodes.list": list_nodes, "recommend": recommend}
