"""Pods that must be apart, claimed by schedulers that do not know of each other's: at least one of two is given up."""

import asyncio
import random
from typing import Any

import pytest

from carico_core.domain import cluster, constraints, messages, selectors
from carico_core.runtime.process import clock as clocks
from carico_scheduler.rules import policy
from carico_scheduler.sharing import own_claims
from carico_scheduler.sharing.claims import commits, ledger, rechecks, stream
from carico_scheduler.state import node_state, state
from tests.unit.scheduler import objects
from tests.unit.scheduler.sharing import shared_world

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
NOW_S = 100.0


def term(app: str, key: str = ZONE) -> constraints.PodTerm:
    selector = (selectors.Requirement(key="app", operator=selectors.IN, values=(app,)),)
    return constraints.PodTerm(topology_key=key, selector=selector, namespaces=("default",))


def spread_over_zones(app: str) -> constraints.Constraints:
    selector = term(app).selector
    found = constraints.Spread(namespace="default", topology_key=ZONE, selector=selector, max_skew=1)
    return constraints.Constraints(spreads=(found,))


def apart_from(app: str, *keys: str) -> constraints.Constraints:
    return constraints.Constraints(anti_affinity=tuple(term(app, key) for key in keys or (ZONE,)))


class Site:
    """A member that has decided on Pods, next to nodes a1 and a2 of one zone and b1 of another."""

    def __init__(self) -> None:
        self.state = state.State(policy.Policy(), random.Random(0))
        self.state.fleet.pod_counts.lacking = None
        for name in ("a1", "a2", "b1"):
            self.state.put_node(objects.make_node(name, labels={HOST: name, ZONE: name[0]}))
            heard = node_state.Heard(advertisement=objects.make_advertisement(name, 10.0), sampled_s=NOW_S)
            self.state.put_advertisement(heard, NOW_S)
        self.ledger = ledger.Ledger(lambda uid, node: own_claims.fate_of(self.state, uid, node))
        self.rechecks = rechecks.Rechecks(
            self.state, self.ledger, clock=clocks.FakeClock(monotonic_s=NOW_S), held_on=lambda *_: ()
        )

    def pod(self, name: str, **changes: Any) -> cluster.Pod:
        made = objects.make_pod(name, **({"labels": {"app": name[0]}} | changes))
        self.state.put_pod(made, NOW_S)
        return made

    def decided(self, pod: cluster.Pod, node: str) -> commits.ClaimRequest:
        demand = self.state.demand_of(pod)
        self.state.assume(objects.make_waiting(pod, 0.0), node, NOW_S)
        ended: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        return commits.ClaimRequest(
            node=node, claim=claim(pod.uid, scheduler="own"), demand=demand, seq=-1, decided_s=NOW_S, ended=ended
        )

    def claimed(self, node: str, uid: str, *apart: str) -> None:
        self.ledger.take(node, self.ledger.seq(node) + 1, [claim(uid, apart)], NOW_S)


def claim(uid: str, apart: tuple[str, ...] = (), scheduler: str = "other") -> messages.Claim:
    return messages.Claim(
        uid=uid, pod_class="pi", cores=0.0, size_bytes=0.0, others=(), scheduler=scheduler, at_ns=1, apart=apart
    )


@pytest.mark.parametrize(
    ("node", "keys", "is_apart"),
    [
        ("a2", (ZONE,), False), ("b1", (ZONE,), True), ("a1", (HOST,), False), ("a2", (HOST,), True), ("a1", (), True),
        ("gone", (ZONE,), True),
    ],
)  # fmt: skip
async def test_a_pod_is_given_up_next_to_one_that_is_not_known_and_keeps_others_away(
    node: str, keys: tuple[str, ...], *, is_apart: bool
) -> None:
    site = Site()
    request = site.decided(site.pod("b"), "a1")
    site.claimed(node, "uid-unknown", *keys)
    assert site.rechecks.is_apart(request) is is_apart
    # Once the claim has left the stream.
    site.ledger.take(node, 9, [], NOW_S)
    assert site.rechecks.is_apart(request)
    assert not site.ledger.has_apart


@pytest.mark.parametrize(("node", "is_apart"), [("a2", False), ("b1", True)])
@pytest.mark.parametrize("is_bound", [False, True])
async def test_a_pod_is_given_up_next_to_one_that_has_become_known_since(
    node: str, *, is_apart: bool, is_bound: bool
) -> None:
    site = Site()
    request = site.decided(site.pod("b"), "a1")
    site.claimed(node, "uid-a", ZONE)
    site.pod("a", constraints=apart_from("b"), node_name=node if is_bound else None)
    assert site.rechecks.is_apart(request) is is_apart


async def test_a_pod_that_keeps_others_away_and_waits_keeps_none_away_yet() -> None:
    site = Site()
    request = site.decided(site.pod("b"), "a1")
    site.pod("a", constraints=apart_from("b"))
    assert site.rechecks.is_apart(request)


@pytest.mark.parametrize(
    ("name", "node", "is_apart"),
    [("b", "a2", False), ("b", "b1", True), ("c", "a2", True), ("?", "a2", False), ("?", "b1", True)],
)
async def test_a_pod_that_keeps_others_away_is_given_up_next_to_one_that_was_claimed_before(
    name: str, node: str, *, is_apart: bool
) -> None:
    site = Site()
    request = site.decided(site.pod("a", constraints=apart_from("b")), "a1")
    if name != "?":
        site.pod(name)
    site.claimed(node, f"uid-{name}")
    assert site.rechecks.is_apart(request) is is_apart


@pytest.mark.parametrize(
    ("name", "node", "is_spread"),
    [("b", "a2", False), ("b", "b1", True), ("c", "a2", True), ("?", "a2", False), ("?", "b1", True)],
)
@pytest.mark.parametrize("is_bound", [False, True])
async def test_a_pod_is_given_up_where_its_group_is_spread_no_more(
    name: str, node: str, *, is_spread: bool, is_bound: bool
) -> None:
    """Another member has claimed a node for a Pod of the group without the constraint, or has bound it there since."""
    site = Site()
    request = site.decided(site.pod("b-1", constraints=spread_over_zones("b")), "a1")
    site.claimed(node, f"uid-{name}")
    if name != "?":
        site.pod(name, node_name=node if is_bound else None)
    assert site.rechecks.is_apart(request) is is_spread


async def test_pods_of_a_group_that_one_member_has_spread_are_not_given_up_for_each_other() -> None:
    site = Site()
    own = spread_over_zones("b")
    nodes = ("a1", "b1", "a2", "b1", "a1")
    requests = [site.decided(site.pod(f"b-{index}", constraints=own), node) for index, node in enumerate(nodes)]
    assert all(site.rechecks.is_apart(each) for each in requests)


@pytest.mark.parametrize("keys", [(ZONE,), (ZONE, HOST)])
async def test_a_pod_is_not_given_up_for_itself(keys: tuple[str, ...]) -> None:
    site = Site()
    own = constraints.Constraints(anti_affinity=(*(term("a", key) for key in keys), term("a"), term("a1")))
    request = site.decided(site.pod("a", constraints=own), "a1")
    site.ledger.take("a1", 1, [claim("uid-a", keys, scheduler="own")], NOW_S)
    assert site.rechecks.is_apart(request)
    site.pod("a-2", node_name="a2", constraints=own)
    assert not site.rechecks.is_apart(request)


async def test_withdrawn_claims_need_no_node() -> None:
    site = Site()
    request = site.decided(site.pod("b"), "a1")
    request.claim = None
    assert site.rechecks.is_apart(request)


@pytest.mark.parametrize("key", [ZONE, HOST])
def test_two_members_place_no_two_pods_that_must_be_apart(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    """Whichever comes first, and however little later the other one."""
    monkeypatch.setattr(stream, "SETTLE_S", 3.0)

    async def main() -> None:
        made = shared_world.SharedWorld(engines=2, room=100.0)
        made.pod_s = (1000.0, 1000.0)
        rng = random.Random(0)
        for connection in made.connections:
            in_order(connection)
        await made.start(nodes=1 if key == HOST else 3)
        for index in range(1 if key == HOST else 3):
            node = made.kube.objects.get("nodes", ("", f"node-{index}"), "test")
            node["metadata"]["labels"][ZONE] = "z"
            made.kube.objects.update("nodes", ("", f"node-{index}"), node, "")
        await asyncio.sleep(4.0)
        both = 0
        for turn in range(60):
            app = f"app-{turn}"
            rule = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
            affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}
            kept = objects.pod_object(f"kept-{turn}")
            kept["metadata"]["labels"] = {"app": app}
            made.kube.objects.create("pods", kept, "test")
            await asyncio.sleep(rng.uniform(0.0, 0.012))
            made.create_pod(f"apart-{turn}", affinity=affinity)
            await asyncio.sleep(0.5)
            bound = [
                made.kube.objects.get("pods", ("default", f"{name}-{turn}"), "")["spec"].get("nodeName")
                for name in ("kept", "apart")
            ]
            assert any(bound)
            both += all(bound)
        assert both == 0
        await made.stop()

    objects.run_fast(main())


def in_order(connection: shared_world.Connection) -> None:
    """Claims come to a member in the order in which they are stored, before the answer to its own, as with NATS."""
    connection.claims.follow = connection.claims._claims.follow  # type: ignore[method-assign]
