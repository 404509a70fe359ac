"""Constraints of a Pod as the API states them, and as the scheduler uses them."""

from typing import Any

import pytest

from carico_core.domain import constraints, selectors
from carico_core.wire.kubernetes.pods import constraints as kubernetes_constraints

REQUIRED = kubernetes_constraints.REQUIRED
PREFERRED = kubernetes_constraints.PREFERRED
LABELS = {"app": "web", "pod-template-hash": "abc"}
IS_WEB = selectors.Requirement(key="app", operator="In", values=("web",))
WEB = {"matchLabels": {"app": "web"}}


def parse(**spec: Any) -> constraints.Constraints:
    """The constraints; those of a Pod without any are all empty."""
    found = kubernetes_constraints.parse_constraints(
        {"containers": [{"name": "c"}]} | spec, namespace="shop", name="web-1", uid="u-1", labels=LABELS
    )
    return constraints.NONE if found is None else found


def near(**term: Any) -> constraints.PodTerm:
    """The one required term of a Pod with this affinity."""
    term = {"topologyKey": "zone", "labelSelector": WEB} | term
    return parse(affinity={"podAffinity": {REQUIRED: [term]}}).affinity[0]


def requirement(key: str, operator: str, *values: str) -> selectors.Requirement:
    return selectors.Requirement(key=key, operator=operator, values=values)


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"affinity": {}},
        {"affinity": {"podAffinity": {REQUIRED: []}, "nodeAffinity": {}}},
        {"containers": [{"ports": [{"containerPort": 80}]}]},
        {"initContainers": [{"ports": [{"hostPort": 80}]}]},
        {"volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "configMap": {"name": "m"}}]},
    ],
)
def test_a_pod_without_constraints_has_none(spec: dict[str, Any]) -> None:
    spec = {"containers": [{}]} | spec
    assert kubernetes_constraints.parse_constraints(spec, namespace="n", name="p", uid="u", labels={}) is None


def test_equal_constraints_are_one_object() -> None:
    assert parse(affinity={"podAffinity": {REQUIRED: [{"topologyKey": "zone"}]}}) is parse(
        affinity={"podAffinity": {REQUIRED: [{"topologyKey": "zone"}]}}
    )


def test_node_affinity_without_terms_is_not_the_same_as_none() -> None:
    assert parse(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}).node_terms == ()
    assert parse(affinity={"nodeAffinity": {PREFERRED: [{"weight": 3, "preference": {}}]}}).node_terms is None


@pytest.mark.parametrize(
    ("term", "namespaces", "selector"),
    [
        ({}, ("shop",), None),
        ({"namespaces": ["b", "a"]}, ("a", "b"), None),
        ({"namespaceSelector": {}}, (), ()),
        ({"namespaces": ["a"], "namespaceSelector": WEB}, ("a",), (IS_WEB,)),
    ],
)
def test_namespaces_of_a_term(term: dict[str, Any], namespaces: tuple[str, ...], selector: selectors.Selector) -> None:
    found = near(**term)
    assert (found.namespaces, found.namespace_selector) == (namespaces, selector)


def test_keys_of_own_labels_become_requirements_once() -> None:
    plain = near(matchLabelKeys=["pod-template-hash", "absent"], mismatchLabelKeys=["app"])
    own = requirement("pod-template-hash", "In", "abc")
    assert plain.selector == (IS_WEB, own, requirement("app", "NotIn", "web"))
    # What the API server wrote as the Pod was made stands, whatever the label is now.
    written = {"matchLabels": {"app": "web", "pod-template-hash": "older"}}
    assert near(labelSelector=written, matchLabelKeys=["pod-template-hash"]).selector == (
        IS_WEB, requirement("pod-template-hash", "In", "older"),
    )  # fmt: skip
    assert near(labelSelector=None, matchLabelKeys=["app"]).selector is None


def test_a_pod_is_its_own_peer_where_all_terms_mean_it() -> None:
    other = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}
    web = {"topologyKey": "zone", "labelSelector": WEB}
    assert parse(affinity={"podAffinity": {REQUIRED: [web]}}).is_own_peer
    assert not parse(affinity={"podAffinity": {REQUIRED: [web, other]}}).is_own_peer


def test_anti_affinity_is_a_preference_of_negative_weight() -> None:
    wish = {"weight": 7, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": WEB}}
    found = parse(affinity={"podAntiAffinity": {PREFERRED: [wish]}, "podAffinity": {PREFERRED: [wish]}}).pod_preferences
    assert [each.weight for each in found] == [7, -7]


def test_spread_constraints() -> None:
    hard = {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": WEB,
            "minDomains": 3, "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor",
            "matchLabelKeys": ["pod-template-hash"]}  # fmt: skip
    soft = {"maxSkew": 1, "topologyKey": "host", "whenUnsatisfiable": "ScheduleAnyway"}
    found = parse(topologySpreadConstraints=[hard, soft])
    assert found.hard_spreads == (
        constraints.Spread(
            namespace="shop", topology_key="zone", selector=(IS_WEB, requirement("pod-template-hash", "In", "abc")),
            max_skew=2, min_domains=3, honours_affinity=False, honours_taints=True, is_self=True,
        ),
    )  # fmt: skip
    assert [(each.topology_key, each.is_self, each.min_domains) for each in found.soft_spreads] == [("host", False, 1)]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [{"ports": [{"containerPort": 80, "hostPort": 8080}]}]}, [("0.0.0.0", "TCP", 8080)]),
        ({"containers": [{"ports": [{"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}]}]},
         [("10.0.0.1", "UDP", 53)]),
        ({"initContainers": [{"restartPolicy": "Always", "ports": [{"hostPort": 80}]}]}, [("0.0.0.0", "TCP", 80)]),
        ({"hostNetwork": True, "containers": [{"ports": [{"containerPort": 80}]}]}, [("0.0.0.0", "TCP", 80)]),
        ({"containers": [{"ports": [{"hostPort": 80}]}, {"ports": [{"hostPort": 80}]}]}, [("0.0.0.0", "TCP", 80)]),
    ],
)  # fmt: skip
def test_host_ports(spec: dict[str, Any], expected: list[tuple[str, str, int]]) -> None:
    assert [(port.address, port.protocol, port.port) for port in parse(**spec).host_ports] == expected


def test_claims_by_name_and_of_the_pod_itself() -> None:
    named = {"name": "data", "persistentVolumeClaim": {"claimName": "disk"}}
    made = {"name": "cache", "ephemeral": {"volumeClaimTemplate": {}}}
    assert parse(volumes=[named, made]).volume_claims == (
        constraints.VolumeClaimUse(namespace="shop", name="disk"),
        constraints.VolumeClaimUse(namespace="shop", name="web-1-cache", owner_uid="u-1"),
    )


@pytest.mark.parametrize(
    ("mine", "theirs", "is_conflict"),
    [
        ({"gcePersistentDisk": {"pdName": "d"}}, {"gcePersistentDisk": {"pdName": "d"}}, True),
        ({"gcePersistentDisk": {"pdName": "d", "readOnly": True}}, {"gcePersistentDisk": {"pdName": "d"}}, True),
        ({"gcePersistentDisk": {"pdName": "d", "readOnly": True}},
         {"gcePersistentDisk": {"pdName": "d", "readOnly": True}}, False),
        ({"awsElasticBlockStore": {"volumeID": "v", "readOnly": True}},
         {"awsElasticBlockStore": {"volumeID": "v", "readOnly": True}}, True),
        ({"iscsi": {"iqn": "a"}}, {"iscsi": {"iqn": "b"}}, False),
        ({"rbd": {"monitors": ["a", "b"], "image": "i"}}, {"rbd": {"monitors": ["b"], "image": "i"}}, True),
        ({"rbd": {"monitors": ["a"], "image": "i"}}, {"rbd": {"monitors": ["b"], "image": "i"}}, False),
        ({"rbd": {"monitors": ["a"], "image": "i"}}, {"gcePersistentDisk": {"pdName": "i"}}, False),
    ],
)  # fmt: skip
def test_disks_that_one_node_has_once(mine: dict[str, Any], theirs: dict[str, Any], is_conflict: bool) -> None:
    (one,), (other,) = parse(volumes=[{"name": "v"} | mine]).disks, parse(volumes=[{"name": "v"} | theirs]).disks
    assert constraints.Occupied(disks=[one]).conflicts(disks=[other]) is is_conflict
    assert constraints.Occupied(disks=[other]).conflicts(disks=[one]) is is_conflict


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"affinity": {"nodeAffinity": []}}, "spec.affinity.nodeAffinity"),
        ({"affinity": {"podAffinity": {REQUIRED: [{"labelSelector": {"matchExpressions": [{}]}}]}}}, "key: missing"),
        ({"topologySpreadConstraints": [{"maxSkew": "1"}]}, "maxSkew"),
        ({"affinity": {"podAffinity": {REQUIRED: [{"namespaces": "a"}]}}}, "namespaces"),
    ],
)
def test_what_cannot_be_read_is_named(spec: dict[str, Any], path: str) -> None:
    with pytest.raises(ValueError, match=path):
        parse(**spec)
