"""Pods on an emulated node: phases, exit codes, deletion, restarts, logs, environment, limits."""

import http.client
import json
import pathlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from carico_local.api import access
from carico_local.cluster import free_ports
from tests.integration.nodes import node_site
from tests.tools import waiting

pytestmark = pytest.mark.skipif(bool(node_site.why_no_cgroups()), reason=node_site.why_no_cgroups())
PODS = node_site.PODS
ATTEMPTS = 3


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[node_site.NodeSite]:
    with node_site.running(tmp_path_factory.mktemp("node"), "--latency", "0.1", "--memory-bytes", str(2**28)) as found:
        yield found


def condition(status: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(entry for entry in status["conditions"] if entry["type"] == kind)


def test_a_workload_succeeds_and_tells_its_time_in_the_termination_message(site: node_site.NodeSite) -> None:
    took_s: list[float] = []
    # Alone on its node it takes as long as it says, at 4x for a busy machine; one that stands still is waited out.
    while not took_s or (min(took_s) > 2.0 and len(took_s) < ATTEMPTS):
        name = f"pi-{len(took_s)}"
        site.run(name, "carico-workload", "pi", "--seconds", "0.5")
        status = site.until_phase(name, "Succeeded", "Failed")
        ended = node_site.terminated(status)
        assert (status["phase"], ended["exitCode"], ended["reason"]) == ("Succeeded", 0, "Completed")
        line = json.loads(ended["message"])
        assert line["workload"] == "pi"
        assert line["cpu_s"] == pytest.approx(0.5 * 0.125, rel=0.1)
        took_s.append((line["finished_ns"] - line["started_ns"]) / 1e9)
        assert condition(status, "Ready")["reason"] == "PodCompleted"
    assert 0.45 <= min(took_s) <= 2.0


@pytest.mark.parametrize(("name", "computes_for"), [("stages", 14.0 / 11.0), ("cache", 9.0 / 13.5)])
def test_a_program_that_waits_goes_through_its_phases(site: node_site.NodeSite, name: str, computes_for: float) -> None:
    site.run(name, "carico-workload", name, "--seconds", "0.5")
    line = json.loads(node_site.terminated(site.until_phase(name, "Succeeded"))["message"])
    assert line["workload"] == name
    # In core-seconds of a second alone; a busy machine makes it longer, never its work.
    assert line["cpu_s"] == pytest.approx(0.5 * 0.125 * computes_for, rel=0.25)
    assert (line["finished_ns"] - line["started_ns"]) / 1e9 >= 0.45


@pytest.mark.parametrize(
    ("name", "script", "code", "signal"),
    [("exits-3", "exit 3", 3, None), ("kills-itself", "kill -9 $$$$", 137, 9), ("terms-itself", "kill $$$$", 143, 15)],
)
def test_exit_codes_and_signals(
    site: node_site.NodeSite, name: str, script: str, code: int, signal: int | None
) -> None:
    site.run(name, "sh", "-c", script)
    ended = node_site.terminated(site.until_phase(name, "Failed"))
    assert (ended["exitCode"], ended["reason"], ended.get("signal")) == (code, "Error", signal)


@pytest.mark.parametrize(
    ("name", "command", "cwd", "words"),
    [
        ("nope", "no-such-command", "/", 'exec: "no-such-command": executable file not found in $PATH'),
        ("gone", "/no/such", "/", 'exec: "/no/such": stat /no/such: no such file or directory'),
        ("data", "/etc/passwd", "/", 'exec: "/etc/passwd": permission denied'),
        ("lost", "true", "/no/such", 'chdir to cwd ("/no/such") failed: no such file or directory'),
    ],
)
def test_a_command_that_cannot_be_run_is_a_start_error(
    site: node_site.NodeSite, name: str, command: str, cwd: str, words: str
) -> None:
    site.run(name, command, container={"workingDir": cwd})
    status = site.until_phase(name, "Failed")
    ended = node_site.terminated(status)
    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
    assert ended["message"] == f"unable to start container process: {words}"
    assert condition(status, "Ready")["status"] == "False"


def test_memory_over_the_limit_is_oom_killed(site: node_site.NodeSite) -> None:
    # 64 MiB x 1/8 of limit against 64 MiB that are really written.
    site.run(
        "eats", "carico-workload", "train", "--seconds", "1", "--memory-bytes", str(64 << 20),
        container={"resources": {"limits": {"memory": "64Mi"}}},
    )  # fmt: skip
    ended = node_site.terminated(site.until_phase("eats", "Failed"))
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")


def test_a_cpu_limit_holds_a_pod_below_the_node(site: node_site.NodeSite) -> None:
    site.run(
        "limited", "carico-workload", "pi", "--seconds", "0.4", container={"resources": {"limits": {"cpu": "200m"}}}
    )
    line = json.loads(node_site.terminated(site.until_phase("limited", "Succeeded"))["message"])
    # 0.4 s of one core at a fifth of a core: 2 s.
    assert (line["finished_ns"] - line["started_ns"]) / 1e9 > 1.5


def test_deletion_ends_a_process_that_ignores_sigterm_after_its_grace(site: node_site.NodeSite) -> None:
    site.run("stubborn", "sh", "-c", "trap '' TERM; echo up; while true; do sleep 0.1; done")
    site.until_phase("stubborn", "Running")
    site.until(lambda: "up" in site.request("GET", f"{PODS}/stubborn/log"), "its trap")
    site.request("DELETE", f"{PODS}/stubborn?gracePeriodSeconds=1")
    told = site.pod("stubborn")
    assert told is not None
    assert told["metadata"]["deletionTimestamp"]
    site.until(lambda: site.pod("stubborn") is None, "the Pod to go")
    # The node forgets a Pod once it sees that its object has gone.
    site.until(lambda: not (site.root / "node" / "pods" / told["metadata"]["uid"]).exists(), "its records to go")


def test_deletion_with_sigterm_honoured_needs_no_grace(site: node_site.NodeSite) -> None:
    site.run("polite", "carico-workload", "pi", "--seconds", "600")
    site.until_phase("polite", "Running")
    site.request("DELETE", f"{PODS}/polite?gracePeriodSeconds=600")
    site.until(lambda: site.pod("polite") is None, "the Pod to go, long before its grace is over")
    assert site.pod("polite") is None


def test_deletion_while_starting_leaves_nothing(site: node_site.NodeSite) -> None:
    uids = [site.run(f"early-{n}", "carico-workload", "pi", "--seconds", "600")["metadata"]["uid"] for n in range(5)]
    for n in range(5):
        site.request("DELETE", f"{PODS}/early-{n}?gracePeriodSeconds=1")
    site.until(lambda: all(site.pod(f"early-{n}") is None for n in range(5)), "the Pods to go")

    def cgroups() -> list[pathlib.Path]:
        return [found for path in site.cgroups() for uid in uids for found in path.rglob(f"pod{uid}")]

    site.until(lambda: not cgroups(), "their cgroups to go")
    assert cgroups() == []


def test_restart_policies_and_back_off(site: node_site.NodeSite) -> None:
    site.run("again", "sh", "-c", "exit 1", restartPolicy="OnFailure")
    site.run("fine", "true", restartPolicy="OnFailure")

    told: dict[str, Any] = {}

    def is_backing_off() -> bool:
        # Kept, since it starts again in seconds.
        told.update(site.status("again"))
        statuses = told.get("containerStatuses") or [{}]
        return bool(statuses[0].get("state", {}).get("waiting", {}).get("reason") == "CrashLoopBackOff")

    site.until(is_backing_off, "CrashLoopBackOff")
    assert told["phase"] == "Running"
    assert told["containerStatuses"][0]["restartCount"] == 1
    assert told["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1
    site.until_phase("fine", "Succeeded")
    site.request("DELETE", f"{PODS}/again?gracePeriodSeconds=1")
    site.until(lambda: site.pod("again") is None, "the Pod to go")


def test_init_containers_run_in_order_before_the_others(site: node_site.NodeSite) -> None:
    mark = site.marks / "mark"
    first = {"name": "first", "image": "none", "command": ["sh", "-c", f"echo first >> {mark}"]}
    second = {"name": "second", "image": "none", "command": ["sh", "-c", f"echo second >> {mark}"]}
    site.run("ordered", "sh", "-c", f"echo main >> {mark}", initContainers=[first, second])
    status = site.until_phase("ordered", "Succeeded")
    assert mark.read_text().split() == ["first", "second", "main"]
    assert [entry["state"]["terminated"]["reason"] for entry in status["initContainerStatuses"]] == ["Completed"] * 2


def test_a_failed_init_container_fails_the_pod(site: node_site.NodeSite) -> None:
    bad = {"name": "bad", "image": "none", "command": ["sh", "-c", "exit 7"]}
    site.run("spoiled", "true", initContainers=[bad])
    status = site.until_phase("spoiled", "Failed")
    assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 7
    assert status["containerStatuses"][0]["state"]["waiting"]["reason"] == "PodInitializing"


def test_environment_and_arguments_are_expanded(site: node_site.NodeSite) -> None:
    env = [
        {"name": "GREETING", "value": "hello $(NODE)"},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "LATER", "value": "on $(NODE)"},
        {"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    ]
    script = 'echo "$GREETING|$LATER|$ADDRESS|$(LATER)"'
    site.run("env", "sh", "-c", script, container={"env": env})
    status = site.until_phase("env", "Succeeded")
    log = site.request("GET", f"{PODS}/env/log").strip()
    assert log == f"hello $(NODE)|on node-1|{status['podIP']}|on node-1"


def test_a_pod_gets_no_token_of_the_api(site: node_site.NodeSite) -> None:
    site.run("curious", "sh", "-c", "env; cat /proc/$$/cmdline; ls -l /proc/$$/fd; cat $KUBECONFIG </dev/null")
    site.until_phase("curious", "Succeeded")
    log = site.request("GET", f"{PODS}/curious/log")
    assert "PATH=" in log
    assert site.token not in log
    assert "kubeconfig" not in log.lower()


def test_the_nodes_own_log_endpoint_asks_for_its_token_and_host(site: node_site.NodeSite) -> None:
    site.run("guarded", "echo", "private")
    site.until_phase("guarded", "Succeeded")
    port = site.request("GET", f"/api/v1/nodes/{node_site.NODE}")["status"]["daemonEndpoints"]["kubeletEndpoint"][
        "Port"
    ]

    def ask(token: str, *, path: str = "/containerLogs/default/guarded/main", **headers: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=waiting.WAIT_S)
        try:
            sent = {**headers, **({"Authorization": f"Bearer {token}"} if token else {})}
            connection.request("GET", path, headers=sent)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    own = access.kubelet_token(site.token, node_site.NODE)
    assert ask(own) == (200, "private\n")
    assert {ask(token)[0] for token in ("", site.token, access.kubelet_token(site.token, "node-2"))} == {401}
    code, said = ask(own, Host="evil.example")
    assert code == 403 and "logs are read through the cluster's API" in said
    # An option that the API alone has.
    assert "--host-names" not in said
    assert ask(own, Origin="http://evil.example")[0] == 403
    # A real API server shows kubectl this text.
    code, said = ask(own, path="/portForward/default/guarded")
    assert (code, "no `kubectl port-forward`: real kubelets have it" in said) == (404, True)


def test_logs_follow_tail_and_previous(site: node_site.NodeSite) -> None:
    site.run("talks", "sh", "-c", "echo one; echo two; sleep 0.5; echo three", restartPolicy="Never")
    site.until_phase("talks", "Running", "Succeeded")
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=waiting.WAIT_S)
    connection.request("GET", f"{PODS}/talks/log?follow=true", headers={"Authorization": f"Bearer {site.token}"})
    assert connection.getresponse().read().decode().split() == ["one", "two", "three"]
    connection.close()
    assert site.request("GET", f"{PODS}/talks/log?tailLines=1") == "three\n"
    assert site.request("GET", f"{PODS}/talks/log?limitBytes=2") == "on"
    stamped = site.request("GET", f"{PODS}/talks/log?timestamps=true&tailLines=1")
    assert stamped.endswith("Z three\n")


def test_a_pod_the_node_has_no_room_for_is_refused(site: node_site.NodeSite) -> None:
    site.run("large", "true", container={"resources": {"requests": {"cpu": "5"}}})
    status = site.until_phase("large", "Failed")
    assert status["reason"] == "OutOfcpu"
    site.run("elsewhere", "true", nodeSelector={"disk": "fast"})
    assert site.until_phase("elsewhere", "Failed")["reason"] == "NodeAffinity"


def test_a_server_answers_on_its_pods_address_and_becomes_ready(site: node_site.NodeSite) -> None:
    port = free_ports.choose_one()
    probe = {"httpGet": {"path": "/healthz", "port": port}, "periodSeconds": 1}
    site.run(
        "server", "carico-workload", "server", "--port", str(port), container={"readinessProbe": probe},
        restartPolicy="Always",
    )  # fmt: skip
    site.until_phase("server", "Running")
    site.until(lambda: condition(site.status("server"), "Ready")["status"] == "True", "readiness")
    address = site.status("server")["podIP"]
    connection = http.client.HTTPConnection(address, port, timeout=waiting.WAIT_S)
    connection.request("GET", "/latency")
    assert json.loads(connection.getresponse().read())["failed"] == 0
    connection.close()
    site.request("DELETE", f"{PODS}/server?gracePeriodSeconds=5")
    site.until(lambda: site.pod("server") is None, "the Pod to go")


def test_thirty_pods_at_once_each_run_once(site: node_site.NodeSite) -> None:
    threads = [threading.Thread(target=site.run, args=(f"many-{n}", "sh", "-c", f"echo {n}")) for n in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n in range(30):
        site.until_phase(f"many-{n}", "Succeeded")
        assert site.request("GET", f"{PODS}/many-{n}/log") == f"{n}\n"


def test_the_lease_is_held_and_the_node_is_ready(site: node_site.NodeSite) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node_site.NODE}"
    spec = site.request("GET", path)["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == (node_site.NODE, 40)
    site.until(lambda: bool(site.request("GET", path)["spec"]["renewTime"] != spec["renewTime"]), "a renewal")
    node = site.request("GET", f"/api/v1/nodes/{node_site.NODE}")
    assert node["status"]["capacity"] == {"cpu": "4", "memory": "2097152Ki", "pods": "110"}
    assert node["metadata"]["labels"]["carico.dev/emulated"] == "true"
    ready = next(entry for entry in node["status"]["conditions"] if entry["type"] == "Ready")
    assert ready["status"] == "True"
