"""Objects of the API become records: by the scheduler's rules for requests, and with the path of what is wrong."""

import contextlib
import copy
import re
from collections.abc import Callable
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

from carico_core.domain import cluster, names, selectors, usage
from carico_core.wire.kubernetes import api_objects, bodies, instants
from carico_core.wire.kubernetes import lease as kubernetes_lease
from carico_core.wire.kubernetes.pods import ownership, pod_requests
from carico_core.wire.kubernetes.pods import spec as kubernetes_spec
from carico_core.wire.kubernetes.pods import status as kubernetes_status


def container(cpu: str | None = None, memory: str | None = None, **more: Any) -> dict[str, Any]:
    requests = {name: value for name, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    return {"name": "c", "image": "pi:1", "resources": {"requests": requests}} | more


def sidecar(cpu: str) -> dict[str, Any]:
    return container(cpu, restartPolicy="Always")


def pod(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "namespace": "default",
            "name": "pi-1",
            "uid": "u-1",
            "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"containers": [container()]} | spec,
        "status": {"phase": "Pending"},
    }


def test_whether_a_pod_preempts() -> None:
    policies = (None, "PreemptLowerPriority", "Never")
    found = [api_objects.parse_pod(pod(preemptionPolicy=each)).preempts for each in policies]
    assert found == [True, True, False]


def test_a_service() -> None:
    metadata = {"namespace": "shop", "name": "web"}
    found = api_objects.parse_service({"metadata": metadata, "spec": {"selector": {"b": "2", "a": "1"}}})
    assert found == cluster.Service("shop", "web", (("a", "1"), ("b", "2")))
    assert api_objects.parse_service({"metadata": metadata, "spec": {"type": "ExternalName"}}).labels == ()
    with pytest.raises(ValueError, match=r"spec\.selector\.a"):
        api_objects.parse_service({"metadata": metadata, "spec": {"selector": {"a": 1}}})


def test_a_disruption_budget() -> None:
    obj = {
        "metadata": {"namespace": "shop", "name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 2, "disruptedPods": {"web-1": "2025-01-01T00:00:00Z"}},
    }
    found = api_objects.parse_disruption_budget(obj)
    assert (found.namespace, found.name, found.allowed, found.disrupted) == ("shop", "web", 2, frozenset({"web-1"}))
    assert selectors.matches(found.selector, {"app": "web"})
    assert not selectors.matches(found.selector, {"app": "db"})
    assert api_objects.parse_disruption_budget({"metadata": obj["metadata"]}).allowed == 0
    with pytest.raises(ValueError, match=r"status\.disruptionsAllowed"):
        api_objects.parse_disruption_budget(obj | {"status": {"disruptionsAllowed": "2"}})


def test_why_a_pod_is_not_scheduled_is_read_while_it_has_no_node() -> None:
    obj = pod(containers=[container("250m", "1Gi")])
    obj["spec"].pop("nodeName", None)
    assert api_objects.parse_pod(obj).unscheduled_reason == ""
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes fit"}
    obj["status"] = {"phase": "Pending", "conditions": [{"type": "Ready", "status": "False", "reason": "x"}, refused]}
    found = api_objects.parse_pod(obj)
    assert (found.unscheduled_reason, found.unscheduled_message) == ("Unschedulable", "0/2 nodes fit")
    obj["spec"]["nodeName"] = "node-1"
    found = api_objects.parse_pod(obj)
    assert (found.unscheduled_reason, found.unscheduled_message) == ("", "")


def test_a_pod() -> None:
    obj = pod(
        schedulerName="carico",
        priority=5,
        nodeSelector={"disk": "ssd"},
        tolerations=[{"key": "a", "value": "b", "effect": "NoSchedule"}, {"operator": "Exists"}],
        schedulingGates=[{"name": "quota"}],
        containers=[container("250m", "1Gi")],
    )
    obj["metadata"] |= {
        "labels": {"app": "pi"},
        "ownerReferences": [
            {"kind": "ConfigMap", "name": "other", "uid": "x"},
            {"kind": "Job", "name": "pi", "uid": "j", "controller": True},
        ],
    }
    assert api_objects.parse_pod(obj) == cluster.Pod(
        namespace="default",
        name="pi-1",
        uid="u-1",
        resource_version="7",
        scheduler_name="carico",
        node_name=None,
        phase="Pending",
        priority=5,
        created_at_s=1767225600.0,
        deleting=False,
        labels={"app": "pi"},
        node_selector={"disk": "ssd"},
        tolerations=(
            cluster.Toleration(key="a", operator="Equal", value="b", effect="NoSchedule"),
            cluster.Toleration(key="", operator="Exists", value="", effect=""),
        ),
        owner=cluster.Owner(kind="Job", name="pi", uid="j"),
        image="pi:1",
        is_mirror=False,
        request_cores=0.25,
        request_bytes=2.0**30,
        unsupported=(),
        template=usage.Template(image="d397a54222a6aa16", containers=("c",), requests={"cpu": 0.25, "memory": 2.0**30}),
        scheduling_gates=("quota",),
        images=cluster.Images(("pi:1",), 1),
    )


def test_a_pod_that_is_bound_and_leaves() -> None:
    obj = pod(nodeName="n1")
    obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z"
    obj["status"] = {"phase": "Running"}
    found = api_objects.parse_pod(obj)
    assert (found.node_name, found.phase, found.deleting, found.is_terminal) == ("n1", "Running", True, False)
    assert found.scheduler_name == "default-scheduler"
    assert found.ends_at_s == found.created_at_s + 30.0


# Expected values by the rules of k8s.io/component-helpers resource/helpers_test.go, TestPodRequestsAndLimits.
REQUESTS: dict[str, tuple[dict[str, Any], dict[str, float]]] = {
    "nothing": ({}, {}),
    "containers are summed": ({"containers": [container("1", "1Ki"), container("2")]}, {"cpu": 3.0, "memory": 1024.0}),
    "the largest init container": (
        {"containers": [container("1")], "initContainers": [container("3"), container("2")]},
        {"cpu": 3.0},
    ),
    "an init container that is smaller": (
        {"containers": [container("2"), container("2")], "initContainers": [container("3")]},
        {"cpu": 4.0},
    ),
    "each resource by itself": (
        {"containers": [container("1", "4Ki")], "initContainers": [container("2", "1Ki")]},
        {"cpu": 2.0, "memory": 4096.0},
    ),
    "a sidecar runs with the containers": (
        {"containers": [container("1")], "initContainers": [sidecar("2")]},
        {"cpu": 3.0},
    ),
    "an init container after a sidecar runs with it": (
        {"containers": [container("1")], "initContainers": [sidecar("2"), container("5")]},
        {"cpu": 7.0},
    ),
    "an init container before a sidecar runs alone": (
        {"containers": [container("1")], "initContainers": [container("5"), sidecar("2")]},
        {"cpu": 5.0},
    ),
    "sidecars among init containers": (
        {
            "containers": [container("1")],
            "initContainers": [container("10"), sidecar("2"), container("9"), sidecar("1"), container("8")],
        },
        {"cpu": 11.0},
    ),
    "overhead on top": (
        {"containers": [container("1")], "initContainers": [container("3")], "overhead": {"cpu": "250m"}},
        {"cpu": 3.25},
    ),
    "what the Pod states for itself": (
        {"containers": [container("1", "1Ki")], "resources": {"requests": {"cpu": "5"}}, "overhead": {"cpu": "1"}},
        {"cpu": 6.0, "memory": 1024.0},
    ),
    "a limit alone is a request": (
        {"containers": [{"resources": {"limits": {"cpu": "2", "memory": "1Ki"}, "requests": {"cpu": "1"}}}]},
        {"cpu": 1.0, "memory": 1024.0},
    ),
    "other resources": ({"containers": [{"resources": {"limits": {"nvidia.com/gpu": 2}}}]}, {"nvidia.com/gpu": 2.0}),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_requests(name: str) -> None:
    spec, expected = REQUESTS[name]
    assert pod_requests.pod_requests(pod(**spec)) == expected


def test_what_is_not_evaluated_is_named() -> None:
    assert api_objects.parse_pod(pod(resourceClaims=[{"name": "gpu"}])).unsupported == ("resourceClaims",)
    assert api_objects.parse_pod(pod(hostNetwork=True)).unsupported == ()


def test_what_a_node_must_declare_is_named() -> None:
    inside = api_objects.parse_pod(pod(hostNetwork=True, hostUsers=False))
    assert inside.required_features == ("UserNamespacesHostNetworkSupport",)
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}]
    restarting = api_objects.parse_pod(pod(containers=[container() | {"restartPolicyRules": rules}]))
    assert restarting.required_features == ("RestartAllContainersOnContainerExits",)
    assert api_objects.parse_pod(pod(hostNetwork=True)).required_features == ()


def test_other_resources_are_kept_by_name() -> None:
    requests = {"nvidia.com/gpu": "1", "ephemeral-storage": "1Gi", "hugepages-2Mi": "0", "cpu": "0.1m"}
    found = api_objects.parse_pod(pod(containers=[{"resources": {"requests": requests}}]))
    assert found.request_others == (("ephemeral-storage", 2.0**30), ("nvidia.com/gpu", 1.0))
    # Kubernetes compares whole millicores, rounded up.
    assert found.request_cores == 0.001


def test_a_container_that_is_resized_counts_as_the_most() -> None:
    obj = pod(containers=[container("1", "1Ki")])
    told = {"name": "c", "resources": {"requests": {"cpu": "2"}}, "allocatedResources": {"cpu": "3", "memory": "1"}}
    obj["status"] = {"phase": "Running", "containerStatuses": [told]}
    assert pod_requests.pod_requests(obj) == {"cpu": 3.0, "memory": 1024.0}
    obj["status"]["conditions"] = [{"type": "PodResizePending", "reason": "Infeasible"}]
    assert pod_requests.pod_requests(obj) == {"cpu": 3.0, "memory": 1.0}


MIRROR = {"kubernetes.io/config.mirror": "hash"}


def owned(kind: str, name: str, **changes: Any) -> list[dict[str, Any]]:
    return [{"kind": kind, "name": name, "uid": "x", "controller": True, **changes}]


def test_a_mirror_pod_is_marked_and_owned_by_the_node_that_it_names() -> None:
    obj = pod(nodeName="n")
    obj["metadata"] |= {"annotations": MIRROR, "ownerReferences": owned("Node", "n")}
    assert api_objects.parse_pod(obj).is_mirror
    assert ownership.belongs_to_node(obj)


@pytest.mark.parametrize(
    ("metadata", "spec"),
    [
        ({"annotations": MIRROR}, {"nodeName": "n"}),
        ({"annotations": MIRROR, "ownerReferences": owned("Node", "n")}, {}),
        ({"annotations": MIRROR, "ownerReferences": owned("Node", "other")}, {"nodeName": "n"}),
        ({"annotations": MIRROR, "ownerReferences": owned("Node", "n", controller=False)}, {"nodeName": "n"}),
        ({"annotations": {"kubernetes.io/config.source": "file"}}, {"nodeName": "n"}),
        ({"ownerReferences": owned("Node", "n")}, {"nodeName": "n"}),
        ({"labels": {"carico.dev/baseline": "true"}}, {"nodeName": "n"}),
    ],
)
def test_what_a_tenant_writes_on_a_pod_makes_it_no_mirror_pod(metadata: dict[str, Any], spec: dict[str, Any]) -> None:
    obj = pod(**spec)
    obj["metadata"] |= metadata
    assert not api_objects.parse_pod(obj).is_mirror
    assert not ownership.belongs_to_node(obj)


@pytest.mark.parametrize("label", [names.SURGE_LABEL, names.TEMPLATE_HASH])
def test_the_new_pod_of_a_move_is_of_its_replica_sets_class_before_and_while_it_is_adopted(label: str) -> None:
    obj = pod()
    owner = owned("ReplicaSet", "web-abc", controller=False)
    obj["metadata"] |= {"labels": {label: "abc", "app.kubernetes.io/name": "web"}, "ownerReferences": owner}
    assert names.class_of(api_objects.parse_pod(obj)) == "ReplicaSet/default/web"


def test_pods_of_daemon_sets_and_of_named_namespaces_belong_to_their_node() -> None:
    obj = pod()
    obj["metadata"] |= {"ownerReferences": owned("DaemonSet", "d")}
    assert ownership.belongs_to_node(obj)
    assert api_objects.parse_pod(obj).claims_daemon_set
    namespace = pod()["metadata"]["namespace"]
    assert ownership.belongs_to_node(pod(), {namespace})
    assert not ownership.belongs_to_node(pod(), {"kube-system"})
    obj["metadata"]["ownerReferences"][0]["controller"] = False
    assert not api_objects.parse_pod(obj).claims_daemon_set


def test_a_daemon_set_is_known_by_its_uid_and_namespace() -> None:
    found = api_objects.parse_daemon_set({"metadata": {"name": "d", "namespace": "default", "uid": "x"}})
    assert (found.namespace, found.uid) == ("default", "x")
    with pytest.raises(ValueError, match=r"metadata\.uid"):
        api_objects.parse_daemon_set({"metadata": {"name": "d", "namespace": "default"}})


def node(**more: Any) -> dict[str, Any]:
    return {"metadata": {"name": "n1", "uid": "u", "resourceVersion": "3", "labels": {"zone": "a"}}} | more


def test_a_node() -> None:
    obj = node(
        spec={"unschedulable": True, "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
        status={
            "allocatable": {"cpu": "3900m", "memory": "7Gi", "pods": "50"},
            "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
        },
    )
    assert api_objects.parse_node(obj) == cluster.Node(
        name="n1",
        uid="u",
        labels={"zone": "a"},
        taints=(cluster.Taint(key="k", value="v", effect="NoSchedule"),),
        unschedulable=True,
        ready=True,
        deleting=False,
        allocatable_cores=3.9,
        allocatable_bytes=7 * 2.0**30,
        pod_limit=50,
    )


def test_a_node_that_has_not_reported() -> None:
    found = api_objects.parse_node(node())
    assert (found.ready, found.allocatable_cores, found.pod_limit) == (False, 0.0, 0)
    assert api_objects.parse_node(node(status={"capacity": {"cpu": "4"}})).allocatable_cores == 4.0
    unknown = node(status={"conditions": [{"type": "Ready", "status": "Unknown"}]})
    assert not api_objects.parse_node(unknown).ready


def term(number: int) -> dict[str, Any]:
    return {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": str(number)}}}


def affinity(kind: str, *, terms: int = 0, preferred: int = 0) -> dict[str, Any]:
    soft = [{"weight": 1, "podAffinityTerm": term(each)} for each in range(preferred)]
    return {
        kind: {
            "requiredDuringSchedulingIgnoredDuringExecution": [term(each) for each in range(terms)],
            "preferredDuringSchedulingIgnoredDuringExecution": soft,
        }
    }


def spreads(count: int) -> list[dict[str, Any]]:
    return [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"} for _ in range(count)]


def volume(**source: Any) -> dict[str, Any]:
    return {"name": "v", **source}


def requesting(count: int) -> dict[str, Any]:
    return container(resources={"requests": {f"x/{each}": "1" for each in range(count)}})


def named(*names: str) -> dict[str, Any]:
    one = {"matchExpressions": [{"key": "name", "operator": "In", "values": list(names)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [one]}}}


@pytest.mark.parametrize(
    ("spec", "most"),
    [
        (lambda count: {"affinity": affinity("podAffinity", terms=count)}, 64),
        (lambda count: {"affinity": affinity("podAntiAffinity", terms=count - 3, preferred=3)}, 64),
        (lambda count: {"affinity": affinity("podAffinity", terms=4), "topologySpreadConstraints": spreads(count)}, 60),
        (lambda count: {"affinity": named(*map(str, range(count)))}, 2046),
        (lambda count: {"tolerations": [{"key": str(each), "operator": "Exists"} for each in range(count)]}, 1024),
        (lambda count: {"nodeSelector": {str(each): "x" for each in range(count)}}, 2048),
        (lambda count: {"containers": [container(ports=[{"hostPort": 1 + each} for each in range(count)])]}, 2048),
        (lambda count: {"volumes": [volume(ephemeral={}) for _ in range(count)]}, 64),
        (lambda count: {"volumes": [volume(persistentVolumeClaim={"claimName": "one"}) for _ in range(count)]}, 64),
        (lambda count: {"volumes": [volume(gcePersistentDisk={"pdName": "d"}) for _ in range(count)]}, 1024),
        (lambda count: {"volumes": [volume(rbd={"monitors": [*map(str, range(count))], "image": "i"})]}, 2046),
        (lambda count: {"containers": [requesting(count)]}, 64),
        (lambda count: {"affinity": named("x" * count)}, 130_958),
    ],
)
def test_a_pod_whose_constraints_would_take_minutes_waits(spec: Callable[[int], dict[str, Any]], most: int) -> None:
    """The API sets no limit but 1.5 MB, and everybody else's Pods would wait."""
    usual = api_objects.parse_pod(pod(**spec(most)))
    assert usual.unsupported == ()
    assert usual.constraints is not None or usual.tolerations or usual.node_selector or usual.request_others
    large = api_objects.parse_pod(pod(**spec(most + 1), resourceClaims=[{"name": "gpu"}]))
    assert large.unsupported == ("resourceClaims", kubernetes_spec.EXCESSIVE)
    assert large.constraints is None and large.tolerations == () and large.node_selector == {}
    assert len(large.request_others) <= 64


def test_init_containers_are_summed_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Pod of 1.5 MB has thousands of them, each with a resource: looking at all again for each took 30 s."""
    looked: list[int] = []
    raise_to = pod_requests._raise_to

    def counted(total: dict[str, float], least: dict[str, float]) -> None:
        looked.append(len(least))
        raise_to(total, least)

    monkeypatch.setattr(pod_requests, "_raise_to", counted)
    more = [container(resources={"requests": {f"x/{each}": "1"}}, restartPolicy="Always") for each in range(100)]
    found = pod_requests.pod_requests(pod(initContainers=[*more, container("2")]))
    assert found == {f"x/{each}": 1.0 for each in range(100)} | {"cpu": 2.0}
    assert sum(looked) <= 3 * len(more)


@pytest.mark.parametrize("amount", ["1e308", "-1e308", "9223372036854775808", "9" * 64, "1" + "0" * 60 + "Ei"])
def test_a_quantity_that_no_node_has_is_capped_as_in_kubernetes(amount: str) -> None:
    found = api_objects.parse_pod(pod(containers=[container(amount, amount), container(amount, amount)]))
    most = -(2.0**64) if amount.startswith("-") else 2.0**64
    assert (found.request_cores, found.request_bytes) == (most, most)


BROKEN: dict[str, tuple[list[Any], Any, str]] = {
    "no name": (["metadata", "name"], "", "metadata.name"),
    "uid of another type": (["metadata", "uid"], 5, "metadata.uid"),
    "metadata": (["metadata"], [], "metadata"),
    "spec": (["spec"], "x", "spec"),
    "time": (["metadata", "creationTimestamp"], "yesterday", "metadata.creationTimestamp"),
    "time of deletion": (["metadata", "deletionTimestamp"], "soon", "metadata.deletionTimestamp"),
    "time without zone": (["metadata", "creationTimestamp"], "2026-01-01T00:00:00", "metadata.creationTimestamp"),
    "labels": (["metadata", "labels"], {"a": 1}, "metadata.labels.a"),
    "containers": (["spec", "containers"], [1], "spec.containers"),
    "quantity": (["spec", "containers", 0, "resources", "requests", "cpu"], "lots", "spec.containers[0].resources"),
    "quantity of another type": (["spec", "containers", 0, "resources", "requests", "cpu"], True, "spec.containers[0]"),
    "endless quantity": (["spec", "overhead"], {"memory": "1e999"}, "spec.overhead.memory"),
    "priority": (["spec", "priority"], "high", "spec.priority"),
    "toleration": (["spec", "tolerations"], [{"key": 1}], "spec.tolerations[0].key"),
    "owner": (["metadata", "ownerReferences"], [{"controller": True, "kind": ""}], "metadata.ownerReferences[0].kind"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_error_names_the_path_of_the_bad_field(name: str) -> None:
    path, value, expected = BROKEN[name]
    obj = pod()
    target: Any = obj
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}"):
        api_objects.parse_pod(obj)


JSON = strategies.recursive(
    strategies.none()
    | strategies.booleans()
    | strategies.integers()
    | strategies.floats()
    | strategies.text(max_size=9),
    lambda inner: strategies.lists(inner, max_size=2) | strategies.dictionaries(strategies.text(max_size=4), inner),
    max_leaves=4,
)
PATHS = (
    [["metadata"], ["spec"], ["status"], ["spec", "containers"], ["spec", "containers", 0]]
    + [["metadata", name] for name in (*pod()["metadata"], "labels", "annotations", "ownerReferences")]
    + [["spec", name] for name in ("initContainers", "affinity", "tolerations", "volumes", "overhead", "resources")]
    + [["spec", name] for name in ("topologySpreadConstraints", "schedulingGates", "nodeSelector", "taints")]
    + [["spec", "containers", 0, name] for name in ("resources", "ports", "image")]
    + [["spec", "containers", 0, "resources", "requests"], ["status", "conditions"], ["status", "allocatable"]]
    + [["status", "phase"], ["status", "containerStatuses"]]
)


@hypothesis.given(path=strategies.sampled_from(PATHS), value=JSON)
# More than 64 bits.
@hypothesis.example(path=["spec", "affinity"], value=-(2**63) - 1)
@hypothesis.settings(max_examples=300, deadline=None)
def test_an_object_with_an_odd_field_is_parsed_or_a_value_error(path: list[Any], value: Any) -> None:
    obj = copy.deepcopy(pod())
    target: Any = obj
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    for parse, kind in (
        (api_objects.parse_pod, cluster.Pod), (api_objects.parse_node, cluster.Node),
        (kubernetes_status.parse_run, kubernetes_status.PodRun),
    ):  # fmt: skip
        with contextlib.suppress(ValueError):
            assert isinstance(parse(obj), kind)


def test_a_binding_carries_its_precondition() -> None:
    body = bodies.binding_body(namespace="d", name="p", uid="u", node="n")
    assert body["metadata"] == {"namespace": "d", "name": "p", "uid": "u"}
    assert body["target"]["name"] == "n"


@pytest.mark.parametrize("longest", [names.BOUND_BY_MOST, names.BOUND_BY_MOST + 1])
def test_a_pod_shows_the_bind_that_gave_it_its_node(longest: int) -> None:
    start = names.start_of("r" * names.REPLICA_MAX, "0" * 16)
    by = f"{start}/".ljust(longest, "9")
    body = bodies.binding_body(namespace="d", name="p", uid="u", node="n", by=by)
    assert body["metadata"]["annotations"] == {names.BOUND_BY: by}
    obj = {"metadata": {**body["metadata"], "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"nodeName": "n"}}
    # Everyone who creates Pods can write the annotation, of any length.
    assert api_objects.parse_pod(obj).bound_by == (by if longest == names.BOUND_BY_MOST else "")
    assert api_objects.parse_pod(obj | {"spec": {}}).bound_by == "", "of a Pod that it was copied from"


def test_a_note_is_cut_at_the_limit_between_characters() -> None:
    body = bodies.event_body(
        {"kind": "Node", "name": "n"},
        name="e",
        reason="R",
        action="A",
        note="x" + "ü" * 600,
        controller="c",
        instance="i",
        at_ns=0,
        warning=True,
    )
    assert body["note"] == "x" + "ü" * 511
    assert (body["type"], body["metadata"]["namespace"]) == ("Warning", "default")


def test_instants_round_to_microseconds_both_ways() -> None:
    text = instants.format_instant(1_700_000_000_123_456_789)
    assert text == "2023-11-14T22:13:20.123456Z"
    assert instants.parse_instant(text) == 1700000000.123456


def test_a_lease_both_ways() -> None:
    lease = kubernetes_lease.Lease(
        namespace="kube-system",
        name="carico",
        holder="one",
        duration_s=15,
        acquired_at_ns=1_700_000_000_123_456_000,
        renewed_at_ns=1_700_000_001_000_001_000,
        transitions=3,
        resource_version="9",
    )
    assert kubernetes_lease.parse_lease(kubernetes_lease.lease_body(lease)) == lease


@pytest.mark.parametrize(
    ("obj", "said"),
    [
        ({}, "lease: expected metadata"),
        ({"metadata": {}}, "lease: .*name"),
        ({"metadata": {"name": "a"}, "spec": {"renewTime": "now"}}, "now"),
        ({"metadata": 1}, "lease: expected metadata"),
    ],
)
def test_a_lease_that_cannot_be_read(obj: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        kubernetes_lease.parse_lease(obj)


def status(phase: str, *containers: dict[str, Any], init: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    told = [{"name": "c", "state": state} for state in containers]
    return pod() | {
        "status": {
            "phase": phase,
            "containerStatuses": told,
            "initContainerStatuses": [{"name": "i", "state": state} for state in init],
        }
    }


RUNNING: dict[str, Any] = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
WAITING: dict[str, Any] = {"waiting": {"reason": "CrashLoopBackOff"}}
EXITED: dict[str, Any] = {"terminated": {"exitCode": 0}}


@pytest.mark.parametrize(
    ("obj", "state"),
    [
        (status("Pending"), "waiting"),
        (status("Pending", WAITING), "waiting"),
        (status("Pending", WAITING, init=(RUNNING,)), "running"),
        (status("Running"), "running"),
        (status("Running", RUNNING), "running"),
        (status("Running", EXITED, RUNNING), "running"),
        (status("Running", EXITED), "waiting"),
        (status("Running", WAITING), "waiting"),
        (status("Succeeded", EXITED), "ended"),
        (status("Failed"), "ended"),
    ],
)
def test_what_runs(obj: dict[str, Any], state: str) -> None:
    assert kubernetes_status.parse_run(obj).state.value == state
