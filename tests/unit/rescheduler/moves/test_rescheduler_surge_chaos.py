"""Moves by surge while processes die, replicas change, and Pods end or become unready: nothing is left afterwards."""

import asyncio
import contextlib
import random

import pytest

from carico_core.domain import errors
from carico_rescheduler.moves import record as records
from tests.unit.rescheduler.moves import test_rescheduler_surge as surges
from tests.unit.scheduler import objects

SEEDS = range(24)
EVENTS = 6


async def disturb(made: surges.Scene, rng: random.Random) -> None:
    """Do one thing that happens in a cluster."""
    match rng.choice(("scale", "end", "unready", "slow", "away", "full", "nothing")):
        case "scale":
            made.cluster.scale("web", rng.randint(1, 5))
        case "end" if made.cluster.pods("web"):
            gone = rng.choice(made.cluster.pods("web"))["metadata"]
            made.cluster.api.objects.delete("pods", (gone["namespace"], gone["name"]), {}, "test")
        case "unready" if made.cluster.pods("web"):
            pod = rng.choice(made.cluster.pods("web"))
            pod["status"] = {"phase": "Running"}
            made.cluster._put(pod)
        case "slow":
            made.cluster.gets_ready = lambda pod: False
            await asyncio.sleep(rng.uniform(0.5, 30.0))
            made.cluster.gets_ready = lambda pod: True
        case "away":
            made.cluster.api.go_away()
            await asyncio.sleep(rng.uniform(0.1, 5.0))
            made.cluster.api.come_back()
        case "full":
            made.cluster.open.discard("node-b")
            await asyncio.sleep(rng.uniform(0.5, 40.0))
            made.cluster.open.add("node-b")


async def work(made: surges.Scene, rng: random.Random) -> None:
    """Recover, and make a move if a Pod is there; the process dies at some write, or is asked to stop."""
    process = made.process(at=rng.choice((None, 1, 2, 3, 4)), is_sent=rng.random() < 0.5)
    stopping = asyncio.get_running_loop().call_later(rng.uniform(0.1, 60.0), process.stop)
    # A move that is refused or cut off is left to the next process.
    with contextlib.suppress(surges.Crash, errors.ApiUnavailable, errors.ApiError, records.NotLeading):
        await process.recover()
        if any(not each.replaces and each.is_active for each in made.known.pods.found.values()):
            await process.run(made.move(rng.choice(("node-a", "node-b"))))
    stopping.cancel()


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_left_whatever_happens(seed: int) -> None:
    rng = random.Random(seed)

    async def disturb_all(made: surges.Scene) -> None:
        for _ in range(EVENTS):
            await asyncio.sleep(rng.uniform(0.0, 6.0))
            await disturb(made, rng)

    async def main() -> None:
        async with surges.scene() as made:
            disturbing = asyncio.create_task(disturb_all(made))
            while not disturbing.done():
                await work(made, rng)
                await asyncio.sleep(rng.uniform(0.0, 2.0))
            await disturbing
            # The last process is left alone.
            await asyncio.sleep(5.0)
            await made.process().recover()
            await asyncio.sleep(5.0)
            wanted = made.cluster.replica_set("web")["spec"]["replicas"]
            assert made.is_at_rest(wanted), [each["metadata"] for each in made.cluster.marks()]
            assert await made.process().recover() == 0

    objects.run_fast(main())
