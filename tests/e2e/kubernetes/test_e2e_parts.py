"""The chart's profile `shared` with the parts that can be added, on real kubelets: each does its work there."""

import collections
import dataclasses
import json
import subprocess
from collections.abc import Mapping
from typing import Any

import pytest

from tests.e2e.kubernetes import kubelet_site, port_forward
from tests.tools import debian
from tests.tools.make.helm_chart import chart

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(kubelet_site.COLD_TIMEOUT_S),
    pytest.mark.skipif(debian.allowed() is not None, reason=str(debian.allowed())),
]
COMPONENTS = ("recommender", "rescheduler", "traffic", "web", "monitoring")
# For which the chart has a Deployment, next to those of its defaults.
ADDED = ("recommender", "rescheduler", "web")
SCHEDULERS = 3
PODS = 12
BUS = 4222
# Else the first plan is made after a minute, and Pods stay for ten.
QUICK = ("CARICO_RESCHEDULER_EVERY_S=5", "CARICO_RESCHEDULER_LEAST_AGE_S=5")
LEARNT = "carico.dev/learnt-requests"
LEARNING = "learning"
ENDING = "because it is being terminated"
# The image's one program, over and over: some megabytes a second.
SERVE = "busybox httpd -f -p 8080 -h /bin"
FETCH = "while :; do wget -q -O /dev/null http://{address}:8080/busybox || sleep 1; done"


@pytest.fixture(scope="module")
def earlier(site: kubelet_site.Site) -> int:
    """How many requests were logged before: while an overlay is deleted its roles may go before its Pods."""
    return len(list(site.audited()))


@pytest.fixture(scope="module")
def deployed(site: kubelet_site.Site, earlier: int) -> kubelet_site.Site:
    """The site with the chart and these parts, also where its defaults are installed; and with Pods to learn from."""
    found = dataclasses.replace(site, environ={**site.environ, **{name.upper(): "1" for name in ADDED}})
    found.make_secrets()
    found.helm(
        "upgrade", "carico", str(chart.CHART), "--install", "--wait", "--set=profile=shared",
        *(f"--set=components.{name}=true" for name in COMPONENTS),
        *(f"--set=rescheduler.settings.{setting}" for setting in QUICK),
    )  # fmt: skip
    found.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LEARNING, "labels": {LEARNT: "true"}}}
    )  # fmt: skip
    # Of a single Pod nothing is recommended.
    found.apply(deployment("learnt", "sleep 3600", namespace=LEARNING, replicas=2))
    return found


def deployment(
    name: str, script: str, *, namespace: str = "default", replicas: int = 1, spec: Mapping[str, Any] | None = None
) -> Mapping[str, Any]:
    """Pods of a shell without any request."""
    labels = {"app": name}
    container = {
        "name": "main", "image": kubelet_site.BUSYBOX, "imagePullPolicy": "Never", "command": ["sh", "-c", script],
    }  # fmt: skip
    template = {
        "schedulerName": "carico", "terminationGracePeriodSeconds": 0, "containers": [container], **(spec or {}),
    }  # fmt: skip
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template},
        },
    }  # fmt: skip


def running(site: kubelet_site.Site, name: str) -> list[Mapping[str, Any]]:
    """The Pods of a Deployment that run and are to stay."""
    return [
        pod
        for pod in site.get("pods", "--selector", f"app={name}")["items"]
        if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
    ]


def doctor(site: kubelet_site.Site) -> Mapping[str, Mapping[str, str]]:
    """What `carico doctor` finds from this machine, as deploy/README.md says, by what it is about."""
    with port_forward.forwarded(site, "carico-nats", BUS) as port:
        identities = site.folder / "identities"
        environ = {
            **site.environ, "NATS_URL": f"tls://127.0.0.1:{port}", "CARICO_BUS_TLS_CA": str(identities / "tls/ca.crt"),
            "CARICO_BUS_NKEY": str(identities / "keys/cli.nk"),
        }  # fmt: skip
        done = subprocess.run(
            [environ["CARICO"], "doctor", "--output", "json"], env=environ, capture_output=True, text=True, check=False
        )
    if not done.stdout:
        return {"doctor": {"detail": done.stderr}}
    return {finding["what"]: finding for finding in json.loads(done.stdout)}


def test_doctor_finds_every_part_ready(deployed: kubelet_site.Site) -> None:
    wanted = {
        "sharing": f"{SCHEDULERS} members; ", "installation": f"all {len(kubelet_site.PARTS) + len(ADDED)} parts",
    }  # fmt: skip

    found: dict[str, Mapping[str, str]] = {}

    def finds_all() -> bool:
        found.clear()
        found.update(doctor(deployed))
        return all(text in found.get(what, {}).get("detail", "") for what, text in wanted.items())

    deployed.until("all members are known, and all parts are ready", finds_all, seen=lambda: found)


def test_schedulers_that_share_the_work_bind_each_pod_once(deployed: kubelet_site.Site) -> None:
    deployed.apply(kubelet_site.job("shared", PODS))
    deployed.until("the job is done", lambda: kubelet_site.succeeded(deployed, "shared") == PODS)
    bound = collections.Counter(
        event["objectRef"]["name"]
        for event in deployed.audited()
        if event["objectRef"].get("subresource") == "binding"
        and event["objectRef"]["name"].startswith("shared-")
        and event["responseStatus"]["code"] == 201
    )
    assert len(bound) == PODS
    assert set(bound.values()) == {1}


def test_a_pod_moves_to_the_node_of_the_one_that_it_talks_to(deployed: kubelet_site.Site) -> None:
    first, second = (node.name for node in deployed.nodes)
    deployed.apply(deployment("served", SERVE, spec={"nodeSelector": {"kubernetes.io/hostname": first}}))
    deployed.until("the server runs", lambda: len(running(deployed, "served")) == 1)
    (server,) = running(deployed, "served")
    deployed.kubectl("cordon", first)
    deployed.apply(deployment("fetching", FETCH.format(address=server["status"]["podIP"])))
    deployed.until("the client runs", lambda: len(running(deployed, "fetching")) == 1)

    def on() -> list[str]:
        return [pod["spec"]["nodeName"] for pod in running(deployed, "fetching")]

    assert on() == [second]
    deployed.kubectl("uncordon", first)
    deployed.until("the client has moved to its server", lambda: on() == [first])
    (moved,) = running(deployed, "fetching")
    assert moved["metadata"]["annotations"]["carico.dev/moved-from"] == second
    deployed.kubectl("delete", "deployment", "served", "fetching")


def test_a_new_pod_gets_the_requests_that_were_learnt(deployed: kubelet_site.Site) -> None:
    # On a cluster whose API server is on a node, kube-proxy leads it to the webhook.
    service = deployed.get("service", "carico-recommender", "--namespace", kubelet_site.NAMESPACE)
    _lead(deployed, service["spec"]["clusterIP"])
    learning = ("--namespace", LEARNING)

    def given() -> list[Mapping[str, Any]]:
        pods = deployed.get("pods", *learning)["items"]
        return [pod for pod in pods if LEARNT in pod["metadata"].get("annotations", {})]

    def is_given() -> bool:
        if not given():
            # Another replaces it, which asks the recommender.
            name = deployed.get("pods", *learning)["items"][0]["metadata"]["name"]
            deployed.kubectl("delete", "pod", name, *learning)
        return bool(given())

    deployed.until("a new Pod has requests", is_given)
    assert given()[0]["spec"]["containers"][0]["resources"]["requests"].keys() == {"cpu", "memory"}
    deployed.kubectl("delete", "namespace", LEARNING)


def test_no_part_asks_for_what_it_may_not(deployed: kubelet_site.Site, earlier: int) -> None:
    refused = {
        (event["user"]["username"], event["verb"], event["objectRef"].get("resource"))
        for event in list(deployed.audited())[earlier:]
        if event["responseStatus"]["code"] == 403
        # Nobody may create anything in a namespace that is being deleted, as one was before.
        and ENDING not in event["responseStatus"].get("message", "")
    }
    assert refused == set()


def test_uninstalling_leaves_nothing(deployed: kubelet_site.Site) -> None:
    manifest = deployed.helm("get", "manifest", "carico")
    left = ("get", "--filename", "-", "--ignore-not-found", "--output", "name")
    assert "mutatingwebhookconfiguration" in deployed.kubectl(*left, given=manifest)
    assert "configmap/carico-rescheduler" in deployed.kubectl(*left, given=manifest)
    deployed.helm("uninstall", "carico", "--wait")
    assert deployed.kubectl(*left, given=manifest) == ""
    # What services and others made: deploy/README.md names it.
    kinds = "configmaps,leases,persistentvolumeclaims"
    found = deployed.kubectl("get", kinds, "--namespace", kubelet_site.NAMESPACE, "--output", "name").split()
    leases = {f"lease.coordination.k8s.io/carico-{name}" for name in ("scheduler", "recommender", "rescheduler")}
    assert set(found) <= {"configmap/kube-root-ca.crt", "configmap/carico-nats-ca", *leases}


def _lead(site: kubelet_site.Site, address: str) -> None:
    """Lead this machine, where the API server is, to a Service; the route ends with the nodes' network."""
    node = site.get("node", site.nodes[0].name)
    (through,) = (each["address"] for each in node["status"]["addresses"] if each["type"] == "InternalIP")
    subprocess.run(["ip", "route", "replace", address, "via", through], check=True)
