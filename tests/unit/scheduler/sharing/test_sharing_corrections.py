"""What a member does not place is decided on by the holder of the Lease, and room that it holds is held by all."""

import asyncio
import collections
from collections.abc import Sequence
from typing import Any

import pytest

from carico_core.runtime.bus import port as buses
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_core.wire.messages import claims as claim_messages
from carico_scheduler.decide import cycle, turns
from carico_scheduler.engine import engine
from carico_scheduler.pods import queue
from carico_scheduler.report import events
from carico_scheduler.sharing import corrections, heartbeats, membership
from carico_scheduler.sharing.claims import stream
from tests.tools.memory import memory_objects
from tests.unit.scheduler import objects, world
from tests.unit.scheduler.sharing import shared_world

READY_S = 4.0


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Binds take 2 s at most here."""
    monkeypatch.setattr(stream, "SETTLE_S", 3.0)


async def ready(made: shared_world.SharedWorld, nodes: int = 2) -> None:
    await made.start(nodes=nodes)
    await asyncio.sleep(READY_S)


def queued(made: shared_world.SharedWorld) -> list[int]:
    return [len(one.state.queue) for one in made.engines]


def decided_by(made: shared_world.SharedWorld) -> list[int]:
    """How many claims of each member were stored."""
    return [int(each.claims.labels("stored")._value.get()) for each in made.counted]


def owners(made: shared_world.SharedWorld, uids: Sequence[str]) -> list[engine.Engine]:
    """Who has each Pod in its queue: exactly one."""
    found = []
    for uid in uids:
        (owner,) = (one for one in made.engines if uid in one.state.queue)
        found.append(owner)
    return found


class NoRights:
    """An API that refuses each bind."""

    async def request(self, *_: object, **__: object) -> object:
        """Refuses."""
        raise world.NO_RIGHTS


def test_pods_that_were_not_placed_for_5_s_wait_at_the_holder_and_keep_their_age() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=3, room=0.0)
        await ready(made)
        uids = [made.create_pod(f"pod-{index}") for index in range(30)]
        await asyncio.sleep(corrections.AFTER_S - 0.5)
        before = queued(made)
        assert sum(before) == 30
        assert all(before)
        await asyncio.sleep(30 * heartbeats.EVERY_S + 1.0)
        assert queued(made) == [30, 0, 0]
        assert [int(each.corrected._value.get()) for each in made.counted] == [before[1] + before[2], 0, 0]
        now_s = made.clock.monotonic_s()
        waited_s = [now_s - each.since_s for each in made.engines[0].state.queue]
        assert max(waited_s) - min(waited_s) < 2.0 * heartbeats.EVERY_S
        made.room = 20.0
        await made.until_ended(60.0)
        assert made.kube.binds == dict.fromkeys(uids, 1)
        await made.stop()

    objects.run_fast(main())


def test_the_first_pods_of_the_queue_are_handed_over_and_no_more_than_a_heartbeat_holds() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=0.0)
        await ready(made)
        low = [made.create_pod(f"low-{index}") for index in range(4 * corrections.MOST)]
        await asyncio.sleep(20.0)
        other = made.engines[1]
        left = len(other.state.queue)
        assert left == sum(uid in other.state.queue for uid in low) > 0
        assert other.member is not None
        handed = [uid for uid in low if other.member.corrections.is_handed(uid)]
        assert len(handed) == corrections.MOST
        high = [made.create_pod(f"high-{index}", priority=1) for index in range(8)]
        await asyncio.sleep(10.0)
        assert {made.engines.index(one) for one in owners(made, high)} == {0}
        assert len(other.state.queue) > left, "others came back for them"
        assert sum(queued(made)) == len(low) + len(high)
        await made.stop()

    objects.run_fast(main())


def test_pods_of_one_demand_that_fit_nowhere_do_not_keep_others_from_being_handed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A quarter of what a heartbeat holds, and of the Pods that fill it.
    monkeypatch.setattr(corrections, "MOST", corrections.MOST // 4)

    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=2.0)
        made.pod_s = (1000.0, 1000.0)
        await ready(made)
        low = [made.create_pod(f"low-{index}", priority=0) for index in range(4)]
        await asyncio.sleep(3.0)
        assert set(made.kube.binds) == set(low)
        for index in range(4 * corrections.MOST):
            made.create_pod(f"lost-{index}", priority=9, nodeSelector={"zone": "none"})
        await asyncio.sleep(30.0)
        uids = [made.create_pod(f"high-{index}", priority=5) for index in range(4)]
        await asyncio.sleep(30.0)
        assert set(made.kube.binds) == {*low, *uids}, "the holder had others evicted for the Pods of every member"
        await made.stop()

    objects.run_fast(main())


def test_pods_of_many_demands_that_fit_nowhere_do_not_hide_others_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corrections, "MOST", 2)
    monkeypatch.setattr(corrections, "TRIED_S", 4.0)

    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=2.0)
        made.pod_s = (1000.0, 1000.0)
        await ready(made)
        low = [made.create_pod(f"low-{index}", priority=0) for index in range(4)]
        await asyncio.sleep(3.0)
        for index in range(8):
            made.create_pod(f"lost-{index}", priority=9, nodeSelector={"zone": f"none-{index}"})
        await asyncio.sleep(10.0)
        uids = [made.create_pod(f"top-{index}", priority=5) for index in range(4)]
        await asyncio.sleep(0.5)
        assert made.engines[1] in owners(made, uids)
        await asyncio.sleep(40.0)
        assert set(made.kube.binds) == {*low, *uids}
        await made.stop()

    objects.run_fast(main())


def test_what_a_holder_cannot_bind_is_bound_by_its_member(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corrections, "TRIED_S", 10.0)

    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=0.0)
        await ready(made)
        made.engines[0].binder._api = NoRights()
        uids = [made.create_pod(f"pod-{index}") for index in range(20)]
        await asyncio.sleep(corrections.AFTER_S + 2.0)
        assert queued(made) == [20, 0]
        of_other = [
            uid for uid in uids
            if made.engines[1].member is not None and made.engines[1].member.corrections.is_handed(uid)
        ]  # fmt: skip
        assert of_other
        made.room = 100.0
        await asyncio.sleep(20.0)
        assert set(made.kube.binds) == set(of_other)
        await made.stop()

    objects.run_fast(main())


def test_room_that_is_no_longer_held_is_used_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corrections, "AFTER_S", 1000.0)
    monkeypatch.setattr(corrections, "PREEMPTS_AFTER_S", 1000.0)

    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=1.0)
        made.pod_s = (1000.0, 1000.0)
        await ready(made)
        holder = made.engines[0]
        assert holder.member is not None
        uids = [made.create_pod(name, priority=1, nodeSelector={"zone": "none"}) for name in ("one", "two")]
        await asyncio.sleep(1.0)
        pods = [pod for uid in uids if (pod := holder.state.pod(uid)) is not None]
        held = [
            cycle.Nominee(pod.uid, queue.key_of(pod), slot, holder.state.demand_of(pod))
            for slot, pod in enumerate(pods)
        ]
        holder.member.corrections.own_nominees = lambda: held
        await asyncio.sleep(1.0)
        for index in range(8):
            made.create_pod(f"low-{index}")
        await asyncio.sleep(10.0)
        assert not made.kube.binds
        assert all(queued(made))
        del held[1:]
        await asyncio.sleep(2.0)
        assert len(made.kube.binds) == 1
        await made.stop()

    objects.run_fast(main())


def test_pods_of_a_member_whose_claims_fail_are_placed_by_the_holder() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=100.0)
        await ready(made)

        async def fail(changes: Sequence[buses.GuardedWrite]) -> list[buses.WriteOutcome]:
            return [buses.WriteOutcome() for _ in changes]

        made.connections[1].claims.change = fail  # type: ignore[method-assign]
        uids = [made.create_pod(f"pod-{index}") for index in range(40)]
        await made.until_ended(30.0)
        assert made.kube.binds == dict.fromkeys(uids, 1)
        assert decided_by(made) == [40, 0]
        await made.stop()

    objects.run_fast(main())


def test_pods_of_a_slow_member_are_placed_by_the_holder() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=100.0)
        await ready(made)
        slow = made.engines[1]
        slow.binder._most = 1
        change = made.connections[1].claims.change

        async def later(changes: Sequence[buses.GuardedWrite]) -> list[buses.WriteOutcome]:
            await asyncio.sleep(0.8)
            return await change(changes)

        made.connections[1].claims.change = later  # type: ignore[method-assign]
        uids = [made.create_pod(f"pod-{index}") for index in range(100)]
        await asyncio.sleep(corrections.AFTER_S - 0.5)
        share = len(slow.state.queue)
        assert share > 30, "it would take a second for each"
        await asyncio.sleep(5.0)
        assert made.kube.binds == dict.fromkeys(uids, 1)
        await made.stop()

    objects.run_fast(main())


def test_pods_come_back_if_the_holder_is_gone_and_the_next_one_gets_them() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=3, room=0.0)
        await ready(made)
        for index in range(30):
            made.create_pod(f"pod-{index}")
        await asyncio.sleep(30.0)
        assert queued(made) == [30, 0, 0]
        made.connections[0].is_cut = True
        made.connections[0].claims.lost_share = 1.0
        await asyncio.sleep(heartbeats.ALIVE_S + 2.0 * heartbeats.EVERY_S)
        assert queued(made)[1] + queued(made)[2] == 30
        assert min(queued(made)[1:]) > 0
        made.holder = 1
        await asyncio.sleep(30.0)
        assert queued(made)[1:] == [30, 0]
        await made.stop()

    objects.run_fast(main())


def test_nothing_is_handed_to_a_holder_of_a_version_that_does_not_correct() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=0.0)
        older = made.engines[0].member
        assert older is not None
        beats = older._membership._heartbeats

        def announce(*, is_leaving: bool, report: Any = None, corrections: object = None) -> tuple[str, bytes]:
            return heartbeats.Heartbeats.next(beats, is_leaving=is_leaving, report=report)

        beats.next = announce  # type: ignore[method-assign]
        await ready(made)
        for index in range(20):
            made.create_pod(f"pod-{index}")
        before = queued(made)
        await asyncio.sleep(30.0)
        assert sum(before) == 0
        assert all(queued(made)), "each has its share"
        await made.stop()

    objects.run_fast(main())


@pytest.mark.parametrize("seed", range(3))
def test_room_that_is_made_for_a_pod_is_held_by_every_member(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Each member keeps its own Pods, but for those that may have others evicted.
    monkeypatch.setattr(corrections, "AFTER_S", 1000.0)

    async def main() -> None:
        made = shared_world.SharedWorld(seed=seed, engines=3, room=2.0)
        made.pod_s = (1000.0, 1000.0)
        await ready(made, nodes=2)
        low = [made.create_pod(f"low-{index}", priority=0) for index in range(4)]
        await asyncio.sleep(3.0)
        assert set(made.kube.binds) == set(low)
        # They would take the room of every Pod that goes.
        more = [made.create_pod(f"more-{index}", priority=0) for index in range(30)]
        await asyncio.sleep(2.0)
        assert all(queued(made))
        high = [made.create_pod(f"high-{index}", priority=5) for index in range(3)]
        await asyncio.sleep(20.0)
        assert set(made.kube.binds) == {*low, *high}, "each victim made room for the Pod for which it went"
        assert not set(more) & set(made.kube.binds)
        bound = collections.Counter(pod["spec"].get("nodeName") for pod in made.pods() if "nodeName" in pod["spec"])
        assert max(bound.values()) <= 2
        assert sum(bound.values()) == 4
        victims = sum(each.victims.labels("evicted")._value.get() for each in made.counted)
        assert (victims, made.counted[0].victims.labels("evicted")._value.get()) == (3, 3), "the holder alone evicts"
        await made.stop()

    objects.run_fast(main())


async def end_deleted(made: shared_world.SharedWorld, grace_s: float) -> None:
    """Ends Pods so long after they were deleted."""
    deleted_s: dict[str, float] = {}
    while True:
        await asyncio.sleep(0.2)
        now_s = made.clock.monotonic_s()
        for pod in made.pods_now():
            name = pod["metadata"]["name"]
            if "deletionTimestamp" in pod["metadata"] and now_s - deleted_s.setdefault(name, now_s) >= grace_s:
                made.kube.objects.delete("pods", ("default", name), {}, "test")


@pytest.mark.parametrize(("held_most", "within_s"), [(claim_messages.HELD_MAX, 15.0), (4, 100.0)])
def test_no_pod_is_evicted_in_vain_where_many_need_room_at_the_same_time(
    held_most: int, within_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many at a time as a heartbeat has room for."""
    monkeypatch.setattr(corrections, "AFTER_S", 1000.0)
    # Those that wait for others to be served stay with the holder of the Lease.
    monkeypatch.setattr(corrections, "TRIED_S", 1000.0)
    monkeypatch.setattr(claim_messages, "HELD_MAX", held_most)

    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=1.0)
        made.pod_s = (1000.0, 1000.0)
        made.kube.is_graceful = True
        await ready(made, nodes=20)
        ending = asyncio.create_task(end_deleted(made, 5.0))
        low = [made.create_pod(f"low-{index}") for index in range(20)]
        await asyncio.sleep(3.0)
        # They would take whatever is not held.
        more = [made.create_pod(f"more-{index}") for index in range(40)]
        await asyncio.sleep(2.0)
        assert set(made.kube.binds) == set(low)
        high = [made.create_pod(f"high-{index}", priority=5) for index in range(20)]
        await asyncio.sleep(within_s)
        assert set(made.kube.binds) & {*more, *high} == set(high)
        assert made.counted[0].victims.labels("evicted")._value.get() == 20
        ending.cancel()
        await made.stop()

    objects.run_fast(main())


@pytest.mark.parametrize("seed", range(3))
def test_the_room_of_a_pod_is_announced_before_the_first_eviction_for_it(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Heartbeats alone would come too late.
    monkeypatch.setattr(membership, "CHECK_EVERY_S", 1.0)

    async def main() -> None:
        made = shared_world.SharedWorld(seed=seed, engines=2, room=2.0)
        made.pod_s = (1000.0, 1000.0)
        await ready(made, nodes=2)
        for index in range(4):
            made.create_pod(f"low-{index}", priority=0)
        await asyncio.sleep(3.0)
        held = dict[str, int]()
        publish = made.connections[0].publish

        async def note(subject: str, payload: bytes) -> None:
            if subject.startswith(subjects.MEMBER_ALL.removesuffix("*")):
                passed = wire.decode_heartbeat(payload, subject=subject).corrections
                for uid in () if passed is None else passed.held:
                    held.setdefault(uid, sum(each.startswith("DELETE") for each in made.kube.requests))
            await publish(subject, payload)

        made.connections[0].publish = note  # type: ignore[method-assign]
        uids = []
        for index in range(3):
            uids.append(made.create_pod(f"high-{index}", priority=5))
            await asyncio.sleep(10.0)
        assert held == {uid: index for index, uid in enumerate(uids)}
        await made.stop()

    objects.run_fast(main())


def test_what_came_back_from_the_holder_is_forgotten_once_it_is_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corrections, "TRIED_S", 4.0)

    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=0.0)
        await ready(made)
        for index in range(8):
            made.create_pod(f"pod-{index}")
        await asyncio.sleep(corrections.AFTER_S + 2.0 * corrections.TRIED_S)
        other = made.engines[1].member
        assert other is not None
        assert other.corrections._rounds
        made.room = 20.0
        await made.until_ended(60.0)
        assert not other.corrections._rounds
        await made.stop()

    objects.run_fast(main())


def test_a_large_pod_gets_its_turn_next_to_small_ones_of_every_member(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "AFTER_S", 20.0)
    monkeypatch.setattr(corrections, "AFTER_S", 1000.0)

    async def main() -> None:
        made = shared_world.SharedWorld(engines=3, room=1000.0)
        made.pod_s = (5.0, 10.0)
        await ready(made, nodes=2)
        small = {"resources": {"requests": {"cpu": "1"}}, "name": "main", "image": "small"}
        large: dict[str, Any] = {"resources": {"requests": {"cpu": "4"}}, "name": "main", "image": "large"}

        async def keep_full() -> None:
            for index in range(10_000):
                if sum(queued(made)) < 24:
                    made.create_pod(f"small-{index}", containers=[small])
                await asyncio.sleep(0.05)

        filling = asyncio.create_task(keep_full())
        await asyncio.sleep(5.0)
        # The holder decides on Pods with host ports. It comes before the small ones, and may evict none.
        large["ports"] = [{"containerPort": 1, "hostPort": 81}]
        uid = made.create_pod("large", containers=[large], priority=1, preemptionPolicy="Never")
        await asyncio.sleep(turns.AFTER_S - 2.0)
        assert uid not in made.kube.binds
        await asyncio.sleep(made.pod_s[1] + 10.0)
        assert made.kube.binds[uid] == 1
        assert all(queued(made)), "small ones waited all the time"
        filling.cancel()
        await made.stop()

    objects.run_fast(main())


def test_one_scheduler_at_a_time_writes_the_events_of_a_pod_that_several_decide_on() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=0.0)
        await ready(made)
        uids = [made.create_pod(f"pod-{index}") for index in range(12)]
        # Handed over and taken back four times.
        await asyncio.sleep(4.0 * (corrections.AFTER_S + corrections.TRIED_S) + 15.0)
        assert made.counted[0].corrected._value.get() > 4 * 2
        found: collections.Counter[str] = collections.Counter()
        for each in made.kube.objects.all("events", memory_objects.parse_selector("", {})):
            if each["reason"] == events.FAILED:
                found[each["regarding"]["uid"]] += (each.get("series") or {"count": 1})["count"]
        assert found == dict.fromkeys(uids, 3), "one soon, and one a minute"
        await made.stop()

    objects.run_fast(main())
