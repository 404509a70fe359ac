"""One process that commits claims as fast as it can: `python -m bench.cluster._claimer URL NAME SECONDS`.

It follows the stream, claims nodes at random in batches, and counts a claim as over after a second, as if its Pod had
been bound and covered by then. Once a line comes on its standard input it begins; it prints its counts as JSON.
"""

import asyncio
import collections
import itertools
import json
import random
import sys

from carico_core.domain import messages
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.bus import port as buses
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_scheduler.pods import demand as demands
from carico_scheduler.sharing.claims import commits, ledger

NODES = 1000
BATCH = 32
LASTS_MS = 1000
EPOCH = "18eaaf27489d17a3"
CLOCK = clocks.SystemClock()


def _fate(uid: str, _: str) -> ledger.PodFate:
    """The time of a claim is the end of its Pod's UID, in milliseconds."""
    return ledger.PodFate.GONE if CLOCK.wall_ns() // 10**6 - int(uid[-12:]) % 10**12 > LASTS_MS else ledger.PodFate.OPEN


async def claim(url: str, name: str, seconds: float) -> dict[str, float]:
    """Commit for so long, and return what was counted."""
    bus = await nats_bus.connect(buses.BusSettings(url=url), name=name, clock=CLOCK)
    known = ledger.Ledger(_fate)
    counts: collections.Counter[str] = collections.Counter()
    numbers = itertools.count(1)
    boot = clocks.boot_id(CLOCK)

    def take(kept: buses.Kept) -> None:
        node = subjects.node_of(kept.subject)
        found = made.own(node, kept.payload) or wire.decode_claims(kept.payload, subject=kept.subject)
        known.take(node, kept.seq, found.claims, CLOCK.monotonic_s())

    made = commits.Commits(
        commits.Parts(
            claims=lambda: bus.claims, ledger=known, clock=CLOCK, epoch=lambda: EPOCH, on_doubt=lambda: None,
            on_set_back=lambda: None, fits=lambda *_: True, is_apart=lambda _: True, on_replace=lambda _: None,
            header=lambda: (boot, next(numbers)), count=lambda outcome: counts.update([outcome]),
            on_drop=lambda _: None, on_idle=lambda: None,
        )
    )  # fmt: skip
    await bus.claims.follow(take)
    committing = asyncio.create_task(made.run_forever())
    rng = random.Random(name)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    ends_s = CLOCK.monotonic_s() + seconds
    while CLOCK.monotonic_s() < ends_s:
        asked = [
            made.ask(f"node-{node}", _claim(name, next(numbers)), demands.Demand(), seq=known.seq(f"node-{node}"))
            for node in rng.sample(range(NODES), BATCH)
        ]
        await asyncio.gather(*asked, return_exceptions=True)
    committing.cancel()
    await asyncio.gather(committing, return_exceptions=True)
    await bus.close()
    return dict(counts)


def _claim(name: str, number: int) -> messages.Claim:
    now_ns = CLOCK.wall_ns()
    uid = f"{number % 2**32:08x}-{hash(name) % 2**16:04x}-4000-8000-{now_ns // 10**6 % 10**12:012d}"
    return messages.Claim(
        uid=uid, pod_class="app/default/bench", cores=0.1, size_bytes=5e8, others=(), scheduler=name, at_ns=now_ns
    )


async def prepare(url: str) -> None:
    """Give the stream its epoch."""
    bus = await nats_bus.connect(buses.BusSettings(url=url), name="bench", clock=CLOCK)
    epoch = buses.GuardedWrite(subject=subjects.CLAIMS_EPOCH, payload=EPOCH.encode(), seq=0, lasts=True)
    await bus.claims.change([epoch])
    await bus.close()


if __name__ == "__main__":
    found = asyncio.run(claim(sys.argv[1], sys.argv[2], float(sys.argv[3])))
    print(json.dumps(found), flush=True)
