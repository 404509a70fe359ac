"""VPA's own updater and admission controller, built here, apply what the recommender writes."""

import contextlib
import pathlib
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from carico_core.runtime.kube import api_client
from carico_local.cluster import free_ports
from carico_local.control_plane import standalone
from carico_local.played_nodes import nodes
from tests.tools import kubernetes, waiting
from tests.tools.sites import recommender_site, security_site

PODS = "/api/v1/namespaces/vpa-shop/pods"
TARGET = {"cpu": "538m", "memory": "115Mi"}


@contextlib.contextmanager
def running(name: str, folder: pathlib.Path, *flags: str) -> Iterator[None]:
    """One of VPA's programs."""
    path = kubernetes.programs(name)[name].path
    with (folder / f"{name}.log").open("ab") as log:
        process = subprocess.Popen([str(path), *flags], stdout=log, stderr=log)
    try:
        yield
        assert process.poll() is None, (folder / f"{name}.log").read_text()[-2000:]
    finally:
        process.kill()
        process.wait()


def deployment() -> dict[str, Any]:
    """Two Pods that are Burstable by a token request."""
    labels = {"app": "web"}
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [container], "automountServiceAccountToken": False, "schedulerName": "none"},
            },
        },
    }


def is_running(pod: dict[str, Any]) -> bool:
    """Return whether kwok reports the Pod's container as running."""
    statuses = pod["status"].get("containerStatuses") or [{}]
    return pod["status"].get("phase") == "Running" and "running" in statuses[0].get("state", {})


async def report_resources(api: api_client.KubeClient, pod: dict[str, Any]) -> None:
    """Report the resources of a running container, as kubelets do and kwok does not: without, no resize is accepted."""
    (status,) = pod["status"]["containerStatuses"]
    reported = {**status, "resources": pod["spec"]["containers"][0]["resources"]}
    await api.request(
        "PATCH", f"{PODS}/{pod['metadata']['name']}/status", body={"status": {"containerStatuses": [reported]}},
        content_type="application/merge-patch+json",
    )  # fmt: skip


@pytest.mark.upstream
async def test_vpa_resizes_running_pods_in_place_and_sets_requests_of_new_ones(
    real_control_plane: standalone.Standalone, real_api: api_client.KubeClient, tmp_path: pathlib.Path
) -> None:
    admin = real_control_plane.kubeconfig
    port = free_ports.choose_one()
    folder = security_site.make_certificates(tmp_path / "tls", "127.0.0.1")
    updater = ("--kubeconfig", str(admin), "--updater-interval", "1s", "--address", "127.0.0.1:0")
    admission = (
        "--kubeconfig", str(admin), "--address", "127.0.0.1:0", "--port", str(port), "--register-by-url",
        "--webhook-address", "https://127.0.0.1", "--webhook-port", str(port),
        "--client-ca-file", str(folder / "ca.crt"), "--tls-cert-file", str(folder / "tls.crt"),
        "--tls-private-key", str(folder / "tls.key"),
    )  # fmt: skip

    async def pods() -> list[dict[str, Any]]:
        return list((await real_api.request("GET", PODS))["items"])

    async def requests() -> list[dict[str, str]]:
        return [each["spec"]["containers"][0]["resources"]["requests"] for each in await pods()]

    await nodes.create(real_api, 1, cores=4, pods=110)
    with recommender_site.installed(admin, tmp_path) as kubeconfig:
        await real_api.request("POST", "/apis/apps/v1/namespaces/vpa-shop/deployments", body=deployment())
        before = await waiting.answered(pods, lambda found: len(found) == 2)
        for each in before:
            name = each["metadata"]["name"]
            target = {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
            await real_api.request(
                "POST", f"{PODS}/{name}/binding", body={"metadata": {"name": name}, "target": target}
            )
        await waiting.answered(pods, lambda found: all(map(is_running, found)))
        for each in await pods():
            await report_resources(real_api, each)
        body = recommender_site.vpa("web")
        body["spec"]["updatePolicy"] = {"updateMode": "InPlaceOrRecreate"}
        await real_api.request("POST", recommender_site.VPAS, body=body)
        async with recommender_site.learning(tmp_path) as (_, url):
            with (
                recommender_site.recommender(tmp_path, url, kubeconfig),
                running("admission-controller", tmp_path, *admission),
                running("updater", tmp_path, *updater),
            ):
                await waiting.answered(requests, lambda found: found == [TARGET, TARGET])
                after = await pods()
                # The same Pods, of the same QoS class: nothing was evicted or restarted.
                assert {each["metadata"]["uid"] for each in after} == {each["metadata"]["uid"] for each in before}
                assert [each["status"]["qosClass"] for each in after] == ["Burstable", "Burstable"]
                patch = {"spec": {"replicas": 3}}
                await real_api.request(
                    "PATCH", "/apis/apps/v1/namespaces/vpa-shop/deployments/web", body=patch,
                    content_type="application/merge-patch+json",
                )  # fmt: skip
                assert await waiting.answered(requests, lambda found: len(found) == 3) == [TARGET] * 3
        await real_api.request("DELETE", nodes.NODES_PATH, params={"labelSelector": f"{nodes.FLEET_LABEL}=kwok"})
