"""The extender over a state: what passes, and what is held meanwhile."""

import asyncio
import json
from typing import Any

import pytest

from carico_core.domain import cluster
from carico_core.wire.kubernetes import api_objects
from carico_scheduler.decide import cycle, turns
from carico_scheduler.extender import holds
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import queue
from carico_scheduler.preempt import nominations
from carico_scheduler.rules import policy
from tests.unit.scheduler import objects
from tests.unit.scheduler.extender import extender_desk


def test_reasons_tell_what_evicting_a_pod_could_change() -> None:
    async def main() -> None:
        desk = extender_desk.Desk()
        desk.node("full", 0.2)
        desk.node("silent", None)
        desk.node("stale", 4.0, age_s=7.0)
        answer = await desk.filter(desk.pod("a"), "full", "silent", "stale", "unheard-of")
        assert answer["NodeNames"] == []
        # Without numbers: they would differ from node to node and from time to time, and make Events that say the same.
        assert answer["FailedNodes"] == {
            "full": "CARICO: at capacity",
            "unheard-of": "CARICO: the scheduler has not seen this node at the API yet",
        }
        assert answer["FailedAndUnresolvableNodes"] == {
            "silent": "CARICO: without an advertisement",
            "stale": "CARICO: with a stale advertisement",
        }

    objects.run_fast(main())


def test_a_filter_waits_for_the_bind_before_it_and_no_longer_than_it_should() -> None:
    async def main() -> None:
        desk = extender_desk.Desk(wait_s=0.1)
        desk.node("n1", 1.0)
        desk.node("n2", 1.0)
        first, second = desk.pod("a"), desk.pod("b")
        await desk.passed(first, "n1", "n2")
        asking = asyncio.create_task(desk.passed(second, "n1", "n2"))
        await asyncio.sleep(0.02)
        assert not asking.done()
        assert await desk.bind(first, "n1") == ""
        assert await asking == ["n2"]
        began_s = desk.clock.monotonic_s()
        assert await desk.passed(desk.pod("c"), "n1", "n2") == []
        assert 0.05 <= desk.clock.monotonic_s() - began_s <= 0.11

    objects.run_fast(main())


@pytest.mark.parametrize("by_turn", [False, True])
def test_room_that_is_held_for_a_pod_of_ours_goes_to_none_of_lower_priority(*, by_turn: bool) -> None:
    async def main() -> None:
        desk = extender_desk.Desk(wait_s=0.0)
        desk.node("n1", 1.0)
        high = objects.make_pod("high", priority=5)
        desk.state.put_pod(high, 0.0)
        demand = demands.demand_of(high)
        if by_turn:
            made = turns.Turn(uid=high.uid, key=queue.key_of(high), demand=demand, node="n1", since_s=0.0)
            desk.turns._turns[high.uid] = made
        else:
            desk.state.nominations.add(
                nominations.Nomination(pod=high, demand=demand, node="n1", victims=(), since_s=0.0)
            )
        low, equal, top = desk.pod("low"), desk.pod("same"), desk.pod("top")
        equal["spec"]["priority"], top["spec"]["priority"] = 5, 9
        equal["metadata"]["creationTimestamp"] = "2100-01-01T00:00:00Z"
        assert await desk.passed(low, "n1") == []
        assert await desk.passed(equal, "n1") == []
        assert await desk.passed(top, "n1") == ["n1"]

    objects.run_fast(main())


@pytest.mark.parametrize("fallback", [policy.Fallback.WAIT, policy.Fallback.REQUESTS])
def test_requests_that_are_held_for_a_pod_of_ours_go_to_none_of_lower_priority(fallback: policy.Fallback) -> None:
    async def main() -> None:
        desk = extender_desk.Desk(policy.Policy(fallback=fallback), wait_s=0.0)
        for name in ("n1", "n2"):
            # Of 4 cores that can be requested; more is free by far.
            desk.node(name, 50.0 if fallback is policy.Fallback.WAIT else None)
        high = objects.make_pod("high", priority=5, request_cores=4.0)
        desk.state.put_pod(high, 0.0)
        low, top, more = (desk.pod(name, request_cores=4.0) for name in ("low", "top", "more"))
        for each in (low, top, more):
            each["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "4"}}
        top["spec"]["priority"] = 9
        assert await desk.passed(more, "n1", "n2") == ["n1", "n2"]
        assert await desk.passed(low, "n1", "n2") == ["n1", "n2"], "kube-scheduler knows where its own Pods go"
        desk.state.nominations.add(
            nominations.Nomination(pod=high, demand=demands.demand_of(high), node="n1", victims=(), since_s=0.0)
        )
        answer = await desk.filter(low, "n1", "n2")
        assert answer["NodeNames"] == ["n2"]
        assert answer["FailedNodes"] == {"n1": "CARICO: short of requested resources"}
        assert "requests" in await desk.bind(low, "n1")
        assert await desk.passed(top, "n1") == ["n1"]

    objects.run_fast(main())


def test_a_host_port_that_is_held_for_a_pod_of_ours_goes_to_none_of_lower_priority() -> None:
    async def main() -> None:
        desk = extender_desk.Desk(wait_s=0.0)
        desk.node("n1", 50.0)
        low, other = desk.pod("low"), desk.pod("other")
        for pod, port in ((low, 80), (other, 81)):
            pod["spec"]["containers"][0]["ports"] = [{"hostPort": port, "containerPort": 80}]
        held = objects.make_pod("high", priority=5, constraints=api_objects.parse_pod(low).constraints)
        desk.state.put_pod(held, 0.0)
        desk.state.nominations.add(
            nominations.Nomination(pod=held, demand=demands.demand_of(held), node="n1", victims=(), since_s=0.0)
        )
        answer = await desk.filter(low, "n1")
        assert answer["FailedNodes"] == {"n1": "CARICO: with a host port taken"}
        assert await desk.passed(other, "n1") == ["n1"]

    objects.run_fast(main())


def test_holds_end_with_their_pod_with_its_bind_by_others_and_with_time() -> None:
    async def main() -> None:
        desk = extender_desk.Desk(hold_s=5.0, wait_s=0.0)
        desk.node("n1", 3.0)
        for name in "abc":
            assert await desk.passed(desk.pod(name), "n1") == ["n1"]
        assert await desk.passed(desk.pod("d"), "n1") == []
        desk.extender.tidy()
        desk.state.remove_pod("uid-a")
        desk.extender.tidy()
        assert len(desk.extender.holds) == 2
        desk.show_bound("b", "n1")
        desk.extender.tidy()
        assert [hold.pod.name for hold in desk.extender.holds] == ["c"]
        assert desk.state.fleet.snapshot(0.0).row(0).reserved == 1, "the bound one counts by its claim"
        await asyncio.sleep(5.1)
        desk.extender.tidy()
        assert len(desk.extender.holds) == 0

    objects.run_fast(main())


def test_pods_of_the_node_and_of_carico_itself_pass_everywhere() -> None:
    async def main() -> None:
        desk = extender_desk.Desk(policy.Policy(baseline_namespaces=frozenset({"carico-system"})))
        desk.node("n1", 0.0)
        desk.state.demands.put_daemon_set(cluster.DaemonSet(namespace="default", uid="2"), 0.0)
        own = objects.pod_object("nats")
        own["metadata"] |= {"namespace": "carico-system", "uid": "1"}
        daemon = objects.pod_object("agent")
        owner = {"kind": "DaemonSet", "name": "agent", "uid": "2", "controller": True, "apiVersion": "apps/v1"}
        daemon["metadata"] |= {"uid": "3", "ownerReferences": [owner]}
        for pod in (own, daemon):
            assert await desk.passed(pod, "n1", "unheard-of") == ["n1", "unheard-of"]
        assert len(desk.extender.holds) == 0
        body = json.dumps({"Pod": daemon, "NodeNames": ["n1"]}).encode()
        assert json.loads(await desk.extender.prioritize(body)) == [{"Host": "n1", "Score": 0}]
        desk.kube.objects.create("pods", daemon, "test")
        assert await desk.bind(daemon, "n1") == ""

    objects.run_fast(main())


FORGED: dict[str, dict[str, Any]] = {
    "label": {"labels": {"carico.dev/baseline": "true"}},
    "source": {"annotations": {"kubernetes.io/config.source": "file"}},
    "mirror": {"annotations": {"kubernetes.io/config.mirror": "x", "kubernetes.io/config.hash": "x"}},
    "node": {"ownerReferences": [{"kind": "Node", "name": "n1", "uid": "n", "controller": True, "apiVersion": "v1"}]},
    "daemon": {"ownerReferences": [{"kind": "DaemonSet", "name": "d", "uid": "no", "controller": True}]},
}


@pytest.mark.parametrize("kind", FORGED)
def test_what_a_tenant_writes_on_a_pod_frees_it_from_nothing(kind: str) -> None:
    """Two nodes with room for 2 Pods each take 4 of them."""

    async def main() -> None:
        desk = extender_desk.Desk()
        # A DaemonSet of another namespace, whose UID anyone may know.
        desk.state.demands.put_daemon_set(cluster.DaemonSet(namespace="kube-system", uid="no"), 0.0)
        for node in ("n1", "n2"):
            desk.node(node, 2.0)
        bound = 0
        for number in range(8):
            pod = desk.pod(f"p{number}", metadata=FORGED[kind])
            passed = await desk.passed(pod, "n1", "n2")
            if passed:
                assert await desk.bind(pod, passed[0]) == ""
                bound += 1
        assert bound == 4

    objects.run_fast(main())


def test_by_requests_alone_while_no_node_advertises_where_the_policy_says_so() -> None:
    async def main() -> None:
        desk = extender_desk.Desk(policy.Policy(fallback=policy.Fallback.REQUESTS))
        desk.node("n1", None)
        assert await desk.passed(desk.pod("a"), "n1") == ["n1"]
        desk.node("n2", 4.0)
        assert await desk.passed(desk.pod("b"), "n1", "n2") == ["n2"]

    objects.run_fast(main())


def test_what_is_held_is_not_given_to_our_own_pods() -> None:
    async def main() -> None:
        desk = extender_desk.Desk()
        desk.node("n1", 2.0)
        await desk.passed(desk.pod("theirs"), "n1")
        now_s = desk.clock.monotonic_s()
        for name in ("mine", "mine-too"):
            desk.state.put_pod(objects.make_pod(name), now_s)
        (held,) = desk.extender.held()
        assert held == ("n1", demands.demand_of(cluster_pod(desk, "theirs")), None)
        outcome = cycle.Cycle(policy.Policy()).run(
            desk.state.fleet.snapshot(now_s), desk.state.queue, most=8, held=[(0, held[1], None)]
        )
        assert (len(outcome.placed), len(outcome.unplaced)) == (1, 1)

    objects.run_fast(main())


def test_nodes_rank_as_shares_of_the_best_less_what_is_held() -> None:
    async def main() -> None:
        desk = extender_desk.Desk(policy.Policy(score=policy.ScoreMode.ABSOLUTE))
        for name, room in (("best", 8.0), ("half", 4.0), ("full", 0.0)):
            desk.node(name, room)
        desk.node("silent", None)
        names = ("best", "half", "full", "silent", "unheard-of")

        async def ranks(pod: dict[str, Any], *asked: str) -> list[int]:
            body = json.dumps({"Pod": pod, "NodeNames": asked}).encode()
            return [each["Score"] for each in json.loads(await desk.extender.prioritize(body))]

        first, second = desk.pod("a"), desk.pod("b")
        assert await ranks(first, *names) == [10, 5, 0, 0, 0]
        assert await ranks(first, "full", "silent") == [0, 0]
        assert await desk.passed(first, "half") == ["half"]
        assert await ranks(first, *names) == [10, 5, 0, 0, 0], "what is held for itself is no hindrance"
        assert await ranks(second, *names) == [10, 4, 0, 0, 0]
        assert desk.extender.waits.since_s("uid-a", 9e9) < 9e9

    objects.run_fast(main())


def test_since_when_a_pod_is_asked_for_is_kept_while_it_waits() -> None:
    waits = holds.AskedSince()
    for uid, at_s in (("old", 1.0), ("ended", 1.0), ("new", 5.0), ("old", 7.0)):
        waits.note(uid, at_s)
    waits.drop_ended(lambda uid: uid == "old", before_s=5.0)
    assert (len(waits), waits.since_s("old", 9.0), waits.since_s("new", 9.0), waits.since_s("ended", 9.0)) == (
        2, 1.0, 5.0, 9.0,
    )  # fmt: skip


def cluster_pod(desk: extender_desk.Desk, name: str) -> cluster.Pod:
    found = desk.extender.holds.find(f"uid-{name}")
    assert found is not None
    return found.pod
