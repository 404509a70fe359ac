"""Commits against a stream that is replaced, refuses or does not answer."""

import asyncio
from collections.abc import Callable, Sequence

from carico_core.domain import errors, messages
from carico_core.runtime.bus import memory_bus
from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import memory_kube
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_scheduler.pods import demand
from carico_scheduler.sharing.claims import commits, janitor, ledger
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
            return [buses.WriteOutcome(detail="away") for _ in changes]
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
        self.rivals: list[str | None] = []
        self.doubts = 0
        self.set_backs = 0
        self.is_roomy = True
        self.replaced: list[str] = []
        self.commits = commits.Commits(
            commits.Parts(
                claims=lambda: self.claims, ledger=self.ledger, clock=self.clock, epoch=lambda: self.epoch,
                on_doubt=self.doubt, on_set_back=self.set_back, fits=lambda request, lost: self.is_roomy,
                on_replace=self.replaced.append, header=lambda: ("0" * 16, 1),
                count=self.counted.append, on_idle=lambda: None,
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


def test_answers_of_a_stream_that_is_gone_leave_no_trace_in_the_ledger() -> None:
    async def main() -> None:
        made = World()
        running = await made.start()
        for index in range(5):
            assert await made.ask(f"p{index}") == "stored"

        def replace() -> None:
            made.hub.lose_claims()
            made.ledger.restart()
            made.epoch = EPOCHS[1]
            made.claims.on_change = lambda: None

        made.claims.on_change = replace
        assert await made.ask("late") == "epoch"
        assert made.ledger.seq(NODE) == 0
        await made.name_stream()
        assert await made.ask("next") == "stored"
        running.cancel()

    objects.run_fast(main())


def test_a_stream_that_has_lost_what_it_had_stored_is_reported() -> None:
    async def main() -> None:
        made = World()
        running = await made.start()
        assert await made.ask("a") == "stored"
        older = dict(made.hub.claims)
        assert await made.ask("b") == "stored"
        assert made.set_backs == 0
        made.hub.set_claims_back(older)
        await made.ask("c")
        assert made.set_backs > 0
        # Nor is there a message about the node any more, of which claims count.
        made.set_backs = 0
        made.hub.lose_claims()
        await made.ask("d")
        assert made.set_backs > 0
        running.cancel()

    objects.run_fast(main())


def test_a_message_without_claims_that_count_may_be_gone() -> None:
    async def main() -> None:
        made = World()
        running = await made.start()
        assert await made.ask("a") == "stored"
        made.ledger.void(NODE, claim("a"))
        made.hub.claims.pop(subjects.claim(NODE))
        assert await made.ask("b") == "stored"
        assert made.set_backs == 0
        running.cancel()

    objects.run_fast(main())


def test_a_claim_that_could_not_be_withdrawn_is_withdrawn_later() -> None:
    async def main() -> None:
        made = World()
        running = await made.start()
        sweeper = janitor.Janitor(
            made.ledger, made.commits, api=memory_kube.MemoryKube(clock=made.clock), clock=made.clock,
            may_commit=lambda: True, is_on_duty=lambda: False, find=lambda uid: None, count=lambda: None,
        )  # fmt: skip
        sweeping = asyncio.create_task(sweeper.run_forever())
        assert await made.ask("p") == "stored"
        assert made.ledger.void(NODE, claim("p"))
        made.claims.is_away = True
        assert await made.ask(None) == "unanswered"
        assert [each.uid for each in made.stored()] == ["p"]
        made.claims.is_away = False
        await asyncio.sleep(janitor.EVERY_S + 0.1)
        assert made.stored() == ()
        assert made.counted == ["stored", "unanswered", "withdrawn"]
        number = made.ledger.seq(NODE)
        await asyncio.sleep(3.0 * janitor.EVERY_S)
        assert made.ledger.seq(NODE) == number, "once is enough"
        running.cancel()
        sweeping.cancel()

    objects.run_fast(main())


def test_a_claim_that_takes_the_place_of_another_schedulers_is_noted() -> None:
    async def main() -> None:
        made = World()
        running = await made.start()
        for uid in ("p", "q"):
            await made.ask(uid)
        assert await made.ask("p") == "stored"
        assert made.replaced == [], "its own"
        others = claim("q")._replace(scheduler="b")
        made.ledger.take(NODE, made.ledger.seq(NODE) + 1, [claim("p"), others], 0.0)
        change = buses.GuardedWrite(
            subject=subjects.claim(NODE), payload=made.payload([claim("p"), others]), seq=made.last()
        )
        assert (await made.claims.change([change]))[0].seq == made.ledger.seq(NODE)
        assert await made.ask("q") == "stored"
        assert made.replaced == ["q"]
        assert {each.uid: each.scheduler for each in made.stored()} == {"p": "a", "q": "a"}
        running.cancel()

    objects.run_fast(main())


def test_a_claim_that_is_always_in_conflict_is_given_up_and_counted_once() -> None:
    async def main() -> None:
        made = World()
        running = await made.start()

        def interfere() -> None:
            change = buses.GuardedWrite(subject=subjects.claim(NODE), payload=made.payload([]), seq=made.last())
            made.hub.claims[change.subject] = buses.Kept(
                subject=change.subject, payload=change.payload, seq=next(made.hub.claim_seq)
            )

        await made.ask("p")
        made.claims.before_change = interfere
        assert await made.ask("q") == "given_up"
        assert made.counted == ["stored", *["conflict"] * commits.ROUNDS, "given_up"]
        running.cancel()

    objects.run_fast(main())


def test_an_old_decision_is_checked_although_the_claims_on_the_node_are_the_same() -> None:
    async def main() -> None:
        made = World()
        running = await made.start()
        assert await made.ask("p", age_s=60.0) == "stored"
        made.is_roomy = False
        assert await made.ask("q") == "stored"
        assert await made.ask("r", age_s=commits.FRESH_S + 0.1) == "no_room"
        assert made.rivals == [None], "all claims on the node are its own"
        made.ledger.take(NODE, 99, [claim("s")._replace(scheduler="b")], made.clock.monotonic_s())
        assert await made.ask("r", age_s=commits.FRESH_S + 0.1) == "no_room"
        made.claims.is_away = True
        assert await made.ask("r") == "unanswered"
        assert made.rivals == [None, "b", None], "only a claim that was given up for another scheduler's has a rival"
        running.cancel()

    objects.run_fast(main())
