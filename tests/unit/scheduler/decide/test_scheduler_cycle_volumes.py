"""Pods whose volumes are chosen together with their nodes, several in one cycle."""

import asyncio
import dataclasses
import random
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from carico_core.domain import constraints, gangs, selectors, storage
from carico_scheduler.bind import volume_binding
from carico_scheduler.decide import cycle
from carico_scheduler.nodes import storage as storages
from carico_scheduler.rules import policy
from carico_scheduler.state.state import State
from tests.unit.scheduler import objects

MADE, LOCAL = "made", "local"
NODES = ("node-0", "node-1", "node-2")


class Desk:
    """Nodes with room, and Pods with claims; volumes of the class MADE are made where a Pod goes."""

    def __init__(self, room: float = 9.0) -> None:
        self.state = State(policy.Policy(), random.Random(0))
        self.cycle = cycle.Cycle(policy.Policy())
        self.known = self.state.fleet.storage
        for name in NODES:
            self.state.put_node(objects.make_node(name))
            self.state.fleet.put_advertisement(objects.make_advertisement(name, room), 0.0)
        for name, maker in ((MADE, "csi"), (LOCAL, storage.NO_PROVISIONER)):
            found = storage.StorageClass(name=name, provisioner=maker, waits_for_consumer=True, topologies=())
            self.known.classes.put(("", name), found)

    def volume(self, name: str, node: str) -> None:
        """A free volume that can be used on a node."""
        there = selectors.Requirement(key=selectors.NAME_FIELD, operator=selectors.IN, values=(node,))
        made = storage.Volume(
            name=name, uid=f"u-{name}", resource_version="1", storage_class=LOCAL, labels={}, claim=None,
            node_terms=(selectors.NodeTerm(fields=(there,)),), is_available=True, deleting=False,
            access_modes=("ReadWriteOnce",), volume_mode="Filesystem", attributes_class="", size_bytes=1.0, driver="",
            handle="",
        )  # fmt: skip
        self.known.volumes.put(("", name), made)

    def pod(self, name: str, claim: str, of: str, gang: gangs.PodGang | None = None) -> None:
        """A Pod with an unbound claim."""
        made = storage.VolumeClaim(
            namespace="default", name=claim, uid=f"u-{claim}", resource_version="1", storage_class=of, volume="",
            is_bound=False, is_lost=False, deleting=False, selected_node="", access_modes=("ReadWriteOnce",),
            volume_mode="Filesystem", attributes_class="", size_bytes=1.0, selector=(), owner_uid="",
        )  # fmt: skip
        self.known.volume_claims.put(("default", claim), made)
        limits = constraints.Constraints(volume_claims=(constraints.VolumeClaimUse(namespace="default", name=claim),))
        self.state.put_pod(objects.make_pod(name, gang=gang, constraints=limits), 0.0)

    def gang(self, claims: list[str], of: str) -> None:
        """Pods that need each other, each with one of the claims."""
        member = gangs.PodGang(gangs.Key("default", "g"), gangs.Asks(len(claims)))
        for index, claim in enumerate(claims):
            self.pod(f"g-{index}", claim, of, gang=member)

    def made(self, name: str, claim: str) -> None:
        """The API shows a volume that was made for a claim."""
        reference = storage.ClaimRef(namespace="default", name=claim, uid=f"u-{claim}")
        self.volume(name, NODES[0])
        found = self.known.volumes.find(name)
        assert found is not None
        self.known.volumes.put(("", name), dataclasses.replace(found, claim=reference, is_available=False))
        self.state.volume_changed(name)

    def run(self, most: int = 1000) -> dict[str, str]:
        """Run one cycle, reserve what it has placed, and return the node of each Pod."""
        made = self.cycle.run(
            self.state.fleet.snapshot(1.0), self.state.queue, most=most, gangs=self.state.waiting_gangs
        )
        binding: Any = volume_binding.VolumeBinding(None, self.state.fleet)  # type: ignore[arg-type]
        for each in made.placed:
            self.state.assume(each.waiting, each.row.node.name, 1.0)
            binding.preparation(each.waiting.pod, each.row, may_write=lambda: True)
        return {each.waiting.pod.name: each.row.node.name for each in made.placed}


def test_the_pods_of_a_gang_get_volumes_made_together() -> None:
    desk = Desk(room=1.0)
    desk.gang(["a", "b", "c"], MADE)
    assert sorted(desk.run().values()) == list(NODES)


@pytest.mark.parametrize("volumes", [1, 2])
def test_a_gang_is_placed_where_there_is_a_volume_for_each_of_its_pods(volumes: int) -> None:
    desk = Desk()
    for index in range(volumes):
        desk.volume(f"v-{index}", f"node-{index + 1}")
    desk.gang(["a", "b"], LOCAL)
    assert sorted(desk.run().values()) == (["node-1", "node-2"] if volumes == 2 else [])


def test_pods_that_share_a_claim_go_to_the_node_for_which_its_volume_is_made() -> None:
    desk = Desk()
    desk.gang(["shared", "shared", "shared"], MADE)
    assert len(set(desk.run().values())) == 1


@hypothesis.given(
    volumes=st.lists(st.sampled_from(NODES), max_size=4),
    pods=st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from([MADE, LOCAL])), max_size=6),
    room=st.sampled_from([1.0, 9.0]),
)
def test_one_cycle_places_what_a_cycle_for_each_pod_places(
    volumes: list[str], pods: list[tuple[str, str]], room: float
) -> None:
    found = []
    for most in (1000, 1):
        desk = Desk(room)
        for index, node in enumerate(volumes):
            desk.volume(f"v-{index}", node)
        for index, (claim, of) in enumerate(pods):
            desk.pod(f"p-{index}", f"{claim}-{of}", of)
        placed: dict[str, str] = {}
        for _ in range(len(pods) + 1):
            placed |= desk.run(most)
        found.append((placed, desk.known._kept, desk.known._chosen))
    assert found[0] == found[1]


def test_a_change_of_one_claim_wakes_no_pod_that_waits_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 150 Pods that wait for their volumes, each change of one woke all of them: .4 s, and 20 s with 1,000."""

    class Api:
        async def request(self, method: str, path: str, **more: Any) -> Any:
            """Do nothing."""

    looked: list[str] = []
    never_bound = storages.Storage.never_bound

    def counted(self: storages.Storage, uses: tuple[constraints.VolumeClaimUse, ...]) -> str | None:
        looked.extend(each.name for each in uses)
        return never_bound(self, uses)

    async def main() -> None:
        desk = Desk()
        binding = volume_binding.VolumeBinding(Api(), desk.state.fleet)
        desk.state.on_volumes = binding.notify
        for name in "abc":
            desk.pod(f"p-{name}", name, MADE)
        placed = desk.cycle.run(desk.state.fleet.snapshot(1.0), desk.state.queue, most=9).placed
        steps = [binding.preparation(each.waiting.pod, each.row, may_write=lambda: True) for each in placed]
        tasks = [asyncio.ensure_future(step()) for step in steps if step is not None]

        async def woken() -> list[str]:
            await asyncio.sleep(0.1)
            found, looked[:] = sorted(looked), []
            return found

        assert await woken() == ["a", "b", "c"]
        desk.state.volumes_changed(("default", "b"))
        assert await woken() == ["b"]
        desk.made("v", "c")
        assert await woken() == ["c"]
        desk.volume("free", NODES[1])
        desk.state.volume_changed("free")
        assert await woken() == []
        desk.known.volumes.remove(("", "v"))
        desk.state.volume_changed("v")
        assert await woken() == ["a", "b", "c"]
        await asyncio.sleep(volume_binding.CHECK_EVERY_S)
        assert await woken() == ["a", "b", "c"]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert not binding._waiting

    monkeypatch.setattr(storages.Storage, "never_bound", counted)
    objects.run_fast(main())
