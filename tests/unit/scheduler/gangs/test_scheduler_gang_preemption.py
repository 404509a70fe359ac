"""Room for a gang: others go for all of its Pods, or none goes."""

import asyncio
import random
from typing import Any

import pytest

from carico_scheduler.gangs import gang
from carico_scheduler.nodes import snapshot
from carico_scheduler.preempt import nominations, preemptor, search, victims
from tests.unit.scheduler import objects
from tests.unit.scheduler.gangs import gang_world


async def filled(nodes: int, pods: int, *, room: float = 3.0, priority: int = 0) -> gang_world.GangWorld:
    """A world that is full of Pods of low priority."""
    made = gang_world.GangWorld(room=room)
    await made.start(nodes=nodes)
    for index in range(pods):
        made.create_pod(f"low-{index}", priority=priority)
    await asyncio.sleep(5.0)
    assert len(made.running("low")) == pods
    return made


async def zones(*, nominated: str = "") -> gang_world.GangWorld:
    """Three full nodes, the last two in zone b, and a gang of four that must stay in one zone."""
    made = gang_world.GangWorld()
    for index, zone in enumerate("abb"):
        node = objects.node_object(f"node-{index}")
        node["metadata"]["labels"]["zone"] = zone
        made.kube.objects.create("nodes", node, "test")
    await made.start_engines(nodes=3)
    for index in range(9):
        made.create_pod(f"low-{index}")
    await asyncio.sleep(5.0)
    made.group("train", spec={"minMember": 4}, annotations={"carico.dev/gang-topology-key": "zone"})
    status = {"nominatedNodeName": nominated} if nominated else {}
    for index in range(4):
        made.member("train", f"train-{index}", spec={"priority": 10}, status=status)
    return made


def test_as_many_pods_go_as_the_gang_needs_and_it_is_placed_whole() -> None:
    async def main() -> None:
        made = await filled(2, 6)
        made.gang("train", 4, spec={"priority": 10})
        await asyncio.sleep(20.0)
        assert len(made.running("train")) == 4
        assert len(made.running("low")) == 2
        assert made.deleted() == 4
        assert len(made.engines[0].state.nominations) == 0
        assert made.engines[0]._metrics.preemptions.labels("placed")._value.get() + made.engines[
            0
        ]._metrics.preemptions.labels("elsewhere")._value.get() == 4  # fmt: skip
        await made.stop()

    objects.run_fast(main())


def test_free_room_counts_and_only_the_rest_is_made() -> None:
    async def main() -> None:
        made = await filled(2, 4)
        made.gang("train", 4, spec={"priority": 10})
        await asyncio.sleep(20.0)
        assert len(made.running("train")) == 4
        assert made.deleted() == 2
        await made.stop()

    objects.run_fast(main())


def test_no_pod_goes_for_a_gang_for_which_there_would_not_be_enough_room_even_so() -> None:
    async def main() -> None:
        made = await filled(2, 5)
        made.create_pod("equal", priority=10)
        await asyncio.sleep(5.0)
        made.gang("train", 6, spec={"priority": 10})
        await asyncio.sleep(40.0)
        assert made.running("train") == []
        assert made.deleted() == 0
        assert len(made.engines[0].state.nominations) == 0
        # Others are not kept from the room in the end.
        made.delete("low-0")
        made.create_pod("next", priority=0)
        await asyncio.sleep(10.0)
        assert "next" in made.running()
        await made.stop()

    objects.run_fast(main())


def test_no_pod_goes_for_a_gang_that_lacks_pods_or_of_which_one_does_not_preempt() -> None:
    async def main() -> None:
        made = await filled(1, 3)
        made.gang("short", 1, least=2, spec={"priority": 10})
        made.gang("polite", 1, least=2, spec={"priority": 10})
        made.member("polite", "polite-1", least=2, spec={"priority": 10, "preemptionPolicy": "Never"})
        await asyncio.sleep(30.0)
        assert made.deleted() == 0
        await made.stop()

    objects.run_fast(main())


@pytest.mark.parametrize("why", ["gone", "deposed"])
def test_no_pod_goes_for_a_gang_that_lost_a_pod_or_after_the_term_ended_during_the_search(
    monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    async def main() -> None:
        made = await filled(2, 6)
        state, one = made.engines[0].state, made.engines[0].preemptor
        choose, leads, found = one._search.choose, True, False
        monkeypatch.setattr(one, "_term", lambda: 0 if leads else None)

        async def choose_and_change(*args: Any, **more: Any) -> victims.Choice | None:
            nonlocal leads, found
            choice = await choose(*args, **more)
            if choice is not None and len(state.nominations) == 3:
                found = True
                if why == "gone":
                    state.remove_pod(next(each.uid for each in state.pods() if each.name.startswith("train")))
                leads = why == "gone"
            return choice

        started: list[nominations.Nomination] = []
        monkeypatch.setattr(one, "_start", lambda nomination, term: started.append(nomination))
        monkeypatch.setattr(one._search, "choose", choose_and_change)
        made.gang("train", 4, spec={"priority": 10})
        await asyncio.sleep(4.0)
        assert found
        assert not started and len(state.nominations) == 0
        await made.stop()

    objects.run_fast(main())


def test_the_room_is_held_until_the_victims_on_all_nodes_are_gone() -> None:
    async def main() -> None:
        made = await filled(2, 6)
        made.kube.is_graceful = True
        made.gang("train", 6, spec={"priority": 10})
        await asyncio.sleep(10.0)
        assert made.deleted() == 6
        leaving = [pod["metadata"]["name"] for pod in made.pods() if pod["metadata"].get("deletionTimestamp")]
        assert len(leaving) == 6
        # All but one go; the last takes longer than the room of one Pod alone would be held.
        for name in leaving[:5]:
            made.delete(name)
        await asyncio.sleep(25.0)
        made.create_pod("passer-by", priority=0)
        await asyncio.sleep(5.0)
        assert "passer-by" not in made.running()
        assert made.running("train") == []
        made.delete(leaving[5])
        await asyncio.sleep(10.0)
        assert len(made.running("train")) == 6
        assert made.deleted() == 6
        await made.stop()

    objects.run_fast(main())


def test_a_gang_that_must_stay_in_a_zone_has_only_pods_of_one_zone_evicted() -> None:
    async def main() -> None:
        made = await zones()
        await asyncio.sleep(20.0)
        assert len(made.running("train")) == 4
        nodes = {pod["spec"]["nodeName"] for pod in made.pods() if pod["metadata"]["name"].startswith("train")}
        assert nodes <= {"node-1", "node-2"}
        assert made.deleted() == 4
        await made.stop()

    objects.run_fast(main())


PORT = {"containers": [{"name": "main", "image": "pi", "ports": [{"hostPort": 80, "containerPort": 80}]}]}


@pytest.mark.parametrize(("size", "deleted"), [(3, 0), (2, 2)])
def test_no_pod_goes_for_a_gang_whose_own_pods_exclude_each_other(size: int, deleted: int) -> None:
    async def main() -> None:
        made = await filled(2, 6)
        # One on each node, of which there are two.
        made.gang("train", size, spec=PORT | {"priority": 10})
        await asyncio.sleep(20.0)
        assert made.deleted() == deleted
        assert len(made.running("train")) == deleted
        await made.stop()

    objects.run_fast(main())


def test_no_pod_goes_for_another_of_its_own_gang() -> None:
    async def main() -> None:
        made = await filled(1, 1, room=1.0)
        made.end("low")
        made.member("train", "train-0", least=2, spec={"nodeName": "node-0"})
        made.member("train", "train-1", least=2, spec={"priority": 10})
        await asyncio.sleep(15.0)
        assert made.deleted() == 0
        await made.stop()

    objects.run_fast(main())


def test_a_node_nominated_earlier_is_none_for_a_gang_that_goes_to_another_zone() -> None:
    async def main() -> None:
        made = await zones(nominated="node-0")
        await asyncio.sleep(20.0)
        assert len(made.running("train")) == 4
        assert made.deleted() == 4
        await made.stop()

    objects.run_fast(main())


def test_a_node_that_joins_during_the_search_does_not_end_it() -> None:
    async def main() -> None:
        made = await zones()
        state = made.engines[0].state
        read = state.evictable.read_some
        joined: list[str] = []

        def join(priority: int, view: snapshot.Snapshot) -> bool:
            if len(joined) < 3:
                joined.append(f"late-{len(joined)}")
                state.put_node(objects.make_node(joined[-1], unschedulable=True))
            return read(priority, view)

        state.evictable.read_some = join  # type: ignore[method-assign]
        await asyncio.sleep(20.0)
        assert len(joined) == 3
        assert len(made.running("train")) == 4
        await made.stop()

    objects.run_fast(main())


def test_a_search_for_a_gang_comes_to_all_nodes_in_several_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its Pods began anew in each round, and looked at few nodes of a large cluster."""
    monkeypatch.setattr(search, "EXAMINED_MAX", 2)

    async def main() -> None:
        made = await filled(12, 36)
        found = made.engines[0].preemptor._search
        on_slot, examined = found.on_slot, []

        def measured(slot: int, *of: Any) -> victims.Choice | None:
            examined.append(slot)
            return on_slot(slot, *of) if slot in (3, 9) else None

        monkeypatch.setattr(found, "on_slot", measured)
        made.gang("train", 6, spec={"priority": 10})
        await asyncio.sleep(20.0)
        assert len(made.running("train")) == 6
        assert made.deleted() == 6
        assert len([slot for slot in examined if slot not in (3, 9)]) <= 12, "none is examined twice in vain"
        await made.stop()

    objects.run_fast(main())


def test_a_search_that_is_over_in_one_zone_goes_on_in_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "EXAMINED_MAX", 1)

    async def main() -> None:
        made = await zones()
        examined: list[int] = []
        # None of the nodes gives way.
        monkeypatch.setattr(made.engines[0].preemptor._search, "on_slot", lambda slot, *of: examined.append(slot))
        async with asyncio.timeout(60.0):
            while len(examined) < 3:
                await asyncio.sleep(0.1)
        await asyncio.sleep(preemptor.AGAIN_S - 1.0)
        assert sorted(examined) == [0, 1, 2], "each once, until the next search"
        await made.stop()

    objects.run_fast(main())


def test_the_next_search_for_a_gang_begins_with_all_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that was examined in vain for a role for which another node was found was never examined again."""

    async def main() -> None:
        made = await filled(3, 9)
        found = made.engines[0].preemptor._search
        on_slot, examined = found.on_slot, []

        def measured(slot: int, kind: search.AlikePods, *of: Any) -> victims.Choice | None:
            if kind.demand.request_cores < 0.5:
                return None
            examined.append(slot)
            # The third gives way, and is looked at once more before it is chosen.
            return on_slot(slot, kind, *of) if len(examined) in (3, 4) else None

        monkeypatch.setattr(found, "on_slot", measured)
        for name, cpu in (("train-0", "500m"), ("train-1", "100m")):
            resources = {"requests": {"cpu": cpu}}
            made.member(
                "train", name, least=2, spec={"priority": 10, "containers": [{"name": "c", "resources": resources}]}
            )
        async with asyncio.timeout(60.0):
            while len(examined) < 5:
                await asyncio.sleep(0.1)
        await asyncio.sleep(1.0)
        assert sorted(examined[:3]) == sorted(examined[4:]) == [0, 1, 2]
        await made.stop()

    objects.run_fast(main())


@pytest.mark.parametrize("seed", range(2))
def test_gangs_and_pods_of_all_priorities_end_with_the_highest_on_nodes_and_no_half(seed: int) -> None:
    async def main() -> None:
        rng = random.Random(seed)
        made = gang_world.GangWorld(seed=seed)
        await made.start(nodes=2)
        sizes = {name: rng.randint(2, 4) for name in "abcd"}
        for index in range(6):
            made.create_pod(f"pod-{index}", priority=rng.randrange(4))
            await asyncio.sleep(rng.uniform(0.0, 2.0))
        for name, size in sizes.items():
            priority = rng.randrange(4)
            for index in range(size):
                made.member(name, f"{name}-{index}", least=size, spec={"priority": priority})
                await asyncio.sleep(rng.uniform(0.0, 1.0))
        await asyncio.sleep(60.0)
        for one in made.engines[0].state.gangs:
            assert one.state is not gang.INCOMPLETE, one
            assert one.state is not gang.GIVEN_BACK, one
        assert max(made.largest.values()) <= 3
        assert len(made.engines[0].state.nominations) == 0
        await made.stop()

    objects.run_fast(main())
