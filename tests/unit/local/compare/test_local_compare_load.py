"""What is run under each scheduler: our workloads, and the Pods of manifests; what cannot run is refused at once."""

from typing import Any

import pytest

from carico_core.domain import errors
from carico_local.compare import contender, load
from carico_local.jobs import job as jobs
from carico_local.jobs import job_labels

NODES = [load.node(name, cores=4, memory_bytes=8.0 * 2**30) for name in ("node-1", "node-2")]


def pod(name: str = "a", **spec: Any) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"restartPolicy": "Never", "containers": [container()], **spec},
    }


def container(**more: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": "2", "memory": "1Gi"}}
    return {"name": "main", "image": "busybox", "command": ["sleep", "1"], "resources": resources, **more}


def peer(*, labels: dict[str, str] | None = None, **wanted: str) -> dict[str, Any]:
    """A Pod that must be where a Pod with certain labels is."""
    terms = [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": wanted}}]
    made = pod(affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})
    made["metadata"]["labels"] = labels
    return made


def batch(count: object = 3, job: dict[str, object] | None = None, **template: Any) -> dict[str, Any]:
    return {
        "kind": "Job",
        "metadata": {"name": "crunch"},
        "spec": {"completions": count, **(job or {}), "template": {"spec": pod()["spec"], **template}},
    }


def required(*expressions: dict[str, Any]) -> dict[str, Any]:
    terms = [{"matchExpressions": list(expressions)}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def read(*documents: object) -> load.Manifests:
    return load.read(documents, file="work.yaml", nodes=NODES)


def test_pods_of_manifests_run_under_each_scheduler() -> None:
    found = read(pod(), None, batch(), {"kind": "List", "items": [pod("b")]})
    assert found.pods == 5
    ours = list(found.under(contender.parse("carico", cores=4), "compare-1-carico").manifests())
    assert [each["metadata"]["name"] for each in ours] == [f"compare-1-carico-{index}" for index in range(5)]
    assert {each["spec"]["schedulerName"] for each in ours} == {"carico"}
    # CARICO needs no requests.
    assert all("requests" not in each["spec"]["containers"][0]["resources"] for each in ours)
    assert {each["metadata"]["labels"][job_labels.JOB_LABEL] for each in ours} == {"compare-1-carico"}
    # Pods of one Job are of one class, those of another are not.
    applications = [each["metadata"]["labels"][job_labels.APP_LABEL] for each in ours]
    assert applications == ["a", "crunch", "crunch", "crunch", "b"]
    kube = list(found.under(contender.parse("kube-500m", cores=4), "compare-1-kube-500m").manifests())
    assert {each["spec"]["schedulerName"] for each in kube} == {"default-scheduler"}
    asked = kube[0]["spec"]["containers"][0]["resources"]["requests"]
    # The memory is the file's: how much a Pod needs is not in question.
    assert asked == {"memory": "1Gi", "cpu": "500m"}
    # One contender leaves nothing behind for the next.
    assert found.templates[0]["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "2"


def assert_is_refused(document: object, said: str) -> None:
    """In one line that names the file."""
    with pytest.raises(errors.SettingsError) as raised:
        read(document)
    assert str(raised.value).startswith("--workload work.yaml")
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"kind": "Deployment", "spec": {}}, "object 1: got Deployment, expected a Pod or a Job: its Pods do not end"),
        ({"kind": "ConfigMap"}, "object 1: got ConfigMap, expected a Pod or a Job"),
        ({}, "object 1: got no kind, expected a Pod or a Job"),
        ("text", "object 1: got no Kubernetes object"),
        ({"kind": "Pod", "spec": [1]}, "object 1: got no Kubernetes object"),
        ({"kind": "Pod", "metadata": "a", "spec": {}}, "object 1: metadata: got 'a', expected an object"),
        ({"kind": "List", "items": 1}, "object 1: items: got 1, expected a list of objects"),
        ({"kind": "Job", "spec": {"template": [1]}}, "object 1: template: got [1], expected an object"),
        (batch(metadata=1), "object 1: metadata: got 1, expected an object"),
        (batch(spec="x"), "object 1: spec: got 'x', expected an object"),
        (pod() | {"metadata": {"labels": 1}}, "object 1: metadata: labels: got 1, expected an object"),
        (batch(metadata={"annotations": [1]}), "object 1: metadata: annotations: got [1], expected an object"),
        (batch(0.5), "completions: got 0.5, expected 1 to"),
        (batch(10**6), "completions: got 1000000, expected 1 to"),
        (pod(restartPolicy="Always"), "Pod a: restartPolicy: got Always, expected Never or OnFailure"),
        (pod(nodeName="node-1"), "Pod a: nodeName: got 'node-1', expected none"),
        (pod(containers=[{"name": "main", "image": "nginx"}]), "Pod a: emulated nodes do not run this: container"),
        (pod(containers=[]), "Pod a: has no container"),
        (pod(containers=None), "Pod a: has no container"),
        (pod(containers=[{"command": ["x"]}]), "Pod a: spec.containers[0].name: Required value; spec."),
        (pod(volumes=[{"name": "x", "hostPath": {"path": "/"}}]), "volume 'x' is of kind hostPath"),
        (
            pod(containers=[container(resources={"requests": {"cpu": "9"}})]),
            "Pod a: could never be placed: no node has 9 cores (node-1 has the most: 4 cores)",
        ),
        (
            pod(containers=[container(resources={"requests": {"cpu": "lots"}})]),
            "Pod a: spec.containers[0].resources.requests.cpu: quantities must match",
        ),
        (pod(nodeSelector={"disk": "ssd"}), "Pod a: could never be placed: no node has the label disk"),
        (
            batch(spec=pod(nodeSelector={"kubernetes.io/hostnam": "node-1"})["spec"]),
            "no node has the label kubernetes.io/hostnam; did you mean kubernetes.io/hostname?",
        ),
        (
            pod(affinity=required({"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-9"]})),
            "no node has the label kubernetes.io/hostname=node-9",
        ),
    ],
)  # fmt: skip
def test_what_cannot_run_is_one_line(document: object, said: str) -> None:
    assert_is_refused(document, said)


SECRET = {"name": "gone"}
KEY = {**SECRET, "key": "k"}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (pod(containers=[container(image="")]), "spec.containers[0].image: Required value"),
        (pod(containers=[container(name="Main")]), "spec.containers[0].name: Invalid value"),
        (pod(containers=[container(), container()]), 'spec.containers[1].name: Duplicate value: "main"'),
        (pod() | {"metadata": {"name": "a", "labels": {"app": "b c"}}}, 'metadata.labels: Invalid value: "b c"'),
        (pod() | {"metadata": {"name": "a", "labels": {"app": 1}}}, "cannot unmarshal number into field metadata.la"),
        (pod(containers=[container(command="sleep 1")]), "cannot unmarshal string into field spec."),
        (
            pod(containers=[container(resources={"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}})]),
            'spec.containers[0].resources.requests: Invalid value: "2Gi": must be less than or equal to memory limit',
        ),
        (
            pod(containers=[container(resources={"requests": {"cpu": "-1"}})]),
            'spec.containers[0].resources.requests[cpu]: Invalid value: "-1"',
        ),
        (pod(tolerations=[{"key": "a", "operator": "Wrong"}]), 'spec.tolerations[0].operator: Unsupported value: "W'),
        (pod(serviceAccountName="robot"), "spec.serviceAccountName: got 'robot', expected none"),
        (pod(serviceAccount="robot"), "spec.serviceAccount: got 'robot', expected none"),
        (pod(priorityClassName="gold"), "spec.priorityClassName: got 'gold', expected none"),
        (pod(priority=5), "spec.priority: got 5, expected none, or 0"),
        (pod(schedulingGates=[{"name": "a.b/c"}]), "spec.schedulingGates: got [{'name': 'a.b/c'}], expected none"),
        (pod(resourceClaims=[{"name": "gpu"}]), "spec.resourceClaims: got [{'name': 'gpu'}], expected none"),
        (
            pod(containers=[container(envFrom=[{"configMapRef": SECRET}])]),
            "spec.containers[0].envFrom[0].configMapRef: got 'gone', expected none, or an optional one",
        ),
        (
            pod(initContainers=[container(name="i", env=[{"name": "A", "valueFrom": {"secretKeyRef": KEY}}])]),
            "spec.initContainers[0].env[0].valueFrom.secretKeyRef: got 'gone', expected none",
        ),
        (
            pod(volumes=[{"name": "x", "secret": {"secretName": "gone"}}]),
            "spec.volumes[0].secret: got 'gone', expected none, or an optional one: the cluster has no such Secret",
        ),
        (peer(app="web"), "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]: got a term"),
        (batch(job={"completionMode": "Indexed"}), "object 1: spec.completionMode: got 'Indexed', expected 'Non"),
        (batch(job={"suspend": True}), "object 1: spec.suspend: got True, expected False or none"),
    ],
)  # fmt: skip
def test_what_the_cluster_refuses_or_never_starts_is_one_line(document: object, said: str) -> None:
    assert_is_refused(document, said)


def test_what_looks_alike_and_runs_is_taken() -> None:
    optional = container(
        envFrom=[{"secretRef": SECRET | {"optional": True}}],
        env=[{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    )
    own = pod(serviceAccountName="default", priorityClassName="system-cluster-critical", schedulingGates=[])
    assert (
        read(pod(containers=[optional]), own, batch(job={"suspend": False, "completionMode": "NonIndexed"})).pods == 5
    )


def test_pods_may_wait_for_others_of_the_file_that_start() -> None:
    group = peer(labels={"app": "web"}, app="web")
    assert read(group, peer(labels={"app": "db"}, app="web"), peer(app="db")).pods == 3
    with pytest.raises(errors.SettingsError, match="matches no Pod of the file which can start"):
        read(peer(labels={"app": "a"}, app="b"), peer(labels={"app": "b"}, app="a"), pod())


def test_kubelets_run_all_of_a_pod_and_offer_less() -> None:
    kubelets = [load.node("node-1", cores=0.5, memory_bytes=2.0**30, is_emulated=False)]

    def read_for(document: object) -> load.Manifests:
        return load.read([document], file="work.yaml", nodes=kubelets, are_emulated=False)

    small = container(resources={"requests": {"cpu": "500m"}})
    del small["command"]
    mounted = pod(containers=[small], volumes=[{"name": "x", "hostPath": {"path": "/"}}], activeDeadlineSeconds=9)
    assert read_for(mounted).pods == 1
    with pytest.raises(errors.SettingsError, match=r"no node has 2 cores \(node-1 has the most: 0\.5 cores\)"):
        read_for(pod())
    with pytest.raises(errors.SettingsError, match=r"no node has the label carico\.dev/emulated"):
        read_for(pod(containers=[small], nodeSelector={"carico.dev/emulated": "true"}))
    with pytest.raises(errors.SettingsError, match="the cluster has no such PersistentVolumeClaim"):
        read_for(pod(containers=[small], volumes=[{"name": "x", "persistentVolumeClaim": {"claimName": "gone"}}]))


def test_pods_may_choose_by_what_nodes_have() -> None:
    either = required({"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-2", "node-9"]})
    labels = {"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux", "carico.dev/emulated": "true"}
    assert read(pod(nodeSelector=labels, affinity=either)).pods == 1
    assert read(pod(affinity=required({"key": "disk", "operator": "DoesNotExist"}))).pods == 1


def test_limits_and_init_containers_change_no_contenders_request() -> None:
    """Without a request, the API server takes the limit for it."""
    limited = container(resources={"limits": {"cpu": "2", "memory": "1Gi"}})
    init = container(name="i", resources={"requests": {"cpu": "3"}})
    found = read(pod(containers=[limited, {**limited, "name": "n"}], initContainers=[init]))

    def requests(contended: str) -> list[Any]:
        (made,) = found.under(contender.parse(contended, cores=4), "compare-1").manifests()
        every = [*made["spec"]["containers"], *made["spec"]["initContainers"]]
        return [each["resources"].get("requests") for each in every]

    assert requests("carico") == [{"cpu": "0", "memory": "0"}] * 2 + [None]
    assert requests("kube-500m") == [{"cpu": "500m"}, {"cpu": "0"}, None]


def test_a_limit_below_what_a_contender_requests_is_refused() -> None:
    limited = container(resources={"limits": {"cpu": "200m"}})
    found = load.read([pod(containers=[limited])], file="work.yaml", nodes=NODES, millicores=200)
    assert found.pods == 1
    with pytest.raises(errors.SettingsError, match=r"limits 0\.2 of cpu, expected at least 0\.5"):
        load.read([pod(containers=[limited])], file="work.yaml", nodes=NODES, millicores=500)


def test_a_file_without_pods_is_refused() -> None:
    with pytest.raises(errors.SettingsError, match="got no object, expected a Pod or a Job"):
        read(None)


def test_train_pods_request_the_memory_that_they_hold() -> None:
    job = jobs.Job(name="compare", workload=jobs.Workload.MIXED, pods=27)
    made = load.Program(job=job).under(contender.parse("kube-200m", cores=4), "compare-1-kube-200m")
    asked = [each["spec"]["containers"][0]["resources"]["requests"] for each in made.manifests()]
    assert asked.count({"cpu": "200m", "memory": "1Gi"}) == 2
    assert asked.count({"cpu": "200m"}) == 25
    assert (made.name, made.pods) == ("compare-1-kube-200m", 27)
