"""ConfigMaps and Secrets as variables on an emulated node, and what is said of those that are missing."""

import base64
import json
import os
import signal
import stat
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.nodes import node_site

pytestmark = pytest.mark.skipif(bool(node_site.why_no_cgroups()), reason=node_site.why_no_cgroups())
PODS = node_site.PODS
BASE = "/api/v1/namespaces/default"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[node_site.NodeSite]:
    flags = ("--latency", "0.1", "--memory-bytes", str(2**28))
    with node_site.running(tmp_path_factory.mktemp("config"), *flags) as found:
        yield found


def give(site: node_site.NodeSite, kind: str, name: str, **body: Any) -> None:
    site.request("POST", f"{BASE}/{kind}", {"metadata": {"name": name}, **body})


def log(site: node_site.NodeSite, name: str) -> str:
    found: str = site.request("GET", f"{PODS}/{name}/log")
    return found


def waiting(site: node_site.NodeSite, name: str) -> dict[str, Any]:
    statuses = site.status(name).get("containerStatuses") or [{}]
    found: dict[str, Any] = (statuses[0].get("state") or {}).get("waiting") or {}
    return found


def told(site: node_site.NodeSite, name: str) -> set[tuple[str, str]]:
    found = site.request("GET", f"{BASE}/events")["items"]
    return {(each["reason"], each["message"]) for each in found if each["involvedObject"]["name"] == name}


def test_variables_come_of_both_and_paths_of_volumes_in_them_are_put_right(site: node_site.NodeSite) -> None:
    give(site, "configmaps", "words", data={"GREETING": "hello", "FILE": "/etc/app/app.conf"})
    give(site, "secrets", "keys", data={"raw": base64.b64encode(b"\xff\xfe").decode()}, stringData={"user": "u"})
    env = [
        {"name": "USER", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "user"}}},
        {"name": "LINE", "value": "$(GREETING) $(USER)"},
        {"name": "NONE", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "k", "optional": True}}},
    ]
    script = 'echo "$LINE ${NONE-unset}"; printf %s "$S_raw" | od -An -tx1; echo a=1 > "$FILE"; cat /etc/app/app.conf'
    whole = [{"configMapRef": {"name": "words"}}, {"secretRef": {"name": "keys"}, "prefix": "S_"}]
    mounts = [{"name": "v", "mountPath": "/etc/app"}]
    site.run(
        "variables", "sh", "-c", script, container={"env": env, "envFrom": whole, "volumeMounts": mounts},
        volumes=[{"name": "v", "emptyDir": {}}],
    )  # fmt: skip
    site.until_phase("variables", "Succeeded")
    assert log(site, "variables").splitlines() == ["hello u unset", " ff fe", "a=1"]


def test_a_nul_in_a_variable_is_a_start_error(site: node_site.NodeSite) -> None:
    give(site, "secrets", "binary", stringData={"KEY": "a\0b"})
    site.run("nul", "true", container={"envFrom": [{"secretRef": {"name": "binary"}}]})
    ended = node_site.terminated(site.until_phase("nul", "Failed"))
    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
    assert 'exec: "true": invalid argument' in ended["message"]


def test_a_missing_key_waits_with_a_kubelets_words_and_starts_once_it_is_there(site: node_site.NodeSite) -> None:
    env = [{"name": "WORD", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "word"}}}]
    site.run("patient", "sh", "-c", "echo $WORD", container={"env": env})
    said = 'configmap "late" not found'
    expected = {"reason": "CreateContainerConfigError", "message": said}
    site.until(lambda: waiting(site, "patient") == expected, "its reason")
    site.until(lambda: ("Failed", f"Error: {said}") in told(site, "patient"), "an Event")
    give(site, "configmaps", "late", data={"other": "1"})
    said = "couldn't find key word in ConfigMap default/late"
    site.until(lambda: waiting(site, "patient").get("message") == said, "the other reason")
    site.patch(f"{BASE}/configmaps/late", {"data": {"word": "at last"}})
    site.until_phase("patient", "Succeeded")
    assert log(site, "patient") == "at last\n"


def test_the_nodes_next_process_knows_a_containers_variables_and_a_restart_reads_them(
    site: node_site.NodeSite,
) -> None:
    give(site, "configmaps", "again", data={"n": "1"})
    give(site, "secrets", "again", stringData={"word": "open"})
    whole = [{"secretRef": {"name": "again"}}, {"configMapRef": {"name": "again"}}]
    probe = {"exec": {"command": ["sh", "-c", '[ "$word" = open ] && [ "$n" = 1 ]']}, "periodSeconds": 1}
    script = '[ "$n" = 1 ] || { echo "$n"; exit 0; }; exec sleep 600'
    created = site.run(
        "again", "sh", "-c", script, container={"envFrom": whole, "readinessProbe": probe}, restartPolicy="OnFailure",
    )  # fmt: skip
    site.until_phase("again", "Running")
    site.kill(site.node)
    site.patch(f"{BASE}/configmaps/again", {"data": {"n": "3"}})
    site.start_node()
    site.until(lambda: site.status("again")["containerStatuses"][0]["ready"], "it to be ready")
    main = site.root / "node" / "pods" / created["metadata"]["uid"] / "main" / "0"
    assert stat.S_IMODE((main / "variables.json").stat().st_mode) == 0o600
    os.kill(json.loads((main / "started.json").read_text())["pid"], signal.SIGKILL)
    site.until_phase("again", "Succeeded")
    assert log(site, "again") == "3\n"
