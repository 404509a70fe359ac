"""Nodes that are ruled out before a search are nodes on which the search would find nothing."""

import random
from typing import Any

import hypothesis
from hypothesis import strategies as st

from carico_core.domain import cluster
from carico_core.runtime.process import clock as clocks
from carico_scheduler.decide import turns
from carico_scheduler.pods import demand as demands
from carico_scheduler.preempt import evictable, search
from carico_scheduler.rules import policy
from carico_scheduler.state import node_state, state
from tests.unit.scheduler import objects

NODES = tuple(f"node-{index}" for index in range(4))


class Desk:
    """A state to which things happen, and a search over it."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.clock = clocks.FakeClock(monotonic_s=1000.0)
        self.state = state.State(policy.Policy(max_pods_per_core=1.0), rng)
        self.made = 0
        self.seq = 0
        held = turns.Turns(self.state.fleet, self.state.queue)
        self.search = search.Search(self.state, clock=self.clock, rng=rng, turns=held)
        for name in NODES:
            self.node(name)
            self.hear(name)

    def node(self, name: str) -> None:
        self.state.put_node(objects.make_node(name, pod_limit=self.rng.choice([2, 110])))

    def hear(self, name: str) -> None:
        self.seq += 1
        capacity, more = self.rng.choice([0.0, 0.4, 1.5]), {"limit": self.rng.choice([None, 1, 3])}
        covers = frozenset(each.uid for each in self.state.pods() if self.rng.random() < 0.7)
        said = objects.make_advertisement(
            name, capacity, seq=self.seq, pods=self.rng.randrange(3), covers=covers, **more
        )
        self.state.put_advertisement(node_state.Heard(advertisement=said, sampled_s=1000.0), 1000.0)

    def pod(self) -> None:
        self.made += 1
        namespace = self.rng.choice(["default", "default", "kube-system"])
        self.put(
            objects.make_pod(
                f"p{self.made}", namespace=namespace, node_name=self.rng.choice(NODES), phase="Running",
                priority=self.rng.randrange(4), request_cores=self.rng.choice([0.0, 0.7, 2.0]),
                request_bytes=self.rng.choice([0.0, 3e9]), deleting=self.rng.random() < 0.2,
            )
        )  # fmt: skip

    def put(self, pod: cluster.Pod) -> None:
        self.state.put_pod(pod, 1000.0)

    def change(self) -> None:
        """Something happens."""
        pods = self.state.pods()
        match self.rng.randrange(7):
            case 0 if pods:
                self.put(self.rng.choice(pods)._replace(deleting=True))
            case 1 if pods:
                self.state.remove_pod(self.rng.choice(pods).uid)
            case 2:
                self.state.remove_node(self.rng.choice(NODES))
            case 3:
                self.node(self.rng.choice(NODES))
            case 4:
                self.hear(self.rng.choice(NODES))
            case _:
                self.pod()

    def check(self) -> int:
        """Compare with the search itself, node by node; return how many nodes were ruled out."""
        out = 0
        for priority in (1, 3):
            wanted: dict[str, Any] = {"request_cores": self.rng.choice([0.0, 1.0, 3.0]), "request_bytes": 0.0}
            wanted["request_bytes"] = self.rng.choice([0.0, 4e9])
            kind = search.AlikePods(demands.Demand(pod_class="any", **wanted), priority)
            view = self.state.fleet.snapshot(1000.0)
            mask = self.state.evictable.may_give_way(kind.demand, priority, view, by_capacity=True)
            fresh = evictable.Evictable(self.state)
            again = fresh.may_give_way(kind.demand, priority, view, by_capacity=True)
            assert mask.tolist() == again.tolist(), "a change was missed"
            scores, free = self.search.scores(kind)
            if free is not None:
                continue
            for slot in range(len(view.present)):
                choice = self.search.on_slot(slot, kind, scores)
                assert choice is None or mask[slot], choice
                out += not mask[slot]
        return out


@hypothesis.given(seed=st.integers(0, 2**32 - 1))
@hypothesis.settings(max_examples=60)
def test_no_node_is_ruled_out_that_would_give_way_whatever_happens(seed: int) -> None:
    desk = Desk(random.Random(seed))
    for _ in range(30):
        desk.change()
        desk.check()


def test_a_cluster_with_one_evictable_pod_is_searched_on_one_node() -> None:
    desk = Desk(random.Random(0))
    for index, name in enumerate(NODES):
        desk.put(objects.make_pod(f"a{index}", node_name=name, phase="Running", priority=5 * (index != 2)))
    view = desk.state.fleet.snapshot(1000.0)
    mask = desk.state.evictable.may_give_way(demands.Demand(), 3, view, by_capacity=False)
    assert mask.tolist() == [False, False, True, False]


def test_sums_are_read_in_parts() -> None:
    desk = Desk(random.Random(0))
    for index in range(3 * evictable.READ_AT_ONCE):
        desk.state.put_node(objects.make_node(f"more-{index}"))
    view, parts = desk.state.fleet.snapshot(1000.0), 0
    while desk.state.evictable.read_some(3, view):
        parts += 1
    # The rest is read with the next question.
    assert parts == 3
    assert len(desk.state.evictable._kept[3].stale) == len(NODES)
    desk.check()
