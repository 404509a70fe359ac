"""A fleet of played nodes: what each is said to take follows from the Pods that the API shows on it."""

from typing import Any

from carico_core.domain import errors
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_local.played_nodes import agents, nodes


def pod(uid: str, node: str | None, phase: str = "Running") -> dict[str, Any]:
    return {"metadata": {"uid": uid}, "spec": {"nodeName": node} if node else {}, "status": {"phase": phase}}


def stamp(now_s: float, seq: int = 1) -> agents.Stamp:
    return agents.Stamp(boot="17979cfe362a0001", seq=seq, ts_ns=10**18, now_s=now_s)


def test_capacity_falls_with_each_pod_and_rises_when_it_ends() -> None:
    kept = agents.Agents(["n1", "n2"], capacity=4)
    assert kept.on_list([pod("a", "n1"), pod("b", "n1"), pod("c", "elsewhere")], 0.0) == {"n1"}
    told = kept.advertisement("n1", stamp(0.0))
    assert (told.capacity, told.pods, told.covers) == (2.0, 2, frozenset("ab"))
    assert kept.on_pod(pod("a", "n1"), 1.0) is None
    assert kept.on_pod(pod("a", "n1", "Succeeded"), 1.0) == "n1"
    told = kept.advertisement("n1", stamp(2.0))
    assert (told.capacity, told.pods, told.covers) == (3.0, 1, frozenset("ab"))
    assert kept.advertisement("n1", stamp(2.0 + agents.COVERED_S)).covers == frozenset("b")
    assert kept.advertisement("n2", stamp(0.0)).capacity == 4.0


def test_pods_that_vanish_unseen_or_before_they_run_leave_their_node() -> None:
    kept = agents.Agents(["n1"], capacity=1)
    assert kept.on_pod(pod("a", "n1", "Pending"), 0.0) == "n1"
    assert kept.on_removed(pod("a", "n1"), 0.0) == "n1"
    assert kept.on_removed(pod("a", "n1"), 0.0) is None
    kept.on_pod(pod("b", "n1"), 0.0)
    kept.on_pod(pod("c", "n1"), 0.0)
    assert kept.advertisement("n1", stamp(0.0)).capacity == 0.0
    assert kept.on_list([pod("c", "n1")], 1.0) == {"n1"}
    assert kept.advertisement("n1", stamp(1.0)).pods == 1


def test_what_is_said_is_a_message_that_every_reader_takes() -> None:
    kept = agents.Agents(["n1"], capacity=4)
    kept.on_pod(pod("0e7f3c1a-0000-4000-8000-000000000001", "n1"), 0.0)
    told = kept.advertisement("n1", stamp(0.0))
    assert wire.decode_advertisement(wire.encode_advertisement(told), subject=subjects.capacity("n1")) == told


class Api:
    """Takes Nodes; some are there already."""

    def __init__(self, *taken: str) -> None:
        self.names = set(taken)

    async def request(self, method: str, path: str, *, body: Any = None) -> Any:
        name = body["metadata"]["name"]
        if name in self.names:
            raise errors.Conflict(status=409, reason="AlreadyExists", message=name, request=f"{method} {path}")
        self.names.add(name)
        return body


async def test_nodes_that_are_there_already_stay() -> None:
    api = Api("node-2")
    assert await nodes.create(api, 40, cores=4, pods=110) == 39
    assert api.names == set(nodes.names(40))
