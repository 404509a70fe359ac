"""What is run under each scheduler: our workloads, and the Pods of manifests; what cannot run is refused at once."""

from typing import Any

import pytest

from carico_core.domain import errors
from carico_local.compare import contender, load
from carico_local.jobs import job as jobs
from carico_local.jobs import job_labels

NODES = [load.node(name, cores=4, memory_bytes=8.0 * 2**30) for name in ("node-1", "node-2")]


def pod(name: str = "a", **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "command": ["sleep", "1"], "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}
    return {
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"restartPolicy": "Never", "containers": [container], **spec},
    }


def batch(count: object = 3, **template: Any) -> dict[str, Any]:
    return {
        "kind": "Job",
        "metadata": {"name": "crunch"},
        "spec": {"completions": count, "template": {"spec": pod()["spec"], **template}},
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
        (pod(containers=[{"command": ["x"]}]), "Pod a: Pod cannot be read"),
        (pod(volumes=[{"name": "x", "hostPath": {"path": "/"}}]), "volume 'x' is of kind hostPath"),
        (
            pod(containers=[{"name": "m", "command": ["x"], "resources": {"requests": {"cpu": "9"}}}]),
            "Pod a: could never be placed: no node has 9 cores (node-1 has the most: 4 cores)",
        ),
        (
            pod(containers=[{"name": "m", "command": ["x"], "resources": {"requests": {"cpu": "lots"}}}]),
            "Pod a: ",
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
    with pytest.raises(errors.SettingsError) as raised:
        read(document)
    assert str(raised.value).startswith("--workload work.yaml")
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_pods_may_choose_by_what_nodes_have() -> None:
    either = required({"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-2", "node-9"]})
    labels = {"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux", "carico.dev/emulated": "true"}
    assert read(pod(nodeSelector=labels, affinity=either)).pods == 1
    assert read(pod(affinity=required({"key": "disk", "operator": "DoesNotExist"}))).pods == 1


def test_limits_and_init_containers_change_no_contenders_request() -> None:
    """Without a request, the API server takes the limit for it."""
    limited = {"name": "m", "command": ["x"], "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}
    init = {"name": "i", "command": ["x"], "resources": {"requests": {"cpu": "3"}}}
    found = read(pod(containers=[limited, {**limited, "name": "n"}], initContainers=[init]))

    def requests(contended: str) -> list[Any]:
        (made,) = found.under(contender.parse(contended, cores=4), "compare-1").manifests()
        every = [*made["spec"]["containers"], *made["spec"]["initContainers"]]
        return [each["resources"].get("requests") for each in every]

    assert requests("carico") == [{"cpu": "0", "memory": "0"}] * 2 + [None]
    assert requests("kube-500m") == [{"cpu": "500m"}, {"cpu": "0"}, None]


def test_a_limit_below_what_a_contender_requests_is_refused() -> None:
    limited = {"name": "m", "command": ["x"], "resources": {"limits": {"cpu": "200m"}}}
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
