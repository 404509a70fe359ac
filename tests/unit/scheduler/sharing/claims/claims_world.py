"""One member's commits over a stream of claims in memory."""

import asyncio
from collections.abc import Callable, Sequence

from carico_core.domain import errors, messages
from carico_core.runtime.bus import port as buses
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_scheduler.pods import demand
from carico_scheduler.sharing.claims import commits, ledger
from tests.tools.memory import memory_bus
from tests.unit.scheduler import objects

NODE = "node-1"
EPOCHS = ("0" * 16, "1" * 16)


def claim(uid: str, at_ns: int = 1) -> messages.Claim:
    return messages.Claim(uid=uid, pod_class="pi", cores=0.0, size_bytes=0.0, others=(), scheduler="a", at_ns=at_ns)


class Claims:
    """The stream of claims; `on_change` is called between the answers of the stream and their arrival."""

    def __init__(self, claims: buses.Claims) -> None:
        self._claims = claims
        self.all = claims.all
        self.follow = claims.follow
        self.on_change: Callable[[], None] = lambda: None
        self.before_change: Callable[[], None] = lambda: None
        self.is_away = False

    async def newest(self, subject: str) -> buses.Kept | None:
        """See `port.Claims`."""
        if self.is_away:
            raise errors.BusUnavailable("away")
        return await self._claims.newest(subject)

    async def change(self, changes: Sequence[buses.GuardedWrite]) -> list[buses.WriteOutcome]:
        """See `port.Claims`."""
        self.before_change()
        if self.is_away:
            return [buses.WriteOutcome() for _ in changes]
        found = await self._claims.change(changes)
        self.on_change()
        return found


class World:
    """One member's commits, over a stream in memory."""

    def __init__(self) -> None:
        self.hub = memory_bus.Hub()
        self.claims = Claims(memory_bus.MemoryBus(self.hub).claims)
        self.clock = objects.LoopClock(asyncio.get_running_loop())
        self.ledger = ledger.Ledger(lambda uid, node: ledger.PodFate.OPEN)
        self.epoch = EPOCHS[0]
        self.counted: list[str] = []
        self.drops: list[str] = []
        self.rivals: list[str | None] = []
        self.doubts = 0
        self.set_backs = 0
        self.is_roomy = True
        # Pods that must not be near another one.
        self.near: set[str] = set()
        self.replaced: list[str] = []
        self.commits = commits.Commits(
            commits.Parts(
                claims=lambda: self.claims, ledger=self.ledger, clock=self.clock, epoch=lambda: self.epoch,
                on_doubt=self.doubt, on_set_back=self.set_back, fits=lambda request, lost: self.is_roomy,
                is_apart=lambda request: request.claim is None or request.claim.uid not in self.near,
                on_replace=self.replaced.append, header=lambda: ("0" * 16, 1),
                count=self.counted.append, on_drop=self.drops.append, on_idle=lambda: None,
            )
        )  # fmt: skip

    def doubt(self) -> None:
        self.doubts += 1

    def set_back(self) -> None:
        self.set_backs += 1

    async def start(self) -> asyncio.Task[None]:
        await self.name_stream()
        return asyncio.create_task(self.commits.run_forever())

    async def name_stream(self) -> None:
        await self.claims.change(
            [buses.GuardedWrite(subject=subjects.CLAIMS_EPOCH, payload=self.epoch.encode(), seq=0, lasts=True)]
        )

    def stored(self) -> tuple[messages.Claim, ...]:
        """The claims on the node in the stream."""
        subject = subjects.claim(NODE)
        return wire.decode_claims(self.hub.claims[subject].payload, subject=subject).claims

    def last(self) -> int:
        """The number of the newest message about the node."""
        return self.hub.claims[subjects.claim(NODE)].seq

    def payload(self, claims: Sequence[messages.Claim]) -> bytes:
        return wire.encode_claims(
            messages.NodeClaims(node=NODE, epoch=self.epoch, boot="0" * 16, seq=1, ts_ns=1, claims=tuple(claims))
        )

    async def ask(self, uid: str | None, *, node: str = NODE, age_s: float = 0.0) -> str:
        """What became of a claim: "stored", or the outcome of its loss; None withdraws what is void."""
        wanted = None if uid is None else claim(uid)
        try:
            await self.commits.ask(
                node, wanted, demand.Demand(), seq=self.ledger.seq(node), decided_s=self.clock.monotonic_s() - age_s
            )
        except commits.Lost as error:
            self.rivals.append(error.rival)
            return error.outcome
        return "stored"
