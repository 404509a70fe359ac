"""Least rights: each right that deploy/k8s gives is used by a service, and what is not given is denied."""

import concurrent.futures
import subprocess
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from tests.e2e.kubernetes import kubelet_site
from tests.tools import debian, waiting

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(kubelet_site.COLD_TIMEOUT_S),
    pytest.mark.skipif(debian.allowed() is not None, reason=str(debian.allowed())),
]

# (service account, API group, resource with its subresource, verb)
Right = tuple[str, str, str, str]
ACCOUNT = "system:serviceaccount:carico:"
ASKED_AT_ONCE = 3
# Needed when the answer to a bind was lost, which no healthy API server does, and for preemption: other tests do both.
# PodGroups are served by no API server here.
NOT_EXERCISED = {
    ("carico-scheduler", "", "pods", "get"), ("carico-scheduler", "", "pods", "delete"),
    *(
        ("carico-scheduler", group, "podgroups", verb)
        for group in ("scheduling.k8s.io", "scheduling.x-k8s.io")
        for verb in ("list", "watch")
    ),
}  # fmt: skip
DENIED = {
    "carico-scheduler": (
        "create pods", "deletecollection pods", "update pods", "patch pods", "create pods/exec", "get pods/log",
        "create pods/eviction", "get secrets", "list secrets", "get configmaps", "update nodes", "patch nodes",
        "delete nodes", "update nodes/status", "create persistentvolumes", "delete persistentvolumeclaims",
        "create namespaces", "list events", "delete leases", "get leases another", "create serviceaccounts/token",
        "impersonate users", "create clusterrolebindings", "list deployments.apps",
    ),
    "carico-agent": (
        "get pods", "list pods", "watch pods", "create pods/binding", "list nodes", "get nodes", "list secrets",
        "get secrets", "create events", "list pods/log", "create pods/exec",
    ),
    "carico-aggregator": ("list pods", "list nodes", "get secrets", "create events"),
    "carico-auth": ("list pods", "watch pods", "get secrets", "create tokenreviews.authentication.k8s.io"),
    "carico-nats": ("list pods", "get secrets", "get configmaps"),
}  # fmt: skip


@pytest.fixture(scope="module")
def deployed(site: kubelet_site.Site) -> kubelet_site.Site:
    """The site with the overlay `small` in it."""
    site.deploy(kubelet_site.SMALL)
    return site


def test_each_right_is_used_and_no_other_is_asked_for(deployed: kubelet_site.Site) -> None:
    # While an overlay is deleted its roles may go before its Pods.
    before = len(list(deployed.audited()))
    _exercise(deployed)
    given = set(_given(deployed))
    assert given >= NOT_EXERCISED

    def unused() -> set[Right]:
        return given - NOT_EXERCISED - set(_used(deployed))

    waiting.until_now(
        lambda: not unused(), within_s=kubelet_site.WITHIN_S, every_s=kubelet_site.LOOK_EVERY_S,
        what=lambda: f"rights that no service uses: {unused()}",
    )  # fmt: skip
    deployed.kubectl("delete", "pod", "nowhere", "with-unmade")
    refused = {
        (event["user"]["username"], event["verb"], event["objectRef"].get("resource"))
        for event in list(deployed.audited())[before:]
        if event["responseStatus"]["code"] == 403
    }
    assert refused == set()


def test_what_is_not_given_is_denied(deployed: kubelet_site.Site) -> None:
    assert sum(map(len, DENIED.values())) >= 30
    asked = [(account, right) for account, rights in DENIED.items() for right in rights]
    with concurrent.futures.ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
        answers = list(pool.map(lambda each: _may(deployed, *each), asked))
    assert [each for each, answer in zip(asked, answers, strict=True) if answer != "no"] == []


def _may(site: kubelet_site.Site, account: str, right: str) -> str:
    """kubectl's word on whether an account has a right."""
    words = [site.environ["KUBECTL"], "auth", "can-i", *_question(right), "--as", f"{ACCOUNT}{account}"]
    done = subprocess.run(
        [*words, "--namespace", "carico"], env=dict(site.environ), capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def _question(right: str) -> list[str]:
    """The words by which kubectl is asked: verb, resource with its subresource, and a name where there is one."""
    verb, resource, *name = right.split()
    kind, _, subresource = resource.partition("/")
    return [verb, "/".join((kind, *name)), *(["--subresource", subresource] if subresource else [])]


def _exercise(site: kubelet_site.Site) -> None:
    """A job, a Pod that nowhere fits, a claim for a volume of a node, and one for a volume that is to be made."""
    site.apply(kubelet_site.job("rights", 4))
    site.apply(_pod("nowhere", {"nodeSelector": {"no": "such"}}))
    site.apply(_storage_class("local", "kubernetes.io/no-provisioner"))
    site.apply(_storage_class("made", "carico.dev/none"))
    site.apply(_volume("of-node-1", "node-1"))
    site.until("the job is done", lambda: kubelet_site.succeeded(site, "rights") == 4)
    _claiming(site, "found", "local")
    site.until("the claim is bound", lambda: site.get("pod", "with-found")["status"]["phase"] != "Pending")
    assert site.get("pod", "with-found")["spec"]["nodeName"] == "node-1"
    # It holds its room on a node for as long as it waits for its volume: on node-1 the other would not fit next to it.
    _claiming(site, "unmade", "made")
    # Reasons that change and change back count up the Event of before, 10 s after each other; reasons that stay, after
    # a minute. An Event that names one of two nodes may name the other next: then that of the cordoned one is the same.
    site.until("the Pod has an Event", lambda: bool(_told(site, "nowhere")))
    try:
        for verb in ("cordon", "uncordon", "cordon"):
            if _is_counted_up_after(site, verb):
                break
    finally:
        site.kubectl("uncordon", "node-1")


def _is_counted_up_after(site: kubelet_site.Site, verb: str) -> bool:
    """Whether one of the waiting Pod's Events has come again, once its Event shows node-1 as it is by then."""
    before = _told(site, "nowhere")
    site.kubectl(verb, "node-1")
    site.until("the Pod has another Event", lambda: _told(site, "nowhere") != before)
    return any(count > 1 for _, count in _told(site, "nowhere"))


def _claiming(site: kubelet_site.Site, name: str, kind: str) -> None:
    """A Pod with a claim of its own."""
    site.apply(_claim(name, kind))
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
    site.apply(_pod(f"with-{name}", {"volumes": volumes}))


def _told(site: kubelet_site.Site, pod: str) -> set[tuple[str, int]]:
    """What its Events say, and how often."""
    events = site.get("events", "--field-selector", f"involvedObject.name={pod}")["items"]
    return {(event["message"], (event.get("series") or {"count": 1})["count"]) for event in events}


def _given(site: kubelet_site.Site) -> Iterable[Right]:
    for kind in ("clusterrole", "role"):
        selected = ("--selector", "app.kubernetes.io/part-of=carico", "--namespace", "carico")
        for role in site.get(kind, *selected)["items"]:
            for rule in role["rules"]:
                for group in rule["apiGroups"]:
                    for resource in rule["resources"]:
                        yield from ((role["metadata"]["name"], group, resource, verb) for verb in rule["verbs"])


def _used(site: kubelet_site.Site) -> Iterable[Right]:
    for event in site.audited():
        user, about = event["user"]["username"], event["objectRef"]
        # A Lease that is not there yet is asked for by right too.
        if user.startswith(ACCOUNT) and event["responseStatus"]["code"] != 403:
            resource = "/".join(filter(None, (about.get("resource"), about.get("subresource"))))
            yield user.removeprefix(ACCOUNT), about.get("apiGroup", ""), resource, event["verb"]


def _pod(name: str, more: Mapping[str, Any]) -> Mapping[str, Any]:
    container = {"name": "c", "image": kubelet_site.BUSYBOX, "imagePullPolicy": "Never", "command": ["sleep", "5"]}
    spec = {"schedulerName": "carico", "restartPolicy": "Never", "containers": [container], **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def _storage_class(name: str, provisioner: str) -> Mapping[str, Any]:
    return {
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer",
    }  # fmt: skip


def _volume(name: str, node: str) -> Mapping[str, Any]:
    on_node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Mi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local",
            "local": {"path": "/tmp"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}},
        },
    }  # fmt: skip


def _claim(name: str, kind: str) -> Mapping[str, Any]:
    return {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": kind,
            "resources": {"requests": {"storage": "1Mi"}},
        },
    }  # fmt: skip
