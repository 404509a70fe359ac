"""The clients that people use: the official Python client and kubectl."""

import importlib
import os
import pathlib
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.kubernetes import shapes
from tests.contract.kubernetes.control_planes import KubeApi

# Its types are incomplete and its model classes strict: the suite uses it as scripts do, untyped.
kubernetes: Any = importlib.import_module("kubernetes")


class Stating(kubernetes.client.ApiClient):  # type: ignore[misc]
    """The official client, stating what its bodies are: by itself it does so for patches alone, which 415s here."""

    def call_api(
        self, method: str, url: str, header_params: Any = None, body: Any = None, *rest: Any, **named: Any
    ) -> Any:
        if body is not None:
            header_params = {"Content-Type": "application/json", **(header_params or {})}
        return super().call_api(method, url, header_params, body, *rest, **named)


@pytest.fixture
def core(kube_api: KubeApi) -> Iterator[Any]:
    """The official client's CoreV1Api."""
    configuration = kubernetes.client.Configuration()
    kubernetes.config.load_kube_config(str(kube_api.kubeconfig), client_configuration=configuration)
    with Stating(configuration) as client:
        yield kubernetes.client.CoreV1Api(client)


def test_official_client_creates_lists_and_deletes(core: Any, namespace: str) -> None:
    made = core.create_namespaced_pod(namespace, shapes.pod(labels={"a": "1"}))
    assert made.metadata.uid
    found = core.list_namespaced_pod(namespace, label_selector="a=1")
    assert [item.metadata.name for item in found.items] == ["p"]
    core.delete_namespaced_pod("p", namespace)
    with pytest.raises(kubernetes.client.ApiException) as caught:
        core.read_namespaced_pod("p", namespace)
    assert caught.value.status == 404


def test_official_client_binds(core: Any, namespace: str, node: str) -> None:
    core.create_namespaced_pod(namespace, shapes.pod())
    core.create_namespaced_pod_binding("p", namespace, shapes.binding("p", node), _preload_content=False)
    assert core.read_namespaced_pod("p", namespace).spec.node_name == node
    with pytest.raises(kubernetes.client.ApiException) as caught:
        core.create_namespaced_pod_binding("p", namespace, shapes.binding("p", node), _preload_content=False)
    assert caught.value.status == 409


def test_official_client_watches(core: Any, namespace: str) -> None:
    core.create_namespaced_pod(namespace, shapes.pod("a"))
    version = core.list_namespaced_pod(namespace).metadata.resource_version
    core.create_namespaced_pod(namespace, shapes.pod("b"))
    core.delete_namespaced_pod("a", namespace)
    watch = kubernetes.watch.Watch()
    told = []
    for event in watch.stream(core.list_namespaced_pod, namespace, resource_version=version, timeout_seconds=60):
        told.append((event["type"], event["object"].metadata.name))
        if event["type"] == "DELETED":
            watch.stop()
    assert told == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "a")]


def test_official_client_patches_node_status_and_reads_events(core: Any, namespace: str, node: str) -> None:
    core.patch_node_status(node, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    ready = {item.type: item.status for item in core.read_node(node).status.conditions}
    assert ready["Ready"] == "True"
    pod = core.create_namespaced_pod(namespace, shapes.pod())
    about = {"metadata": {"name": "p", "uid": pod.metadata.uid}}
    core.create_namespaced_event(namespace, shapes.event("e", namespace, about))
    assert core.list_namespaced_event(namespace).items[0].involved_object.name == "p"


def test_official_client_renews_a_lease(core: Any, namespace: str) -> None:
    leases = kubernetes.client.CoordinationV1Api(core.api_client)
    lease = leases.create_namespaced_lease(namespace, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}})
    lease.spec.holder_identity = "b"
    assert leases.replace_namespaced_lease("l", namespace, lease).spec.holder_identity == "b"
    with pytest.raises(kubernetes.client.ApiException) as caught:
        leases.replace_namespaced_lease("l", namespace, lease)
    assert caught.value.status == 409


class Kubectl:
    """kubectl on one API and namespace."""

    def __init__(self, api: KubeApi, namespace: str, home: pathlib.Path) -> None:
        self.environment = os.environ | {"KUBECONFIG": str(api.kubeconfig), "HOME": str(home)}
        self.prefix = [api.kubectl or "kubectl", "--namespace", namespace, f"--cache-dir={home}/cache"]

    def __call__(self, *arguments: str, given: str | None = None) -> str:
        """What kubectl printed; a failure of it fails the test."""
        done = subprocess.run(
            [*self.prefix, *arguments], input=given, env=self.environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def kubectl(kube_api: KubeApi, namespace: str, tmp_path: pathlib.Path) -> Kubectl:
    if kube_api.kubectl is None:
        pytest.skip("kubectl is not installed")
    return Kubectl(kube_api, namespace, tmp_path)


MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {{name: p, labels: {{tier: {tier}}}}}
spec:
  schedulerName: contract
  containers: [{{name: main, image: "example.invalid/image:1", command: [sleep, "5"]}}]
"""


def test_kubectl_applies_changes_and_deletes(kubectl: Kubectl) -> None:
    assert kubectl("apply", "-f", "-", given=MANIFEST.format(tier="web")) == "pod/p created\n"
    assert kubectl("apply", "-f", "-", given=MANIFEST.format(tier="web")) == "pod/p unchanged\n"
    assert kubectl("apply", "-f", "-", given=MANIFEST.format(tier="db")) == "pod/p configured\n"
    wide = kubectl("get", "pods", "-o", "wide", "--show-labels")
    assert wide.split()[:5] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert "tier=db" in wide
    kubectl("label", "pod", "p", "extra=1")
    kubectl("annotate", "pod", "p", "note=here")
    described = kubectl("describe", "pod", "p")
    assert "extra=1" in described
    assert "note: here" in described
    assert kubectl("delete", "pod", "p").startswith('pod "p" deleted')


def test_kubectl_sorts_events(kubectl: Kubectl, kube_api: KubeApi, namespace: str) -> None:
    about = {"kind": "Pod", "namespace": namespace, "name": "p"}
    for name in ("e1", "e2"):
        body = {
            "metadata": {"name": name, "namespace": namespace}, "regarding": about, "reason": "Placed",
            "eventTime": f"2026-01-01T00:00:0{name[-1]}.000000Z", "action": "Binding", "type": "Normal", "note": name,
            "reportingController": "example.com/contract", "reportingInstance": "c-0",
        }  # fmt: skip
        kube_api.request("POST", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", body)
    listed = kubectl("get", "events", "--sort-by=.lastTimestamp")
    assert listed.count("Placed") == 2
    assert "<unknown>" not in kubectl("get", "events")


def test_kubectl_follows_pods(kubectl: Kubectl, kube_api: KubeApi, namespace: str, node: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    kube_api.request("POST", path, shapes.pod())
    command = [*kubectl.prefix, "get", "pods", "-w", "-o", "wide"]
    with subprocess.Popen(command, env=kubectl.environment, stdout=subprocess.PIPE, text=True) as process:
        guard = threading.Timer(60.0, process.kill)
        guard.start()
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        kube_api.request("POST", f"{path}/p/binding", shapes.binding("p", node))
        lines.append(process.stdout.readline())
        guard.cancel()
        process.kill()
    assert lines[0].startswith("NAME")
    assert node not in lines[1]
    assert node in lines[2]


def test_kubectl_reads_logs(kubectl: Kubectl, kube_api: KubeApi, namespace: str, kubelet: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    kube_api.request("POST", path, shapes.pod())
    kube_api.request("POST", f"{path}/p/binding", shapes.binding("p", kubelet))
    assert kubectl("logs", "p").endswith("\nlast line\n")


def test_kubectl_cordons_and_describes_nodes(kubectl: Kubectl, kube_api: KubeApi, node: str) -> None:
    status = {"conditions": [{"type": "Ready", "status": "True"}], "capacity": {"cpu": "4"}}
    kube_api.request("PATCH", f"/api/v1/nodes/{node}/status", {"status": status}, content_type=shapes.MERGE)
    kubectl("cordon", node)
    assert "Ready,SchedulingDisabled" in kubectl("get", "node", node)
    assert "Unschedulable:      true" in kubectl("describe", "node", node)
    kubectl("uncordon", node)
    assert "SchedulingDisabled" not in kubectl("get", "node", node)


CONFIG = """
apiVersion: v1
kind: Secret
metadata: {{name: applied}}
stringData: {{user: {user}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: applied}}
data: {{user: {user}}}
"""


def test_kubectl_applies_and_describes_configuration(kubectl: Kubectl, tmp_path: pathlib.Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\x00")

    def create(*words: str) -> None:
        # By itself `create` sends protobuf.
        kubectl("apply", "-f", "-", given=kubectl("create", *words, "--dry-run=client", "-o", "yaml"))

    create("configmap", "made", "--from-literal=a=1", f"--from-file={tmp_path / 'binary'}")
    assert kubectl("get", "cm", "made", "--no-headers").split()[:2] == ["made", "2"]
    assert "binary: 2 bytes" in kubectl("describe", "cm", "made")
    create("secret", "generic", "made", "--from-literal=word=hidden")
    assert kubectl("get", "secret", "made", "--no-headers").split()[:3] == ["made", "Opaque", "1"]
    assert "word:  6 bytes" in kubectl("describe", "secret", "made")
    for user, done in (("one", "created"), ("one", "unchanged"), ("two", "configured")):
        said = kubectl("apply", "-f", "-", given=CONFIG.format(user=user))
        # A Secret's stringData is always a change to kubectl: it is not what the API keeps.
        assert f"configmap/applied {done}" in said
        assert kubectl("get", "secret", "applied", "-o", "go-template={{.data.user | base64decode}}") == user
    assert kubectl("delete", "secret,cm", "applied").count("deleted") == 2


def test_kubectl_explains_and_lists_events(kubectl: Kubectl, kube_api: KubeApi, namespace: str) -> None:
    assert "containers" in kubectl("explain", "pod.spec")
    pod = kube_api.request("POST", f"/api/v1/namespaces/{namespace}/pods", shapes.pod()).body
    kube_api.request("POST", f"/api/v1/namespaces/{namespace}/events", shapes.event("e", namespace, pod))
    assert "placed by contract" in kubectl("get", "events")
    assert "placed by contract" in kubectl("describe", "pod", "p")
