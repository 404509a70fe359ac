"""Claims are bound for the node chosen before the Pod is, and what cannot be is decided on again."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from carico_core.domain import cluster, errors
from carico_core.domain import storage as storage_objects
from carico_core.wire.kubernetes import storage as parse
from carico_scheduler.bind import volume_binding
from carico_scheduler.decide import cycle
from carico_scheduler.nodes import storage, volume_placement
from carico_scheduler.rules import policy
from carico_scheduler.state import state
from tests.tools.memory import memory_objects
from tests.unit.scheduler import objects, world
from tests.unit.scheduler.rules import test_scheduler_peers as peers

NOW_S = 1000.0
Object = dict[str, Any]
DISK = [{"name": "v", "persistentVolumeClaim": {"claimName": "disk"}}]


class Api:
    """Takes patches, and does with each what `then` says."""

    def __init__(self, then: Callable[[str, Any], None] = lambda path, body: None) -> None:
        self.patches: list[tuple[str, Any]] = []
        self.then = then

    async def request(self, method: str, path: str, *, params: Any = None, body: Any = None,
                      content_type: str = "", timeout_s: float = 10.0) -> Any:  # fmt: skip
        """Do nothing."""
        assert (method, content_type) == ("PATCH", "application/merge-patch+json")
        self.patches.append((path, body))
        self.then(path, body)


class Site:
    """A cluster of nodes a and b with one claim, and what binds it."""

    def __init__(self, *, provisioner: str = "csi.example.com", **claim: Any) -> None:
        self.state = state.State(policy.Policy(fallback=policy.Fallback.REQUESTS), random.Random(0))
        self.state.put_nodes([peers.node("a"), peers.node("b")])
        self.known = self.state.fleet.storage
        self.put_class(provisioner)
        self.claim(**claim)
        self.pod = peers.pod("user", volumes=DISK)
        self.may_write = True
        self.api = Api()
        self.claims = volume_binding.VolumeBinding(self.api, self.state.fleet)

    def put_class(self, provisioner: str) -> None:
        found = {"metadata": {"name": "later"}, "provisioner": provisioner,
                 "volumeBindingMode": "WaitForFirstConsumer"}  # fmt: skip
        self.known.classes.put(("", "later"), parse.parse_class(found))

    def claim(self, annotations: dict[str, str] | None = None, **spec: Any) -> None:
        obj = peers.claim("disk", **spec)
        obj["metadata"]["annotations"] = annotations or {}
        self.known.volume_claims.put(("default", "disk"), parse.parse_volume_claim(obj))

    def volume(self, name: str, *nodes: str, size: str = "1Gi", phase: str = "Available") -> None:
        values = {"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}
        affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [values]}]}}
        obj = {
            "metadata": {"name": name, "resourceVersion": "7"}, "status": {"phase": phase},
            "spec": {"storageClassName": "later", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": size},
                     "nodeAffinity": affinity},
        }  # fmt: skip
        self.known.volumes.put(("", name), parse.parse_volume(obj))

    def bind(self, volume: str, node: str = "a") -> None:
        """What the controllers do in the end."""
        self.volume(volume, node, phase="Bound")
        self.claim({parse.BIND_COMPLETED: "yes"}, volumeName=volume)
        self.claims.notify()

    def feasible(self) -> list[str]:
        board = cycle.Cycle(self.state.fleet.policy).explain(self.view, self.state.demand_of(self.pod))
        return [self.view.row(slot).node.name for slot, score in enumerate(board.values) if score > float("-inf")]

    @property
    def view(self) -> Any:
        return self.state.fleet.snapshot(NOW_S)

    async def bind_claims(self, plan: storage.Plan | None) -> None:
        await self.claims.bind(self.pod, "a", plan, may_write=lambda: self.may_write)

    def plan(self, node: str = "a") -> storage.Plan:
        slot = self.state.fleet.slot_of(node)
        assert slot is not None
        assert self.pod.constraints is not None
        found = volume_placement.plan(self.view, self.pod.constraints.volume_claims, slot)
        assert found is not None
        self.known.promise(found, node)
        return found


def run(work: Callable[[], Any]) -> None:
    objects.run_fast(work())


def test_a_volume_is_made_for_the_node_chosen() -> None:
    async def main() -> None:
        site = Site()
        assert site.feasible() == ["a", "b"]
        plan = site.plan()
        # Promised already: another Pod that shares the claim can only go to the same node.
        assert site.feasible() == ["a"]
        work = asyncio.create_task(site.bind_claims(plan))
        await asyncio.sleep(1.0)
        path, body = site.api.patches.pop()
        assert path == "/api/v1/namespaces/default/persistentvolumeclaims/disk"
        assert body["metadata"] == {"annotations": {parse.SELECTED_NODE: "a"}, "resourceVersion": "1"}
        assert not work.done()
        site.claim({parse.SELECTED_NODE: "a"})
        site.claims.notify()
        await asyncio.sleep(1.0)
        assert not work.done()
        site.bind("made")
        await work
        assert site.feasible() == ["a"]

    run(main)


def test_the_smallest_volume_that_fits_is_kept_for_the_claim() -> None:
    async def main() -> None:
        site = Site(provisioner="kubernetes.io/no-provisioner", resources={"requests": {"storage": "1Gi"}})
        assert site.feasible() == []
        site.volume("large", "a", size="8Gi")
        site.volume("small", "a", size="2Gi")
        site.volume("tiny", "a", "b", size="1Mi")
        assert site.feasible() == ["a"]
        plan = site.plan()
        site.api.then = lambda path, body: site.bind("small")
        await site.bind_claims(plan)
        ((path, body),) = site.api.patches
        assert path == "/api/v1/persistentvolumes/small"
        assert body["metadata"] == {"resourceVersion": "7", "annotations": {parse.BOUND_BY_CONTROLLER: "yes"}}
        assert body["spec"]["claimRef"]["uid"] == "uid-disk"

    run(main)


def test_a_volume_promised_to_one_claim_is_offered_to_no_other() -> None:
    site = Site(provisioner="kubernetes.io/no-provisioner")
    site.volume("only", "a")
    plan = site.plan()
    other = parse.parse_volume_claim(peers.claim("other"))
    assert site.known.candidates(other) == []
    site.known.release(plan)
    assert [volume.name for volume in site.known.candidates(other)] == ["only"]


@pytest.mark.parametrize("why", ["given back", "refused", "too late", "deposed", "no plan"])
def test_what_cannot_be_bound_is_decided_on_again(why: str) -> None:
    async def main() -> None:
        site = Site()
        plan: storage.Plan | None = site.plan()
        site.may_write = why != "deposed"
        if why == "refused":
            site.api.then = refuse
        if why == "no plan":
            plan = None
        work = asyncio.create_task(site.bind_claims(plan))
        await asyncio.sleep(0.1)
        if why == "given back":
            site.claim({parse.SELECTED_NODE: "a"})
            site.claims.notify()
            await asyncio.sleep(0.1)
            # So a provisioner says that it cannot.
            site.claim()
            site.claims.notify()
        with pytest.raises(volume_binding.NotBound):
            await work
        if plan is not None:
            assert site.feasible() == ["a", "b"]

    run(main)


def test_a_claim_that_got_a_volume_of_another_node_lets_its_pod_be_decided_on_again() -> None:
    """Its Pod was bound all the same, and could never start: the volume could not be attached to its node."""

    async def main() -> None:
        site = Site()
        work = asyncio.create_task(site.bind_claims(site.plan("a")))
        await asyncio.sleep(0.1)
        # A user creates it again with a volume, or its controller has found another one.
        site.bind("elsewhere", "b")
        with pytest.raises(volume_binding.NotBound, match="cannot be used on a"):
            await work
        assert site.feasible() == ["b"]

    run(main)


def test_a_pod_is_bound_once_the_watch_has_shown_the_volumes_too() -> None:
    async def main() -> None:
        site = Site()
        work = asyncio.create_task(site.bind_claims(site.plan("a")))
        await asyncio.sleep(0.1)
        site.claim({parse.BIND_COMPLETED: "yes"}, volumeName="made")
        site.claims.notify()
        await asyncio.sleep(1.0)
        assert not work.done()
        site.volume("made", "a", phase="Bound")
        site.claims.notify()
        await work

    run(main)


@pytest.mark.parametrize("gone", ["volume", "volume in a list", "volume, said by its claim", "claim"])
def test_what_is_deleted_meanwhile_is_not_waited_for(gone: str) -> None:
    """A Pod kept its reservation for ten minutes, for a volume that had been deleted at once."""

    async def main() -> None:
        site = Site(provisioner="kubernetes.io/no-provisioner")
        site.volume("only", "a")
        work = asyncio.create_task(site.bind_claims(site.plan()))
        await asyncio.sleep(0.1)
        spec = {"volumeName": "only"}
        if gone == "claim":
            site.known.volume_claims.remove(("default", "disk"))
        elif gone == "volume, said by its claim":
            lost = peers.claim("disk", **spec) | {"status": {"phase": "Lost"}}
            site.known.volume_claims.put(("default", "disk"), parse.parse_volume_claim(lost))
        else:
            site.claim({parse.BIND_COMPLETED: "yes"}, **spec)
            if gone == "volume":
                site.known.volumes.remove(("", "only"))
            else:
                site.known.volumes.put_all({})
        site.claims.notify()
        for _ in range(10):
            await asyncio.sleep(0)
        assert work.done()
        with pytest.raises(volume_binding.NotBound, match="was deleted" if gone == "claim" else "has lost its"):
            await work

    run(main)


@pytest.mark.parametrize("provisioner", ["csi.example.com", storage_objects.NO_PROVISIONER])
def test_pods_that_share_a_claim_keep_what_was_chosen_for_it_until_the_last_gives_it_up(provisioner: str) -> None:
    site = Site(provisioner=provisioner)
    if provisioner == storage_objects.NO_PROVISIONER:
        site.volume("of-a", "a")
        site.volume("of-b", "b")
    first = site.plan()
    second = site.plan()
    site.known.release(first)
    assert site.feasible() == ["a"]
    site.known.release(second)
    assert site.feasible() == ["a", "b"]


def refuse(path: str, body: Any) -> None:
    raise errors.Conflict(status=409, reason="Conflict", message="changed meanwhile", request=path)


@pytest.mark.parametrize(
    ("annotations", "spec", "said"),
    [
        ({}, {"storageClassName": ""}, "is not bound yet"),
        ({}, {"storageClassName": "unknown"}, "is not bound yet"),
        ({}, {"volumeName": "v"}, "names PersistentVolume v and is not bound to it yet"),
        ({parse.BIND_COMPLETED: "yes"}, {"volumeName": "v"}, "is bound to PersistentVolume v, which does not exist"),
    ],
)
def test_claims_that_no_node_can_help_are_waited_for(
    annotations: dict[str, str], spec: dict[str, Any], said: str
) -> None:
    site = Site()
    site.claim(annotations, **spec)
    assert site.feasible() == []
    assert site.pod.constraints is not None
    assert site.known.waits_for(site.pod.constraints.volume_claims) == f"PersistentVolumeClaim disk {said}"


def test_the_volume_of_one_pod_must_be_its_own() -> None:
    site = Site()
    uses: cluster.Pod = peers.pod("own", volumes=[{"name": "disk", "ephemeral": {}}])
    assert uses.constraints is not None
    wanted = uses.constraints.volume_claims
    assert site.known.waits_for(wanted) == "PersistentVolumeClaim own-disk not found: waits for its controller"
    obj = peers.claim("own-disk")
    site.known.volume_claims.put(("default", "own-disk"), parse.parse_volume_claim(obj))
    assert site.known.waits_for(wanted) == "PersistentVolumeClaim own-disk was not created for this Pod"
    obj["metadata"]["ownerReferences"] = [{"kind": "Pod", "name": "own", "uid": "uid-own", "controller": True}]
    site.known.volume_claims.put(("default", "own-disk"), parse.parse_volume_claim(obj))
    assert site.known.waits_for(wanted) is None


def test_pods_with_claims_of_their_own_follow_each_other_at_once() -> None:
    async def main() -> None:
        made = world.World(room=50.0)
        later = {"metadata": {"name": "later"}, "provisioner": "csi.example.com"}
        made.kube.objects.create("storageclasses", later | {"volumeBindingMode": "WaitForFirstConsumer"}, "test")
        for index in range(4):
            spec = {
                "storageClassName": "later", "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            }  # fmt: skip
            meta = {"name": f"disk-{index}", "namespace": "default"}
            made.kube.objects.create("persistentvolumeclaims", {"metadata": meta, "spec": spec}, "test")
        await made.start(nodes=2)
        await asyncio.sleep(1.0)
        for index in range(4):
            disk = {"name": "v", "persistentVolumeClaim": {"claimName": f"disk-{index}"}}
            made.create_pod(f"user-{index}", volumes=[disk])
        await asyncio.sleep(5.0)
        claims = made.kube.objects.all("persistentvolumeclaims", memory_objects.parse_selector("", {}))
        chosen = [each["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] for each in claims]
        assert len(chosen) == 4
        # Without the report, which looks whether a Pod that waits fits after all.
        assert made.engines[0]._metrics.missed_wakes._value.get() == 0.0
        await made.stop()

    objects.run_fast(main())
