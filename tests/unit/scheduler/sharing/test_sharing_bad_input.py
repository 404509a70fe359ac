"""What others send that is wrong, late, or of another version: it is refused and counted, and the members go on."""

import asyncio
import collections
import dataclasses
import json
from typing import Any

import pytest

from carico_core.domain import messages
from carico_core.runtime.bus import port as buses
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_core.wire.messages import claims as claim_messages
from carico_scheduler.sharing import heartbeats
from carico_scheduler.sharing.claims import ledger, stream
from tests.fixtures.golden import records
from tests.tools.memory import memory_bus
from tests.unit.scheduler import objects
from tests.unit.scheduler.sharing import shared_world

READY_S = 4.0


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Binds take 2 s at most here."""
    monkeypatch.setattr(stream, "SETTLE_S", 3.0)


async def ready(made: shared_world.SharedWorld) -> None:
    made.pod_s = (1.0, 1.0)
    await made.start(nodes=2)
    await asyncio.sleep(READY_S)


async def bound_to(made: shared_world.SharedWorld, prefix: str, count: int = 10) -> collections.Counter[str]:
    """Creates Pods, and returns how many each node got."""
    for index in range(count):
        made.create_pod(f"{prefix}-{index}")
    await made.until_ended(30.0)
    nodes = [pod["spec"]["nodeName"] for pod in made.pods() if pod["metadata"]["name"].startswith(prefix)]
    return collections.Counter(nodes)


def changed(change: buses.GuardedWrite, **wrong: Any) -> buses.GuardedWrite:
    """A message with some other fields."""
    tree = json.loads(change.payload)
    return change._replace(payload=json.dumps(tree | wrong).encode())


def drops(made: shared_world.SharedWorld, reason: str) -> list[int]:
    """How many messages each member has dropped."""
    return [int(each.drops.labels(reason)._value.get()) for each in made.counted]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"claims": "all"}, "wrong_type"), ({"v": 2}, "wrong_version"), ({"node": "node-1"}, "foreign_node"),
        ({"claims": [{"uid": "x"}]}, "missing_field"), ({"epoch": "x"}, "out_of_range"),
    ],
)  # fmt: skip
def test_a_node_whose_claims_cannot_be_read_gets_no_pods_until_they_have_ended(
    wrong: dict[str, Any], reason: str
) -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=100.0)
        await ready(made)
        await made.connections[1].claims.change([changed(made.claims_on("node-0", "0" * 36), **wrong)])
        await asyncio.sleep(0.1)
        assert await bound_to(made, "first") == {"node-1": 10}
        assert drops(made, reason) == [1, 1]
        await asyncio.sleep(ledger.LEASE_S)
        assert len(await bound_to(made, "second")) == 2
        await made.stop()

    objects.run_fast(main())


@pytest.mark.parametrize("fault", ["unreadable", "full"])
def test_a_node_on_which_no_claim_can_be_made_keeps_no_pod_from_another_node(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=1, room=50.0)
        advertise = made.advertise

        def emptier(node: str, capacity: float, pods: int, covers: frozenset[str]) -> None:
            advertise(node, capacity + (50.0 if node == "node-0" else 0.0), pods, covers)

        made.advertise = emptier  # type: ignore[method-assign]
        await ready(made)
        if fault == "unreadable":
            await made.connections[0].claims.change([changed(made.claims_on("node-0", "0" * 36), v=2)])
        else:
            monkeypatch.setattr(claim_messages, "CLAIMS_MAX", 6)
            uids = [f"{index:08x}-0000-4000-8000-000000000000" for index in range(6)]
            await made.connections[0].claims.change([made.claims_on("node-0", *uids)])
        await asyncio.sleep(0.1)
        for index in range(5):
            uid = made.create_pod(f"pod-{index}")
            await asyncio.sleep(1.0)
            bound = {pod["metadata"]["uid"]: pod["spec"].get("nodeName") for pod in made.pods()}
            assert bound[uid] == "node-1"
        await asyncio.sleep(ledger.LEASE_S)
        uid = made.create_pod("late")
        await asyncio.sleep(1.0)
        bound = {pod["metadata"]["uid"]: pod["spec"].get("nodeName") for pod in made.pods()}
        assert bound[uid] == "node-0"
        await made.stop()

    objects.run_fast(main())


def test_claims_on_a_node_that_does_not_exist_change_nothing() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=100.0)
        await ready(made)
        await made.connections[1].claims.change([made.claims_on("node-9", "0" * 36)])
        await asyncio.sleep(0.6)
        assert [each.held_claims._value.get() for each in made.counted] == [1, 1]
        assert len(await bound_to(made, "pod")) == 2
        await made.stop()

    objects.run_fast(main())


def test_claims_on_what_is_no_name_of_a_node_end_no_member() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=100.0)
        subject = subjects.claim("node-0").replace("node-0", "Node 0")
        made.hub.claims[subject] = buses.Kept(subject=subject, payload=b"{}", seq=next(made.hub.claim_seq))
        await ready(made)
        assert drops(made, "bad_name") == [1, 1]
        await made.connections[0].claims.change([buses.GuardedWrite(subject=subject, payload=b"{}", seq=1)])
        await asyncio.sleep(0.1)
        assert drops(made, "bad_name") == [2, 2]
        assert len(await bound_to(made, "pod")) == 2
        await made.stop()

    objects.run_fast(main())


def test_claims_that_cannot_be_read_are_counted_by_a_member_that_joins() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=100.0)
        subject = subjects.claim("node-0")
        made.hub.claims[subject] = buses.Kept(subject=subject, payload=b"{}", seq=next(made.hub.claim_seq))
        await ready(made)
        assert drops(made, "missing_field") == [1, 1]
        assert await bound_to(made, "pod") == {"node-1": 10}
        await made.stop()

    objects.run_fast(main())


def test_claims_of_all_that_a_node_has_for_pods_that_do_not_exist_end_with_their_lease() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=100.0)
        await ready(made)
        uids = [f"{index:08x}-0000-4000-8000-000000000000" for index in range(100)]
        await made.connections[1].claims.change([made.claims_on("node-0", *uids)])
        await asyncio.sleep(0.1)
        assert await bound_to(made, "first") == {"node-1": 10}
        await asyncio.sleep(ledger.LEASE_S)
        assert len(await bound_to(made, "second")) == 2
        await made.stop()

    objects.run_fast(main())


@pytest.mark.parametrize("seed", range(2))
def test_clocks_a_minute_apart(seed: int) -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(
            seed=seed, engines=3, room=3.0, lost_share=0.02, ahead_s={0: -60.0, 2: 60.0}
        )  # fmt: skip
        await made.start(nodes=3)
        made.watch_room()
        await asyncio.sleep(READY_S)
        uids = [made.create_pod(f"pod-{index}") for index in range(30)]
        await made.until_ended(300.0)
        assert made.kube.binds == dict.fromkeys(uids, 1)
        assert max(made.largest.values()) <= 3
        assert all(each.claims.labels("stored")._value.get() > 3 for each in made.counted)
        assert not any(each.orphan_claims._value.get() for each in made.counted)
        await made.stop()

    objects.run_fast(main())


def beat(**changes: Any) -> tuple[str, bytes]:
    """A heartbeat of a member that is not there."""
    made = dataclasses.replace(
        records.HEARTBEAT_REPORT, replica="scheduler-9", boot="9" * 16, identity="identity-9", **changes
    )
    return subjects.member("scheduler-9"), wire.encode_heartbeat(made)


def test_a_heartbeat_of_a_later_version_with_more_fields_is_read_and_of_another_one_is_refused() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=100.0)
        await ready(made)
        bus = memory_bus.MemoryBus(made.hub)
        member = made.engines[0].member
        assert member is not None
        subject, payload = beat(seq=1)
        await bus.publish(subject, json.dumps(json.loads(payload) | {"mood": "fine"}).encode())
        await asyncio.sleep(heartbeats.EVERY_S)
        assert "scheduler-9" in member.members
        await asyncio.sleep(2.0 * heartbeats.ALIVE_S)
        subject, payload = beat(seq=2)
        await bus.publish(subject, json.dumps(json.loads(payload) | {"v": 2}).encode())
        await asyncio.sleep(heartbeats.EVERY_S)
        assert member.members == ("scheduler-0", "scheduler-1")
        assert drops(made, "wrong_version") == [1, 1]
        # It takes no Pods from the others, and stops them if it holds the Lease.
        made.intruder = "identity-of-another-version"
        assert "does not share" in str(member.why_not_ready())
        made.intruder = None
        assert len(await bound_to(made, "pod")) == 2
        await made.stop()

    objects.run_fast(main())


def test_what_is_handed_over_or_held_for_nothing_changes_nothing() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=100.0)
        await ready(made)
        other = made.create_pod("other", schedulerName="other")
        first = made.create_pod("first")
        await asyncio.sleep(3.0)
        assert made.kube.binds == {first: 1}
        passed = messages.Corrections(
            handed={"no-pod": 1.0, other: 5.0, first: 3.0}, held={"no-pod": "node-0", first: "node-1", other: "node-9"}
        )  # fmt: skip
        bus = memory_bus.MemoryBus(made.hub)
        made.holder = 9
        for number in range(10):
            await bus.publish(*beat(seq=number + 1, corrections=passed))
            await asyncio.sleep(heartbeats.EVERY_S)
            made.holder = 9 if number < 5 else 0
        assert [len(one.state.queue) for one in made.engines] == [0, 0]
        assert made.kube.binds == {first: 1}
        await asyncio.sleep(2.0 * heartbeats.ALIVE_S)
        for index in range(10):
            made.create_pod(f"more-{index}")
        await asyncio.sleep(5.0)
        assert len(made.kube.binds) == 11
        await made.stop()

    objects.run_fast(main())
