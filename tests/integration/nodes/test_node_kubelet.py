"""What a kubelet does next to running a command: probes, volumes, changes of a Pod, what is missing."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from carico_local.cluster import free_ports
from tests.integration.nodes import node_site

pytestmark = pytest.mark.skipif(bool(node_site.why_no_cgroups()), reason=node_site.why_no_cgroups())
PODS = node_site.PODS
# Ends at once when asked.
LOOP = "while true; do sleep 0.05; done"
WAIT = f"trap 'exit 0' TERM; {LOOP}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[node_site.NodeSite]:
    with node_site.running(
        tmp_path_factory.mktemp("kubelet"), "--latency", "0.1", "--memory-bytes", str(2**28)
    ) as found:
        yield found


def container(status: dict[str, Any], *, init: bool = False) -> dict[str, Any]:
    entries: list[dict[str, Any]] = status.get("initContainerStatuses" if init else "containerStatuses") or [{}]
    return entries[0]


def events(site: node_site.NodeSite, pod: str) -> dict[str, str]:
    """Reason -> the last message about a Pod."""
    found = site.request("GET", "/api/v1/namespaces/default/events")["items"]
    return {each["reason"]: each["message"] for each in found if each["involvedObject"]["name"] == pod}


def told(site: node_site.NodeSite, pod: str, reason: str) -> str:
    """The last message of that reason, once there is one: Events are written in the background."""
    site.until(lambda: reason in events(site, pod), f"an Event {reason} of {pod}")
    return events(site, pod)[reason]


def refusal(site: node_site.NodeSite, path: str) -> str:
    with pytest.raises(AssertionError) as refused:
        site.request("GET", path)
    return str(refused.value).replace("\\", "")


def delete(site: node_site.NodeSite, name: str) -> None:
    # All here end at once when asked, on a machine that stands still somewhat later.
    site.request("DELETE", f"{PODS}/{name}?gracePeriodSeconds=60")
    site.until(lambda: site.pod(name) is None, "the Pod to go")


def test_an_exec_startup_probe_holds_back_readiness_until_it_passes(site: node_site.NodeSite) -> None:
    mark = site.marks / "up"
    probes = {
        "startupProbe": {
            "exec": {"command": ["test", "-e", str(mark)]},
            "periodSeconds": 1,
            "timeoutSeconds": 20,
            "failureThreshold": 100,
        },
        "readinessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 1, "timeoutSeconds": 20},
    }
    site.run("slow", "sh", "-c", WAIT, container=probes)
    site.until(lambda: "running" in container(site.status("slow")).get("state", {}), "it to run")
    told(site, "slow", "Unhealthy")
    before = container(site.status("slow"))
    assert (before["started"], before["ready"]) == (False, False)
    mark.touch()
    site.until(lambda: container(site.status("slow"))["ready"], "readiness")
    assert container(site.status("slow"))["started"] is True
    delete(site, "slow")


def test_a_failing_liveness_probe_restarts_the_container_and_says_why(site: node_site.NodeSite) -> None:
    probe = {
        "exec": {"command": ["sh", "-c", "echo no good; exit 3"]},
        "periodSeconds": 1,
        "timeoutSeconds": 20,
        "failureThreshold": 1,
    }
    site.run("sick", "sh", "-c", WAIT, container={"livenessProbe": probe}, restartPolicy="Always")
    site.until(lambda: container(site.status("sick")).get("restartCount", 0) >= 1, "a restart")
    assert told(site, "sick", "Unhealthy") == "Liveness probe failed: no good"
    delete(site, "sick")


def test_a_tcp_probe_sees_whether_a_server_listens(site: node_site.NodeSite) -> None:
    probe = {"tcpSocket": {"port": "web"}, "periodSeconds": 1}
    # What listens on every address of this machine would answer for the one that is mute.
    port = free_ports.choose_one()
    more = {"readinessProbe": probe, "ports": [{"name": "web", "containerPort": port}]}
    site.run("serves", "carico-workload", "server", "--port", str(port), container=more)
    site.until(lambda: bool(container(site.status("serves")).get("ready")), "readiness")
    site.run("mute", "sh", "-c", WAIT, container=more)
    assert "Readiness probe failed: dial tcp" in told(site, "mute", "Unhealthy")
    assert container(site.status("mute"))["ready"] is False
    delete(site, "serves")
    delete(site, "mute")


def test_an_empty_dir_is_shared_by_a_pods_containers_and_goes_with_it(site: node_site.NodeSite) -> None:
    mounts = {"volumeMounts": [{"name": "v", "mountPath": "/cache"}]}
    first = {"name": "first", "image": "none", "command": ["sh", "-c", "echo kept > /cache/file"], **mounts}
    site.run(
        "shares", "sh", "-c", "cat file", volumes=[{"name": "v", "emptyDir": {}}], initContainers=[first],
        container={**mounts, "workingDir": "/cache"},
    )  # fmt: skip
    uid = site.pod("shares")["metadata"]["uid"]  # type: ignore[index]  # it was just made
    site.until_phase("shares", "Succeeded")
    assert site.request("GET", f"{PODS}/shares/log?container=main") == "kept\n"
    delete(site, "shares")
    site.until(lambda: not (site.root / "node" / "pods" / uid).exists(), "its folder to go")


def test_a_missing_config_map_is_a_waiting_reason(site: node_site.NodeSite) -> None:
    site.run("lacks", "true", container={"envFrom": [{"configMapRef": {"name": "settings"}}]})
    site.until(lambda: "waiting" in container(site.status("lacks")).get("state", {}), "a status")
    told(site, "lacks", "Failed")
    status = site.status("lacks")
    assert status["phase"] == "Pending"
    assert container(status)["state"]["waiting"] == {
        "reason": "CreateContainerConfigError",
        "message": 'configmap "settings" not found',
    }
    delete(site, "lacks")


@pytest.mark.parametrize(
    ("name", "spec", "words"),
    [
        ("nginx", {"container": {"image": "nginx", "command": None}}, "container 'main' has no command"),
        ("files", {"volumes": [{"name": "v", "configMap": {"name": "m"}}]}, "volume 'v' is of kind configMap"),
        ("health", {"container": {"livenessProbe": {"grpc": {"port": 1}}}}, "livenessProbe of container 'main' is not"),
    ],
)
def test_a_pod_that_the_node_cannot_run_says_why_and_what_runs_it(
    site: node_site.NodeSite, name: str, spec: dict[str, Any], words: str
) -> None:
    site.run(name, "true", **spec)
    site.until(lambda: "message" in container(site.status(name)).get("state", {}).get("waiting", {}), "a status")
    waiting = container(site.status(name))["state"]["waiting"]
    assert site.status(name)["phase"] == "Pending"
    assert waiting["reason"] == "CreateContainerConfigError"
    assert waiting["message"].startswith(f"an emulated node cannot run this Pod: {words}")
    assert "carico up --nodes kubelet=2" in waiting["message"]
    assert told(site, name, "Failed") == f"Error: {waiting['message']}"
    # The node sees its status in the API a moment later.
    refused = f'container "main" in pod "{name}" is waiting to start: CreateContainerConfigError'
    site.until(lambda: refused in refusal(site, f"{PODS}/{name}/log"), "the log's refusal")
    delete(site, name)


def test_a_change_of_a_pod_that_runs_is_not_applied_and_an_event_says_so(
    site: node_site.NodeSite,
) -> None:
    site.run("changed", "sh", "-c", WAIT)
    site.until_phase("changed", "Running")
    patch = {"spec": {"containers": [{"name": "main", "image": "other"}]}}
    site.request("PATCH", f"{PODS}/changed", patch, kind="application/strategic-merge-patch+json")
    note = told(site, "changed", "Failed")
    assert note.startswith("Error: an emulated node does not apply changes to a Pod that it has")
    assert note.endswith("run it on real kubelets: carico up --nodes kubelet=2")
    assert site.status("changed")["phase"] == "Running"
    delete(site, "changed")


def test_a_pod_that_is_deleted_by_force_affects_no_other_one_of_its_own_name_either(site: node_site.NodeSite) -> None:
    first = site.run("stubborn", "sh", "-c", f"trap '' TERM; echo first; {LOOP}", terminationGracePeriodSeconds=600)
    site.until_phase("stubborn", "Running")
    site.until(lambda: "first" in site.request("GET", f"{PODS}/stubborn/log"), "its trap")
    site.request("DELETE", f"{PODS}/stubborn?gracePeriodSeconds=0")
    assert site.pod("stubborn") is None
    # Its containers still run.
    second = site.run("stubborn", "sh", "-c", f"echo second; {WAIT}")
    site.run("next", "true")
    site.until_phase("next", "Succeeded")
    site.until_phase("stubborn", "Running")
    site.until(lambda: site.request("GET", f"{PODS}/stubborn/log") == "second\n", "its own output")
    site.until(lambda: not any(first["metadata"]["uid"] in each for each in folders(site)), "the first to go")
    assert any(second["metadata"]["uid"] in each for each in folders(site))
    found = container(site.status("stubborn"))
    assert ("running" in found["state"], found["restartCount"]) == (True, 0)
    delete(site, "stubborn")
    assert site.node is not None
    assert site.node.poll() is None


def folders(site: node_site.NodeSite) -> list[str]:
    """What the node has of its Pods: their cgroups and their records. One may go while it is looked at."""
    roots = (*site.cgroups(), site.root / "node" / "pods")
    return [f"{at}/{name}" for root in roots for at, *inside in os.walk(root) for name in (*inside[0], *inside[1])]


def test_a_label_that_the_node_has_not_seen_yet_is_read_before_a_pod_is_refused(site: node_site.NodeSite) -> None:
    site.patch(f"/api/v1/nodes/{node_site.NODE}", {"metadata": {"labels": {"disk": "ssd"}}})
    site.run("labelled", "true", nodeSelector={"disk": "ssd"})
    site.run("elsewhere", "true", nodeSelector={"disk": "tape"})
    assert "reason" not in site.until_phase("labelled", "Succeeded", "Failed")
    assert site.until_phase("elsewhere", "Failed")["reason"] == "NodeAffinity"


def test_amounts_reach_the_command(site: node_site.NodeSite) -> None:
    env = [{"name": "CORES", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]
    site.run("amounts", "sh", "-c", "echo $CORES", container={"env": env})
    site.until_phase("amounts", "Succeeded")
    assert site.request("GET", f"{PODS}/amounts/log") == "4\n"
