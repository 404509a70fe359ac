"""Several engines that share the work, on one API with faults and one stream of claims, in virtual time."""

import asyncio
import collections
import dataclasses
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from carico_core.domain import decision, errors, messages
from carico_core.runtime.bus import port as buses
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_scheduler.engine import engine
from carico_scheduler.report import instruments
from carico_scheduler.sharing import member, parts
from tests.tools.memory import memory_bus
from tests.unit.scheduler import world


class SlowClaims:
    """The stream of claims with a delay before and after each request; some answers are lost."""

    def __init__(self, claims: buses.Claims, rng: random.Random, lost_share: float) -> None:
        self._claims = claims
        self._rng = rng
        self.lost_share = lost_share

    async def change(self, changes: Sequence[buses.GuardedWrite]) -> list[buses.WriteOutcome]:
        """See `port.Claims`."""
        await self._pause()
        found = await self._claims.change(changes)
        await self._pause()
        return [buses.WriteOutcome() if self._rng.random() < self.lost_share else each for each in found]

    async def newest(self, subject: str) -> buses.Kept | None:
        """See `port.Claims`."""
        await self._pause()
        if self._rng.random() < self.lost_share:
            raise errors.BusUnavailable("lost")
        return await self._claims.newest(subject)

    async def all(self) -> list[buses.Kept]:
        """See `port.Claims`."""
        await self._pause()
        return await self._claims.all()

    async def follow(self, handler: Callable[[buses.Kept], None]) -> buses.Subscription:
        """Messages come late; some do not come at all."""
        loop = asyncio.get_running_loop()

        def later(kept: buses.Kept) -> None:
            if self._rng.random() >= self.lost_share:
                loop.call_later(self._rng.uniform(0.0, 0.01), handler, kept)

        return await self._claims.follow(later)

    async def _pause(self) -> None:
        await asyncio.sleep(self._rng.uniform(0.0, 0.005))


class Connection:
    """One member's connection to the bus."""

    def __init__(self, hub: memory_bus.Hub, rng: random.Random, lost_share: float) -> None:
        self._bus = memory_bus.MemoryBus(hub)
        self.claims = SlowClaims(self._bus.claims, rng, lost_share)
        self.subscribe = self._bus.subscribe
        self.on_reconnect = self._bus.on_reconnect
        self.is_cut = False

    @property
    def connected(self) -> bool:
        """As the bus."""
        return self._bus.connected

    async def publish(self, subject: str, payload: bytes) -> None:
        """As the bus."""
        if not self.is_cut:
            await self._bus.publish(subject, payload)


class Lease:
    """A Lease that the first live engine holds."""

    def __init__(self, made: "SharedWorld", index: int) -> None:
        self._made = made
        self._index = index
        self.identity = f"identity-{index}"
        # It is read all the time, until this is set to the time when it was last read.
        self.last_read_s: float | None = None

    @property
    def holder(self) -> str:
        """Who holds it."""
        return f"identity-{self._made.holder}" if self._made.intruder is None else self._made.intruder

    @property
    def heard_s(self) -> float:
        """When it was last read."""
        return self._made.clock.monotonic_s() if self.last_read_s is None else self.last_read_s

    def term(self) -> int | None:
        """1 for the holder."""
        return 1 if self._made.holder == self._index and self._made.intruder is None else None


@dataclasses.dataclass(frozen=True, slots=True)
class Skewed:
    """A clock that is ahead of another one by its wall time."""

    clock: clocks.Clock
    ahead_s: float

    def monotonic_s(self) -> float:
        """As the other."""
        return self.clock.monotonic_s()

    def wall_ns(self) -> int:
        """Ahead of the other."""
        return self.clock.wall_ns() + round(self.ahead_s * 1e9)


class SharedWorld(world.World):
    """The engines are members.

    `lost_share`: how many answers of the stream are lost; `without`: who has no share; `ahead_s`: by how much the clock
    of a member is ahead; `names`: which schedulerNames a member serves.
    """

    def __init__(
        self, *, lost_share: float = 0.0, without: Collection[int] = (), ahead_s: Mapping[int, float] | None = None,
        names: Mapping[int, frozenset[str]] | None = None, **options: Any,
    ) -> None:  # fmt: skip
        self.hub = memory_bus.Hub()
        self.holder = 0
        self.intruder: str | None = None
        self.lost_share = lost_share
        self.without = without
        self.ahead_s = ahead_s or {}
        self.names = names or {}
        self.connections: list[Connection] = []
        self.leases: list[Lease] = []
        self.counted: list[instruments.Instruments] = []
        super().__init__(**options)

    def _engine(self, index: int) -> engine.Engine:
        before: Any = self.clock
        skewed: Any = Skewed(before, self.ahead_s.get(index, 0.0))
        self.clock = skewed
        rules = self._rules
        self._rules = dataclasses.replace(rules, names=self.names.get(index, rules.names))
        try:
            return super()._engine(index)
        finally:
            self.clock, self._rules = before, rules

    def more(self, index: int) -> dict[str, Any]:
        """The term of a member."""

        def term() -> int | None:
            member_of = self.engines[index].member
            assert member_of is not None
            return member_of.term()

        return {"term": term}

    def share(self, index: int, counted: instruments.Instruments) -> Callable[[engine.Engine], member.Member]:
        """Makes the engine a member."""
        self.counted.append(counted)
        self.connections.append(Connection(self.hub, random.Random(100 + index), self.lost_share))
        self.leases.append(Lease(self, index))

        def make(one: engine.Engine) -> member.Member:
            return member.Member(
                parts.MemberParts(
                    replica=f"scheduler-{index}", boot=f"{index:016x}", state=one.state, api=self.kube,
                    clock=self.clock, lease=self.leases[index], metrics=counted, bind_within_s=1.0,
                    lease_s=15.0, lease_read_s=10.0,
                    why_not_fit=lambda: "; ".join(one.away.values()) or None,
                    view_age_s=lambda: one.informers.age_s, wake=one.wake, on_idle=one.turn,
                    new_epoch=lambda: clocks.boot_id(self.clock), takes_share=index not in self.without,
                )
            )  # fmt: skip

        return make

    def start_engine(self, one: engine.Engine) -> list[asyncio.Task[None]]:
        """Runs the parts of an engine and of its member."""
        tasks = super().start_engine(one)
        assert one.member is not None
        connection = self.connections[self.engines.index(one)]
        own = [asyncio.create_task(work) for work in one.member.works(connection).values()]
        self._tasks += own
        return tasks + own

    def watch_room(self) -> None:
        """Keep the most Pods that are ever bound to a node and not ended, in `largest`."""
        self._tasks.append(asyncio.create_task(self._watch_room()))

    async def _watch_room(self) -> None:
        while True:
            bound = collections.Counter(
                pod["spec"]["nodeName"]
                for pod in self.pods_now()
                if pod["spec"].get("nodeName") and pod["status"].get("phase") != "Succeeded"
            )
            for name, count in bound.items():
                self.largest[name] = max(self.largest[name], count)
            await asyncio.sleep(0.02)

    def claims_on(self, node: str, *uids: str, seq: int = 0) -> buses.GuardedWrite:
        """A message with claims of a scheduler that is not there, for Pods that nobody knows."""
        claims = tuple(
            messages.Claim(
                uid=uid, pod_class="pi", cores=0.0, size_bytes=0.0, others=(), scheduler="scheduler-9", at_ns=1
            )
            for uid in uids
        )
        epoch = self.hub.claims[subjects.CLAIMS_EPOCH].payload.decode()
        found = messages.NodeClaims(node=node, epoch=epoch, boot="0" * 16, seq=1, ts_ns=1, claims=claims)
        return buses.GuardedWrite(subject=subjects.claim(node), payload=wire.encode_claims(found), seq=seq)

    def claimed_on(self, node: str) -> list[str]:
        """The UIDs of the claims on a node in the stream."""
        kept = self.hub.claims[subjects.claim(node)]
        return sorted(each.uid for each in wire.decode_claims(kept.payload, subject=kept.subject).claims)

    def recorded(self, outcome: decision.Outcome) -> collections.Counter[str]:
        """How many records of this outcome all members have made of each Pod."""
        records = [each for one in self.engines for each in one._parts.log._unpublished]
        return collections.Counter(each.uid for each in records if each.outcome is outcome)

    def claims(self, outcome: str) -> float:
        """How many claims of all members ended so."""
        return float(sum(each.claims.labels(outcome)._value.get() for each in self.counted))
