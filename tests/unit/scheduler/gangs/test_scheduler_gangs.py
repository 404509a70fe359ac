"""Gangs on the memory API: whole or not at all, whatever happens in the middle."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from carico_core.domain import cluster, errors
from carico_core.domain import gangs as gang_keys
from carico_core.wire.kubernetes import instants, pod_groups
from carico_scheduler.gangs import gang, table
from carico_scheduler.pods import demand as demands
from carico_scheduler.rules import policy
from carico_scheduler.state import state
from tests.unit.scheduler import objects, world
from tests.unit.scheduler.gangs import gang_world

Body = Callable[[gang_world.GangWorld], Coroutine[Any, Any, None]]


def run(body: Body, *, nodes: int = 1, is_started: bool = True, **more: Any) -> None:
    """Run `body` in a world of `nodes` nodes with room for three Pods each."""

    async def main() -> None:
        made = gang_world.GangWorld(**more)
        if is_started:
            await made.start(nodes=nodes)
        await body(made)
        await made.stop()

    objects.run_fast(main())


def state_of(made: gang_world.GangWorld, name: str, engine: int = 0) -> gang.GangState | None:
    """The state of the gang of this name."""
    found = [each for each in made.engines[engine].state.gangs if each.key.name == name]
    return found[0].state if found else None


def test_a_gang_is_placed_once_all_its_pods_are_there() -> None:
    async def body(made: gang_world.GangWorld) -> None:
        made.gang("train", 2, least=3)
        await asyncio.sleep(10.0)
        assert made.running() == []
        assert state_of(made, "train") is gang.GATHERING
        (note,) = made.notes("FailedScheduling", "train-0")
        assert note == "gang default/train: 2 of the 3 Pods that it needs are there"
        # More nodes would not help: an autoscaler must not see it.
        assert not any("conditions" in pod["status"] for pod in made.pods())
        made.member("train", "train-2", least=3)
        await asyncio.sleep(1.0)
        assert made.running() == ["train-0", "train-1", "train-2"]
        assert state_of(made, "train") is gang.COMPLETE
        assert made.engines[0]._metrics.gangs.labels("complete")._value.get() == 1

    run(body)


def test_of_two_gangs_that_could_each_hold_half_one_is_placed_whole_and_then_the_other() -> None:
    async def body(made: gang_world.GangWorld) -> None:
        for index in range(4):
            made.member("a", f"a-{index}", least=4)
            made.member("b", f"b-{index}", least=4)
        await asyncio.sleep(30.0)
        first = {name.split("-")[0] for name in made.running()}
        assert len(made.running()) == 4
        assert len(first) == 1
        (second,) = {"a", "b"} - first
        assert made.notes("FailedScheduling", f"{second}-0")[0].startswith(
            f"gang default/{second}: 4 Pods must be placed together"
        )
        assert state_of(made, second) is gang.WAITING
        made.end(first.pop())
        await asyncio.sleep(5.0)
        assert made.running() == [f"{second}-{index}" for index in range(4)]
        assert made.deleted() == 0

    run(body, nodes=2)


def test_a_gang_larger_than_the_cluster_holds_nothing_and_other_pods_are_placed() -> None:
    async def body(made: gang_world.GangWorld) -> None:
        made.gang("huge", 7)
        await asyncio.sleep(5.0)
        for index in range(6):
            made.create_pod(f"small-{index}")
        await asyncio.sleep(100.0)
        assert made.running() == [f"small-{index}" for index in range(6)]
        assert state_of(made, "huge") is gang.WAITING
        assert "gang default/huge: 7 Pods must be placed together" in made.notes("FailedScheduling", "huge-0")[0]
        condition = {each["type"]: each for each in _pod(made, "huge-0")["status"]["conditions"]}["PodScheduled"]
        assert condition["reason"] == "Unschedulable"

    run(body, nodes=2)


def test_pods_beyond_the_minimum_are_placed_as_they_fit() -> None:
    async def body(made: gang_world.GangWorld) -> None:
        made.gang("train", 5, least=2)
        await asyncio.sleep(5.0)
        assert len(made.running("train")) == 3
        made.end("train-")
        await asyncio.sleep(5.0)
        assert len(made.running("train")) == 0

    run(body)


def test_a_bind_that_fails_is_tried_again_and_the_gang_is_completed() -> None:
    async def body(made: gang_world.GangWorld) -> None:
        made.refuse_binds(2)
        made.gang("train", 3)
        await asyncio.sleep(5.0)
        assert len(made.running()) == 3
        assert state_of(made, "train") is gang.COMPLETE
        assert made.deleted() == 0

    run(body)


def test_a_gang_that_stays_incomplete_is_evicted_whole_and_tried_again_later() -> None:
    async def body(made: gang_world.GangWorld) -> None:
        stuck_gang(made, "train", 3)
        await asyncio.sleep(15.0)
        assert made.running() == ["train-0", "train-1"]
        await asyncio.sleep(10.0)
        assert made.running() == []
        assert made.deleted() == 2
        assert len(made.notes("GangIncomplete", "train-0")) == 1
        assert [each for each in made.kube.requests if "status" in each and "train-0" in each]
        assert "train-2" in [pod["metadata"]["name"] for pod in made.pods()]
        assert state_of(made, "train") is gang.GATHERING
        # As their controller creates them again.
        made.kube.binds.clear()
        refuse(made, "")
        made.member("train", "train-0", least=3)
        made.member("train", "train-1", least=3)
        await asyncio.sleep(15.0)
        assert len(made.running()) == 3
        assert made.engines[0]._metrics.gangs.labels("given_back")._value.get() == 1

    run(body)


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"minMember": 3, "scheduleTimeoutSeconds": -5}, "spec.scheduleTimeoutSeconds: got -5, expected seconds"),
        (None, "gang default/train: there is no such PodGroup, nor do its Pods state a minimum; it stayed incomplete"),
    ],
    ids=["invalid", "gone"],
)
def test_a_gang_that_is_incomplete_once_its_pod_group_is_wrong_or_gone_is_given_back(
    spec: dict[str, Any] | None, text: str
) -> None:
    async def body(made: gang_world.GangWorld) -> None:
        made.group("train", spec={"minMember": 3})
        for index in range(3):
            uid = made.member("train", f"train-{index}")
        refuse(made, uid)
        await asyncio.sleep(5.0)
        assert made.running() == ["train-0", "train-1"]
        if spec is None:
            made.kube.objects.delete("podgroups", ("default", "train"), {}, "test")
        else:
            made.group("train", spec=spec)
        table = made.engines[0].state.gangs
        table.lacks("no rights", is_native=False)
        await asyncio.sleep(30.0)
        assert made.deleted() == 0, "a PodGroup that cannot be read may be there, and right"
        table.lacks(None, is_native=False)
        await asyncio.sleep(30.0)
        assert made.running() == []
        assert made.deleted() == 2
        assert text in made.notes("GangIncomplete", "train-0")[0]

    run(body)


def test_an_eviction_that_is_refused_is_asked_for_again_and_nothing_is_placed_meanwhile() -> None:
    async def body(made: gang_world.GangWorld) -> None:
        stuck_gang(made, "train", 3)
        for _ in range(2):
            made.kube.fail_next(world.NO_RIGHTS, method="DELETE")
        await asyncio.sleep(25.0)
        refuse(made, "")
        await asyncio.sleep(4.0)
        assert state_of(made, "train") is gang.GIVEN_BACK
        assert made.running() == ["train-0", "train-1"]
        assert made.engines[0]._metrics.gang_evictions.labels("Forbidden")._value.get() == 2
        await asyncio.sleep(10.0)
        assert made.running() == []
        assert made.engines[0]._metrics.gang_evictions.labels("evicted")._value.get() == 2

    run(body)


def test_a_short_pod_that_ends_before_the_last_is_bound_still_counts() -> None:
    async def body(made: gang_world.GangWorld) -> None:
        stuck_gang(made, "train", 3)
        await asyncio.sleep(3.0)
        made.end("train-0")
        await asyncio.sleep(1.0)
        refuse(made, "")
        await asyncio.sleep(15.0)
        assert made.running() == ["train-1", "train-2"]
        assert state_of(made, "train") is gang.COMPLETE
        await asyncio.sleep(60.0)
        assert made.deleted() == 0

    run(body)


def test_a_pod_that_is_replaced_after_the_gang_was_complete_is_placed_by_itself() -> None:
    async def body(made: gang_world.GangWorld) -> None:
        made.gang("train", 3)
        await asyncio.sleep(5.0)
        made.delete("train-1")
        made.delete("train-2")
        await asyncio.sleep(40.0)
        assert made.running() == ["train-0"]
        made.member("train", "train-3", least=3)
        await asyncio.sleep(5.0)
        assert made.running() == ["train-0", "train-3"]
        assert made.deleted() == 0

    run(body)


def found(
    made: gang_world.GangWorld, name: str, *, pods: int, at_s: float, node: str = "node-0", **metadata: Any
) -> None:  # fmt: skip
    """Half of a gang of four is on a node, bound at this time; the other half waits."""
    at = instants.format_time(round(at_s * 1e9))
    bound = {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at}]}
    for index in range(4):
        is_bound = index < pods
        spec, status = ({"nodeName": node}, bound) if is_bound else ({}, {})
        made.member(name, f"{name}-{index}", least=4, spec=spec, status=status, metadata=metadata)


def test_of_two_gangs_found_with_half_of_the_room_each_one_is_given_back_and_the_other_completed() -> None:
    async def body(made: gang_world.GangWorld) -> None:
        now_s = made.clock.wall_ns() / 1e9
        found(made, "a", pods=2, at_s=now_s)
        found(made, "b", pods=2, at_s=now_s)
        await made.start(nodes=1)
        await asyncio.sleep(15.0)
        assert len(made.running()) == 4
        await asyncio.sleep(45.0)
        # Of two gangs of the same age and priority the UID decides.
        (first,) = {name.split("-")[0] for name in made.running()}
        assert made.running() == [f"{first}-{index}" for index in range(4)]
        assert made.deleted() == 2

    run(body, is_started=False, room=4.0)


def test_a_tenant_with_ever_new_gangs_does_not_keep_another_tenants_gang_from_being_given_back() -> None:
    """Anyone who creates Pods may name their node: such a gang is incomplete from the first moment on."""

    async def body(made: gang_world.GangWorld) -> None:
        found(made, "victim", pods=2, at_s=made.clock.wall_ns() / 1e9)
        await made.start(nodes=1)
        for number in range(60):
            # The newest are the least important.
            young = {"namespace": "crowd", "creationTimestamp": f"2025-02-01T00:{number:02}:00Z"}
            found(made, f"crowd-{number}", pods=1, at_s=made.clock.wall_ns() / 1e9, **young)
            await asyncio.sleep(5.0)
        assert made.notes("GangIncomplete", "victim-0") or made.notes("GangIncomplete", "victim-1")

    run(body, is_started=False, room=4.0)


def test_what_runs_of_a_gang_for_longer_than_its_timeout_is_not_evicted_by_a_scheduler_that_starts() -> None:
    async def body(made: gang_world.GangWorld) -> None:
        found(made, "a", pods=2, at_s=made.clock.wall_ns() / 1e9 - 3600.0)
        made.create_pod("fills-the-node")
        await made.start(nodes=1)
        await asyncio.sleep(100.0)
        assert made.running("a") == ["a-0", "a-1"]
        assert state_of(made, "a") is gang.COMPLETE
        assert made.deleted() == 0

    run(body, is_started=False)


def test_what_runs_of_a_gang_without_pod_group_is_not_evicted_by_a_scheduler_that_starts() -> None:
    async def body(made: gang_world.GangWorld) -> None:
        at = instants.format_time(made.clock.wall_ns() - 10 * 10**9)
        bound = {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at}]}
        made.member("a", "a-0", spec={"nodeName": "node-0"}, status=bound)
        await made.start(nodes=1)
        await asyncio.sleep(60.0)
        assert made.running() == ["a-0"], "it may be whole"

    run(body, is_started=False)


def test_what_a_leader_that_crashed_left_incomplete_a_minute_ago_is_given_back() -> None:
    async def body(made: gang_world.GangWorld) -> None:
        # Longer ago than its timeout: nothing led in between.
        found(made, "a", pods=2, at_s=made.clock.wall_ns() / 1e9 - 50.0)
        await made.start(nodes=1)
        await asyncio.sleep(15.0)
        assert made.running("a") == ["a-0", "a-1"]
        await asyncio.sleep(10.0)
        assert made.running("a") == []
        assert made.deleted() == 2

    run(body, is_started=False)


def test_a_leader_change_in_the_middle_leaves_no_half() -> None:
    async def body(made: gang_world.GangWorld) -> None:
        stuck_gang(made, "a", 4)
        await asyncio.sleep(3.0)
        assert made.running() == ["a-0", "a-1", "a-2"]
        made.leader = 1
        refuse(made, "")
        made.engines[1].wake()
        await asyncio.sleep(5.0)
        assert len(made.running()) == 4
        assert made.deleted() == 0
        assert [state_of(made, "a", index) for index in range(2)] == [gang.COMPLETE] * 2
        counted = [each._metrics.gangs.labels("complete")._value.get() for each in made.engines]
        assert counted == [0, 1], "the leader counts it, not the standby"

    run(body, engines=2, room=4.0)


def test_the_next_leader_gives_back_what_it_cannot_complete() -> None:
    async def body(made: gang_world.GangWorld) -> None:
        stuck_gang(made, "a", 4)
        await asyncio.sleep(10.0)
        made.leader = 1
        await asyncio.sleep(15.0)
        # It has its own time.
        assert len(made.running()) == 3
        await asyncio.sleep(10.0)
        assert made.running() == []
        assert made.deleted() == 3

    run(body, engines=2, room=4.0)


def test_a_scheduler_that_leads_again_does_not_evict_what_another_has_completed() -> None:
    async def body(made: gang_world.GangWorld) -> None:
        stuck_gang(made, "a", 3)
        await asyncio.sleep(18.0)
        forbidden = errors.Forbidden(status=403, reason="Forbidden", message="no rights", request="DELETE pod")
        made.kube.fail_next(forbidden, method="DELETE")
        await asyncio.sleep(5.0)
        assert len(made.running()) == 1
        assert state_of(made, "a") is gang.GIVEN_BACK
        made.leader = 1
        refuse(made, "")
        (left,) = made.running()
        for name in {"a-0", "a-1"} - {left}:
            made.member("a", name, least=3)
        await asyncio.sleep(5.0)
        assert made.running() == ["a-0", "a-1", "a-2"]
        made.leader = 0
        deleted = made.deleted()
        await asyncio.sleep(60.0)
        assert made.running() == ["a-0", "a-1", "a-2"]
        assert made.deleted() == deleted

    run(body, engines=2)


def test_the_last_pod_of_a_gang_whose_others_have_ended_is_placed_whenever_there_is_room() -> None:
    async def body(made: gang_world.GangWorld) -> None:
        made.member("train", "train-0", least=2)
        refuse(made, made.member("train", "train-1", least=2))
        await asyncio.sleep(3.0)
        made.end("train-0")
        await asyncio.sleep(60.0)
        # It holds no room: there is nothing to give back.
        assert made.engines[0]._metrics.gangs.labels("given_back")._value.get() == 0
        refuse(made, "")
        await asyncio.sleep(15.0)
        assert made.running() == ["train-1"]

    run(body)


def test_a_gang_created_again_while_the_old_one_leaves_is_placed_whole() -> None:
    async def body(made: gang_world.GangWorld) -> None:
        made.gang("train", 2)
        await asyncio.sleep(5.0)
        made.kube.is_graceful = True
        for name in made.running():
            await made.kube.request("DELETE", f"/api/v1/namespaces/default/pods/{name}")
        for index in range(2):
            made.member("train", f"again-{index}", least=2)
        await asyncio.sleep(5.0)
        # There would be room for one of the two.
        assert made.running("again") == []
        for index in range(2):
            made.delete(f"train-{index}")
        await asyncio.sleep(5.0)
        assert made.running() == ["again-0", "again-1"]

    run(body)


def test_a_standby_that_leads_late_knows_that_a_gang_was_never_complete() -> None:
    async def body(made: gang_world.GangWorld) -> None:
        stuck_gang(made, "a", 4)
        await asyncio.sleep(3.0)
        # No scheduler leads for longer than the gang may be incomplete.
        made.leader = -1
        await asyncio.sleep(100.0)
        made.leader = 1
        await asyncio.sleep(15.0)
        assert len(made.running()) == 3
        await asyncio.sleep(10.0)
        assert made.running() == []

    run(body, engines=2, room=4.0)


def test_the_minimum_may_change_while_the_gang_waits() -> None:
    async def body(made: gang_world.GangWorld) -> None:
        made.group("train", spec={"minMember": 5})
        for index in range(4):
            made.member("train", f"train-{index}")
        await asyncio.sleep(5.0)
        assert made.running() == []
        made.group("train", spec={"minMember": 3})
        await asyncio.sleep(1.0)
        assert len(made.running()) == 3
        # A gang that is complete stays so.
        made.group("train", spec={"minMember": 4})
        await asyncio.sleep(60.0)
        assert len(made.running()) == 3

    run(body)


def test_pods_that_vanish_before_the_decision_leave_the_others_waiting() -> None:
    async def body(made: gang_world.GangWorld) -> None:
        made.gang("train", 4)
        await asyncio.sleep(5.0)
        assert state_of(made, "train") is gang.WAITING
        made.delete("train-3")
        await asyncio.sleep(1.0)
        assert state_of(made, "train") is gang.GATHERING
        for index in range(3):
            made.delete(f"train-{index}")
        await asyncio.sleep(1.0)
        assert len(made.engines[0].state.gangs) == 0
        world.check_nothing_left(made)

    run(body)


@pytest.mark.parametrize(
    ("spec", "annotations", "text"),
    [
        ({"minMember": 0}, {}, "spec.minMember: got 0, expected an integer from 1 to 10000"),
        ({"minMember": 1, "scheduleTimeoutSeconds": -1}, {}, "spec.scheduleTimeoutSeconds: got -1, expected seconds"),
        (None, {pod_groups.MIN_MEMBER: "many"}, "annotation carico.dev/gang-min-member: got 'many', expected"),
        (None, {pod_groups.MIN_MEMBER: "1", pod_groups.TIMEOUT: "soon"}, "gang-timeout-seconds: got 'soon', expected"),
        (None, {}, "gang default/train: there is no such PodGroup, nor do its Pods state a minimum"),
    ],
)  # fmt: skip
def test_a_gang_that_asks_for_nothing_valid_waits_with_an_event(
    spec: dict[str, Any] | None, annotations: dict[str, str], text: str
) -> None:
    async def body(made: gang_world.GangWorld) -> None:
        if spec is not None:
            made.group("train", spec=spec)
        made.member("train", "train-0", annotations=annotations)
        await asyncio.sleep(5.0)
        assert made.running() == []
        (note,) = made.notes("FailedScheduling", "train-0")
        assert text in note and "nodes fit" not in note
        made.group("train", spec={"minMember": 1})
        await asyncio.sleep(1.0)
        assert made.running() == ["train-0"]

    run(body)


def test_kubernetes_own_pod_groups_gang_and_basic() -> None:
    async def body(made: gang_world.GangWorld) -> None:
        made.group("gang", spec={"schedulingPolicy": {"gang": {"minCount": 3}}})
        made.group("basic", spec={"schedulingPolicy": {"basic": {}}})
        for index in range(2):
            made.member("gang", f"gang-{index}", native=True)
        made.member("basic", "basic-0", native=True)
        await asyncio.sleep(5.0)
        assert made.running() == ["basic-0"]
        made.end("basic-0")
        made.member("gang", "gang-2", native=True)
        await asyncio.sleep(5.0)
        assert made.running() == ["gang-0", "gang-1", "gang-2"]

    run(body)


def test_a_gang_stays_within_one_zone_the_one_that_takes_it_whole() -> None:
    async def body(made: gang_world.GangWorld) -> None:
        for index, zone in enumerate("abb"):
            node = objects.node_object(f"node-{index}")
            node["metadata"]["labels"]["zone"] = zone
            made.kube.objects.create("nodes", node, "test")
        made.group("train", spec={"minMember": 4}, annotations={pod_groups.TOPOLOGY_KEY: "zone"})
        await made.start_engines(nodes=3)
        for index in range(4):
            made.member("train", f"train-{index}")
        await asyncio.sleep(5.0)
        assert {pod["spec"].get("nodeName") for pod in made.pods()} == {"node-1", "node-2"}
        # There is room in zone a alone.
        made.create_pod("fills-zone-b-0", nodeSelector={"zone": "b"})
        made.create_pod("fills-zone-b-1", nodeSelector={"zone": "b"})
        await asyncio.sleep(5.0)
        made.member("train", "train-4")
        await asyncio.sleep(10.0)
        assert "train-4" not in made.running()
        assert "within one zone" in made.notes("FailedScheduling", "train-4")[0]

    run(body, is_started=False)


def stuck_gang(made: gang_world.GangWorld, name: str, size: int) -> None:
    """Create a gang that needs all of its members, and refuse the bind of the last."""
    uid = ""
    for index in range(size):
        uid = made.member(name, f"{name}-{index}", least=size)
    refuse(made, uid)


def refuse(made: gang_world.GangWorld, uid: str) -> None:
    """Binds of one Pod are refused from now on; of none if `uid` is empty."""
    made.kube.refuses = lambda body: bool(uid) and body["metadata"]["uid"] == uid


def _pod(made: gang_world.GangWorld, name: str) -> dict[str, Any]:
    return next(pod for pod in made.pods() if pod["metadata"]["name"] == name)


def test_pods_that_each_ask_for_something_else_are_not_compared_with_all_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """10,000 of them took a scheduler that starts half a minute."""
    compared: list[gang_keys.Asks] = []
    strictest = table._strictest

    def counted(asks: gang_keys.Asks) -> tuple[bool, int, float, str]:
        compared.append(asks)
        return strictest(asks)

    monkeypatch.setattr(table, "_strictest", counted)
    found = state.State(policy.Policy(), random.Random(0))
    key = gang_keys.Key("default", "g")
    for number in range(100):
        asks = gang_keys.Asks(1000 - number, float(number + 1))
        found.put_pod(objects.make_pod(f"p-{number}", gang=gang_keys.PodGang(key, asks)), 0.0)
    one = found.gangs.find(key)
    assert one is not None and one.asks == gang_keys.Asks(1000, 1.0)
    assert len(compared) <= 200
    found.remove_pod("uid-p-0")
    assert one.asks == gang_keys.Asks(999, 2.0)


def test_a_pod_group_that_is_written_all_the_time_renews_no_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its status changes with each of its Pods, and its owner may change its minimum: 0.1 s each with 5,000 Pods."""
    found = state.State(policy.Policy(), random.Random(0))
    key = gang_keys.Key("default", "g")
    for number in range(3):
        found.put_pod(objects.make_pod(f"p-{number}", gang=gang_keys.PodGang(key, None)), 0.0)
    found.waiting_gangs.put_pod_group(gang_keys.PodGroup(key, gang_keys.Asks(2)), 0.0)
    computed: list[str] = []
    demand_of = found.queue._demand_of

    def counted(pod: cluster.Pod) -> demands.Demand:
        computed.append(pod.name)
        return demand_of(pod)

    monkeypatch.setattr(found.queue, "_demand_of", counted)
    for least in (2, 3, 3, 4):
        found.waiting_gangs.put_pod_group(gang_keys.PodGroup(key, gang_keys.Asks(least)), 0.0)
    one = found.gangs.find(key)
    assert one is not None and one.asks == gang_keys.Asks(4)
    assert computed == []
    found.waiting_gangs.put_pod_group(gang_keys.PodGroup(key, None), 0.0)
    assert len(computed) == 3 and all(each.demand.gang is None for each in found.queue)
