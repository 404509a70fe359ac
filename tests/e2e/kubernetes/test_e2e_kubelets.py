"""CARICO on real kubelets: installed by Helm as an operator does it, to Pods that wait for it, and upgraded under load.

The other tests here apply overlays by kustomize; tests/integration compares the chart with them.
"""

import collections
import json
import subprocess
from typing import Any

import pytest

from tests.e2e.kubernetes import kubelet_site
from tests.tools import debian
from tests.tools.make.helm_chart import chart

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(kubelet_site.COLD_TIMEOUT_S),
    pytest.mark.skipif(debian.allowed() is not None, reason=str(debian.allowed())),
]
SCHEDULER = "system:serviceaccount:carico:carico-scheduler"
PODS = 40
# Some of them before every part restarts, and twice as many afterwards.
UPGRADED_PODS = 24


@pytest.fixture(scope="module")
def deployed(site: kubelet_site.Site) -> kubelet_site.Site:
    """The site with the chart's defaults in it, and a job that asked for CARICO before."""
    site.apply(kubelet_site.job("waiting", 2))
    site.make_secrets()
    site.helm("install", "carico", str(chart.CHART))
    site.rolled_out()
    return site


def test_pods_that_waited_for_carico_are_placed_once_it_is_there(deployed: kubelet_site.Site) -> None:
    deployed.until("the job is done", lambda: kubelet_site.succeeded(deployed, "waiting") == 2)
    bound = [event for event in deployed.audited() if _binds(event, "waiting-")]
    assert [event["user"]["username"] for event in bound] == [SCHEDULER] * 2


def test_doctor_finds_every_part_ready(deployed: kubelet_site.Site) -> None:
    command = [deployed.environ["CARICO"], "doctor", "--output", "json"]
    done = subprocess.run(command, env=dict(deployed.environ), capture_output=True, text=True, check=False)
    found = {finding["what"]: finding for finding in json.loads(done.stdout)}
    assert found["installation"]["level"] == "ok", found
    assert f"all {len(kubelet_site.PARTS)} parts" in found["installation"]["detail"]
    assert found["rights of carico-scheduler"]["level"] == "ok", found


def test_forty_pods_complete_on_real_kubelets(deployed: kubelet_site.Site) -> None:
    deployed.apply(kubelet_site.job("forty", PODS))
    deployed.until("the job is done", lambda: kubelet_site.succeeded(deployed, "forty") == PODS)
    placed = collections.Counter(pod["spec"]["nodeName"] for pod in kubelet_site.pods_of(deployed, "forty"))
    assert set(placed) == {"node-1", "node-2"}
    bound = [event for event in deployed.audited() if _binds(event, "forty-")]
    assert len(bound) == PODS
    assert {event["user"]["username"] for event in bound} == {SCHEDULER}


def test_agents_without_any_right_measure_their_nodes(deployed: kubelet_site.Site) -> None:
    pods = deployed.get("pods", "--namespace", "carico", "--selector", "app.kubernetes.io/name=carico-agent")["items"]
    assert {pod["spec"]["nodeName"] for pod in pods} == {"node-1", "node-2"}
    for pod in pods:
        agent = ("--namespace", "carico", "exec", pod["metadata"]["name"], "--")
        status = deployed.kubectl(*agent, "sh", "-c", "id -u; grep CapEff /proc/self/status; touch /x 2>&1 || true")
        assert status.split()[:3] == ["65532", "CapEff:", "0000000000000000"]
        assert "Read-only file system" in status
        write = "echo 1 > /host/sys/fs/cgroup/cpu/cpu.shares || echo 1 > /host/sys/fs/cgroup/cgroup.procs"
        refused = deployed.kubectl(*agent, "sh", "-c", f"({write}) 2>&1 || true")
        assert "Permission denied" in refused or "Read-only" in refused
        # What belongs to others on the host stays theirs.
        assert "denied" in deployed.kubectl(*agent, "sh", "-c", "cat /host/proc/1/environ 2>&1 || true")
        logs = deployed.kubectl("--namespace", "carico", "logs", pod["metadata"]["name"])
        assert '"mode":"measured"' in logs or '"mode":"warming"' in logs


def test_every_part_restarts_during_a_job_and_nothing_is_lost(deployed: kubelet_site.Site) -> None:
    pods = UPGRADED_PODS
    deployed.apply(kubelet_site.job("upgraded", pods, turns=250_000))
    deployed.until("the job has begun", lambda: kubelet_site.succeeded(deployed, "upgraded") >= 3)
    for part in kubelet_site.PARTS:
        deployed.kubectl("--namespace", "carico", "rollout", "restart", part)
    deployed.rolled_out()
    deployed.until("the job is done", lambda: kubelet_site.succeeded(deployed, "upgraded") == pods)
    found = kubelet_site.pods_of(deployed, "upgraded")
    assert len(found) == pods
    assert all(pod["status"]["phase"] == "Succeeded" for pod in found)
    bound = collections.Counter(
        event["objectRef"]["name"] for event in deployed.audited() if _binds(event, "upgraded-")
    )  # fmt: skip
    assert set(bound.values()) == {1}
    assert len(bound) == pods


def _binds(event: Any, prefix: str) -> bool:
    about = event["objectRef"]
    is_binding = about.get("subresource") == "binding" and str(about["name"]).startswith(prefix)
    return is_binding and int(event["responseStatus"]["code"]) == 201
