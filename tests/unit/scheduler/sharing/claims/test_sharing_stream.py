"""The stream of claims as one member knows it."""

import asyncio
from collections.abc import Sequence

from carico_core.domain import messages
from carico_core.runtime.bus import port as buses
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_scheduler.sharing.claims import ledger, stream
from tests.tools.memory import memory_bus
from tests.unit.scheduler import objects
from tests.unit.scheduler.sharing.claims import claims_world

OWN = b"no JSON, so that no decoder reads it"


def test_a_doubt_that_comes_during_a_read_makes_it_read_again() -> None:
    async def main() -> None:
        claims = memory_bus.MemoryBus(memory_bus.Hub()).claims
        clock = objects.LoopClock(asyncio.get_running_loop())
        made = stream.Stream(
            ledger.Ledger(lambda uid, node: ledger.PodFate.UNKNOWN), clock=clock,
            new_epoch=lambda: "0" * 16, header=lambda: ("0" * 16, 1), on_read=lambda: None, on_drop=lambda reason: None,
        )  # fmt: skip
        reads: list[str | None] = []
        read_all = claims.all

        async def read() -> list[buses.Kept]:
            reads.append(made.why_not_ready())
            if len(reads) == 1:
                made.doubt()
            return await read_all()

        claims.all = read  # type: ignore[method-assign]
        following = asyncio.create_task(made.follow_forever(claims))
        await asyncio.sleep(stream.SETTLE_S + 0.1)
        assert reads == ["the stream of claims has not been read"] * 2
        assert made.why_not_ready() is None
        following.cancel()

    objects.run_fast(main())


def test_what_a_member_has_sent_itself_is_not_decoded_and_counts() -> None:
    async def main() -> None:
        hub, drops = memory_bus.Hub(), list[str]()
        claims = memory_bus.MemoryBus(hub).claims
        kept = ledger.Ledger(lambda uid, node: ledger.PodFate.UNKNOWN)
        sent = messages.NodeClaims(
            node="node-1", epoch="0" * 16, boot="0" * 16, seq=1, ts_ns=1,
            claims=(
                messages.Claim(
                    uid="a", pod_class="pi", cores=0.0, size_bytes=0.0, others=(), scheduler="me", at_ns=1
                ),
            ),
        )  # fmt: skip
        made = stream.Stream(
            kept, clock=objects.LoopClock(asyncio.get_running_loop()), new_epoch=lambda: "0" * 16,
            header=lambda: ("0" * 16, 1), on_read=lambda: None, on_drop=drops.append,
            own=lambda node, payload: sent if (node, payload) == ("node-1", OWN) else None,
        )  # fmt: skip
        following = asyncio.create_task(made.follow_forever(claims))
        await asyncio.sleep(0.1)
        subject = subjects.claim("node-1")
        (stored,) = await claims.change([buses.GuardedWrite(subject=subject, payload=OWN, seq=0)])
        assert (kept.seq("node-1"), kept.find("node-1", "a"), drops) == (stored.seq, sent.claims[0], [])
        await claims.change([buses.GuardedWrite(subject=subject, payload=b"of another member", seq=kept.seq("node-1"))])
        assert drops == ["undecodable"]
        following.cancel()

    objects.run_fast(main())


def test_claims_are_not_stated_again_over_a_message_that_cannot_be_read() -> None:
    """It may be of a newer version, and its claims still count for those who can read it."""

    async def main() -> None:
        hub = memory_bus.Hub()
        claims = memory_bus.MemoryBus(hub).claims
        kept = ledger.Ledger(lambda uid, node: ledger.PodFate.OPEN)
        names = iter(("0" * 16, "1" * 16))
        made = stream.Stream(
            kept, clock=objects.LoopClock(asyncio.get_running_loop()), new_epoch=lambda: next(names),
            header=lambda: ("0" * 16, 1), on_read=lambda: None, on_drop=lambda reason: None,
        )  # fmt: skip
        following = asyncio.create_task(made.follow_forever(claims))
        await asyncio.sleep(0.1)
        subject, own = subjects.claim("node-1"), claims_world.claim("a")
        body = messages.NodeClaims(node="node-1", epoch="0" * 16, boot="0" * 16, seq=1, ts_ns=1, claims=(own,))
        await claims.change([buses.GuardedWrite(subject=subject, payload=wire.encode_claims(body), seq=0)])
        del hub.claims[subjects.CLAIMS_EPOCH]
        await claims.change(
            [buses.GuardedWrite(subject=subject, payload=b"of a newer version", seq=kept.seq("node-1"))]
        )
        await asyncio.sleep(stream.SETTLE_S + 2.0 * stream.CHECK_EVERY_S)
        assert hub.claims[subject].payload == b"of a newer version"
        assert made.why_not_ready() is None, "one node stops no other"
        await asyncio.sleep(ledger.LEASE_S)
        assert wire.decode_claims(hub.claims[subject].payload, subject=subject).claims == (own,)
        following.cancel()

    objects.run_fast(main())


def test_claims_on_many_nodes_are_stated_again_in_a_new_stream_within_moments() -> None:
    """Else nothing is bound for as long as that many answers take, one after another."""

    async def main() -> None:
        hub = memory_bus.Hub()
        claims, other = (memory_bus.MemoryBus(hub).claims for _ in range(2))
        nodes = [f"node-{number}" for number in range(3 * stream.RESTATED_AT_ONCE)]
        names, calls = iter(("0" * 16, "1" * 16)), list[int]()
        kept = ledger.Ledger(lambda uid, node: ledger.PodFate.BOUND)
        made = stream.Stream(
            kept, clock=objects.LoopClock(asyncio.get_running_loop()), new_epoch=lambda: next(names),
            header=lambda: ("0" * 16, 1), on_read=lambda: None, on_drop=lambda reason: None,
        )  # fmt: skip
        following = asyncio.create_task(made.follow_forever(claims))
        await asyncio.sleep(0.1)
        await other.change([_write(node, "a", epoch="0" * 16, seq=0) for node in nodes])
        hub.claims.clear()
        change = claims.change

        async def counting(changes: Sequence[buses.GuardedWrite]) -> list[buses.WriteOutcome]:
            if len(calls) == 1:
                # Another member is faster on some nodes.
                await other.change([_write(node, "b", epoch="1" * 16, seq=0) for node in nodes[:9]])
            calls.append(len(changes))
            return await change(changes)

        claims.change = counting  # type: ignore[method-assign]
        await asyncio.sleep(2.0 * stream.CHECK_EVERY_S)
        # The epoch, three batches, and what was refused.
        assert calls == [1, *[stream.RESTATED_AT_ONCE] * 3, 9]
        for number, node in enumerate(nodes):
            found = wire.decode_claims(hub.claims[subjects.claim(node)].payload, subject=subjects.claim(node))
            assert {each.uid for each in found.claims} == ({"a", "b"} if number < 9 else {"a"})
        following.cancel()

    objects.run_fast(main())


def _write(node: str, uid: str, *, epoch: str, seq: int) -> buses.GuardedWrite:
    body = messages.NodeClaims(
        node=node, epoch=epoch, boot="0" * 16, seq=1, ts_ns=1, claims=(claims_world.claim(uid),)
    )  # fmt: skip
    return buses.GuardedWrite(subject=subjects.claim(node), payload=wire.encode_claims(body), seq=seq)
