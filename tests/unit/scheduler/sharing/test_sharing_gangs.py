"""Gangs while several schedulers share the work: the holder of the Lease decides on them, whole."""

import asyncio
from collections.abc import Sequence

import pytest

from carico_core.runtime.bus import port as buses
from carico_core.wire import subjects
from carico_core.wire.kubernetes import pod_groups
from carico_scheduler.gangs import gang, keeper
from carico_scheduler.sharing.claims import stream
from tests.unit.scheduler import objects
from tests.unit.scheduler.sharing import shared_world


@pytest.mark.parametrize("seed", [0, 1])
def test_gangs_are_placed_whole_next_to_the_pods_of_other_members(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "SETTLE_S", 3.0)

    async def main() -> None:
        made = shared_world.SharedWorld(seed=seed, engines=3, room=3.0, lost_share=0.05)
        await made.start(nodes=3)
        await asyncio.sleep(4.0)
        for index in range(12):
            made.create_pod(f"pod-{index}")
        for name, size in (("a", 4), ("b", 6)):
            for index in range(size):
                pod = objects.pod_object(f"{name}-{index}")
                pod["metadata"] |= {
                    "labels": {pod_groups.LABEL: name}, "annotations": {pod_groups.MIN_MEMBER: str(size)}
                }  # fmt: skip
                made.kube.objects.create("pods", pod, "test")
        complete: set[str] = set()
        for one in made.engines:
            counted = one.state.gangs.on_step

            def on_step(each: gang.Gang, before: object = counted) -> None:
                if each.state is gang.COMPLETE:
                    complete.add(each.key.name)
                assert callable(before)
                before(each)

            one.state.gangs.on_step = on_step
        await made.until_ended(600.0)
        assert complete == {"a", "b"}
        assert all(count == 1 for count in made.kube.binds.values())
        await made.stop()

    objects.run_fast(main())


def test_no_pod_of_a_gang_is_bound_unless_all_of_it_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "SETTLE_S", 3.0)

    async def main() -> None:
        made = shared_world.SharedWorld(engines=1, room=2.0)
        made.pod_s = (1.0, 1.0)
        await made.start(nodes=2)
        await asyncio.sleep(4.0)
        claims = made.connections[0].claims
        change = claims.change
        rivals = [f"{index:08x}-0000-4000-8000-000000000000" for index in range(2)]

        async def come_first(changes: Sequence[buses.GuardedWrite]) -> list[buses.WriteOutcome]:
            claims.change = change  # type: ignore[method-assign]
            assert sorted(each.subject for each in changes) == [subjects.claim(f"node-{index}") for index in range(2)]
            assert (await change([made.claims_on("node-1", *rivals)]))[0].seq is not None
            return await change(changes)

        claims.change = come_first  # type: ignore[method-assign]
        uids = [create(made, f"a-{index}", size=4) for index in range(4)]
        await asyncio.sleep(10.0)
        assert not made.kube.binds
        assert made.claimed_on("node-0") == []
        assert made.claimed_on("node-1") == rivals
        stored = made.hub.claims[subjects.claim("node-1")].seq
        await change([made.claims_on("node-1", seq=stored)])
        await made.until_ended(60.0)
        assert made.kube.binds == dict.fromkeys(uids, 1)
        await made.stop()

    objects.run_fast(main())


@pytest.mark.parametrize("conflicts", [1, 2])
def test_a_gang_that_lost_a_claim_is_decided_on_again_at_once(conflicts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "SETTLE_S", 3.0)
    # What else lets a gang be tried again: the keeper, twice a second.
    monkeypatch.setattr(keeper.Keeper, "_try_again", lambda *_: None)

    async def main() -> None:
        made = shared_world.SharedWorld(engines=1, room=2.0)
        made.pod_s = (1.0, 1.0)
        await made.start(nodes=4)
        await asyncio.sleep(4.0)
        claims = made.connections[0].claims
        change = claims.change
        left = conflicts
        lost: list[str] = []

        async def come_first(changes: Sequence[buses.GuardedWrite]) -> list[buses.WriteOutcome]:
            nonlocal left
            node = changes[-1].subject.rpartition(".")[2]
            if left and node not in lost:
                left -= 1
                lost.append(node)
                rivals = [f"{left:08x}-{index:04d}-4000-8000-000000000000" for index in range(2)]
                stored = made.hub.claims.get(subjects.claim(node))
                rival = made.claims_on(node, *rivals, seq=0 if stored is None else stored.seq)
                assert (await change([rival]))[0].seq is not None
            return await change(changes)

        claims.change = come_first  # type: ignore[method-assign]
        uids = [create(made, f"a-{index}", size=4) for index in range(4)]
        await made.until_ended(10.0)
        assert len(lost) == conflicts
        assert made.kube.binds == dict.fromkeys(uids, 1)
        await made.stop()

    objects.run_fast(main())


def test_a_gang_that_loses_the_lease_between_claim_and_bind_gives_all_claims_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream, "SETTLE_S", 3.0)

    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=2.0)
        made.pod_s = (1.0, 1.0)
        await made.start(nodes=2)
        await asyncio.sleep(4.0)
        claims = made.connections[0].claims
        change = claims.change

        async def lose_the_lease(changes: Sequence[buses.GuardedWrite]) -> list[buses.WriteOutcome]:
            claims.change = change  # type: ignore[method-assign]
            found = await change(changes)
            made.holder = 1
            return found

        claims.change = lose_the_lease  # type: ignore[method-assign]
        uids = [create(made, f"a-{index}", size=4) for index in range(4)]
        await made.until_ended(120.0)
        assert made.kube.binds == dict.fromkeys(uids, 1)
        stored = [each.claims.labels("stored")._value.get() for each in made.counted]
        assert stored == [4, 4]
        await made.stop()

    objects.run_fast(main())


def create(made: shared_world.SharedWorld, name: str, *, size: int) -> str:
    """The UID of a new Pod of gang `a`."""
    pod = objects.pod_object(name)
    pod["metadata"] |= {"labels": {pod_groups.LABEL: "a"}, "annotations": {pod_groups.MIN_MEMBER: str(size)}}
    return str(made.kube.objects.create("pods", pod, "test")["metadata"]["uid"])
