"""No Pod that would fit keeps waiting: every event that makes room opens the queue to all that it could help."""

import dataclasses
import random
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from carico_core.domain import cluster, constraints, messages, selectors
from carico_core.wire.kubernetes import storage
from carico_scheduler.decide import cycle
from carico_scheduler.nodes import headroom, snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import reservations
from carico_scheduler.rules import policy
from carico_scheduler.state import node_state, state
from tests.unit.scheduler import objects
from tests.unit.scheduler.rules import test_scheduler_peers as peers

NODES = tuple(f"node-{index}" for index in range(3))
PORT = constraints.Constraints(host_ports=(constraints.HostPort(address="0.0.0.0", protocol="TCP", port=80),))
WEB = (selectors.Requirement(key="app", operator=selectors.IN, values=("web",)),)
NEAR_WEB = constraints.PodTerm(topology_key="zone", selector=WEB, namespaces=("default",))
SPREAD = constraints.Constraints(
    spreads=(constraints.Spread(namespace="default", topology_key="zone", selector=WEB, max_skew=1),)
)
TOGETHER = constraints.Constraints(affinity=(NEAR_WEB,), is_own_peer=True, namespace="default")
NEAR = constraints.Constraints(affinity=(NEAR_WEB,), namespace="default")
APART = constraints.Constraints(anti_affinity=(NEAR_WEB,))
RED = (selectors.Requirement(key="team", operator=selectors.IN, values=("red",)),)
NEAR_RED = constraints.PodTerm(topology_key="zone", selector=WEB, namespaces=(), namespace_selector=RED)
WITH_RED = constraints.Constraints(affinity=(NEAR_RED,), is_own_peer=True, namespace="default")
APART_FROM_RED = constraints.Constraints(anti_affinity=(NEAR_RED,))
ON_SSD = constraints.Constraints(
    node_terms=(selectors.NodeTerm(labels=(selectors.Requirement(key="disk", operator="In", values=("ssd",)),)),)
)
# Only one Pod of the whole cluster may use it.
DISK = constraints.Constraints(volume_claims=(constraints.VolumeClaimUse(namespace="default", name="disk"),))
KINDS: tuple[dict[str, object], ...] = (
    {},
    {"request_cores": 3.0},
    {"node_selector": {"disk": "ssd"}},
    {"constraints": ON_SSD},
    {"constraints": PORT},
    {"constraints": SPREAD, "labels": {"app": "web"}},
    {"constraints": TOGETHER, "labels": {"app": "web"}},
    {"constraints": APART, "labels": {"app": "web"}},
    {"constraints": WITH_RED, "labels": {"app": "web"}},
    {"constraints": APART_FROM_RED, "labels": {"app": "web"}},
    {"namespace": "other", "constraints": APART_FROM_RED, "labels": {"app": "web"}},
    {"labels": {"app": "web"}},
    {"namespace": "other", "labels": {"app": "web"}},
    {"constraints": DISK},
    {"constraints": NEAR},
)
# Kinds for which other Pods decide more than room.
LIMITED = KINDS[4:]


class Desk:
    """A state to which things happen, and the cycle that follows each.

    `is_roomy`: a node that is not full has room for all Pods, so that other Pods decide where they may go.
    """

    def __init__(self, rng: random.Random, rules: policy.Policy, *, is_roomy: bool = False) -> None:
        self.rng = rng
        self.is_roomy = is_roomy
        self.now_s = 1000.0
        self.state = state.State(rules, rng)
        self.state.fleet.pod_counts.lacking = None
        claim = peers.claim("disk", volumeName="v", accessModes=["ReadWriteOncePod"])
        claim["metadata"]["annotations"] = {storage.BIND_COMPLETED: "yes"}
        known = self.state.fleet.storage
        known.volume_claims.put(("default", "disk"), storage.parse_volume_claim(claim))
        known.volumes.put(("", "v"), storage.parse_volume({"metadata": {"name": "v"}, "spec": {}}))
        self.cycle = cycle.Cycle(self.state.fleet.policy)
        self.pods: list[cluster.Pod] = []
        self.binding: list[cluster.Pod] = []
        self.attempts: dict[str, int] = {}
        self.seq = 0
        for name in NODES:
            self.node(name)

    def node(self, name: str) -> None:
        labels = {"disk": "ssd"} if self.rng.random() < 0.5 else {}
        labels |= {"zone": self.rng.choice("ab")} if self.rng.random() < 0.8 else {}
        made = objects.make_node(
            name, labels=labels, unschedulable=self.rng.random() < 0.2,
            pod_limit=110 if self.is_roomy else self.rng.choice([3, 110]),
        )  # fmt: skip
        self.state.put_node(made)

    def booking(self, uid: str) -> reservations.Booking | None:
        record = self.state.records.find(uid)
        return None if record is None else record.booking

    def hear(self, name: str) -> None:
        self.seq += 1
        rng, find = self.rng, self.booking
        bound = [pod.uid for pod in self.pods if pod not in self.binding]
        covered = [uid for uid in bound if (booking := find(uid)) is not None and booking.node == name]
        keys = ("Job/default/job-0", "Job/default/job-1", messages.ANY_CLASS)
        classes = {
            key: messages.ClassCapacity(cost_plus={"cpu": rng.choice([0.5, 1.0, 2.0])}, pods=1)
            for key in rng.sample(keys, rng.randrange(4))
        }
        covers = frozenset(rng.sample(covered, rng.randrange(len(covered) + 1)))
        if self.is_roomy:
            said = objects.make_advertisement(
                name, rng.choice([0.0, 90.0]), seq=self.seq, pods=3, covers=frozenset(covered)
            )
        else:
            said = objects.make_advertisement(
                name, rng.choice([0.2, 0.9, 1.0, 3.0]), seq=self.seq, pods=rng.randrange(3),
                limit=rng.choice([None, 2]), headroom={"cpu": rng.choice([0.4, 1.0, 4.0])}, classes=classes,
                covers=covers,
            )  # fmt: skip
        self.state.put_advertisement(node_state.Heard(advertisement=said, sampled_s=self.now_s), self.now_s)

    def create(self) -> None:
        self.seq += 1
        kind = self.rng.choice(LIMITED if self.is_roomy else KINDS)
        owner = cluster.Owner(kind="Job", name=f"job-{self.rng.randrange(3)}", uid="u")
        pod = objects.make_pod(f"p{self.seq}", owner=owner, **kind)
        self.pods.append(pod)
        self.state.put_pod(pod, self.now_s)

    def label(self) -> None:
        """A namespace comes, goes or has other labels; one has no Pods."""
        name, team = self.rng.choice(["default", "other", "new"]), self.rng.choice(["red", "blue", ""])
        if team:
            self.state.demands.put_namespace(name, {"team": team}, self.now_s)
        else:
            self.state.demands.remove_namespace(name, self.now_s)

    def end(self) -> None:
        if self.pods:
            self.state.remove_pod(self.pods.pop(self.rng.randrange(len(self.pods))).uid)

    def change(self) -> None:
        """A Pod is shown on its node, or on another; or it runs, or its requests or labels change, or it leaves."""
        if self.pods:
            at, rng = self.rng.randrange(len(self.pods)), self.rng
            booking = self.booking(self.pods[at].uid)
            if booking is not None:
                changes: dict[str, Any] = rng.choice(
                    [
                        {}, {"node_name": rng.choice(NODES)}, {"phase": rng.choice(["Pending", "Running"])},
                        {"request_cores": 0.0}, {"request_cores": rng.choice([1.0, 3.0])}, {"labels": {}},
                        {"labels": {"app": "web"}}, {"is_mirror": rng.random() < 0.5}, {"deleting": True},
                    ]
                )  # fmt: skip
                self.pods[at] = self.pods[at]._replace(**{"node_name": booking.node, **changes})
                self.state.put_pod(self.pods[at], self.now_s)

    def wait(self) -> None:
        """Time passes: nodes go stale, or are suspect. That a fallback to requests begins so, the reporter finds."""
        if self.state.fleet.policy.fallback is policy.Fallback.WAIT:
            self.now_s += self.rng.choice([1.0, 4.0, 40.0])

    def come_out(self) -> None:
        """A bind fails, or is accepted."""
        if self.binding:
            uid = self.binding.pop().uid
            if self.rng.random() < 0.5:
                self.state.refuse(uid, self.attempts.pop(uid), self.now_s)
            else:
                self.state.confirm(uid, self.attempts.pop(uid))

    def follow(self) -> None:
        """What the scheduler does after each event."""
        view = self.state.fleet.snapshot(self.now_s)
        for placed in self.cycle.run(view, self.state.queue, most=1000).placed:
            uid = placed.waiting.pod.uid
            self.attempts[uid] = self.state.assume(placed.waiting, placed.row.node.name, self.now_s)
            self.binding.append(placed.waiting.pod)

    def check(self) -> None:
        view = self.state.fleet.snapshot(self.now_s)
        for waiting in self.state.queue.parked():
            assert self.cycle.explain(view, waiting.demand).best("") == snapshot.NO_NODE, waiting.demand


EVENTS = (
    "node", "leave", "hear", "hear", "hear", "create", "create", "create", "create", "end", "end", "change", "change",
    "change", "wait", "come_out", "label",
)  # fmt: skip
# Where other Pods decide, many are placed, and no node is unknown for long.
ROOMY_EVENTS = (
    "node", "leave", "hear", "hear", "hear", "hear", "create", "create", "create", "create", "end", "end", "change",
    "change", "change", "come_out", "label",
)  # fmt: skip


@hypothesis.settings(max_examples=100, deadline=None)
@hypothesis.given(
    seed=st.integers(0, 2**32), release=st.sampled_from(policy.Release), is_roomy=st.booleans(),
    # By requests any change lets everything be tried again.
    fallback=st.sampled_from([*policy.Fallback, policy.Fallback.WAIT, policy.Fallback.WAIT]),
)  # fmt: skip
def test_no_pod_that_fits_is_left_waiting(
    seed: int, fallback: policy.Fallback, release: policy.Release, is_roomy: bool
) -> None:
    rng = random.Random(seed)
    desk = Desk(rng, policy.Policy(fallback=fallback, release=release), is_roomy=is_roomy)
    for _ in range(60):
        desk.now_s += 0.01
        match rng.choice(ROOMY_EVENTS if is_roomy else EVENTS):
            case "node":
                desk.node(rng.choice(NODES))
            case "leave":
                desk.state.remove_node(rng.choice(NODES))
            case "hear":
                desk.hear(rng.choice(NODES))
            case "create":
                desk.create()
            case "end":
                desk.end()
            case "change":
                desk.change()
            case "wait":
                desk.wait()
            case "label":
                desk.label()
            case _:
                desk.come_out()
        desk.follow()
        desk.check()


def test_a_new_namespace_costs_the_pods_of_others_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each that came computed the demands of all waiting Pods again, and all counts: 0.2 s with 10,000 Pods."""
    made = state.State(policy.Policy(), random.Random(0))
    made.fleet.pod_counts.lacking = None
    made.put_node(objects.make_node("a", labels={"zone": "x"}))
    made.put_pod(objects.make_pod("runs", node_name="a", constraints=APART_FROM_RED), 1000.0)
    made.put_pod(objects.make_pod("waits", labels={"app": "web"}, constraints=TOGETHER), 1000.0)
    view = made.fleet.snapshot(1000.0)
    assert not cycle.Cycle(made.fleet.policy).run(view, made.queue, most=10).placed
    kept = list(made.fleet.pod_counts._answers)
    computed: list[str] = []
    demand_of = made.queue._demand_of

    def counted(pod: cluster.Pod) -> demands.Demand:
        computed.append(pod.name)
        return demand_of(pod)

    monkeypatch.setattr(made.queue, "_demand_of", counted)
    made.demands.put_namespace("new", {"team": "red"}, 1000.0)
    assert kept and list(made.fleet.pod_counts._answers) == kept
    assert computed == [] and len(made.queue.parked()) == 1
    made.demands.put_namespace("default", {"team": "red"}, 1000.0)
    assert computed == ["waits"] and not made.fleet.pod_counts.is_asked


def test_pods_that_constraints_do_not_ask_about_let_nothing_be_tried_again() -> None:
    """With 500 Pods that wait for others in vain, each Pod that came, went or was labelled took a tenth of a second."""
    made = state.State(policy.Policy(), random.Random(0))
    made.fleet.pod_counts.lacking = None
    made.put_node(objects.make_node("a", labels={"zone": "x"}))
    near, apart = TOGETHER.affinity[0], constraints.Constraints(anti_affinity=(NEAR_WEB,))
    waiting = {
        "near": constraints.Constraints(affinity=(near,)), "apart": apart, "spread": SPREAD, "port": PORT,
        "repelled": None,
    }  # fmt: skip
    repels = constraints.Constraints(
        anti_affinity=(constraints.PodTerm(topology_key="zone", selector=WEB, namespaces=("default",)),)
    )
    made.put_pod(objects.make_pod("repels", node_name="a", constraints=repels), 1000.0)
    for name, own in waiting.items():
        labels = {"app": "web"} if name == "repelled" else {}
        made.put_pod(objects.make_pod(name, labels=labels, constraints=own), 1000.0)

    def tried() -> set[str]:
        view = made.fleet.snapshot(1000.0)
        return {each.pod.name for each in cycle.Cycle(made.fleet.policy).run(view, made.queue, most=10).unplaced}

    assert tried() == {*waiting}
    other = objects.make_pod("other", node_name="a", labels={"app": "db"})
    made.put_pod(other, 1000.0)
    made.put_pod(other._replace(labels={"app": "db", "new": "yes"}), 1000.0)
    made.remove_pod(other.uid)
    assert tried() == set()
    web = objects.make_pod("web", node_name="a", labels={"app": "web"})
    made.put_pod(web, 1000.0)
    assert tried() == {"near", "spread"}
    made.put_pod(web._replace(labels={}), 1000.0)
    assert tried() == {"near", "apart", "spread"}
    made.put_pod(web, 1000.0)
    assert tried() == {"near", "apart", "spread"}
    made.remove_pod(web.uid)
    assert tried() == {"near", "apart", "spread"}
    made.put_pod(objects.make_pod("holds", node_name="a", constraints=PORT), 1000.0)
    made.remove_pod("uid-holds")
    assert tried() == {"port"}
    made.remove_pod("uid-repels")
    assert tried() == {"repelled"}


def test_pods_spread_by_default_wait_for_room_like_others() -> None:
    """Another Pod that ends cannot help them: their spread refuses no node."""
    made = state.State(policy.Policy(default_spread=True), random.Random(0))
    made.put_node(objects.make_node("a", labels={"kubernetes.io/hostname": "a"}))
    full = objects.make_advertisement("a", 0.0, pods=1)
    made.put_advertisement(node_state.Heard(advertisement=full, sampled_s=1000.0), 1000.0)
    owner = cluster.Owner(kind="ReplicaSet", name="web-5d4f8c7b9", uid="rs")
    runs = objects.make_pod("runs", node_name="a", phase="Running")
    made.put_pod(runs, 1000.0)
    made.put_pod(objects.make_pod("waits", owner=owner, labels={"app": "web"}), 1000.0)
    assert not cycle.Cycle(made.fleet.policy).run(made.fleet.snapshot(1000.0), made.queue, most=10).placed
    (waiting,) = made.queue.parked()
    assert waiting.demand.constraints is not None
    assert waiting.demand.constraints.default_spreads
    made.put_pod(runs._replace(labels={"app": "web"}), 1000.0)
    made.put_node(objects.make_node("a", labels={"kubernetes.io/hostname": "a", "new": "yes"}))
    made.remove_pod("uid-runs")
    assert made.queue.parked() == [waiting]


def test_a_pod_that_ends_asks_once_for_all_classes_that_its_node_does_not_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 10,000 Jobs that wait, each end of a Pod took 20 to 70 ms of CPU time."""
    made, asked, real = state.State(policy.Policy(), random.Random(0)), [], headroom.NodeRoom.free

    def counted(room: headroom.NodeRoom, pod_class: str) -> float:
        asked.append(pod_class)
        return real(room, pod_class)

    made.put_node(objects.make_node())
    costs = {
        key: messages.ClassCapacity(cost_plus={"cpu": cost}, pods=1)
        for key, cost in [(messages.ANY_CLASS, 9.0), ("Job/default/small", 0.1)]
    }
    said = objects.make_advertisement(headroom={"cpu": 0.5}, classes=costs, pods=1)
    made.put_advertisement(node_state.Heard(advertisement=said, sampled_s=0.0), 0.0)
    made.put_pod(objects.make_pod("runs", node_name="node-0", phase="Running"), 0.0)
    for name in [*(f"job-{index}x" for index in range(100)), "small"]:
        owner = cluster.Owner(kind="Job", name=name, uid=name)
        made.put_pod(objects.make_pod(name, owner=owner), 0.0)
    while (waiting := made.queue.take(0.0)) is not None:
        made.queue.park(waiting)
    monkeypatch.setattr(headroom.NodeRoom, "free", counted)
    made.remove_pod("uid-runs")
    assert len(asked) == 2 and len(made.queue.parked()) == 100
    woken = made.queue.take(0.0)
    assert woken is not None and woken.pod.name == "small"


@pytest.mark.parametrize("event", ["end", "advertisement", "node"])
def test_a_change_wakes_no_pod_that_its_node_refuses(event: str) -> None:
    """Thousands of Pods that no node takes were tried on every node whenever a Pod ended on one with room."""
    made = state.State(policy.Policy(), random.Random(0))
    node = objects.make_node(labels={"disk": "ssd"}, allocatable_cores=2.0)
    made.put_node(node)
    heard = [
        node_state.Heard(advertisement=objects.make_advertisement(capacity=room, seq=seq, pods=1), sampled_s=0.0)
        for seq, room in enumerate([0.0, 3.0])
    ]
    made.put_advertisement(heard[event != "advertisement"], 0.0)
    made.put_pod(objects.make_pod("runs", node_name="node-0", phase="Running", request_cores=0.5), 0.0)
    other = selectors.Requirement(key="disk", operator=selectors.IN, values=("hdd",))
    kinds: dict[str, dict[str, object]] = {
        "fits": {"node_selector": {"disk": "ssd"}, "constraints": ON_SSD, "request_cores": 1.0},
        "large": {"request_cores": 3.0},
        "selects": {"node_selector": {"disk": "hdd"}},
        "prefers": {"constraints": constraints.Constraints(node_terms=(selectors.NodeTerm(labels=(other,)),))},
    }
    for name, kind in kinds.items():
        made.put_pod(objects.make_pod(name, **kind), 0.0)
    while (waiting := made.queue.take(0.0)) is not None:
        made.queue.park(waiting)
    match event:
        case "end":
            made.remove_pod("uid-runs")
        case "advertisement":
            made.put_advertisement(heard[1], 0.0)
        case _:
            made.put_node(dataclasses.replace(node, labels={"disk": "ssd", "zone": "a"}))
    assert {each.pod.name for each in made.queue.parked()} == kinds.keys() - {"fits"}
