"""On real kubelets, with what agents measure there: VPA's updater resizes in place, and the webhook sets requests."""

import contextlib
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from carico_core.domain import amounts
from carico_core.runtime.kube import api_client
from carico_core.runtime.process import clock as clocks
from carico_local.cluster import state
from tests.e2e import carico_command
from tests.e2e.kubernetes import kubelet_site
from tests.tools import debian, kubernetes, waiting
from tests.tools.sites import recommender_site
from tests.upstream import test_upstream_vpa

pytestmark = [
    pytest.mark.system,
    pytest.mark.upstream,
    pytest.mark.timeout(kubernetes.BUILD_TIMEOUT_S),
    pytest.mark.skipif(debian.allowed() is not None, reason=str(debian.allowed())),
]
NAME = "vpa-kubelets"
FLAGS = ("--nodes", "kubelet=1", "--cores", "2", "--scale", "0.5", "--control-plane", "real")
# Measurements, a recommendation, and a resize, on a machine with other work.
WITHIN_S = 240.0
DEPLOYMENTS = "/apis/apps/v1/namespaces/vpa-shop/deployments"
TOKEN = {"cpu": "1m", "memory": "1Mi"}


def deployment(name: str, requests: dict[str, str]) -> dict[str, Any]:
    """Two Pods with a container that computes and one that waits."""
    labels, resources = {"app": name}, {"requests": requests} if requests else {}
    busy = "while :; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.1; done"
    containers = [
        {
            "name": name, "image": kubelet_site.BUSYBOX, "imagePullPolicy": "Never", "command": command,
            "resources": resources,
        }
        for name, command in (("main", ["sh", "-c", busy]), ("proxy", ["sleep", "3600"]))
    ]  # fmt: skip
    spec: dict[str, Any] = {"containers": containers, "automountServiceAccountToken": False}
    spec |= {"schedulerName": "carico", "terminationGracePeriodSeconds": 0}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
    }  # fmt: skip


def requests_of(pod: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Return what each container of a Pod has by its kubelet."""
    statuses = pod["status"].get("containerStatuses") or []
    return {each["name"]: (each.get("resources") or {}).get("requests") or {} for each in statuses}


def is_resized(pod: dict[str, Any]) -> bool:
    """Return whether the kubelet has given the busy container another request."""
    return amounts.parse_quantity(requests_of(pod).get("main", TOKEN).get("cpu", "1m")) > 0.01


@pytest.fixture
def shell(tmp_path: pathlib.Path) -> carico_command.Shell:
    """A shell on a machine that has the programs."""
    kubernetes.programs("kubelet", "kube-proxy", "coredns", "kubectl", "updater")
    found = carico_command.Shell(tmp_path)
    found.environ |= debian.node_environ(tmp_path / "bin")
    return found


@contextlib.contextmanager
def recommending(folder: pathlib.Path, url: str, admin: pathlib.Path) -> Iterator[None]:
    """The recommender with the component's rights, its webhook included."""
    with (
        recommender_site.installed(admin, folder) as kubeconfig,
        recommender_site.admitting(admin, folder) as flags,
        recommender_site.recommender(folder, url, kubeconfig, *flags),
    ):
        yield


async def test_pods_are_resized_without_a_restart_and_new_ones_get_requests(
    shell: carico_command.Shell, tmp_path: pathlib.Path
) -> None:
    async with carico_command.cluster(shell, NAME, *FLAGS) as paths:
        found = state.read(paths)
        assert found is not None
        client = await api_client.connect(
            api_client.KubeSettings(kubeconfig=str(paths.kubeconfig)), clock=clocks.SystemClock(), user_agent="test"
        )

        async def pods(name: str) -> list[dict[str, Any]]:
            path = "/api/v1/namespaces/vpa-shop/pods"
            items = (await client.request("GET", path, params={"labelSelector": f"app={name}"}))["items"]
            return [each for each in items if each["status"].get("phase") == "Running"]

        try:
            with recommending(tmp_path, found.nats_url, paths.kubeconfig):
                await client.request("POST", DEPLOYMENTS, body=deployment("web", TOKEN))
                await client.request("POST", DEPLOYMENTS, body=deployment("plain", {}))
                for ask in (lambda: pods("web"), lambda: pods("plain")):
                    await waiting.answered(ask, lambda found: len(found) == 2, within_s=WITHIN_S)
                before = await pods("web")
                body = recommender_site.vpa("web")
                body["spec"]["updatePolicy"] = {"updateMode": "InPlaceOrRecreate"}
                await client.request("POST", recommender_site.VPAS, body=body)
                # Its admission controller does not run: what is shown here is on running Pods.
                updater = (
                    "--kubeconfig", str(paths.kubeconfig), "--address", "127.0.0.1:0", "--updater-interval", "1s",
                    "--use-admission-controller-status=false",
                )  # fmt: skip
                with test_upstream_vpa.running("updater", tmp_path, *updater):
                    after = await waiting.answered(
                        lambda: pods("web"), lambda found: len(found) == 2 and all(map(is_resized, found)),
                        within_s=WITHIN_S,
                    )  # fmt: skip
                # The same Pods and containers, of the same QoS class: nothing was evicted, restarted or killed.
                assert {each["metadata"]["uid"] for each in after} == {each["metadata"]["uid"] for each in before}
                assert {each["status"]["qosClass"] for each in after} == {"Burstable"}
                for pod in after:
                    assert [each["restartCount"] for each in pod["status"]["containerStatuses"]] == [0, 0]
                    given = {name: amounts.parse_quantity(each["cpu"]) for name, each in requests_of(pod).items()}
                    # Each by what it uses itself.
                    assert given["main"] > 5 * given["proxy"]

                # The webhook: a new Pod of a class that had no requests.
                await client.request("DELETE", f"{DEPLOYMENTS}/web")
                await client.request(
                    "PATCH", f"{DEPLOYMENTS}/plain", body={"spec": {"replicas": 3}},
                    content_type="application/merge-patch+json",
                )  # fmt: skip
                three = await waiting.answered(
                    lambda: pods("plain"), lambda found: len(found) == 3, within_s=WITHIN_S
                )  # fmt: skip
                *_, new = sorted(three, key=lambda pod: pod["metadata"]["creationTimestamp"])
                assert new["status"]["qosClass"] == "Burstable"
                assert {name: bool(each) for name, each in requests_of(new).items()} == {"main": True, "proxy": True}
        finally:
            await client.close()
