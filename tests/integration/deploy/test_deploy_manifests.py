"""deploy/k8s without a kubelet: every overlay renders, holds to its own rules, and is what an API server accepts."""

import os
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
import yaml

from carico_local.control_plane import standalone
from tests.tools import kubernetes

K8S = pathlib.Path(__file__).parents[3] / "deploy" / "k8s"
OVERLAYS = sorted(folder.name for folder in (K8S / "overlays").iterdir())
# What deploy/k8s/secrets.sh makes.
MADE = {
    "carico-nats-public", "carico-nats-tls", "carico-nats-ca", "carico-nats-agent", "carico-nats-aggregator",
    "carico-nats-scheduler", "carico-nats-callout", "carico-nats-auth", "carico-nats-reader",
    "carico-nats-recommender", "carico-recommender-tls", "carico-nats-rescheduler",
}  # fmt: skip
pytestmark = [pytest.mark.real_programs, pytest.mark.timeout(kubernetes.BUILD_TIMEOUT_S)]


@pytest.fixture(scope="module")
def rendered() -> Mapping[str, str]:
    """Each overlay as one document."""
    return {overlay: kubernetes.kubectl("kustomize", str(K8S / "overlays" / overlay)) for overlay in OVERLAYS}


def objects(document: str) -> Sequence[Mapping[str, Any]]:
    """The objects of a document."""
    return list(yaml.load_all(document, Loader=yaml.CSafeLoader))


def workloads(document: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(name, Pod spec) of whatever makes Pods."""
    for each in objects(document):
        if each["kind"] in ("Deployment", "DaemonSet", "StatefulSet"):
            yield each["metadata"]["name"], each["spec"]["template"]["spec"]


def test_the_overlays_are_those_that_the_readme_names() -> None:
    readme = (K8S.parent / "README.md").read_text(encoding="utf-8")
    assert OVERLAYS == [
        "callout",
        "containerd",
        "ha",
        "monitoring",
        "recommender",
        "rescheduler",
        "shared",
        "small",
        "web",
    ]
    assert all(f"`{overlay}`" in readme for overlay in OVERLAYS)


def test_agents_without_a_scheduler_get_what_they_need_from_the_overlay_of_the_docs(tmp_path: pathlib.Path) -> None:
    page = (K8S.parents[1] / "docs" / "with-kube-scheduler.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```yaml\n(.*?)^```", page, re.M | re.S)
    small = os.path.relpath(K8S / "overlays" / "small", tmp_path)
    (tmp_path / "kustomization.yaml").write_text(block.replace("../small", small), encoding="utf-8")
    found = {
        (each["kind"], each["metadata"]["name"]): each
        for each in objects(kubernetes.kubectl("kustomize", str(tmp_path)))
    }
    assert found["Deployment", "carico-scheduler"]["spec"]["replicas"] == 0
    agent = found["DaemonSet", "carico-agent"]["spec"]["template"]
    assert agent["spec"]["automountServiceAccountToken"] is True
    env = {each["name"]: each.get("value") for each in agent["spec"]["containers"][0]["env"]}
    assert env["CARICO_AGENT_POD_CLASSES"] == "kubernetes"
    chosen = found["NetworkPolicy", "carico-to-api"]["spec"]["podSelector"]["matchLabels"]
    assert chosen.items() <= agent["metadata"]["labels"].items()


def test_policies_of_the_cluster_have_no_namespace_whatever_components_come_next(tmp_path: pathlib.Path) -> None:
    # The API server drops it, so that `kubectl diff` would always show it.
    k8s = os.path.relpath(K8S, tmp_path)
    components = [f"{k8s}/components/{name}" for name in ("recommender", "callout", "rescheduler", "web", "monitoring")]
    overlay = {"resources": [f"{k8s}/overlays/small"], "components": components}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay), encoding="utf-8")
    found = objects(kubernetes.kubectl("kustomize", str(tmp_path)))
    policies = [each["metadata"] for each in found if each["kind"].startswith("ValidatingAdmissionPolicy")]
    assert ["namespace" in each for each in policies] == [False, False]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_no_pod_has_a_privilege(rendered: Mapping[str, str], overlay: str) -> None:
    for name, spec in workloads(rendered[overlay]):
        assert spec["securityContext"]["runAsNonRoot"], name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert spec["enableServiceLinks"] is False, name
        assert not any(spec.get(key) for key in ("hostNetwork", "hostPID", "hostIPC")), name
        for container in spec["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] is True
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert "privileged" not in context
            assert {"requests", "limits"} <= set(container["resources"])
            assert {"readinessProbe", "livenessProbe"} <= set(container)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_only_agents_see_the_host_and_read_only(rendered: Mapping[str, str], overlay: str) -> None:
    paths: dict[str, set[str]] = {}
    for name, spec in workloads(rendered[overlay]):
        hosts = {v["name"]: v["hostPath"]["path"] for v in spec.get("volumes", []) if "hostPath" in v}
        paths[name] = set(hosts.values())
        for mount in spec["containers"][0]["volumeMounts"]:
            if mount["name"] in hosts and not hosts[mount["name"]].endswith(".sock"):
                assert mount["readOnly"] is True
    expected = {"/proc", "/sys/fs/cgroup"}
    if overlay == "containerd":
        expected.add("/run/containerd/containerd.sock")
    assert paths.pop("carico-agent") == expected
    assert not any(paths.values())


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_what_a_pod_names_is_there(rendered: Mapping[str, str], overlay: str) -> None:
    found = objects(rendered[overlay])
    named = {each["metadata"]["name"] for each in found if each["kind"] in ("ConfigMap", "Secret")} | MADE
    accounts = {each["metadata"]["name"] for each in found if each["kind"] == "ServiceAccount"}
    classes = {each["metadata"]["name"] for each in found if each["kind"] == "PriorityClass"}
    for name, spec in workloads(rendered[overlay]):
        assert spec["serviceAccountName"] in accounts, name
        assert spec["priorityClassName"] in classes, name
        assert set(_references(spec)) <= named, name


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_carico_auth_has_the_api_only_with_the_callout(rendered: Mapping[str, str], overlay: str) -> None:
    spec = dict(workloads(rendered[overlay]))["carico-auth"]
    issuer = next(each["value"] for each in spec["containers"][0]["env"] if each["name"] == "CARICO_AUTH_ISSUER")
    with_callout = overlay == "callout"
    # `none`: NATS knows the keys, and carico-auth only disconnects who floods.
    assert (issuer != "none") is with_callout
    assert spec["automountServiceAccountToken"] is with_callout
    found = objects(rendered[overlay])
    bound = [each for each in found if {"name": "carico-auth"}.items() <= _subject(each).items()]
    assert bool(bound) is with_callout
    assert ("carico-auth-to-api" in {each["metadata"]["name"] for each in found}) is with_callout


def _subject(each: Mapping[str, Any]) -> Mapping[str, Any]:
    """Who has the role that a binding names; nobody where it is no binding."""
    return dict(each["subjects"][0]) if "subjects" in each else {}


def test_overlay_ha_has_the_replicas_that_docs_state(rendered: Mapping[str, str]) -> None:
    found = {
        (each["kind"], each["metadata"]["name"]): each for each in objects(rendered["ha"])
    }  # fmt: skip
    nats = found["StatefulSet", "carico-nats"]["spec"]
    assert nats["replicas"] == 3
    assert [claim["metadata"]["name"] for claim in nats["volumeClaimTemplates"]] == ["data"]
    assert "data" not in [volume["name"] for volume in nats["template"]["spec"]["volumes"]]
    assert found["Deployment", "carico-auth"]["spec"]["replicas"] == 2
    for name in ("carico-aggregator", "carico-scheduler"):
        spec = found["Deployment", name]["spec"]
        assert spec["replicas"] == 2
        environment = {e["name"]: e.get("value") for e in spec["template"]["spec"]["containers"][0]["env"]}
        assert environment["CARICO_BUS_COPIES"] == "3"
    configs = [each["data"]["nats.conf"] for (kind, _), each in found.items() if "nats.conf" in each.get("data", {})]
    assert len(configs) == 1
    assert "carico-nats-2.carico-nats-peers" in configs[0]


def test_nats_configurations_differ_only_in_the_cluster_block() -> None:
    base = (K8S / "base" / "nats.conf").read_text(encoding="utf-8").splitlines()
    high = (K8S / "overlays" / "ha" / "nats.conf").read_text(encoding="utf-8").splitlines()
    assert [line for line in base if line not in high] == []


@pytest.fixture(scope="module")
def namespace(real_control_plane: standalone.Standalone) -> pathlib.Path:
    """A kubeconfig of a cluster with the namespace, which stays: a dry run makes none, and looks for it."""
    kubeconfig = real_control_plane.kubeconfig
    kubernetes.kubectl("apply", "--filename", str(K8S / "base" / "namespace.yaml"), kubeconfig=kubeconfig)
    return kubeconfig


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_api_server_accepts_it(rendered: Mapping[str, str], overlay: str, namespace: pathlib.Path) -> None:
    arguments = ("apply", "--dry-run=server", "--validate=strict", "--filename", "-")
    said = kubernetes.kubectl(*arguments, given=rendered[overlay], kubeconfig=namespace)
    assert said.count("(server dry run)") == len(objects(rendered[overlay]))


def _references(spec: Mapping[str, Any]) -> Iterator[str]:
    for volume in spec["volumes"]:
        for source in (volume, *volume.get("projected", {}).get("sources", [])):
            if "secret" in source:
                yield source["secret"].get("secretName") or source["secret"]["name"]
            if "configMap" in source:
                yield source["configMap"]["name"]
    for origin in spec["containers"][0].get("envFrom", []):
        yield origin["secretRef"]["name"]
