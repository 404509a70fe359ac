"""The engine on an API with faults: each Pod bound exactly once, none lost, no reservation left behind."""

import asyncio
import random
import tracemalloc
from typing import Any

import pytest

from carico_core.domain import decision, messages
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_scheduler.decide import cycle, turns
from carico_scheduler.engine import engine
from carico_scheduler.pods import demand as demands
from carico_scheduler.state import node_state
from tests.unit.scheduler import objects, world

GIB = 2**30


@pytest.mark.parametrize("seed", range(4))
def test_every_pod_is_bound_once_and_no_node_gets_more_than_it_said(seed: int) -> None:
    async def main() -> None:
        made = world.World(seed=seed)
        await made.start()
        uids = [made.create_pod(f"pod-{index}") for index in range(40)]
        await made.until_ended()
        await asyncio.sleep(1.0)
        assert made.kube.binds == dict.fromkeys(uids, 1)
        assert max(made.largest.values()) <= 3
        for index in range(40):
            found = made.engines[0]._parts.log.latest("default", f"pod-{index}")
            assert found is not None
            assert found.outcome is decision.Outcome.BOUND
            assert found.free is not None
            assert found.free >= 1.0
        world.check_nothing_left(made)
        await made.stop()

    objects.run_fast(main())


@pytest.mark.parametrize("seed", range(8))
def test_two_schedulers_that_share_nothing_on_an_api_that_fails(seed: int) -> None:
    async def main() -> None:
        rng = random.Random(seed)
        made = world.World(seed=seed, engines=2, fault_share=0.3)
        await made.start()
        uids = []
        for index in range(30):
            uids.append(made.create_pod(f"pod-{index}"))
            await asyncio.sleep(rng.uniform(0.0, 0.2))
            if rng.random() < 0.2:
                await chaos(made, rng)
            if rng.random() < 0.1:
                key = ("default", f"pod-{rng.randrange(index + 1)}")
                if any(pod["metadata"]["name"] == key[1] for pod in made.pods()):
                    made.kube.objects.delete("pods", key, {}, "test")
        made.kube.fault_share = 0.0
        await made.until_ended()
        await asyncio.sleep(12.0)
        left = {pod["metadata"]["uid"] for pod in made.pods()}
        assert left <= set(uids)
        assert all(made.kube.binds[uid] == 1 for uid in left)
        assert max(made.kube.binds.values()) == 1
        world.check_nothing_left(made)
        await made.stop()

    objects.run_fast(main())


async def chaos(made: world.World, rng: random.Random) -> None:
    verb = rng.choice(["watches", "compact", "away"])
    if verb == "watches":
        made.kube.break_watches()
    elif verb == "compact":
        made.kube.compact()
    else:
        made.kube.go_away()
        await asyncio.sleep(rng.uniform(0.1, 8.0))
        made.kube.come_back()


def test_an_api_away_for_a_minute_is_waited_out() -> None:
    async def main() -> None:
        made = world.World()
        await made.start()
        await asyncio.sleep(1.0)
        made.kube.go_away()
        uids = [made.create_pod(f"pod-{index}") for index in range(10)]
        await asyncio.sleep(60.0)
        assert not made.kube.binds
        assert made.engines[0].away or made.engines[0].binder.doubtful_count
        made.kube.come_back()
        await made.until_ended(60.0)
        assert made.kube.binds == dict.fromkeys(uids, 1)
        assert not made.engines[0].away
        await made.stop()

    objects.run_fast(main())


def test_a_scheduler_that_starts_later_finds_what_was_bound_before() -> None:
    async def main() -> None:
        made = world.World(engines=1, room=2.0)
        made.pod_s = (30.0, 31.0)
        await made.start(nodes=1)
        for index in range(4):
            made.create_pod(f"pod-{index}")
        await asyncio.sleep(3.0)
        assert sum(made.kube.binds.values()) == 2
        later = made._engine(7)
        made.engines.append(later)
        made.start_engine(later)
        await asyncio.sleep(3.0)
        assert sum(made.kube.binds.values()) == 2, "the new one sees that the node is full"
        await made.until_ended()
        assert sum(made.kube.binds.values()) == 4
        await made.stop()

    objects.run_fast(main())


def test_the_time_from_an_advertisement_to_the_bind_is_no_poll() -> None:
    async def main() -> None:
        made = world.World()
        made.kube.objects.create("nodes", objects.node_object("node-0"), "test")
        made.start_engine(made.engines[0])
        made.create_pod("pod-0")
        await asyncio.sleep(5.0)
        made.advertise("node-0", 3.0, 0, frozenset())
        await asyncio.sleep(0.05)
        assert made.kube.binds
        await made.stop()

    objects.run_fast(main())


def test_stored_advertisements_are_decided_by_at_once() -> None:
    async def main() -> None:
        made = world.World()
        made.kube.objects.create("nodes", objects.node_object("node-0"), "test")
        one = made.engines[0]
        made.start_engine(one)
        made.create_pod("pod-0")
        await asyncio.sleep(5.0)
        while one._wake.is_set() or made.clock.monotonic_s() - one.beat_s > 0.1:
            await asyncio.sleep(0.01)
        now_ns = made.clock.wall_ns()
        stored = objects.make_advertisement(ts_ns=now_ns, sampled_at_ns=now_ns)
        one.recall([(subjects.capacity("node-0"), wire.encode_advertisement(stored))])
        await asyncio.sleep(0.1)
        assert made.kube.binds
        await made.stop()

    objects.run_fast(main())


@pytest.mark.parametrize("is_stored", [False, True])
def test_pods_and_advertisements_may_come_before_their_node(*, is_stored: bool) -> None:
    async def main() -> None:
        made = world.World()
        one, now_s, now_ns = made.engines[0], made.clock.monotonic_s(), made.clock.wall_ns()
        one.state.put_pod(objects.make_pod("a", node_name="node-0"), now_s)
        one.state.put_pod(objects.make_pod("b", node_name="node-0"), now_s)
        said = objects.make_advertisement(
            "node-0", 3.0, pods=1, covers=frozenset({"uid-a"}), ts_ns=now_ns, sampled_at_ns=now_ns
        )
        payload = wire.encode_advertisement(said)
        if is_stored:
            one.recall([(subjects.capacity("node-0"), payload)])
        else:
            one.on_advertisement(subjects.capacity("node-0"), payload)
        one.state.put_node(objects.make_node())
        one.step()
        row = one.state.fleet.snapshot(now_s).row(0)
        assert (row.placed, row.reserved, row.free("")) == (2, 1, 2.0)

    objects.run_fast(main())


def test_what_nodes_advertise_that_the_api_does_not_show_takes_little_room_and_ends_with_a_lease() -> None:
    """Who has a key of all nodes' agents makes up any number of nodes, with messages as large as they may be."""

    async def main() -> None:
        made = world.World()
        one = made.engines[0]
        # Its costs are in names of its own: decoded, the message takes ten times its bytes.
        classes = {
            f"Job/a/{number}": messages.ClassCapacity(cost_plus={f"d{number}-{each}": 1.0 for each in range(4)}, pods=1)
            for number in range(512)
        }
        made_up = objects.make_advertisement("x" * 12, classes=classes)
        payload = wire.encode_advertisement(made_up)
        assert len(payload) > 40_000
        tracemalloc.start()
        try:
            for number in range(5000):
                node = f"x{number:011}"
                one.on_advertisement(subjects.capacity(node), payload.replace(b"x" * 12, node.encode()))
                if number % 500 == 0:
                    one.step()
            one.step()
            held_bytes, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        # A tenth of what the manifests give a scheduler.
        assert held_bytes < 0.1 * GIB
        assert not one.state.heard
        assert one._metrics.drops.labels("too_many")._value.get() > 4000
        await asyncio.sleep(11.0)
        one.step()
        assert not len(one.state.early)

    objects.run_fast(main())


def test_a_pod_that_fits_nowhere_gets_records_and_events_as_seldom_as_will_do() -> None:
    async def main() -> None:
        made = world.World(room=0.5)
        await made.start(nodes=2)
        made.create_pod("pod-0")
        log = made.engines[0]._parts.log
        await asyncio.sleep(8.0)
        assert log.unpublished_count == 1
        found = log.latest("default", "pod-0")
        assert found is not None
        assert found.outcome is decision.Outcome.UNSCHEDULABLE
        assert found.refused == {"capacity": 2}
        assert found.message.startswith("0/2 nodes fit: 2 at capacity (node-")
        await asyncio.sleep(30.0)
        assert log.unpublished_count == 1, "nothing has changed"
        written = [line for line in made.kube.requests if line.startswith("POST") and line.endswith("/events")]
        assert len(written) == 1
        made.room = 4.0
        await made.until_ended()
        await made.stop()

    objects.run_fast(main())


def test_with_all_advertisements_stale_pods_wait_and_it_is_said() -> None:
    async def main() -> None:
        made = world.World()
        made.kube.objects.create("nodes", objects.node_object("node-0"), "test")
        made.start_engine(made.engines[0])
        await asyncio.sleep(0.5)
        made.advertise("node-0", 3.0, 0, frozenset())
        await asyncio.sleep(7.0)
        made.create_pod("pod-0")
        await asyncio.sleep(1.0)
        found = made.engines[0]._parts.log.latest("default", "pod-0")
        assert found is not None
        assert found.refused == {"stale": 1}
        assert not made.kube.binds
        made.advertise("node-0", 3.0, 0, frozenset())
        await asyncio.sleep(0.5)
        assert len(made.kube.binds) == 1
        await made.stop()

    objects.run_fast(main())


def test_a_node_that_does_not_account_for_its_pods_is_suspect_until_it_does() -> None:
    async def main() -> None:
        made = world.World()
        made.kube.objects.create("nodes", objects.node_object("node-0"), "test")
        made.start_engine(made.engines[0])
        uid = made.create_pod("pod-0")
        await asyncio.sleep(0.5)

        async def tell(seconds: int, covers: frozenset[str]) -> None:
            for _ in range(seconds):
                made.advertise("node-0", 9.0, len(covers), covers)
                await asyncio.sleep(1.0)

        # While its image is pulled, a Pod that is not accounted for says nothing about the node.
        await tell(120, frozenset())
        made.create_pod("pod-2")
        await tell(3, frozenset())
        assert len(made.kube.binds) == 2
        made._set_phase(made.pods()[0], "Running")
        await tell(32, frozenset())
        made.create_pod("pod-1")
        await tell(3, frozenset())
        assert len(made.kube.binds) == 2
        found = made.engines[0]._parts.log.latest("default", "pod-1")
        assert found is not None
        assert found.refused == {"suspect": 1}
        await tell(2, frozenset({uid}))
        assert len(made.kube.binds) == 3
        await made.stop()

    objects.run_fast(main())


def test_odd_objects_of_the_api_are_counted_and_passed_over() -> None:
    async def main() -> None:
        made = world.World()
        await made.start(nodes=1)
        made.kube.objects.create("pods", objects.pod_object("odd") | {"spec": {"containers": "many"}}, "test")
        made.create_pod("pod-0")
        await asyncio.sleep(2.0)
        assert sum(made.kube.binds.values()) == 1
        assert made.engines[0]._metrics.bad_objects.labels("pod")._value.get() >= 1
        await made.stop()

    objects.run_fast(main())


def test_the_decision_loop_does_not_spin_while_nothing_can_be_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        made = world.World()
        made.refuse_binds(6)
        await made.start(nodes=1)
        made.create_pod("pod-0")
        one = made.engines[0]
        await asyncio.sleep(2.0)
        assert one.state.queue.next_due_s() is not None
        made.kube.go_away()
        await asyncio.sleep(8.0)
        steps = []
        step = one.step
        monkeypatch.setattr(one, "step", lambda: steps.append(step()))
        await asyncio.sleep(10.0)
        # Ten a second from the advertisements, one from the heartbeat.
        assert 90 <= len(steps) <= 120
        made.kube.come_back()
        await made.until_ended()
        await made.stop()

    objects.run_fast(main())


def test_while_binds_occupy_most_places_a_cycle_places_several_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        made = world.World(room=1000.0)
        one = made.engines[0]
        placed = []
        step = one.step
        monkeypatch.setattr(one, "step", lambda: placed.append(step()))
        await made.start(nodes=40)
        await asyncio.sleep(3.0)
        for index in range(200):
            made.create_pod(f"pod-{index}")
        began_s = made.clock.monotonic_s()
        while made.kube.binds.total() < 200:
            await asyncio.sleep(0.01)
        took_s = made.clock.monotonic_s() - began_s
        assert sum(each > 0 for each in placed) <= 120, "one cycle for each bind that ended"
        # Eight at a time, each of them for 10 ms on average.
        assert took_s <= 1.5 * 200 / 8 * 0.01
        await made.stop()

    objects.run_fast(main())


def test_the_end_of_a_bind_takes_no_turn_while_no_pod_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        made = world.World(room=1000.0)
        made.pod_s = (1000.0, 1000.0)
        one = made.engines[0]
        await made.start(nodes=4)
        await asyncio.sleep(3.0)
        turns = []
        step = one.step
        monkeypatch.setattr(one, "step", lambda: turns.append(step()))
        # Nor does any turn follow from an advertisement.
        monkeypatch.setattr(one, "on_advertisement", lambda *_: None)
        await asyncio.sleep(0.2)
        turns.clear()
        for index in range(50):
            made.create_pod(f"pod-{index}")
            await asyncio.sleep(0.03)
        assert made.kube.binds.total() == 50
        assert sum(each or 0 for each in turns) == 50
        assert len(turns) <= 65, "one for each Pod, and heartbeats"
        await made.stop()

    objects.run_fast(main())


def test_advertisements_that_arrive_together_take_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        made = world.World()
        one = made.engines[0]
        await made.start(nodes=0)
        await asyncio.sleep(5.0)
        turns = []
        step = one.step
        for number in range(20):
            one.state.put_node(objects.make_node(f"node-{number}"))
        monkeypatch.setattr(one, "step", lambda: turns.append(step()))
        for number in range(20):
            heard = objects.make_advertisement(f"node-{number}")
            one.on_advertisement(subjects.capacity(f"node-{number}"), wire.encode_advertisement(heard))
            await asyncio.sleep(engine.ARRIVED_S / 20.0)
        await asyncio.sleep(2.0 * engine.ARRIVED_S)
        assert len(turns) <= 3, "the heartbeat may add one"
        assert len(one.state.heard) == 20
        await made.stop()

    objects.run_fast(main())


def test_what_is_late_gives_way_to_what_is_newer_before_it_is_decoded() -> None:
    async def main() -> None:
        made = world.World(seed=1, room=9.0)
        one = made.engines[0]
        at_once = engine.DECODED_AT_ONCE
        nodes = [f"node-{number}" for number in range(3 * at_once)]
        one.state.put_nodes(map(objects.make_node, nodes))

        def hear(seq: int) -> None:
            for node in nodes:
                heard = objects.make_advertisement(node, seq=seq)
                one.on_advertisement(subjects.capacity(node), wire.encode_advertisement(heard))

        one.step()
        hear(1)
        one.step()
        assert [one.state.heard[node].advertisement.seq for node in nodes[:at_once]] == [1] * at_once
        assert len(one.intake) == 2 * at_once
        hear(2)
        while len(one.intake):
            one.step()
        assert {one.state.heard[node].advertisement.seq for node in nodes} == {2}
        # The first of them twice, the others once.
        assert one._metrics.advertisements._value.get() == 4 * at_once

    objects.run_fast(main())


def test_however_long_a_turn_takes_all_is_decoded_in_time() -> None:
    async def main() -> None:
        made = world.World(seed=1, room=9.0)
        one = made.engines[0]
        for number in range(1000):
            one.state.put_node(objects.make_node(f"node-{number}"))
            heard = objects.make_advertisement(f"node-{number}")
            one.on_advertisement(subjects.capacity(f"node-{number}"), wire.encode_advertisement(heard))
        one.step()
        waiting = len(one.intake)
        await asyncio.sleep(engine.DECODED_WITHIN_S / 2.0)
        one.step()
        assert abs(len(one.intake) - waiting / 2) <= 1
        await asyncio.sleep(engine.DECODED_WITHIN_S)
        one.step()
        assert not len(one.intake)

    objects.run_fast(main())


def test_a_pod_that_waits_for_room_is_unschedulable_until_it_is_bound() -> None:
    async def main() -> None:
        made = world.World(room=1.0)
        made.pod_s = (20.0, 30.0)
        await made.start(nodes=1)
        for index in range(3):
            made.create_pod(f"pod-{index}")
        await asyncio.sleep(10.0)
        reasons = sorted(str(scheduled(pod).get("reason")) for pod in made.pods())
        assert reasons == ["None", "Unschedulable", "Unschedulable"]
        await made.until_ended()
        assert {scheduled(pod)["status"] for pod in made.pods()} == {"True"}
        await made.stop()

    def scheduled(pod: dict[str, Any]) -> dict[str, Any]:
        (found,) = (each for each in pod["status"]["conditions"] if each["type"] == "PodScheduled")
        return dict(found)

    objects.run_fast(main())


def test_room_is_held_for_a_pod_that_has_waited_for_long_until_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "AFTER_S", 2.0)

    async def main() -> None:
        one = world.World().engines[0]
        monkeypatch.setattr(one, "term", lambda: 0)
        costs = {messages.ANY_CLASS: 1.0, "image/default/large": 4.0}
        classes = {name: messages.ClassCapacity(cost_plus={"cpu": cost}, pods=0) for name, cost in costs.items()}
        said = objects.make_advertisement(pods=1, covers=frozenset({"uid-runs"}))
        said = said._replace(headroom={"cpu": 2.5}, classes=classes)

        def pass_on() -> float:
            now_s = asyncio.get_running_loop().time()
            one.state.put_advertisement(node_state.Heard(advertisement=said, sampled_s=now_s), now_s)
            return now_s

        one.state.put_nodes([objects.make_node()])
        now_s = pass_on()
        one.state.put_pod(objects.make_pod("runs", node_name="node-0", phase="Running"), now_s)
        one.state.put_pod(objects.make_pod("large", image="large"), now_s)
        assert one.step() == 0
        await asyncio.sleep(3.0)
        now_s = pass_on()
        one.report()
        turn = one.turns.find("uid-large")
        assert turn is not None and turn.node == "node-0"
        one.state.put_pod(objects.make_pod("small", created_at_s=9.0), now_s)
        assert one.step() == 0, "it comes after the large one"
        one.report()
        assert one._metrics.missed_wakes._value.get() == 0.0, "held room is no missed wake"
        one.state.remove_pod("uid-large")
        one.report()
        assert len(one.turns) == 0
        assert one.step() == 1

    objects.run_fast(main())


def test_while_room_is_held_more_of_it_on_the_same_node_goes_to_the_next_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        one = world.World().engines[0]
        monkeypatch.setattr(one, "term", lambda: 0)

        def hear(capacity: float, seq: int) -> float:
            now_s = asyncio.get_running_loop().time()
            said = objects.make_advertisement(capacity=capacity, pods=1, seq=seq)
            one.state.put_advertisement(node_state.Heard(advertisement=said, sampled_s=now_s), now_s)
            return now_s

        one.state.put_nodes([objects.make_node()])
        now_s = hear(1.0, 1)
        earlier = cycle.Nominee("uid-earlier", (-9, 0.0, "uid-earlier"), 0, demands.Demand(pod_class="other"))
        monkeypatch.setattr(one.preemptor, "nominees", lambda: [earlier])
        one.state.put_pod(objects.make_pod("waits"), now_s)
        assert one.step() == 0
        hear(2.0, 2)
        # By its advertisement the node had room for one before, too, so that this wakes no Pod.
        assert one.step() == 0
        one.report()
        assert one._metrics.missed_wakes._value.get() == 0.0
        assert one.step() == 1

    objects.run_fast(main())
