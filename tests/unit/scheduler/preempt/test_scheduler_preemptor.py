"""Preemption on the memory API: who goes, once, with what is written about it, and who gets the room."""

import asyncio
import dataclasses
import random
from typing import Any

import pytest

from carico_core.domain import errors
from carico_core.wire.kubernetes import instants
from carico_scheduler.preempt import evictor, nominations, preemptor, victims
from carico_scheduler.preempt import search as search_module
from tests.tools.memory import memory_objects
from tests.unit.scheduler import objects, world

FOREVER = (10_000.0, 10_000.0)


async def full(room: float = 3.0, pods: int = 3, **spec: Any) -> world.World:
    """One node that is full of running Pods of priority 0."""
    made = world.World(room=room)
    made.pod_s = FOREVER
    await made.start(nodes=1)
    for index in range(pods):
        made.create_pod(f"low-{index}", **({"priority": 0} | spec))
    await asyncio.sleep(5.0)
    assert running(made) == sorted(f"low-{index}" for index in range(pods))
    return made


def running(made: world.World) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in made.pods() if pod["status"].get("phase") == "Running")


def count(made: world.World, start: str) -> int:
    return sum(each.startswith(start) for each in made.kube.requests)


def test_a_pod_of_high_priority_gets_the_room_of_one_of_low_priority() -> None:
    async def main() -> None:
        made = await full()
        made.create_pod("high", priority=10)
        await asyncio.sleep(10.0)
        assert "high" in running(made)
        assert len(running(made)) == 3
        assert count(made, "DELETE") == 1
        (gone,) = {"low-0", "low-1", "low-2"} - set(running(made))
        events = made.kube.objects.all("events", memory_objects.parse_selector("", {}))
        assert [each["regarding"]["name"] for each in events if each["reason"] == "Preempted"] == [gone]
        assert len(made.engines[0].state.nominations) == 0
        await made.stop()

    objects.run_fast(main())


def test_each_pod_has_its_own_victim_and_all_of_them_get_their_room() -> None:
    async def main() -> None:
        made = await full(room=6.0, pods=6)
        for index in range(4):
            made.create_pod(f"high-{index}", priority=10)
        made.create_pod("next", priority=0)
        await asyncio.sleep(30.0)
        assert [each for each in running(made) if "high" in each] == ["high-0", "high-1", "high-2", "high-3"]
        assert sum("low" in each for each in running(made)) == 2
        assert count(made, "DELETE") == 4
        await made.stop()

    objects.run_fast(main())


def test_no_pod_goes_for_one_that_does_not_preempt_or_has_no_higher_priority() -> None:
    async def main() -> None:
        made = await full()
        made.create_pod("equal", priority=0)
        made.create_pod("polite", priority=10, preemptionPolicy="Never")
        await asyncio.sleep(30.0)
        assert running(made) == ["low-0", "low-1", "low-2"]
        assert count(made, "DELETE") == 0
        await made.stop()

    objects.run_fast(main())


def test_while_victims_end_no_other_pod_goes_and_the_room_is_held() -> None:
    async def main() -> None:
        made = await full()
        # Its kubelet has not ended it yet: the API shows it until then.
        made.kube.is_graceful = True
        made.create_pod("high", priority=10)
        await asyncio.sleep(40.0)
        assert count(made, "DELETE") == 1
        (only,) = made.engines[0].state.nominations
        assert only.state is nominations.State.EVICTING
        (victim,) = (pod for pod in made.pods() if pod["metadata"].get("deletionTimestamp"))
        conditions = {each["type"]: each for each in victim["status"]["conditions"]}
        assert conditions["DisruptionTarget"]["reason"] == "PreemptionByScheduler"
        (high,) = (pod for pod in made.pods() if pod["metadata"]["name"] == "high")
        assert high["status"]["nominatedNodeName"] == "node-0"
        made.create_pod("low-9", priority=0)
        made.kube.is_graceful = False
        made.kube.objects.delete("pods", ("default", victim["metadata"]["name"]), {}, "test")
        await asyncio.sleep(10.0)
        assert "high" in running(made)
        assert "low-9" not in running(made)
        assert count(made, "DELETE") == 1
        await made.stop()

    objects.run_fast(main())


def test_an_eviction_that_is_refused_is_counted_and_tried_again_later() -> None:
    async def main() -> None:
        made = await full()
        refused = errors.Forbidden(status=403, reason="Forbidden", message="no rights", request="DELETE pod")
        made.kube.fail_next(refused, method="DELETE")
        made.create_pod("high", priority=10)
        await asyncio.sleep(4.0)
        assert running(made) == ["low-0", "low-1", "low-2"]
        (high,) = (pod for pod in made.pods() if pod["metadata"]["name"] == "high")
        assert not high["status"].get("nominatedNodeName")
        await asyncio.sleep(15.0)
        assert "high" in running(made)
        assert count(made, "DELETE") == 2
        await made.stop()

    objects.run_fast(main())


def test_free_room_that_is_held_for_a_pod_keeps_none_of_lower_priority_from_getting_room_elsewhere() -> None:
    async def main() -> None:
        made = world.World(room=50.0)
        made.pod_s = FOREVER
        await made.start(nodes=2)

        def create(name: str, cores: int, **more: Any) -> None:
            container = {"name": "main", "image": "pi", "resources": {"requests": {"cpu": str(cores)}}}
            made.create_pod(name, containers=[container], **more)

        on_first, on_second = ({"kubernetes.io/hostname": f"node-{index}"} for index in range(2))
        # Of four cores on each node.
        create("low-0", 3, priority=0, nodeSelector=on_first)
        create("low-1", 4, priority=0, nodeSelector=on_second)
        await asyncio.sleep(5.0)
        made.kube.is_graceful = True
        create("high", 4, priority=1000, nodeSelector=on_first)
        await asyncio.sleep(5.0)
        assert count(made, "DELETE") == 1
        # The last core of the first node is held for that Pod.
        create("middle", 1, priority=100)
        await asyncio.sleep(10.0)
        assert count(made, "DELETE") == 2
        assert {each.node for each in made.engines[0].state.nominations} == {"node-0", "node-1"}
        await made.stop()

    objects.run_fast(main())


@pytest.mark.parametrize("goes", [False, True])
def test_pods_do_not_wait_for_one_that_no_longer_goes_for_another(*, goes: bool) -> None:
    """Each of two waited for ever: the Pod was leaving for the other, although nothing evicted it any more."""

    async def main() -> None:
        made = world.World(room=50.0)
        made.pod_s = FOREVER
        await made.start(nodes=1)

        def create(name: str, cores: int, **more: Any) -> None:
            container = {"name": "main", "image": "pi", "resources": {"requests": {"cpu": str(cores)}}}
            made.create_pod(name, containers=[container], **more)

        create("low", 4, priority=0)
        await asyncio.sleep(5.0)
        made.kube.fail_next(
            errors.Forbidden(status=403, reason="Forbidden", message="no", request="DELETE"), method="DELETE"
        )
        for name in ("high-0", "high-1"):
            create(name, 1, priority=10)
        while count(made, "DELETE") == 0:
            await asyncio.sleep(0.1)
        waiting = made.engines[0].state.nominations
        assert sorted(victim.deleting for each in waiting for victim in each.victims) == [False, True]
        if goes:
            (first,) = (each.pod.name for each in waiting if not each.victims[0].deleting)
            made.kube.objects.delete("pods", ("default", first), {}, "test")
        await asyncio.sleep(20.0)
        assert running(made) == (["high-0", "high-1"] if not goes else sorted({"high-0", "high-1"} - {first}))
        assert count(made, "DELETE") == 2
        await made.stop()

    objects.run_fast(main())


@pytest.mark.parametrize("nodes", [1, 2])
def test_no_pod_goes_on_a_node_that_is_held_for_another_which_has_waited_for_long(nodes: int) -> None:
    async def main() -> None:
        made = world.World(room=50.0)
        made.pod_s = FOREVER
        await made.start(nodes=nodes)

        def create(name: str, cores: int, **more: Any) -> None:
            container = {"name": "main", "image": "pi", "resources": {"requests": {"cpu": str(cores)}}}
            made.create_pod(name, containers=[container], **more)

        for index in range(nodes):
            for number in range(4):
                on_it = {"kubernetes.io/hostname": f"node-{index}"}
                create(f"low-{index}-{number}", 1, priority=0, nodeSelector=on_it)
        await asyncio.sleep(5.0)
        first = {"kubernetes.io/hostname": "node-0"}
        create("large", 4, priority=6, preemptionPolicy="Never", nodeSelector=first)
        await asyncio.sleep(130.0)
        assert made.engines[0].turns.nominees()
        if nodes > 1:
            # One core of the first node is free, and held: there is no room for others.
            made.kube.objects.delete("pods", ("default", "low-0-0"), {}, "test")
        create("high", 1, priority=5)
        await asyncio.sleep(60.0)
        gone = {request.rpartition("/")[2] for request in made.kube.requests if request.startswith("DELETE")}
        assert (len(gone), {name[:5] for name in gone}) == ((1, {"low-1"}) if nodes > 1 else (0, set()))
        assert ("high" in running(made)) is (nodes > 1)
        await made.stop()

    objects.run_fast(main())


@pytest.mark.parametrize("table", ["budgets", "baseline"])
def test_nothing_is_evicted_while_budgets_or_daemon_sets_are_not_known(table: str) -> None:
    async def main() -> None:
        made = await full()
        lacks = getattr(made.engines[0].state, table).lacks
        lacks("the API does not answer")
        made.create_pod("high", priority=10)
        await asyncio.sleep(20.0)
        assert count(made, "DELETE") == 0
        lacks(None)
        await asyncio.sleep(10.0)
        assert "high" in running(made)
        await made.stop()

    objects.run_fast(main())


@pytest.mark.parametrize("seed", range(4))
def test_no_pod_waits_behind_lower_ones_and_none_goes_in_vain(seed: int) -> None:
    async def main() -> None:
        rng = random.Random(seed)
        made = world.World(seed=seed, room=3.0)
        made.pod_s = FOREVER
        await made.start(nodes=3)
        priorities: dict[str, int] = {}
        for index in range(20):
            name = f"pod-{index}"
            priorities[name] = rng.randrange(4)
            made.create_pod(name, priority=priorities[name])
            await asyncio.sleep(rng.uniform(0.0, 5.0))
        await asyncio.sleep(60.0)
        left = {pod["metadata"]["name"] for pod in made.pods()}
        assert len(running(made)) == 9
        waiting = left - set(running(made))
        highest = max((priorities[name] for name in waiting), default=-1)
        assert all(priorities[name] >= highest for name in running(made))
        assert max(made.largest.values()) <= 3
        # Each Pod needs the room of one, so that each eviction served one Pod, which runs or was evicted itself.
        assert count(made, "DELETE") == 20 - len(left)
        assert len(made.engines[0].state.nominations) == 0
        for pod in made.pods():
            if pod["metadata"]["name"] in running(made):
                assert made.kube.binds[pod["metadata"]["uid"]] == 1
        assert made.engines[0]._metrics.preemptions.labels("placed")._value.get() == count(made, "DELETE")
        await made.stop()

    objects.run_fast(main())


def test_a_standby_evicts_no_pod() -> None:
    async def main() -> None:
        made = await full()
        leads = False
        made.engines[0].preemptor._term = lambda: 0 if leads else None
        made.create_pod("high", priority=10)
        await asyncio.sleep(10.0)
        assert count(made, "DELETE") == 0
        leads = True
        await asyncio.sleep(10.0)
        assert count(made, "DELETE") == 1
        await made.stop()

    objects.run_fast(main())


async def search(made: world.World, name: str) -> asyncio.Task[victims.Choice | None]:
    """Begin a search for a waiting Pod, which has examined one node when this returns."""
    state, one = made.engines[0].state, made.engines[0].preemptor
    waiting = next(each for each in state.queue if each.pod.name == name)
    kind = search_module.AlikePods(waiting.demand, waiting.pod.priority)
    begun = asyncio.create_task(one._search.choose(waiting, kind))
    await asyncio.sleep(0)
    return begun


@pytest.mark.parametrize("is_cordoned", [False, True])
def test_no_pod_goes_on_a_node_that_no_longer_allows_the_new_one(is_cordoned: bool) -> None:
    async def main() -> None:
        made = await full()
        state = made.engines[0].state
        # Otherwise the search ends at once: no node can lose less.
        state.placements.lowest_priority = lambda: -1  # type: ignore[method-assign]
        made.create_pod("high", priority=10)
        await asyncio.sleep(0.3)
        begun = await search(made, "high")
        slot = state.fleet.slot_of("node-0")
        assert slot is not None and not begun.done()
        node = state.fleet.row(slot).node
        state.put_node(dataclasses.replace(node, unschedulable=is_cordoned))
        found = await begun
        assert (found is None) is is_cordoned
        await made.stop()

    objects.run_fast(main())


@pytest.mark.parametrize("why", ["gone", "deposed"])
def test_no_pod_goes_for_one_that_went_or_after_the_term_ended_during_the_search(
    monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    async def main() -> None:
        made = await full()
        state, one = made.engines[0].state, made.engines[0].preemptor
        choose, leads = one._search.choose, True
        monkeypatch.setattr(one, "_term", lambda: 0 if leads else None)

        async def choose_and_change(*args: Any, **more: Any) -> victims.Choice | None:
            nonlocal leads
            found = await choose(*args, **more)
            if found is not None and why == "gone":
                state.remove_pod(uid)
            leads = found is None or why != "deposed"
            return found

        monkeypatch.setattr(one._search, "choose", choose_and_change)
        uid = made.create_pod("high", priority=10)
        await asyncio.sleep(4.0)
        assert (state.pod(uid) is None) is (why == "gone") and leads is (why == "gone")
        assert count(made, "DELETE") == 0 and len(state.nominations) == 0
        await made.stop()

    objects.run_fast(main())


def test_a_nominee_whose_bind_is_under_way_counts_once() -> None:
    async def main() -> None:
        made = await full(room=4.0)
        state = made.engines[0].state
        waiting = objects.make_waiting(objects.make_pod("high", priority=10), 0.0)
        # Its victims still leave, but room has become free there otherwise.
        state.nominations.add(
            nominations.Nomination(
                pod=waiting.pod, demand=waiting.demand, node="node-0", victims=(), since_s=made.clock.monotonic_s()
            )
        )
        state.assume(waiting, "node-0", made.clock.monotonic_s())
        other = waiting.demand
        view = state.fleet.snapshot(made.clock.monotonic_s())
        one = made.engines[0].preemptor
        slot = state.fleet.slot_of("node-0")
        assert slot is not None
        choice = one._search.on_slot(slot, search_module.AlikePods(other, 10), one._search._cycle.explain(view, other))
        assert choice is not None and len(choice.victims) == 1
        await made.stop()

    objects.run_fast(main())


def test_a_node_that_has_lost_some_victims_loses_no_others_before_its_agent_has_measured_that() -> None:
    async def main() -> None:
        made = await full()
        state, one = made.engines[0].state, made.engines[0].preemptor
        waiting = objects.make_waiting(objects.make_pod("high", priority=10), 0.0)
        low = sorted(state.pods(), key=lambda each: each.name)
        now_s = made.clock.monotonic_s()
        for victim in low[:2]:
            state.see_pod(victim._replace(deleting=True, ends_at_s=made.clock.wall_ns() / 1e9 + 30.0), now_s)
        state.nominations.add(
            nominations.Nomination(
                pod=waiting.pod, demand=waiting.demand, node="node-0", victims=tuple(low[:2]), since_s=now_s
            )
        )
        slot = state.fleet.slot_of("node-0")
        assert slot is not None

        def found() -> victims.Choice | None:
            scores = one._search._cycle.explain(state.fleet.snapshot(now_s), waiting.demand)
            return one._search.on_slot(slot, search_module.AlikePods(waiting.demand, 10), scores)

        choice = found()
        assert choice is not None and not choice.victims, "the room of both victims is enough for two Pods"
        state.remove_pod(low[0].uid)
        assert found() is None
        (nomination,) = state.nominations.on("node-0")
        nomination.has_failed = True
        one._refresh()
        assert not state.nominations.on("node-0")
        await made.stop()

    objects.run_fast(main())


@pytest.mark.parametrize(("ends_in_s", "gone"), [(0.0, 0), (-nominations.STUCK_AFTER_S - 1.0, 1), (3600.0, 1)])
def test_a_pod_that_leaves_is_waited_for_unless_it_does_not_end_in_time(ends_in_s: float, gone: int) -> None:
    async def main() -> None:
        made = await full()
        leaving = next(pod for pod in made.pods() if pod["metadata"]["name"] == "low-0")
        ends_at_ns = made.clock.wall_ns() + round(ends_in_s * 1e9)
        leaving["metadata"]["deletionTimestamp"] = instants.format_time(ends_at_ns)
        made.kube.objects.update("pods", ("default", "low-0"), leaving, "test")
        made.create_pod("high", priority=10)
        await asyncio.sleep(20.0)
        assert count(made, "DELETE") == gone
        assert ("high" in running(made)) is bool(gone)
        await made.stop()

    objects.run_fast(main())


def test_the_room_of_a_pod_that_leaves_anyway_is_held_for_one_pod() -> None:
    async def main() -> None:
        made = await full()
        leaving = next(pod for pod in made.pods() if pod["metadata"]["name"] == "low-0")
        leaving["metadata"]["deletionTimestamp"] = instants.format_time(made.clock.wall_ns() + 10**9)
        made.kube.objects.update("pods", ("default", "low-0"), leaving, "test")
        made.create_pod("middle", priority=5)
        await asyncio.sleep(5.0)
        made.create_pod("high", priority=10)
        await asyncio.sleep(10.0)
        found = {pod["metadata"]["name"]: pod["status"].get("nominatedNodeName") for pod in made.pods()}
        assert (found["high"], found["middle"]) == ("node-0", "node-0")
        assert count(made, "DELETE") == 0, "`middle` asked first, but the room is for `high`"
        made.create_pod("next", priority=10)
        await asyncio.sleep(5.0)
        assert count(made, "DELETE") == 1, "one leaves, so another goes for the second"
        made.kube.objects.delete("pods", ("default", "low-0"), {}, "test")
        await asyncio.sleep(15.0)
        assert {"high", "next"} < set(running(made))
        await made.stop()

    objects.run_fast(main())


def test_for_a_pod_that_does_not_get_the_room_others_go_less_and_less_often() -> None:
    async def main() -> None:
        made = await full()
        # As if the node were smaller than its agent has measured: what goes frees nothing.
        made.room = 0.0
        made.create_pod("high", priority=10)
        begun_s, gone_s = made.clock.monotonic_s(), list[float]()
        while len(gone_s) < 3:
            await asyncio.sleep(0.5)
            gone_s += [made.clock.monotonic_s() - begun_s] * (count(made, "DELETE") - len(gone_s))
        assert preemptor.AGAIN_S < gone_s[1] - gone_s[0] - nominations.FREED_FOR_S < preemptor.AGAIN_S + 4.0
        assert 2 * preemptor.AGAIN_S < gone_s[2] - gone_s[1] - nominations.FREED_FOR_S < 2 * preemptor.AGAIN_S + 4.0
        await made.stop()

    objects.run_fast(main())


def test_a_pod_that_another_scheduler_tries_now_and_then_costs_no_more_evictions() -> None:
    async def evictions(*, is_shared: bool) -> int:
        made = await full(room=20.0, pods=20)
        made.room = 0.0
        uid = made.create_pod("high", priority=10)
        state, since_s = made.engines[0].state, made.clock.monotonic_s()
        while made.clock.monotonic_s() - since_s < 150.0:
            await asyncio.sleep(5.0)
            # As `sharing.corrections` does with a Pod for which no room is held.
            if is_shared and state.nominations.find(uid) is None:
                state.is_mine = lambda pod: pod.uid != uid
                state.share(uid, since_s, made.clock.monotonic_s())
                await asyncio.sleep(1.0)
                state.is_mine = lambda pod: True
                state.share(uid, since_s, made.clock.monotonic_s())
        await made.stop()
        return count(made, "DELETE")

    async def main() -> None:
        assert 3 < await evictions(is_shared=True) <= await evictions(is_shared=False) < 10

    objects.run_fast(main())


def test_a_new_leader_evicts_no_others_while_the_victims_of_its_predecessor_leave() -> None:
    async def main() -> None:
        made = world.World(room=1.0)
        made.pod_s = FOREVER
        await made.start(nodes=4)
        for index in range(4):
            made.create_pod(f"low-{index}", priority=0)
        await asyncio.sleep(5.0)
        assert len(running(made)) == 4
        made.kube.is_graceful = True
        made.create_pod("high", priority=10)
        await asyncio.sleep(5.0)
        assert count(made, "DELETE") == 1
        # As after a change of the leader: only the API knows what was begun.
        made.engines[0].state.nominations = nominations.Nominations()
        await asyncio.sleep(20.0)
        assert count(made, "DELETE") == 1
        await made.stop()

    objects.run_fast(main())


def test_a_search_that_finds_nothing_continues_in_the_next_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_module, "EXAMINED_MAX", 2)

    async def main() -> None:
        made = world.World(room=1.0)
        made.pod_s = FOREVER
        await made.start(nodes=7)
        for index in range(7):
            made.create_pod(f"low-{index}", priority=0)
        await asyncio.sleep(5.0)
        assert len(running(made)) == 7
        one = made.engines[0].preemptor
        examined: list[int] = []

        def nothing(slot: int, *_: object) -> None:
            examined.append(slot)

        monkeypatch.setattr(one._search, "on_slot", nothing)
        made.create_pod("high", priority=10)
        await asyncio.sleep(3.4)
        assert sorted(examined) == list(range(7))
        assert not one._search.stopped
        # The whole search is over: the next begins after a while.
        await asyncio.sleep(3.0)
        assert len(examined) == 7
        monkeypatch.undo()
        await asyncio.sleep(15.0)
        assert "high" in running(made)
        await made.stop()

    objects.run_fast(main())


def test_pods_for_which_no_node_can_give_way_keep_no_other_from_its_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preemptor, "SEARCHES_A_ROUND", 1)

    async def main() -> None:
        made = await full()
        for index in range(2 * round(preemptor.AGAIN_S / evictor.EVERY_S)):
            requests = {"requests": {"cpu": str(1000 + index)}}
            made.create_pod(f"never-{index}", priority=20, containers=[{"name": "c", "resources": requests}])
        made.create_pod("high", priority=10)
        await asyncio.sleep(60.0)
        assert "high" in running(made)
        assert count(made, "DELETE") == 1
        await made.stop()

    objects.run_fast(main())
