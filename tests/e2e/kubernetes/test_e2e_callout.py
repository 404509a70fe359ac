"""The overlay with the callout on real kubelets: tokens that kubelets bring, each for its own node; then its end."""

import dataclasses

import pytest

from tests.e2e.kubernetes import kubelet_site
from tests.tools import debian

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(kubelet_site.COLD_TIMEOUT_S),
    pytest.mark.skipif(debian.allowed() is not None, reason=str(debian.allowed())),
]
OVERLAY = kubelet_site.K8S / "overlays" / "callout"
PODS = 10


@pytest.fixture(scope="module")
def deployed(site: kubelet_site.Site) -> kubelet_site.Site:
    """The site with the overlay in it, which the last test here takes away."""
    folder = site.folder / "callout"
    folder.mkdir(exist_ok=True)
    found = dataclasses.replace(site, folder=folder, environ={**site.environ, "KIND": "callout"})
    found.deploy(OVERLAY)
    return found


def logs(site: kubelet_site.Site) -> str:
    """What both replicas of the callout have said."""
    selector = ("--selector", "app.kubernetes.io/name=carico-auth", "--tail", "-1")
    return site.kubectl("--namespace", "carico", "logs", *selector)


def test_a_job_completes_where_kubernetes_says_who_is_on_the_bus(deployed: kubelet_site.Site) -> None:
    deployed.apply(kubelet_site.job("by-token", PODS))
    deployed.until("the job is done", lambda: kubelet_site.succeeded(deployed, "by-token") == PODS)
    said = logs(deployed)
    for identity in ("agent/node-1", "agent/node-2", "aggregator/carico/carico-aggregator",
                     "scheduler/carico/carico-scheduler"):  # fmt: skip
        assert f'"identity":"{identity}"' in said
    # No service of the bus holds a seed.
    secrets = {item["metadata"]["name"] for item in deployed.get("secrets", "--namespace", "carico")["items"]}
    assert secrets == {"carico-nats-public", "carico-nats-tls", "carico-nats-auth"}
    # Everything restarts, the callout too, and connects again.
    for part in kubelet_site.PARTS:
        deployed.kubectl("--namespace", "carico", "rollout", "restart", part)
    deployed.rolled_out()
    deployed.apply(kubelet_site.job("by-token-again", PODS))
    deployed.until("the job is done", lambda: kubelet_site.succeeded(deployed, "by-token-again") == PODS)


def test_deleting_the_overlay_leaves_nothing_behind(deployed: kubelet_site.Site) -> None:
    """Nor does that of `small`, which is a part of it."""
    deployed.kubectl("delete", "--kustomize", str(OVERLAY), "--timeout", "90s")
    listed = "clusterroles,clusterrolebindings,priorityclasses,namespaces"
    left = [item["metadata"]["name"] for item in deployed.get(listed)["items"] if "carico" in item["metadata"]["name"]]
    assert left == []
