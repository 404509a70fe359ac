"""Preemption for what other Pods on a node refuse besides room: host ports, anti-affinity, spread."""

import asyncio
from typing import Any

import pytest

from carico_core.wire.kubernetes import instants
from tests.unit.scheduler import objects, world

HOST = "kubernetes.io/hostname"
GROUP = {"matchLabels": {"app": "a"}}
PORT = {"containers": [{"name": "main", "image": "pi", "ports": [{"hostPort": 80, "containerPort": 80}]}]}
TERM = {"topologyKey": HOST, "labelSelector": GROUP}
APART = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}}
SPREAD = {
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": GROUP}
    ]
}


class Desk:
    """Nodes, usually two with more room than a test needs, and where Pods of one group are on them."""

    def __init__(self, *, room: float = 10.0, nodes: int = 2) -> None:
        self.world = world.World(room=room)
        self.nodes = nodes
        self.world.pod_s = (10_000.0, 10_000.0)

    async def start(self, *pods: tuple[str, int, str], **spec: Any) -> None:
        """Run these Pods: name, priority and node."""
        await self.world.start(nodes=self.nodes)
        for name, priority, node in pods:
            self.create(name, priority, nodeSelector={HOST: node}, **spec)
        await asyncio.sleep(5.0)
        assert self.running() == {name: node for name, _, node in pods}

    def create(self, name: str, priority: int, **spec: Any) -> None:
        """Create a Pod of the group."""
        made = objects.pod_object(name, priority=priority, **spec)
        made["metadata"]["labels"] = {"app": "a"}
        self.world.kube.objects.create("pods", made, "test")

    def running(self) -> dict[str, str]:
        """Return the node of each running Pod."""
        found = (pod for pod in self.world.pods() if pod["status"].get("phase") == "Running")
        return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in found}


@pytest.mark.parametrize("spec", [PORT, APART], ids=["host port", "anti-affinity"])
def test_the_pod_of_lowest_priority_that_is_in_the_way_goes(spec: dict[str, Any]) -> None:
    async def main() -> None:
        desk = Desk()
        await desk.start(("dear", 5, "node-0"), ("cheap", 1, "node-1"), **spec)
        desk.create("high", 10, **spec)
        await asyncio.sleep(10.0)
        assert desk.running() == {"dear": "node-0", "high": "node-1"}
        desk.create("low", 1, **spec)
        await asyncio.sleep(20.0)
        assert desk.running() == {"dear": "node-0", "high": "node-1"}, "both that remain are of higher priority"
        await desk.world.stop()

    objects.run_fast(main())


def asking(cores: str) -> dict[str, Any]:
    """Containers that request this much, of the 4 cores of a node."""
    return {"containers": [{"name": "main", "image": "pi", "resources": {"requests": {"cpu": cores}}}]}


def test_as_many_go_as_the_spread_requires() -> None:
    async def main() -> None:
        desk = Desk()
        await desk.start(("low-0", 0, "node-1"), ("low-1", 0, "node-1"), ("low-2", 0, "node-1"), **asking("1"))
        desk.create("high", 10, nodeSelector={HOST: "node-0"}, **asking("4"))
        await asyncio.sleep(5.0)
        desk.create("middle", 5, **SPREAD, **asking("2"))
        await asyncio.sleep(10.0)
        found = desk.running()
        assert (found.pop("high"), found.pop("middle")) == ("node-0", "node-1")
        assert len(found) == 1, "its requests need one to go; with two left, three would be too many next to one"
        await desk.world.stop()

    objects.run_fast(main())


def test_pods_that_leave_anyway_are_waited_for_next_to_the_victims() -> None:
    """The room of each victim was held in vain and went to the next Pod of low priority, which then went, too."""

    async def main() -> None:
        desk = Desk(nodes=1)
        await desk.start(("leaving", 0, "node-0"), ("victim", 0, "node-0"), **asking("2"))
        leaving = desk.world.kube.objects.get("pods", ("default", "leaving"), "test")
        ends_at_ns = desk.world.clock.wall_ns() + 55 * 10**9
        leaving["metadata"]["deletionTimestamp"] = instants.format_time(ends_at_ns)
        desk.world.kube.objects.update("pods", ("default", "leaving"), leaving, "test")
        for index in range(6):
            desk.create(f"more-{index}", 0, **asking("2"))
        desk.create("high", 10, **asking("4"))
        await asyncio.sleep(55.0)
        assert desk.running() == {"leaving": "node-0"}
        desk.world.kube.objects.delete("pods", ("default", "leaving"), {}, "test")
        await asyncio.sleep(5.0)
        assert desk.running() == {"high": "node-0"}
        deleted = [each for each in desk.world.kube.requests if each.startswith("DELETE")]
        assert deleted == ["DELETE /api/v1/namespaces/default/pods/victim"]
        await desk.world.stop()

    objects.run_fast(main())


def test_no_pod_goes_for_a_second_one_that_the_first_excludes() -> None:
    async def main() -> None:
        desk = Desk(room=2.0, nodes=1)
        await desk.start(("low-0", 0, "node-0"), ("low-1", 1, "node-0"))
        for name in ("high-0", "high-1"):
            desk.create(name, 10, **PORT)
        await asyncio.sleep(30.0)
        left = set(desk.running()) - {"high-0", "high-1"}
        assert left == {"low-1"}, "both of the others have the same host port"
        assert len(desk.running()) == 2
        await desk.world.stop()

    objects.run_fast(main())


def test_no_pod_goes_where_the_obstacle_is_on_another_node() -> None:
    async def main() -> None:
        desk = Desk()
        await desk.start(("near", 0, "node-0"))
        zone = {"topologyKey": "zone", "labelSelector": GROUP}
        for index in range(2):
            node = desk.world.kube.objects.get("nodes", ("", f"node-{index}"), "test")
            node["metadata"]["labels"]["zone"] = "z"
            desk.world.kube.objects.update("nodes", ("", f"node-{index}"), node, "test")
        apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [zone]}}
        desk.create("high", 10, affinity=apart, nodeSelector={HOST: "node-1"})
        await asyncio.sleep(20.0)
        assert desk.running() == {"near": "node-0"}
        await desk.world.stop()

    objects.run_fast(main())


@pytest.mark.parametrize(
    "is_own", [pytest.param(True, id="its anti-affinity"), pytest.param(False, id="that of the others")]
)
def test_those_that_come_meanwhile_do_not_go_where_anti_affinity_keeps_them_from_the_pod(*, is_own: bool) -> None:
    """As kube-scheduler, which counts nominated Pods when it filters others; else victims go in vain without end."""

    async def main() -> None:
        desk = Desk(nodes=1)
        await desk.start(("low", 0, "node-0"), **({} if is_own else APART))
        desk.world.kube.is_graceful = True
        desk.create("high", 10, **(APART if is_own else {}))
        for index in range(4):
            await asyncio.sleep(2.0)
            desk.create(f"next-{index}", 0, **({} if is_own else APART))
        desk.world.kube.objects.delete("pods", ("default", "low"), {}, "test")
        await asyncio.sleep(10.0)
        assert desk.running() == {"high": "node-0"}
        assert [each for each in desk.world.kube.requests if each.startswith("DELETE")] == [
            "DELETE /api/v1/namespaces/default/pods/low"
        ]
        await desk.world.stop()

    objects.run_fast(main())
