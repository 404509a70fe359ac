"""Several engines that share the work: each Pod bound exactly once, no node beyond its room, whatever fails."""

import asyncio
import collections
import random
from collections.abc import Callable
from typing import Any

import pytest

from carico_core.domain import decision, errors
from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import list_watch
from carico_core.wire import subjects
from carico_scheduler.engine import engine
from carico_scheduler.sharing import corrections, heartbeats, member, membership, shares
from carico_scheduler.sharing.claims import janitor, ledger, stream
from tests.unit.scheduler import objects, world
from tests.unit.scheduler.sharing import shared_world


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Binds take 2 s at most here."""
    monkeypatch.setattr(stream, "SETTLE_S", 3.0)


# Members may commit from here on.
READY_S = 4.0


async def run_pods(made: shared_world.SharedWorld, count: int, *, nodes: int = 3) -> list[str]:
    await made.start(nodes=nodes)
    made.watch_room()
    await asyncio.sleep(READY_S)
    return [made.create_pod(f"pod-{index}") for index in range(count)]


@pytest.mark.parametrize(("seed", "lost_share"), [(0, 0.0), (1, 0.0), (2, 0.02), (3, 0.1)])
def test_every_pod_is_bound_once_and_no_node_gets_more_than_its_room(seed: int, lost_share: float) -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(seed=seed, engines=3, room=3.0, lost_share=lost_share)
        uids = await run_pods(made, 36)
        await made.until_ended(600.0)
        assert made.kube.binds == dict.fromkeys(uids, 1)
        assert max(made.largest.values()) <= 3
        assert made.claims("stored") >= 36
        assert all(one.claims.labels("stored")._value.get() > 3 for one in made.counted), "all of them decided"
        await made.stop()

    objects.run_fast(main())


@pytest.mark.parametrize("seed", range(4))
def test_an_api_with_faults(seed: int) -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(seed=seed, engines=3, room=3.0, fault_share=0.3, lost_share=0.02)
        uids = await run_pods(made, 30)
        await made.until_ended(1200.0)
        assert made.kube.binds == dict.fromkeys(uids, 1)
        assert set(made.recorded(decision.Outcome.BOUND).values()) == {1}
        assert max(made.largest.values()) <= 3
        await made.stop()

    objects.run_fast(main())


def test_the_share_of_a_member_that_is_killed_is_taken_within_2_s() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=3, room=1000.0)
        made.pod_s = (1.0, 1.0)
        await made.start(nodes=4)
        await asyncio.sleep(READY_S)
        victim = made.engines[2]
        assert victim.member is not None
        assert len(victim.member.members) == 3
        # It neither announces itself nor decides any more.
        made.connections[2].is_cut = True
        victim.step = lambda: 0  # type: ignore[method-assign]
        victim.intake.store = lambda *_: None  # type: ignore[method-assign]
        uids = [made.create_pod(f"pod-{index}") for index in range(30)]
        await asyncio.sleep(0.3)
        assert 0 < len(made.kube.binds) < 30
        await asyncio.sleep(heartbeats.ALIVE_S + 0.3)
        assert made.kube.binds == dict.fromkeys(uids, 1)
        await made.stop()

    objects.run_fast(main())


@pytest.mark.parametrize("after_s", [0.054, 0.06, 0.072, 0.078])
def test_a_member_that_is_stopped_leaves_no_claims_of_binds_that_it_did_not_send(after_s: float) -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=10.0)
        made.pod_s = (1000.0, 1000.0)
        works: list[list[asyncio.Task[None]]] = []
        start_engine = made.start_engine

        def start(one: engine.Engine) -> list[asyncio.Task[None]]:
            works.append(start_engine(one))
            return works[-1]

        made.start_engine = start  # type: ignore[method-assign]
        await run_pods(made, 0, nodes=4)
        uids = [made.create_pod(f"pod-{index}") for index in range(40)]
        await asyncio.sleep(after_s)
        for task in works[1]:
            task.cancel()
        await asyncio.gather(*works[1], return_exceptions=True)
        made._tasks = [task for task in made._tasks if task not in works[1]]
        stopped, other = (one.member for one in reversed(made.engines))
        assert stopped is not None
        assert other is not None
        await stopped.leave()
        await made.engines[1].binder.drain(5.0)
        assert [
            claim for _, claim in other.ledger.counted(made.clock.monotonic_s()) if claim.scheduler != "scheduler-0"
        ]
        await stopped.withdraw()
        await asyncio.sleep(3.0)
        assert made.kube.binds == dict.fromkeys(uids, 1), "there is room for no Pod twice"
        await made.stop()

    objects.run_fast(main())


@pytest.mark.parametrize(("apart_s", "least"), [(0.0025, 2.0), (0.2, 1.0)])
def test_members_commit_several_claims_at_a_time_where_few_pods_come_to_each(apart_s: float, least: float) -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=4, room=1000.0)
        made.pod_s = (1000.0, 1000.0)
        await run_pods(made, 0, nodes=16)
        batches = 0

        def counted(change: Callable[..., Any]) -> Callable[..., Any]:
            def counting(changes: Any) -> Any:
                nonlocal batches
                batches += 1
                return change(changes)

            return counting

        for connection in made.connections:
            connection.claims.change = counted(connection.claims.change)  # type: ignore[method-assign]
        for index in range(200):
            made.create_pod(f"pod-{index}")
            await asyncio.sleep(apart_s)
        await asyncio.sleep(1.0)
        assert made.claims("stored") == 200
        assert 200 / batches >= least
        await made.stop()

    objects.run_fast(main())


def test_a_pod_has_waited_with_whichever_member_decided_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # Each member keeps its own Pods.
    monkeypatch.setattr(corrections, "AFTER_S", 1000.0)

    async def main() -> None:
        made = shared_world.SharedWorld(engines=3, room=0.0)
        await run_pods(made, 20)
        began_s = made.clock.monotonic_s()
        await asyncio.sleep(100.0)
        shares = [len(one.state.queue) for one in made.engines]
        made.connections[2].is_cut = True
        await asyncio.sleep(2.0 * heartbeats.ALIVE_S)
        left = [each for one in made.engines[:2] for each in one.state.queue]
        assert len(left) == 20 > sum(shares[:2]) > 0
        assert all(abs(each.since_s - began_s) < 0.5 for each in left)
        late_s = [each.late_s for each in left if each.late_s is not None]
        assert len(late_s) == shares[2]
        assert all(100.0 < each < 103.0 for each in late_s)
        await made.stop()

    objects.run_fast(main())


def test_an_error_while_pods_are_shared_out_ends_the_service() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=2)
        await run_pods(made, 0)

        def fail(now_s: float) -> None:
            raise RuntimeError("a defect")

        made.engines[0].state.share_out = fail  # type: ignore[method-assign]
        made.connections[1].is_cut = True
        await asyncio.sleep(2.0 * heartbeats.ALIVE_S)
        failed = [task.exception() for task in made._tasks if task.done()]
        assert [str(each) for each in failed] == ["a defect"]
        made._tasks = [task for task in made._tasks if not task.done()]
        await made.stop()

    objects.run_fast(main())


@pytest.mark.parametrize("seed", range(3))
def test_a_stream_that_is_lost_stops_commits_and_its_claims_are_stated_again(seed: int) -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(seed=seed, engines=3, room=3.0)
        rng = random.Random(seed)
        uids = await run_pods(made, 36)
        for _ in range(3):
            await asyncio.sleep(rng.uniform(0.5, 12.0))
            made.hub.lose_claims()
        await made.until_ended(600.0)
        assert made.kube.binds == dict.fromkeys(uids, 1)
        assert max(made.largest.values()) <= 3
        await made.stop()

    objects.run_fast(main())


@pytest.mark.parametrize("seed", range(3))
def test_a_stream_that_is_set_back_to_an_older_state_gets_a_new_epoch_and_its_claims_are_stated_again(
    seed: int,
) -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(seed=seed, engines=3, room=3.0)
        rng = random.Random(seed)
        uids = await run_pods(made, 12)
        for turn in range(3):
            older = dict(made.hub.claims)
            uids += [made.create_pod(f"pod-{turn}-{index}") for index in range(12)]
            await asyncio.sleep(rng.uniform(0.5, 12.0))
            made.hub.set_claims_back(older)
        await made.until_ended(600.0)
        assert made.kube.binds == dict.fromkeys(uids, 1)
        assert max(made.largest.values()) <= 3
        await made.stop()

    objects.run_fast(main())


def test_a_member_that_has_not_seen_a_bind_counts_its_claim_also_in_a_new_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_connected = property(lambda connection: not connection.is_cut)
    monkeypatch.setattr(shared_world.Connection, "connected", is_connected)

    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=6.0)
        made.pod_s = (1000.0, 1000.0)
        advertise = made.advertise
        # The kubelet takes long, so that the node's advertisement does not show the Pod.
        made.advertise = lambda node, *_: advertise(node, 6.0, 0, frozenset())  # type: ignore[method-assign]
        behind = made.engines[1].informers
        take = behind._take

        def late(collection: Any, event: list_watch.MirrorEvent) -> None:
            """Binds are not shown."""
            if not (isinstance(event, list_watch.Changed) and event.object.get("spec", {}).get("nodeName")):
                take(collection, event)

        behind._take = late  # type: ignore[method-assign]
        await run_pods(made, 0, nodes=1)
        made.connections[1].is_cut = True
        made.connections[1].claims.lost_share = 1.0
        await asyncio.sleep(2.0 * heartbeats.ALIVE_S)
        uids = [made.create_pod(f"early-{index}") for index in range(6)]
        # Of its own ones the other member will learn when it tries to bind them.
        assert {shares.owner(uid, ["scheduler-0", "scheduler-1"]) for uid in uids} == {"scheduler-0", "scheduler-1"}
        await asyncio.sleep(1.0)
        assert made.kube.binds == dict.fromkeys(uids, 1)
        made.hub.lose_claims()
        await asyncio.sleep(2.0 * stream.CHECK_EVERY_S)
        made.connections[1].is_cut = False
        made.connections[1].claims.lost_share = 0.0
        await asyncio.sleep(stream.SETTLE_S + 5.0)
        assert made.engines[1].term() is not None
        for index in range(8):
            made.create_pod(f"more-{index}")
        await asyncio.sleep(3.0)
        assert made.kube.binds == dict.fromkeys(uids, 1)
        await made.stop()

    objects.run_fast(main())


def test_a_new_stream_is_settled_before_anything_is_bound() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=100.0)
        uids = await run_pods(made, 4)
        await asyncio.sleep(1.0)
        made.hub.lose_claims()
        more = [made.create_pod(f"late-{index}") for index in range(4)]
        await asyncio.sleep(stream.SETTLE_S - 0.1)
        assert set(made.kube.binds) == set(uids)
        await asyncio.sleep(stream.CHECK_EVERY_S + 1.0)
        assert set(made.kube.binds) == {*uids, *more}
        await made.stop()

    objects.run_fast(main())


def test_claims_that_were_stored_while_the_stream_was_replaced_hold_no_room() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=3.0)
        await run_pods(made, 0, nodes=1)
        made.hub.lose_claims()
        uids = [made.create_pod(f"pod-{index}") for index in range(3)]
        await asyncio.sleep(0.1)
        assert sorted(made.claimed_on("node-0")) == sorted(uids), "a new stream, and its members do not know yet"
        await asyncio.sleep(stream.CHECK_EVERY_S + stream.SETTLE_S + janitor.EVERY_S + 1.0)
        assert made.kube.binds == dict.fromkeys(uids, 1)
        await made.stop()

    objects.run_fast(main())


def test_an_orphan_holds_its_room_until_the_janitor_has_changed_its_pod() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=1.0)
        made.pod_s = (1.0, 1.0)
        await made.start(nodes=1)
        await asyncio.sleep(READY_S)
        # Each bind of the first Pod is lost on its way: the claim is there, and nothing is bound.
        uid = made.create_pod("stuck", schedulerName="other")
        await made.connections[0].claims.change([made.claims_on("node-0", uid)])
        waits = made.create_pod("waits")
        version = version_of(made, uid)
        await asyncio.sleep(ledger.LEASE_S - 1.0)
        assert not made.kube.binds
        assert version_of(made, uid) == version
        await asyncio.sleep(10.0)
        assert made.kube.binds == {waits: 1}
        assert version_of(made, uid) != version
        assert made.counted[0].orphan_claims._value.get() == 1
        await made.stop()

    objects.run_fast(main())


def test_an_orphan_that_ends_wakes_the_pods_that_wait_for_its_room() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=1.0)
        made.pod_s = (1000.0, 1000.0)
        await made.start(nodes=3)
        await asyncio.sleep(READY_S)
        for index in range(3):
            stuck = made.create_pod(f"stuck-{index}", schedulerName="other")
            await made.connections[0].claims.change([made.claims_on(f"node-{index}", stuck)])
        await asyncio.sleep(0.5)
        waits = [made.create_pod(f"waits-{index}") for index in range(3)]
        await asyncio.sleep(ledger.LEASE_S + 2.0 * janitor.EVERY_S)
        assert made.kube.binds == dict.fromkeys(waits, 1)
        assert sum(each.missed_wakes._value.get() for each in made.counted) == 0
        await made.stop()

    objects.run_fast(main())


def test_the_claim_of_a_bind_that_the_api_has_refused_is_withdrawn_at_once() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=1.0)
        await made.start(nodes=1)
        await asyncio.sleep(READY_S)
        refused = made.create_pod("refused")
        made.kube.refuses = lambda body: body["metadata"]["uid"] == refused
        # Its tries come at longer and longer intervals.
        await asyncio.sleep(20.0)
        assert made.claims("withdrawn") > 2
        other = made.create_pod("other")
        await asyncio.sleep(12.0)
        assert made.kube.binds == {other: 1}
        await made.stop()

    objects.run_fast(main())


@pytest.mark.parametrize("engines", [1, 2])
def test_a_bind_without_an_answer_holds_its_room_against_its_pod_for_seconds(engines: int) -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=engines, room=1.0)
        made.pod_s = (1.0, 1.0)
        await made.start(nodes=1)
        await asyncio.sleep(READY_S)
        made.kube.fail_next(errors.ApiUnavailable("503"), method="POST", path="/binding")
        uid = made.create_pod("pod")
        await made.until_ended(janitor.EVERY_S + 3.0)
        assert made.kube.binds == {uid: 1}
        await made.stop()

    objects.run_fast(main())


def test_a_bind_without_an_answer_that_arrives_after_its_claim_has_ended_is_refused() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=1, room=1.0)
        made.pod_s = (1.0, 1.0)
        await made.start(nodes=1)
        made.watch_room()
        await asyncio.sleep(READY_S)
        late: list[Any] = []
        refused: list[str] = []
        request = made.kube.request

        async def lose(method: str, path: str, **more: Any) -> Any:
            if path.endswith("/binding") and not late:
                late.append((path, more["body"]))
                more["permit"]()
                raise errors.ApiUnavailable("no answer in time")
            answer = await request(method, path, **more)
            if method == "PATCH" and late and not refused:
                with pytest.raises(errors.Conflict) as caught:
                    await request("POST", late[0][0], body=late[0][1])
                refused.append(str(caught.value))
            return answer

        made.kube.request = lose  # type: ignore[method-assign]
        uids = [made.create_pod("pod"), made.create_pod("other")]
        await made.until_ended(2.0 * janitor.EVERY_S)
        assert ["ResourceVersion" in each for each in refused] == [True]
        assert made.kube.binds == dict.fromkeys(uids, 1)
        assert max(made.largest.values()) == 1
        await made.stop()

    objects.run_fast(main())


def test_claims_of_binds_that_were_held_back_while_a_new_stream_was_read_end_soon() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=1, room=3.0)
        await run_pods(made, 0, nodes=2)
        sends, reads = asyncio.Event(), asyncio.Event()
        request, read_all = made.kube.request, made.connections[0].claims.all

        async def send(method: str, path: str, **more: Any) -> Any:
            if path.endswith("/binding"):
                await sends.wait()
            return await request(method, path, **more)

        async def read() -> list[buses.Kept]:
            await reads.wait()
            return await read_all()

        made.kube.request = send  # type: ignore[method-assign]
        made.connections[0].claims.all = read  # type: ignore[method-assign]
        uids = [made.create_pod(f"pod-{index}") for index in range(6)]
        await asyncio.sleep(0.3)
        assert sum(len(made.claimed_on(node)) for node in ("node-0", "node-1")) == 6
        made.hub.lose_claims()
        await asyncio.sleep(stream.CHECK_EVERY_S + 0.5)
        # Their term has ended, and the claims of the new stream are not known yet.
        sends.set()
        await asyncio.sleep(0.1)
        reads.set()
        await asyncio.sleep(stream.SETTLE_S + janitor.EVERY_S + 1.0)
        assert made.kube.binds == dict.fromkeys(uids, 1)
        await made.stop()

    objects.run_fast(main())


def test_a_lease_that_is_held_by_a_scheduler_that_does_not_share_stops_all() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=10.0)
        await run_pods(made, 2)
        await asyncio.sleep(1.0)
        assert len(made.kube.binds) == 2
        made.intruder = "another"
        made.create_pod("late")
        await asyncio.sleep(5.0)
        assert len(made.kube.binds) == 2
        assert made.engines[0].member is not None
        assert "another holds the Lease" in str(made.engines[0].member.why_not_ready())
        assert [each.other_mode._value.get() for each in made.counted] == [1, 1]
        made.intruder = None
        await made.until_ended()
        assert len(made.kube.binds) == 3
        await made.stop()

    objects.run_fast(main())


def test_a_member_that_cannot_read_the_lease_decides_nothing() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=1, room=10.0)
        await run_pods(made, 1)
        await made.until_ended(10.0)
        made.leases[0].last_read_s = made.clock.monotonic_s()
        await asyncio.sleep(10.1)
        made.create_pod("late")
        await asyncio.sleep(5.0)
        assert len(made.kube.binds) == 1
        assert made.engines[0].member is not None
        assert "the Lease cannot be read" in str(made.engines[0].member.why_not_ready())
        made.leases[0].last_read_s = None
        await made.until_ended(10.0)
        assert len(made.kube.binds) == 2
        await made.stop()

    objects.run_fast(main())


def test_a_holder_of_the_lease_that_may_not_commit_stops_no_other() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=10.0)
        await run_pods(made, 2)

        async def fail() -> list[buses.Kept]:
            raise errors.BusUnavailable("cut")

        made.connections[0].claims.all = fail  # type: ignore[method-assign]
        holder = made.engines[0].member
        assert holder is not None
        holder._stream.doubt()
        await asyncio.sleep(2.0 * heartbeats.IDENTITY_KEPT_S)
        assert holder.why_not_ready() is not None
        uid = made.create_pod("late")
        await made.until_ended(10.0)
        assert made.kube.binds[uid] == 1
        await made.stop()

    objects.run_fast(main())


def test_pods_that_the_rule_of_a_later_pod_concerns_are_decided_on_by_the_holder_of_the_lease() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=3, room=0.0)
        uids = await run_pods(made, 9, nodes=2)
        await asyncio.sleep(3.0)
        assert all(len(one.state.queue) > 0 for one in made.engines), "each has a share"
        term = {"labelSelector": {}, "topologyKey": "kubernetes.io/hostname"}
        anti_affinity = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        uids.append(made.create_pod("apart", affinity={"podAntiAffinity": anti_affinity}))
        await asyncio.sleep(2.0 * membership.SHARE_EVERY_S)
        assert [len(one.state.queue) for one in made.engines] == [10, 0, 0]
        made.room = 5.0
        await made.until_ended(60.0)
        assert made.kube.binds == dict.fromkeys(uids, 1)
        await made.stop()

    objects.run_fast(main())


def test_a_bind_by_an_old_version_of_the_pod_is_refused() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=1, room=10.0)
        uid = made.create_pod("pod")
        version = version_of(made, uid)
        path = "/api/v1/namespaces/default/pods/pod"
        await made.kube.request("PATCH", f"{path}/status", body={"status": {"conditions": [{"type": "X"}]}})
        binding = {"metadata": {"uid": uid, "resourceVersion": version}, "target": {"name": "node-0"}}
        with pytest.raises(errors.Conflict, match="ResourceVersion"):
            await made.kube.request("POST", f"{path}/binding", body=binding)

    objects.run_fast(main())


def version_of(made: world.World, uid: str) -> str:
    return next(str(pod["metadata"]["resourceVersion"]) for pod in made.pods() if pod["metadata"]["uid"] == uid)


def test_each_member_reports_what_it_committed_and_who_stops_it() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=100.0)
        await run_pods(made, 30)
        await made.until_ended(600.0)
        members = [one.member for one in made.engines if one.member is not None]
        reports = [each.report() for each in members]
        assert sum(each.stored for each in reports) == made.claims("stored")
        assert [each.recent == each.stored > 0 for each in reports] == [True, True]
        assert [each.has_lease for each in reports] == [True, False]
        assert [(each.why_not, each.intruder, each.orphans) for each in reports] == [("", "", 0)] * 2
        assert all(each.ready_s > 0.0 for each in reports)
        assert reports[0].names == ("carico",)
        made.intruder = "other"
        stopped = members[1].report()
        assert (stopped.intruder, stopped.ready_s, "other holds the Lease" in stopped.why_not) == ("other", 0.0, True)
        await made.stop()

    objects.run_fast(main())


def test_records_of_decisions_state_to_whom_a_pod_lost_claims() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=3, room=3.0)
        await run_pods(made, 36)
        await made.until_ended(600.0)
        lost = 0
        for index, one in enumerate(made.engines):
            records = [one.starter.outcomes._log.latest("default", f"pod-{number}") for number in range(36)]
            rivals = collections.Counter[str]()
            for record in records:
                rivals.update({} if record is None else record.lost)
            assert f"scheduler-{index}" not in rivals
            lost += rivals.total()
        assert 0 < lost <= made.claims("no_room") + made.claims("given_up")
        await made.stop()

    objects.run_fast(main())


def test_a_pod_with_anti_affinity_goes_to_no_node_that_another_scheduler_has_claimed_for_one_that_it_excludes() -> None:
    """The other one chose the node before it knew of the Pod, and has not bound its own yet."""

    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=10.0)
        await run_pods(made, 0, nodes=2)
        slow = objects.pod_object("slow", nodeSelector={"zone": "none"})
        slow["metadata"]["labels"] = {"app": "a"}
        uid = made.kube.objects.create("pods", slow, "test")["metadata"]["uid"]
        await made.connections[0].claims.change([made.claims_on("node-0", uid)])
        await asyncio.sleep(0.1)
        host = "kubernetes.io/hostname"
        term = {"topologyKey": host, "labelSelector": {"matchLabels": {"app": "a"}}}
        apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        first = made.create_pod("first", affinity=apart, nodeSelector={host: "node-0"})
        second = made.create_pod("second", affinity=apart)
        await asyncio.sleep(5.0)
        assert made.kube.binds == {second: 1}
        await asyncio.sleep(ledger.LEASE_S + 2.0 * janitor.EVERY_S)
        assert made.kube.binds == {first: 1, second: 1}, "the claim has ended"
        await made.stop()

    objects.run_fast(main())


def test_a_member_that_starts_does_not_count_claims_of_pods_that_are_gone() -> None:
    """They stay in the stream until something else is claimed on their node."""

    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=3.0)
        claims = made.connections[0].claims
        await claims.change([buses.GuardedWrite(subject=subjects.CLAIMS_EPOCH, payload=b"0" * 16, seq=0, lasts=True)])
        await claims.change([made.claims_on("node-0", "gone-0", "gone-1", "gone-2")])
        await run_pods(made, 0, nodes=1)
        uids = [made.create_pod(f"pod-{index}") for index in range(3)]
        await asyncio.sleep(1.0)
        assert made.kube.binds == dict.fromkeys(uids, 1)
        await made.stop()

    objects.run_fast(main())


def test_where_the_claims_cannot_be_read_pods_are_listed_all_the_same_and_claims_count() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=1, room=3.0)
        claims = made.connections[0].claims
        read_all = claims.all
        await claims.change([buses.GuardedWrite(subject=subjects.CLAIMS_EPOCH, payload=b"0" * 16, seq=0, lasts=True)])
        await claims.change([made.claims_on("node-0", "gone-0", "gone-1", "gone-2")])

        async def away() -> list[buses.Kept]:
            raise errors.BusUnavailable("away")

        claims.all = away  # type: ignore[method-assign]
        made.create_pod("pod")
        await made.start(nodes=1)
        await asyncio.sleep(member.READ_WITHIN_S + 1.0)
        assert [pod.name for pod in made.engines[0].state.pods()] == ["pod"]
        claims.all = read_all  # type: ignore[method-assign]
        await asyncio.sleep(ledger.LEASE_S - 1.0)
        assert not made.kube.binds, "the list may have been asked for before these Pods came"
        await asyncio.sleep(10.0)
        assert made.kube.binds
        await made.stop()

    objects.run_fast(main())


def test_a_claim_that_comes_before_its_pod_is_shown_counts() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=3.0)
        await run_pods(made, 0, nodes=1)
        await made.connections[0].claims.change([made.claims_on("node-0", "new-0", "new-1", "new-2")])
        made.create_pod("pod")
        await asyncio.sleep(ledger.LEASE_S - 1.0)
        assert not made.kube.binds
        await asyncio.sleep(5.0)
        assert made.kube.binds
        await made.stop()

    objects.run_fast(main())
