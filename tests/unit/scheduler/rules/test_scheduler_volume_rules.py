"""Which nodes a Pod's volumes allow, what is done with its claims there, and how many volumes a node attaches."""

import dataclasses
from typing import Any

import pytest

from carico_core.domain import constraints, selectors
from carico_core.domain import storage as objects_of
from carico_scheduler.nodes import fleet, node_labels, snapshot, storage, volume_placement
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import reservations
from carico_scheduler.rules import policy
from carico_scheduler.rules.peers import volumes
from tests.unit.scheduler import objects

HOST = "kubernetes.io/hostname"
ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
MAKER = "csi.example.com"
GIB = 2.0**30


def among(key: str, *values: str) -> selectors.Requirement:
    return selectors.Requirement(key=key, operator=selectors.IN, values=values)


def on(*nodes: str) -> selectors.NodeTerms:
    return (selectors.NodeTerm(labels=(among(HOST, *nodes),)),)


def claim(name: str, **changes: Any) -> objects_of.VolumeClaim:
    """An unbound claim of a class that waits for a consumer."""
    values: dict[str, Any] = {
        "namespace": "default", "name": name, "uid": f"uid-{name}", "resource_version": "1", "storage_class": "later",
        "volume": "", "is_bound": False, "is_lost": False, "deleting": False, "selected_node": "",
        "access_modes": ("ReadWriteOnce",), "volume_mode": "Filesystem", "attributes_class": "", "size_bytes": GIB,
        "selector": (), "owner_uid": "",
    }  # fmt: skip
    return objects_of.VolumeClaim(**(values | changes))


def volume(name: str, *nodes: str, **changes: Any) -> objects_of.Volume:
    """A free volume that can be used from `nodes`; from all where none is named."""
    values: dict[str, Any] = {
        "name": name, "uid": f"uid-{name}", "resource_version": "1", "storage_class": "later",
        "node_terms": on(*nodes) if nodes else None, "labels": {}, "claim": None, "is_available": True,
        "deleting": False, "access_modes": ("ReadWriteOnce",), "volume_mode": "Filesystem", "attributes_class": "",
        "size_bytes": GIB, "driver": MAKER, "handle": f"handle-{name}",
    }  # fmt: skip
    return objects_of.Volume(**(values | changes))


class Site:
    """Nodes with labels, and storage; a node that has gone stands before them."""

    def __init__(self, **labels: dict[str, str]) -> None:
        self.fleet = fleet.Fleet(policy.Policy())
        self.known = self.fleet.storage
        for name, more in {"gone": {}, **labels}.items():
            self.fleet.put_node(objects.make_node(name, labels={HOST: name, **more}), reservations.Load())
        self.fleet.remove_node("gone")

    @property
    def view(self) -> snapshot.Snapshot:
        return self.fleet.snapshot(0.0)

    def claims(self, *claims: objects_of.VolumeClaim) -> tuple[constraints.VolumeClaimUse, ...]:
        """The uses of these claims, which are there."""
        for each in claims:
            self.known.volume_claims.put((each.namespace, each.name), each)
        return tuple(constraints.VolumeClaimUse(namespace=each.namespace, name=each.name) for each in claims)

    def bound(self, *held: objects_of.Volume) -> tuple[constraints.VolumeClaimUse, ...]:
        """The uses of claims that are bound to these volumes."""
        self.volumes(*held)
        return self.claims(*(claim(f"of-{each.name}", volume=each.name, is_bound=True) for each in held))

    def volumes(self, *volumes: objects_of.Volume) -> None:
        for each in volumes:
            self.known.volumes.put(("", each.name), each)

    def makes(self, provisioner: str = MAKER, topologies: selectors.NodeTerms = ()) -> None:
        """Claims are given volumes of this maker."""
        made = objects_of.StorageClass(
            name="later", provisioner=provisioner, waits_for_consumer=True, topologies=topologies
        )
        self.known.classes.put(("", "later"), made)

    def reachable(self, uses: tuple[constraints.VolumeClaimUse, ...]) -> list[str]:
        return self._names(volume_placement.reachable(self.view, uses))

    def bindable(self, uses: tuple[constraints.VolumeClaimUse, ...]) -> list[str]:
        return self._names(volume_placement.bindable(self.view, uses))

    def plan(self, uses: tuple[constraints.VolumeClaimUse, ...], node: str) -> tuple[dict[str, str], list[str]] | None:
        """Volumes by claim, and the claims to make one for, by name."""
        slot = self.fleet.slot_of(node)
        assert slot is not None
        found = volume_placement.plan(self.view, uses, slot)
        if found is None:
            return None
        return {kept.name: held.name for held, kept in found.keep}, [made.name for made in found.make]

    def _names(self, mask: snapshot.Bools) -> list[str]:
        nodes = [self.view.nodes[slot] for slot in mask.nonzero()[0].tolist()]
        assert None not in nodes
        return [each.name for each in nodes if each is not None]


def test_nodes_where_claims_may_need_the_same_volume_are_asked_about_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answers for a claim were computed for each node again: 6 s for 64 claims and 1,000 nodes."""
    site = Site(**{f"node-{number}": {ZONE: "a"} for number in range(20)})
    site.makes(topologies=(selectors.NodeTerm(labels=(among(ZONE, "a"),)),))
    site.volumes(volume("v"))
    uses = site.claims(*(claim(str(number)) for number in range(3)))
    asked: list[selectors.NodeTerms] = []
    matching = node_labels.NodeLabels.matching

    def counted(self: node_labels.NodeLabels, terms: selectors.NodeTerms) -> Any:
        asked.append(terms)
        return matching(self, terms)

    monkeypatch.setattr(node_labels.NodeLabels, "matching", counted)
    assert len(site.bindable(uses)) == 20
    assert len(asked) == len(uses)


def test_every_bound_volume_must_be_usable_from_the_node() -> None:
    site = Site(a={}, b={}, c={})
    assert site.reachable(site.bound(volume("v", "a", "b"))) == ["a", "b"]
    assert site.reachable(site.bound(volume("v", "a", "b"), volume("w", "b", "c"), volume("anywhere"))) == ["b"]
    assert site.reachable(site.bound(volume("nowhere", node_terms=()))) == []
    # What is not bound, or bound to what is not there, says nothing of where it can be used.
    assert site.reachable(site.claims(claim("new"), claim("lost", volume="unknown", is_bound=True))) == ["a", "b", "c"]


def test_zones_of_a_volume_are_those_of_its_nodes() -> None:
    site = Site(one={ZONE: "1"}, two={ZONE: "2"}, three={ZONE: "3"}, plain={}, region={REGION: "r"})
    # A node without any zone label may be anywhere; one with another of them may not.
    assert site.reachable(site.bound(volume("v", labels={ZONE: "1__3"}))) == ["one", "three", "plain"]
    assert site.reachable(site.bound(volume("v", labels={ZONE: "4"}))) == ["plain"]
    assert site.reachable(site.bound(volume("v", labels={REGION: "r", ZONE: "1"}))) == ["plain"]
    assert site.reachable(site.bound(volume("v", labels={REGION: "r"}))) == ["plain", "region"]


def test_the_older_name_of_a_zone_stands_for_the_newer_and_not_the_other_way_round() -> None:
    site = Site(older={OLD_ZONE: "1"}, newer={ZONE: "1"}, both={OLD_ZONE: "2", ZONE: "1"})
    assert site.reachable(site.bound(volume("v", labels={OLD_ZONE: "1"}))) == ["older", "newer"]
    assert site.reachable(site.bound(volume("v", labels={ZONE: "1"}))) == ["newer", "both"]


def test_a_claim_needs_a_volume_there_or_a_maker() -> None:
    site = Site(a={}, b={}, c={})
    uses = site.claims(claim("disk"))
    assert site.bindable(uses) == []
    site.volumes(volume("v", "a"), volume("w", "b"), volume("small", "c", size_bytes=1.0))
    assert site.bindable(uses) == ["a", "b"]
    assert site.plan(uses, "b") == ({"disk": "w"}, [])
    assert site.plan(uses, "c") is None
    site.makes(topologies=on("c"))
    assert site.bindable(uses) == ["a", "b", "c"]
    assert site.plan(uses, "c") == ({}, ["disk"])
    # Each claim needs one: nowhere can both be had.
    assert site.bindable(site.claims(claim("disk"), claim("other", storage_class="unknown"))) == []


def test_volumes_of_the_claims_of_others_cost_a_claim_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 5,000 volumes in a cluster, a Pod with a claim took 15 ms of a cycle."""
    site = Site(a={}, b={})
    others = [objects_of.ClaimRef(namespace="default", name=f"other-{number}", uid="") for number in range(20)]
    site.volumes(*(volume(f"v-{each.name}", claim=each) for each in others), volume("elsewhere", storage_class="local"))
    looked: list[str] = []
    fits = storage._fits

    def counted(claim: objects_of.VolumeClaim, volume: objects_of.Volume) -> bool:
        looked.append(volume.name)
        return fits(claim, volume)

    monkeypatch.setattr(storage, "_fits", counted)
    uses = site.claims(claim("disk"))
    assert site.bindable(uses) == []
    assert looked == []
    own = objects_of.ClaimRef(namespace="default", name="disk", uid="")
    site.volumes(volume("free", "b"))
    assert site.bindable(uses) == ["b"]
    site.volumes(volume("own", "a", claim=own))
    assert (site.bindable(uses), set(looked)) == (["a"], {"free", "own"})
    site.known.volumes.remove(("", "own"))
    assert site.bindable(uses) == ["b"]


def test_two_claims_do_not_get_the_same_volume() -> None:
    site = Site(a={}, b={}, c={})
    uses = site.claims(claim("large", size_bytes=4 * GIB), claim("small"))
    site.volumes(volume("a-4", "a", size_bytes=4 * GIB), volume("c-1", "c"))
    assert site.bindable(uses) == []
    site.volumes(volume("b-1", "b"), volume("b-4", "b", size_bytes=4 * GIB))
    assert site.bindable(uses) == ["b"]
    # The one that asks for least chooses first, and takes the smallest that will do.
    assert site.plan(uses, "b") == ({"small": "b-1", "large": "b-4"}, [])
    assert site.plan(uses, "a") is None
    site.makes(topologies=on("a"))
    assert site.bindable(uses) == ["a", "b"]
    assert site.plan(uses, "a") == ({"small": "a-4"}, ["large"])


def test_the_first_and_the_last_of_three_claims_do_not_get_the_same_volume() -> None:
    site = Site(a={})
    uses = site.claims(claim("first"), claim("other", storage_class="other"), claim("last"))
    site.volumes(volume("v", "a"), volume("w", "a", storage_class="other"))
    assert site.bindable(uses) == []
    site.volumes(volume("x", "a"))
    assert site.bindable(uses) == ["a"]


def test_a_claim_that_is_named_twice_gets_one_volume() -> None:
    site = Site(a={}, b={})
    uses = site.claims(claim("disk")) * 2
    site.volumes(volume("first", "a"), volume("second", "a", size_bytes=2 * GIB), volume("alone", "b"))
    # As with kube-scheduler, which looks for two.
    assert site.bindable(uses) == ["a"]
    assert site.plan(uses, "a") == ({"disk": "first"}, [])
    site.makes()
    assert site.bindable(uses) == ["a", "b"]
    assert site.plan(uses, "b") == ({"disk": "alone"}, [])
    site.known.volumes.remove(("", "alone"))
    assert site.plan(uses, "b") == ({}, ["disk"])


def test_a_volume_that_is_being_made_for_a_node_is_had_there_alone() -> None:
    site = Site(a={}, b={}, c={})
    site.makes(topologies=on("a", "b"))
    site.volumes(volume("v", "c"))
    assert site.bindable(site.claims(claim("disk", selected_node="b"))) == ["b"]
    assert site.bindable(site.claims(claim("disk", selected_node="c"))) == []
    assert site.bindable(site.claims(claim("disk"))) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("nodes", "largest_bytes", "storage_class", "able"),
    [
        ((among(HOST, "a"),), GIB, "later", ["a"]),
        ((among(HOST, "a"),), GIB - 1, "later", []),
        ((among(HOST, "a"),), None, "later", []),
        ((among(HOST, "a"),), 2 * GIB, "other", []),
        ((), 2 * GIB, "later", ["a", "b"]),
        (None, 2 * GIB, "later", []),
    ],
)
def test_a_maker_that_tells_its_capacity_is_asked_no_more_than_that(
    nodes: selectors.Selector, largest_bytes: float | None, storage_class: str, able: list[str]
) -> None:
    site = Site(a={}, b={})
    site.makes()
    found = objects_of.StorageCapacity(
        namespace="x", name="c", storage_class=storage_class, nodes=nodes, largest_bytes=largest_bytes
    )
    site.known.capacities.put(("x", "c"), found)
    uses, unsized = site.claims(claim("disk"), claim("unsized", size_bytes=0.0))
    for tracks in (None, False):
        if tracks is not None:
            site.known.drivers.put(("", MAKER), objects_of.CsiDriver(name=MAKER, tracks_capacity=tracks))
        assert site.bindable((uses,)) == ["a", "b"]
    site.known.drivers.put(("", MAKER), objects_of.CsiDriver(name=MAKER, tracks_capacity=True))
    assert site.bindable((uses,)) == able
    assert site.bindable((unsized,)) == ["a", "b"]


def test_capacities_of_several_places_add_up_to_where_a_volume_can_be_made() -> None:
    site = Site(a={}, b={}, c={})
    site.makes()
    site.known.drivers.put(("", MAKER), objects_of.CsiDriver(name=MAKER, tracks_capacity=True))
    assert site.bindable(site.claims(claim("tiny", size_bytes=1.0))) == []
    for name in ("a", "b"):
        found = objects_of.StorageCapacity(
            namespace="x", name=name, storage_class="later", nodes=(among(HOST, name),), largest_bytes=GIB
        )
        site.known.capacities.put(("x", name), found)
    assert site.bindable(site.claims(claim("disk"))) == ["a", "b"]


class Attaching(Site):
    """A node that attaches two volumes of a maker, and Pods on it."""

    def __init__(self) -> None:
        super().__init__(a={}, b={})
        self.known.csi_nodes.put(("", "a"), objects_of.CsiNode(name="a", limits={MAKER: 2}))

    def run(self, name: str, uses: tuple[constraints.VolumeClaimUse, ...]) -> None:
        self.fleet.pod_counts.put(objects.make_pod(name, constraints=constraints.Constraints(volume_claims=uses)), "a")

    def attach(self, held: objects_of.Volume, node: str = "a") -> None:
        self.volumes(held)
        found = objects_of.Attachment(name=f"{held.name}-{node}", node=node, driver=MAKER, volume=held.name)
        self.known.attachments.put(("", found.name), found)

    def refuses(self, uses: tuple[constraints.VolumeClaimUse, ...], node: str = "a") -> str | None:
        slot = self.fleet.slot_of(node)
        assert slot is not None
        return volume_placement.Attached(self.view).refuse(uses, slot)


def test_volumes_of_pods_that_a_cycle_has_placed_count_to_what_a_node_attaches() -> None:
    site = Attaching()
    asked = demands.Demand(constraints=constraints.Constraints(volume_claims=site.bound(volume("new"))))
    found = volumes.VolumeLimits().peers(site.view, asked)
    slot = site.fleet.slot_of("a")
    assert found is not None and slot is not None

    def refusal() -> str | None:
        (condition,) = found.conditions()
        return None if condition.passes[slot] else condition.why(slot)

    assert refusal() is None
    for name, why in (("v1", None), ("v2", f"2 volumes of {MAKER} attached, 1 more needed, at most 2")):
        held = constraints.Constraints(volume_claims=site.bound(volume(name)))
        found.add(objects.make_pod(f"of-{name}", constraints=held), slot)
        found.add(objects.make_pod("plain"), slot)
        assert refusal() == why


def test_a_node_attaches_no_more_volumes_than_its_driver_states() -> None:
    site = Attaching()
    new = site.bound(volume("new"))
    site.run("first", site.bound(volume("v1")))
    site.run("plain", ())
    site.fleet.pod_counts.put(objects.make_pod("unconstrained"), "a")
    assert site.refuses(new) is None
    assert (
        site.refuses(site.bound(volume("new"), volume("more")))
        == f"1 volumes of {MAKER} attached, 2 more needed, at most 2"
    )
    site.run("second", site.bound(volume("v2")))
    assert site.refuses(new) == f"2 volumes of {MAKER} attached, 1 more needed, at most 2"
    # Of a node that states no limit, of another driver, and of a volume that is there already.
    assert site.refuses(new, "b") is None
    assert site.refuses(site.bound(volume("other", driver="other.example.com"))) is None
    assert site.refuses(site.bound(volume("v2"))) is None
    # One that two Pods share counts once, by its handle.
    site.fleet.pod_counts.remove("uid-second")
    site.run("third", site.bound(volume("v1-again", handle="handle-v1")))
    assert site.refuses(new) is None


def test_volumes_that_are_attached_count_whichever_pod_uses_them() -> None:
    site = Attaching()
    new = site.bound(volume("new"))
    site.attach(volume("v1"))
    site.attach(volume("elsewhere"), "b")
    site.attach(volume("no-driver", driver=""))
    assert site.refuses(new) is None
    # Used by a Pod as well, it is the same.
    site.run("first", site.bound(volume("v1")))
    assert site.refuses(new) is None
    site.attach(volume("v2"))
    assert site.refuses(new) == f"2 volumes of {MAKER} attached, 1 more needed, at most 2"


def test_a_volume_that_is_not_made_yet_counts_for_the_maker_of_its_class() -> None:
    site = Attaching()
    site.makes()
    made = site.claims(claim("one"), claim("two"), claim("three"))
    assert site.refuses(made[:2]) is None
    assert site.refuses(made) == f"0 volumes of {MAKER} attached, 3 more needed, at most 2"
    # One that two Pods will share is one volume.
    site.run("first", made[:2])
    assert site.refuses(made[:2]) is None
    assert site.refuses(made[1:]) == f"2 volumes of {MAKER} attached, 1 more needed, at most 2"
    # Of no driver: bound to what is not there, of a class that makes nothing, of an unknown one, and not there itself.
    site.makes(provisioner="")
    uses = site.claims(
        claim("nothing"), claim("unknown", storage_class="unknown"), claim("no-class", storage_class=""),
    )  # fmt: skip
    assert site.refuses((*uses, dataclasses.replace(uses[0], name="missing"))) is None
    site.bound(volume("static", driver=""))
    assert site.refuses(site.bound(volume("static", driver="")) * 3) is None
