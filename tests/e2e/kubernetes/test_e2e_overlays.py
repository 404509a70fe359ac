"""Overlays `containerd`, `web`, `monitoring` and `ha`, and deploy/extender, applied on real kubelets under a job."""

import collections
import dataclasses
import itertools
import os
import pathlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import playwright.async_api as browsers
import pytest
import yaml

from carico_core.domain import errors
from tests.e2e.kubernetes import kubelet_site, port_forward
from tests.tools import chromium, debian

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(kubelet_site.COLD_TIMEOUT_S),
    pytest.mark.skipif(debian.allowed() is not None, reason=str(debian.allowed())),
]
OVERLAYS = kubelet_site.K8S / "overlays"
EXTENDER = kubelet_site.K8S.parent / "extender"
# More than two nodes take at once of unmeasured work.
FEW = 6
expect = browsers.expect
WITHIN_MS = 90_000
# Of the page and of NATS' WebSocket, as docs/web.md forwards them.
PAGE, BUS = 8090, 9222
SERVERS = 3
# `monitoring` last, so that it finds what the other has added.
COMPONENTS = ("web", "monitoring")
_numbers = itertools.count()


@pytest.fixture(scope="module")
def deployed(site: kubelet_site.Site) -> kubelet_site.Site:
    """The site with the overlay `small` in it; tests apply others over what they find, and are the last there."""
    site.deploy(kubelet_site.SMALL)
    return site


@pytest.fixture(scope="module")
def with_parts(deployed: kubelet_site.Site, tmp_path_factory: pytest.TempPathFactory) -> kubelet_site.Site:
    """The site with an overlay of its own in it, as deploy/README.md says, and with CARICO inside kube-scheduler."""
    folder = tmp_path_factory.mktemp("overlay")
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(OVERLAYS / "small", folder)],
        "components": [os.path.relpath(kubelet_site.K8S / "components" / name, folder) for name in COMPONENTS],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization), encoding="utf-8")
    site = dataclasses.replace(deployed, environ={**deployed.environ, "WEB": "1"})
    site.make_secrets()
    for each in (folder, EXTENDER):
        site.kubectl("apply", "--kustomize", str(each))
    site.rolled_out()
    for name in ("carico-web", "kube-carico"):
        rollout = ("rollout", "status", f"deployment/{name}", "--timeout", "300s")
        site.kubectl("--namespace", kubelet_site.NAMESPACE, *rollout, timeout_s=310.0)
    return site


@pytest.fixture
def volumes(site: kubelet_site.Site) -> None:
    """A volume for each NATS server, two of them on one node; they and their claims go with the cluster."""
    for number in range(SERVERS):
        node, below = site.nodes[number % len(site.nodes)], f"test-volumes/{number}"
        (site.folder_of(node) / below).mkdir(parents=True)
        site.apply(volume(f"test-{number}", folder=f"/var/lib/kubelet/{below}", node=node.name))


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
    """Wait until every Pod of the job has succeeded."""
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


def test_a_stock_kube_scheduler_places_by_what_nodes_advertise(with_parts: kubelet_site.Site) -> None:
    with_parts.apply(kubelet_site.job("extended", FEW, scheduler="kube-carico"))
    # Such work is unmeasured: a node takes one at a time, and refuses the others in words of CARICO.
    with_parts.until("Pods wait as no node advertises room", lambda: bool(refusals(with_parts, "extended-")))
    until_done(with_parts, "extended", FEW)
    binds = [event for event in with_parts.audited() if _is_of(event, "binding", "extended-")]
    # CARICO's bind, with the account of the Pod that both share; each Pod once.
    assert {event["user"]["username"] for event in binds} == {"system:serviceaccount:carico:kube-carico"}
    assert collections.Counter(event["objectRef"]["name"] for event in binds).most_common(1)[0][1] == 1
    assert len(binds) == FEW


async def test_the_live_page_shows_what_both_place(with_parts: kubelet_site.Site) -> None:
    reader = dict(
        line.split("=")
        for line in (with_parts.folder / "identities/public.env").read_text(encoding="ascii").splitlines()
    )["CARICO_NATS_READER"]
    sent: list[str | bytes] = []
    with (
        port_forward.forwarded(with_parts, "carico-web", PAGE) as page_port,
        port_forward.forwarded(with_parts, "carico-nats-websocket", BUS) as bus_port,
    ):
        # The ports of an operator, from whose address alone the bus lets a page in; here they may be another's.
        rules = f"MAP localhost:{PAGE} 127.0.0.1:{page_port},MAP localhost:{BUS} 127.0.0.1:{bus_port}"
        async with browsers.async_playwright() as driver:
            options = ["--no-sandbox", f"--host-resolver-rules={rules}"]
            browser = await driver.chromium.launch(executable_path=str(_browser()), args=options)
            page = await browser.new_page()
            page.set_default_timeout(WITHIN_MS)
            page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(frame)))
            await page.goto(f"http://localhost:{PAGE}")
            await expect(page.locator("#bus-state")).to_have_text("live", timeout=WITHIN_MS)
            await expect(page.locator("#sum-nodes")).to_have_text(str(kubelet_site.NODES), timeout=WITHIN_MS)
            model = f"of {kubelet_site.NODES} nodes"
            await expect(page.locator("#model-note")).to_contain_text(model, timeout=WITHIN_MS)
            # Kept by the bus, of kube-scheduler's Pods.
            row = page.locator("#flow-list button", has_text="default/extended-").first
            await expect(row).to_contain_text("node-", timeout=WITHIN_MS)
            # Live, of CARICO's own.
            with_parts.apply(kubelet_site.job("shown", 1))
            row = page.locator("#flow-list button", has_text="default/shown-").first
            await expect(row).to_contain_text("node-", timeout=WITHIN_MS)
            await page.goto(f"http://localhost:{PAGE}/#node/node-1")
            await expect(page.locator("#panel .asked")).to_contain_text("free by its rules", timeout=WITHIN_MS)
            await browser.close()
    assert any(f'"nkey":"{reader}"' in _text(frame) for frame in sent)


def test_a_prometheus_finds_every_part(with_parts: kubelet_site.Site) -> None:
    targets = []
    for pod in with_parts.get("pods", "--namespace", "carico")["items"]:
        told = pod["metadata"].get("annotations", {})
        if told.get("prometheus.io/scrape") == "true" and "deletionTimestamp" not in pod["metadata"]:
            targets.append(f"{pod['status']['podIP']}:{told['prometheus.io/port']}{told['prometheus.io/path']}")
    assert len(targets) == kubelet_site.NODES + 4
    # kube-scheduler's CARICO is no second leader to the alerts; metrics may still be read by all who may connect.
    targets += [f"{pod['status']['podIP']}:8080/metrics" for pod in services(with_parts, "kube-carico")]
    said = scraped(with_parts, targets)
    for family in ("carico_agent_capacity_pods", "carico_scheduler_binds_total", "carico_aggregator_subspaces_total",
                   "carico_web_responses_total"):  # fmt: skip
        assert f"\n{family}" in said
    binds = re.findall(r'^carico_scheduler_extender_binds_total\{fate="bound"\} (\S+)$', said, re.MULTILINE)
    assert sum(map(float, binds)) == FEW, said
    with_parts.kubectl("get", "networkpolicy", "carico-metrics", "--namespace", "carico")


@pytest.mark.parametrize(("name", "container"), [("carico-web", "web"), ("kube-carico", "carico")])
def test_each_added_part_runs_without_any_right(with_parts: kubelet_site.Site, name: str, container: str) -> None:
    script = "id -u; grep -E 'CapEff|NoNewPrivs|^Seccomp:' /proc/self/status; touch /x 2>&1 || true"
    about = (f"deployment/{name}", "--container", container, "--", "sh", "-c", script)
    said = with_parts.kubectl("--namespace", "carico", "exec", *about)
    assert said.split()[:7] == ["65532", "CapEff:", "0000000000000000", "NoNewPrivs:", "1", "Seccomp:", "2"]
    assert "Read-only file system" in said


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


def refusals(site: kubelet_site.Site, prefix: str) -> list[str]:
    """What kube-scheduler's Events say of Pods that nowhere fit, in words of CARICO."""
    events = site.get("events", "--field-selector", "reason=FailedScheduling")["items"]
    said = [each["message"] for each in events if each["involvedObject"]["name"].startswith(prefix)]
    return [message for message in said if "CARICO: at capacity" in message]


def _is_of(event: Mapping[str, Any], subresource: str, prefix: str) -> bool:
    about = event["objectRef"]
    made = int(event["responseStatus"]["code"]) == 201
    return made and about.get("subresource") == subresource and str(about.get("name")).startswith(prefix)


def _browser() -> pathlib.Path:
    try:
        return chromium.command()
    except errors.EnvironmentUnfit as error:
        pytest.skip(f"not available here: {error}")


def _text(frame: str | bytes) -> str:
    return frame if isinstance(frame, str) else frame.decode(errors="replace")


def _remove_bus(site: kubelet_site.Site) -> None:
    """As deploy/README.md says: NATS, whose volumes cannot be changed, and who would make its streams as they were."""
    site.kubectl("delete", "--kustomize", str(EXTENDER), "--timeout", "90s")
    parts = ("statefulset/carico-nats", "deployment/carico-aggregator", "deployment/carico-scheduler")
    site.kubectl("--namespace", "carico", "delete", *parts, "--timeout", "90s")
