"""Every overlay of deploy/k8s but `small` and `callout`, applied on real kubelets under a job."""

import itertools
import re
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from tests.e2e.kubernetes import kubelet_site
from tests.tools import debian

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(kubelet_site.COLD_TIMEOUT_S),
    pytest.mark.skipif(debian.allowed() is not None, reason=str(debian.allowed())),
]
OVERLAYS = kubelet_site.K8S / "overlays"
FEW = 6
SERVERS = 3
_numbers = itertools.count()


@pytest.fixture(scope="module")
def deployed(site: kubelet_site.Site) -> kubelet_site.Site:
    """The site with the overlay `small` in it; tests apply others over what they find, and are the last there."""
    site.deploy(kubelet_site.SMALL)
    return site


@pytest.fixture
def volumes(site: kubelet_site.Site) -> None:
    """A volume for each NATS server, two of them on one node; they and their claims go with the cluster."""
    for number in range(SERVERS):
        node = site.fleet.nodes[number % len(site.fleet.nodes)]
        folder = f"/var/lib/kubelet/test-volumes/{number}"
        site.fleet.engine.run("exec", site.fleet.container(node), "mkdir", "-p", folder)
        site.apply(volume(f"test-{number}", folder=folder, node=node.name))


def volume(name: str, *, folder: str, node: str) -> Mapping[str, Any]:
    """A folder of a node as a volume, of the kind that a kubelet makes over to the Pod's group."""
    on = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "2Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": folder},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on]}]}},
        },
    }


def until_done(site: kubelet_site.Site, name: str, pods: int) -> None:
    """Nothing, once every Pod of the job has succeeded."""
    site.until(f"job {name} is done", lambda: kubelet_site.succeeded(site, name) == pods)


def services(site: kubelet_site.Site, *labels: str) -> list[Mapping[str, Any]]:
    """The Pods of CARICO that bear one of these names."""
    found = site.get("pods", "--namespace", "carico", "--selector", f"app.kubernetes.io/name in ({','.join(labels)})")
    return [pod for pod in found["items"] if "deletionTimestamp" not in pod["metadata"]]


def scraped(site: kubelet_site.Site, targets: Iterable[str]) -> str:
    """What a Pod of the namespace `monitoring` reads at these addresses, one after another."""
    name = f"scraper-{next(_numbers)}"
    site.kubectl("apply", "--filename", "-", given="{apiVersion: v1, kind: Namespace, metadata: {name: monitoring}}")
    script = "; ".join(f"wget -q -O - http://{target} || exit 1" for target in targets)
    site.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "monitoring"},
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "scraper", "image": kubelet_site.BUSYBOX, "imagePullPolicy": "Never",
                                "command": ["sh", "-c", script]}],
            },
        }
    )  # fmt: skip
    about = ("--namespace", "monitoring")
    site.until(
        "the scraper has ended", lambda: site.get("pod", name, *about)["status"]["phase"] in ("Succeeded", "Failed")
    )
    said = site.kubectl("logs", name, *about)
    assert site.get("pod", name, *about)["status"]["phase"] == "Succeeded", said
    return said


def test_pod_events_come_from_containerd(deployed: kubelet_site.Site) -> None:
    deployed.deploy(OVERLAYS / "containerd")
    deployed.apply(kubelet_site.job("by-containerd", FEW))
    until_done(deployed, "by-containerd", FEW)
    agents = services(deployed, "carico-agent")
    assert len(agents) == kubelet_site.NODES
    for pod in agents:
        container = pod["spec"]["containers"][0]
        assert {"name": "CARICO_AGENT_POD_EVENTS", "value": "containerd"} in container["env"]
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
        said = deployed.kubectl("--namespace", "carico", "logs", pod["metadata"]["name"])
        assert "containerd is away" not in said
    said = scraped(deployed, [f"{pod['status']['podIP']}:8080/metrics" for pod in agents])
    started = re.findall(r'^carico_agent_pod_events_total\{[^}]*kind="started"[^}]*\} (\S+)$', said, re.MULTILINE)
    # Each Pod of the job, on one node or the other.
    assert sum(map(float, started)) >= FEW, said


def test_a_prometheus_finds_every_part(deployed: kubelet_site.Site) -> None:
    deployed.deploy(OVERLAYS / "monitoring")
    deployed.apply(kubelet_site.job("monitored", FEW))
    until_done(deployed, "monitored", FEW)
    targets = []
    for pod in deployed.get("pods", "--namespace", "carico")["items"]:
        told = pod["metadata"].get("annotations", {})
        if told.get("prometheus.io/scrape") == "true" and "deletionTimestamp" not in pod["metadata"]:
            targets.append(f"{pod['status']['podIP']}:{told['prometheus.io/port']}{told['prometheus.io/path']}")
    assert len(targets) == kubelet_site.NODES + 2
    said = scraped(deployed, targets)
    for family in ("carico_agent_capacity_pods", "carico_scheduler_binds_total", "carico_aggregator_subspaces_total"):
        assert f"\n{family}" in said
    deployed.kubectl("get", "networkpolicy", "carico-metrics", "--namespace", "carico")


@pytest.mark.usefixtures("volumes")
def test_a_job_goes_on_while_a_server_of_three_is_gone(deployed: kubelet_site.Site) -> None:
    """The last on the site: what it leaves there ends with the cluster."""
    _remove_bus(deployed)
    deployed.deploy(OVERLAYS / "ha")
    servers = services(deployed, "carico-nats")
    assert len(servers) == SERVERS
    assert len({pod["spec"]["nodeName"] for pod in servers}) == kubelet_site.NODES
    assert len(services(deployed, "carico-scheduler")) == len(services(deployed, "carico-aggregator")) == 2
    deployed.apply(kubelet_site.job("on-three", FEW, turns=250_000))
    deployed.until("the job has begun", lambda: kubelet_site.succeeded(deployed, "on-three") >= 1)
    deployed.kubectl("--namespace", "carico", "delete", "pod", "carico-nats-0", "--wait=false")
    until_done(deployed, "on-three", FEW)
    deployed.rolled_out()


def _remove_bus(site: kubelet_site.Site) -> None:
    """As deploy/README.md says: NATS, whose volumes cannot be changed, and who would make its streams as they were."""
    parts = ("statefulset/carico-nats", "deployment/carico-aggregator", "deployment/carico-scheduler")
    site.kubectl("--namespace", "carico", "delete", *parts, "--timeout", "90s")
