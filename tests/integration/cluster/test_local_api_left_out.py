"""What the embedded API leaves out of Kubernetes, where each answer says where it is; and what kubectl needs daily."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from carico_cli.clusters import integrations
from carico_local.api.model import resources
from tests.contract.kubernetes import control_planes, shapes
from tests.tools import kubernetes

ELSEWHERE = "carico up --control-plane real"
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
"""


# Of groups that the API serves, and of others.
KINDS = {
    "v1": ("ReplicationController", "ResourceQuota", "PersistentVolumeClaim"),
    "autoscaling/v2": ("HorizontalPodAutoscaler",),
    "autoscaling.k8s.io/v1": ("VerticalPodAutoscaler",),
    "policy/v1": ("PodDisruptionBudget",),
    "networking.k8s.io/v1": ("Ingress", "NetworkPolicy"),
    "storage.k8s.io/v1": ("StorageClass",),
    "rbac.authorization.k8s.io/v1": ("Role", "ClusterRoleBinding"),
    "scheduling.k8s.io/v1": ("PriorityClass",),
}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[control_planes.KubeApi]:
    with control_planes.embedded(tmp_path_factory.mktemp("left-out")) as running:
        yield running
        running.pool.clear()


@pytest.mark.parametrize(
    "kind", ["application/apply-patch+yaml", "application/json-patch+json", "application/vnd.kubernetes.protobuf"]
)
def test_other_encodings_are_refused_with_where_they_are_read(api: control_planes.KubeApi, kind: str) -> None:
    for method, path in (("POST", shapes.pods("default")), ("PATCH", shapes.pods("default", "p"))):
        refused = api.request(method, path, raw=b"k8s", content_type=kind)
        assert (refused.code, refused.body["reason"]) == (415, "UnsupportedMediaType")
        assert kind in refused.body["message"]
        assert ELSEWHERE in refused.body["message"]


@pytest.mark.parametrize(
    ("path", "plural"),
    [
        ("/apis/apps/v1/namespaces/default/deployments", "deployments"),
        ("/apis/apps/v1/daemonsets", "daemonsets"),
        ("/apis/batch/v1/namespaces/default/jobs/x", "jobs"),
        ("/api/v1/namespaces/default/services", "services"),
        ("/apis/scheduling.k8s.io/v1/priorityclasses", "priorityclasses"),
        ("/apis/example.com/v1/things", "such resource"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE"])
def test_kinds_that_are_not_served_are_named_with_where_they_are(
    api: control_planes.KubeApi, method: str, path: str, plural: str
) -> None:
    refused = api.request(method, path, {} if method in ("POST", "PATCH") else None)
    assert (refused.code, refused.body["reason"]) == (404, "NotFound")
    assert f"no {plural}:" in refused.body["message"]
    assert ELSEWHERE in refused.body["message"]


def test_what_only_kubelets_do_is_refused_with_where_they_are(api: control_planes.KubeApi) -> None:
    for subresource, command in resources.OF_KUBELETS.items():
        refused = api.request("GET", shapes.pods("default", "p", subresource))
        assert refused.code == 404
        assert f"no `{command}`: real kubelets have it, `carico up --nodes kubelet=2`" in refused.body["message"]
        # `kubectl debug` ends with a panic without them.
        assert refused.body["details"] == {"kind": "pods"}
    refused = api.request("GET", "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods")
    assert "no `kubectl top`: real kubelets have it" in refused.body["message"]


def test_a_pod_without_a_scheduler_here_gets_a_warning_and_an_event(api: control_planes.KubeApi) -> None:
    made = api.request("POST", shapes.pods("default"), shapes.pod("lost", schedulerName="default-scheduler"))
    assert made.code == 201
    warning = made.headers["Warning"]
    assert "set spec.schedulerName to contract" in warning
    events = api.request("GET", "/api/v1/namespaces/default/events", fieldSelector="involvedObject.name=lost").body
    (event,) = events["items"]
    assert (event["reason"], event["type"]) == ("FailedScheduling", "Warning")
    assert event["involvedObject"]["uid"] == made.body["metadata"]["uid"]
    assert event["message"] in warning


@pytest.mark.parametrize("spec", [{"schedulerName": "contract"}, {"schedulerName": "other", "nodeName": "n"}])
def test_pods_with_a_scheduler_or_a_node_get_no_warning(api: control_planes.KubeApi, spec: dict[str, Any]) -> None:
    made = api.request("POST", shapes.pods("default"), shapes.pod(f"has-{len(spec)}", **spec))
    assert made.code == 201
    assert "Warning" not in made.headers
    path = "/api/v1/namespaces/default/events"
    assert api.request("GET", path, fieldSelector=f"involvedObject.name=has-{len(spec)}").body["items"] == []


def test_a_pod_of_a_priority_class_states_its_priority_itself(api: control_planes.KubeApi) -> None:
    refused = api.request("POST", shapes.pods("default"), shapes.pod("of-class", priorityClassName="idle"))
    assert "also state spec.priority" in refused.body["message"]
    assert ELSEWHERE in refused.body["message"]
    made = api.request("POST", shapes.pods("default"), shapes.pod("of-class", priorityClassName="idle", priority=-10))
    assert made.code == 201
    assert made.body["spec"]["priority"] == -10


@pytest.mark.parametrize("amount", ["1e400", "lots", "64mi", "9" * 400])
def test_an_amount_that_is_no_quantity_is_named_with_its_field(api: control_planes.KubeApi, amount: str) -> None:
    body = shapes.pod("asks")
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": amount}}
    refused = api.request("POST", shapes.pods("default"), body)
    assert (refused.code, refused.body["reason"]) == (400, "BadRequest")
    assert refused.body["message"].startswith("spec.containers[0].resources.requests.cpu: ")


def test_a_dry_run_warns_of_nothing_and_keeps_nothing(api: control_planes.KubeApi) -> None:
    made = api.request("POST", shapes.pods("default"), shapes.pod("dry", schedulerName="other"), dryRun="All")
    assert made.code == 201
    path = "/api/v1/namespaces/default/events"
    assert api.request("GET", path, fieldSelector="involvedObject.name=dry").body["items"] == []


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def kubectl(api: control_planes.KubeApi) -> Run:
    """Runs kubectl on the API."""
    program = kubernetes.programs("kubectl")["kubectl"].path

    def run(*words: str, given: str | None = None) -> "subprocess.CompletedProcess[str]":
        environ = os.environ | {"KUBECONFIG": str(api.kubeconfig), "HOME": str(api.kubeconfig.parent)}
        return subprocess.run(
            [program, *words], input=given, env=environ, capture_output=True, text=True, check=False, timeout=120
        )

    return run


@pytest.mark.real_programs
@pytest.mark.parametrize(
    "words",
    [
        ("create", "deployment", "web", "--image=nginx"),
        ("apply", "-f", "-"),
        ("get", "deployments"),
        ("get", "priorityclasses"),
        ("create", "job", "j", "--image=nginx"),
        ("apply", "--server-side", "-f", "-"),
        ("create", "configmap", "c", "--from-literal=a=b"),
        ("patch", "node", "n", "--type=json", "-p", "[]"),
    ],
    ids=" ".join,
)
def test_kubectl_prints_who_has_what_is_left_out(
    api: control_planes.KubeApi, kubectl: Run, words: tuple[str, ...]
) -> None:
    api.request("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
    done = kubectl(*words, given=DEPLOYMENT)
    assert done.returncode == 1
    assert ELSEWHERE in done.stderr


@pytest.mark.real_programs
@pytest.mark.parametrize(("version", "kind"), [(version, kind) for version, kinds in KINDS.items() for kind in kinds])
def test_kubectl_refuses_a_manifest_of_a_kind_that_is_left_out(kubectl: Run, version: str, kind: str) -> None:
    done = kubectl("apply", "-f", "-", given=f"{{apiVersion: {version}, kind: {kind}, metadata: {{name: x}}}}")
    assert done.returncode == 1
    assert ELSEWHERE in done.stderr
    assert "validate=false" not in done.stderr


@pytest.mark.real_programs
@pytest.mark.parametrize(
    "words",
    [
        ("exec", "runs", "--", "ls"), ("attach", "runs"), ("port-forward", "runs", ":80"),
        ("debug", "runs", "--image=busybox"), ("top", "pods"), ("top", "nodes"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_kubectl_prints_where_a_command_runs_in_a_pod(
    api: control_planes.KubeApi, kubectl: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    api.request("POST", shapes.pods("default"), shapes.pod("runs", nodeName="n"))
    path = shapes.pods("default", "runs", "status")
    api.request("PATCH", path, {"status": {"phase": "Running"}}, content_type=shapes.MERGE)
    # As `carico env` and `carico use` set them.
    for name in integrations._WEBSOCKETS:
        monkeypatch.setenv(name, "false")
    done = kubectl(*words)
    assert done.returncode == 1
    said = f"this cluster has no `kubectl {words[0]}`: real kubelets have it, `carico up --nodes kubelet=2`"
    assert said in done.stderr


@pytest.mark.real_programs
def test_kubectl_run_says_why_its_pod_waits(kubectl: Run) -> None:
    done = kubectl("run", "waits", "--image=nginx")
    assert done.returncode == 0
    assert "Warning: no scheduler here handles Pods with schedulerName default-scheduler" in done.stderr
    described = kubectl("describe", "pod", "waits").stdout
    assert "FailedScheduling" in described
    assert "set spec.schedulerName to contract" in described


@pytest.mark.real_programs
def test_kubectl_applies_a_list_and_what_it_printed_itself(kubectl: Run) -> None:
    items = [{"apiVersion": "v1", "kind": "Pod", **shapes.pod(name)} for name in ("listed-1", "listed-2")]
    made = kubectl("apply", "-f", "-", given=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert made.stdout == "pod/listed-1 created\npod/listed-2 created\n", made.stderr
    printed = kubectl("get", "pod", "listed-1", "listed-2", "-o", "yaml").stdout
    again = kubectl("apply", "-f", "-", given=printed)
    assert again.returncode == 0, again.stderr


@pytest.mark.real_programs
def test_kubectl_taints_and_drains_a_node(api: control_planes.KubeApi, kubectl: Run) -> None:
    api.request("POST", "/api/v1/nodes", {"metadata": {"name": "old"}})
    assert kubectl("taint", "node", "old", "worn=out:NoSchedule").stdout == "node/old tainted\n"
    made = api.request("POST", shapes.pods("default"), shapes.pod("there", nodeName="old"))
    assert made.code == 201
    drained = kubectl("drain", "old", "--force", "--grace-period=0", "--timeout=60s")
    assert drained.returncode == 0, drained.stderr
    assert "node/old drained" in drained.stdout
    assert api.request("GET", shapes.pods("default", "there")).code == 404
    assert api.request("GET", "/api/v1/nodes/old").body["spec"]["unschedulable"] is True


@pytest.mark.real_programs
def test_kubectl_wait_sees_a_condition(api: control_planes.KubeApi, kubectl: Run) -> None:
    api.request("POST", shapes.pods("default"), shapes.pod("soon"))
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    path = shapes.pods("default", "soon", "status")
    api.request("PATCH", path, {"status": status}, content_type=shapes.MERGE)
    done = kubectl("wait", "--for=condition=Ready", "pod/soon", "--timeout=60s")
    assert done.stdout == "pod/soon condition met\n", done.stderr
