"""The stream of claims as one member knows it."""

import asyncio

from carico_core.runtime.bus import memory_bus
from carico_core.runtime.bus import port as buses
from carico_scheduler.sharing import ledger, stream
from tests.unit.scheduler import objects


def test_a_doubt_that_comes_during_a_read_makes_it_read_again() -> None:
    async def main() -> None:
        claims = memory_bus.MemoryBus(memory_bus.Hub()).claims
        made = stream.Stream(
            ledger.Ledger(lambda uid, node: ledger.Fate.UNKNOWN), clock=objects.LoopClock(asyncio.get_running_loop()),
            new_epoch=lambda: "0" * 16, header=lambda: ("0" * 16, 1), on_room=lambda: None, on_drop=lambda reason: None,
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
