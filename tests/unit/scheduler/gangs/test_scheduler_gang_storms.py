"""Gangs under random faults, deletions and changes of the leader: no half of one stays, and nothing is left."""

import asyncio
import random

import pytest

from carico_scheduler.gangs import gang
from tests.unit.scheduler import objects, world
from tests.unit.scheduler.gangs import gang_world

SIZES = {"a": 2, "b": 4, "c": 6, "d": 3}


def halves(made: gang_world.GangWorld) -> list[str]:
    """The gangs of which some Pods run, but fewer than the gang needs."""
    return [name for name, size in SIZES.items() if 0 < len(made.running(f"{name}-")) < size]


def end_and_create(made: gang_world.GangWorld) -> None:
    """Gangs that are whole end, so that the next finds room; Pods that were evicted are created again."""
    names = {pod["metadata"]["name"] for pod in made.pods()}
    for name, size in SIZES.items():
        if len(made.running(f"{name}-")) == size:
            made.end(f"{name}-")
        for index in range(size):
            if f"{name}-{index}" not in names:
                made.member(name, f"{name}-{index}", least=size)


@pytest.mark.parametrize("seed", [*range(3), 83])
def test_no_half_of_a_gang_stays_and_nothing_is_left(seed: int) -> None:
    async def main() -> None:
        rng = random.Random(seed)
        made = gang_world.GangWorld(seed=seed, engines=2, fault_share=0.3)
        await made.start(nodes=2)
        left = [(name, index) for name, size in SIZES.items() for index in range(size)]
        rng.shuffle(left)
        for name, index in left:
            made.member(name, f"{name}-{index}", least=SIZES[name])
            await asyncio.sleep(rng.uniform(0.0, 1.0))
            if rng.random() < 0.2:
                made.leader = 1 - made.leader
                made.engines[made.leader].wake()
            if rng.random() < 0.1 and (pods := made.pods()):
                # Its controller creates it again.
                gone = rng.choice(pods)["metadata"]["name"]
                made.delete(gone)
                made.member(gone[0], gone, least=SIZES[gone[0]])
        for _ in range(90):
            if all(pod["status"]["phase"] == "Succeeded" for pod in made.pods()):
                break
            await asyncio.sleep(10.0)
            end_and_create(made)
        await asyncio.sleep(5.0)
        assert halves(made) == []
        assert {pod["status"]["phase"] for pod in made.pods()} == {"Succeeded"}
        assert max(made.largest.values()) <= 3
        world.check_nothing_left(made)
        for one in made.engines:
            assert len(one.state.gangs) == 0
            assert not one.gangs._since_s
        await made.stop()

    objects.run_fast(main())


def test_the_map_of_states_is_whole() -> None:
    assert set(gang._STEPS) == set(gang.GangState)
    assert all(after is not before for before, afters in gang._STEPS.items() for after in afters)
