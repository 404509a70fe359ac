"""ConfigMaps and Secrets on an emulated node: in variables, in files that follow them, waited for where missing."""

import base64
import json
import os
import pathlib
import signal
import stat
from collections.abc import Iterator
from typing import Any

import pytest

from carico_local.node import read_only
from tests.integration import node_site

pytestmark = pytest.mark.skipif(bool(node_site.why_no_cgroups()), reason=node_site.why_no_cgroups())
PODS = node_site.PODS
BASE = "/api/v1/namespaces/default"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[node_site.NodeSite]:
    flags = ("--latency", "0.1", "--memory-bytes", str(2**28), "--sync-s", "0.3")
    with node_site.running(tmp_path_factory.mktemp("config"), *flags) as found:
        yield found


def give(site: node_site.NodeSite, kind: str, name: str, **body: Any) -> None:
    site.request("POST", f"{BASE}/{kind}", {"metadata": {"name": name}, **body})


def mounted(path: str, **more: Any) -> dict[str, Any]:
    return {"volumeMounts": [{"name": "v", "mountPath": path, **more}]}


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


def folder(site: node_site.NodeSite, name: str) -> pathlib.Path:
    pod = site.pod(name)
    assert pod is not None
    uid: str = pod["metadata"]["uid"]
    return site.root / "node" / "pods" / uid / "volumes~" / "v"


def test_variables_come_of_both_and_paths_in_them_are_put_right(site: node_site.NodeSite) -> None:
    give(site, "configmaps", "words", data={"GREETING": "hello", "FILE": "/etc/app/app.conf"})
    give(site, "configmaps", "app", data={"app.conf": "a=1\n"})
    give(site, "secrets", "keys", data={"raw": base64.b64encode(b"\xff\xfe").decode()}, stringData={"user": "u"})
    env = [
        {"name": "USER", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "user"}}},
        {"name": "LINE", "value": "$(GREETING) $(USER)"},
        {"name": "NONE", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "k", "optional": True}}},
    ]
    script = 'echo "$LINE ${NONE-unset}"; printf %s "$S_raw" | od -An -tx1; cat "$FILE"'
    whole = [{"configMapRef": {"name": "words"}}, {"secretRef": {"name": "keys"}, "prefix": "S_"}]
    site.run(
        "variables", "sh", "-c", script, container={"env": env, "envFrom": whole, **mounted("/etc/app")},
        volumes=[{"name": "v", "configMap": {"name": "app"}}],
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


def test_files_are_mounted_once_they_are_there_and_follow_the_object(site: node_site.NodeSite) -> None:
    script = "while [ ! -e /etc/app/end ]; do sleep 0.05; done; cat /etc/app/word"
    site.run(
        "follows", "sh", "-c", script, container=mounted("/etc/app"),
        volumes=[{"name": "v", "configMap": {"name": "moving"}}],
    )  # fmt: skip
    said = 'MountVolume.SetUp failed for volume "v" : configmap "moving" not found'
    site.until(lambda: ("FailedMount", said) in told(site, "follows"), "an Event")
    assert waiting(site, "follows")["reason"] == "ContainerCreating"
    give(site, "configmaps", "moving", data={"word": "first"})
    site.until_phase("follows", "Running")
    assert (folder(site, "follows") / "word").read_text() == "first"
    site.patch(f"{BASE}/configmaps/moving", {"data": {"word": "second", "end": ""}})
    site.until_phase("follows", "Succeeded")
    assert log(site, "follows") == "second\n"


def test_a_secrets_files_are_the_owners_and_go_with_the_containers(site: node_site.NodeSite) -> None:
    give(site, "secrets", "files", stringData={"key": "k\n", "other": "x"})
    volume = {"secretName": "files", "items": [{"key": "key", "path": "deep/key", "mode": 0o400}]}
    script = "cat /keys/deep/key; exec sleep 600"
    site.run("keeps", "sh", "-c", script, container=mounted("/keys"), volumes=[{"name": "v", "secret": volume}])
    site.until_phase("keeps", "Running")
    site.until(lambda: log(site, "keeps") == "k\n", "its output")
    found = folder(site, "keeps")
    assert stat.S_IMODE(found.stat().st_mode) == 0o700
    assert stat.S_IMODE((found / "deep" / "key").stat().st_mode) == 0o400
    uid = found.parent.parent
    started = json.loads((uid / "main" / "0" / "started.json").read_text())
    os.kill(started["pid"], signal.SIGKILL)
    site.until_phase("keeps", "Failed")
    # The object is still there, and what it needed is not.
    assert uid.exists()
    assert not found.exists()


@pytest.mark.skipif(not read_only.is_possible(), reason="needs CAP_SYS_ADMIN")
def test_nobody_writes_there_and_sub_paths_are_files(site: node_site.NodeSite) -> None:
    give(site, "configmaps", "kept", data={"a.conf": "as it was\n"})
    script = "cat /etc/my.conf; echo spoiled > /etc/my.conf; echo spoiled > /etc/all/new"
    mounts = [{"name": "v", "mountPath": "/etc/my.conf", "subPath": "a.conf"}, {"name": "v", "mountPath": "/etc/all"}]
    site.run(
        "tries", "sh", "-c", script, container={"volumeMounts": mounts},
        volumes=[{"name": "v", "configMap": {"name": "kept"}}],
    )  # fmt: skip
    site.until_phase("tries", "Failed")
    said = log(site, "tries")
    assert said.startswith("as it was\n")
    assert said.count("Read-only file system") == 2


def test_fields_and_objects_share_a_volume_and_labels_follow(site: node_site.NodeSite) -> None:
    give(site, "configmaps", "joined", data={"a": "1\n"})
    label = {"path": "pod/tier", "fieldRef": {"fieldPath": "metadata.labels['tier']"}}
    parts = [
        {"configMap": {"name": "joined"}}, {"downwardAPI": {"items": [label]}},
        {"secret": {"name": "none", "optional": True}},
    ]  # fmt: skip
    script = "cat /v/a; while ! grep -q web /v/pod/tier; do sleep 0.05; done; cat /v/pod/tier"
    volumes = [{"name": "v", "projected": {"sources": parts}}]
    site.run("joins", "sh", "-c", script, container=mounted("/v"), volumes=volumes)
    site.until_phase("joins", "Running")
    site.patch(f"{PODS}/joins", {"metadata": {"labels": {"tier": "web"}}})
    site.until_phase("joins", "Succeeded")
    # A log ends its last line.
    assert log(site, "joins") == "1\nweb\n"


def test_a_node_process_that_starts_anew_goes_on(site: node_site.NodeSite) -> None:
    """Files go on to change, probes have the container's variables, and a restart reads anew."""
    give(site, "configmaps", "again", data={"n": "1"})
    give(site, "secrets", "again", stringData={"word": "open"})
    whole = [{"secretRef": {"name": "again"}}, {"configMapRef": {"name": "again"}}]
    probe = {"exec": {"command": ["sh", "-c", '[ "$word" = open ] && [ "$(cat /v/n)" = 2 ]']}, "periodSeconds": 1}
    script = '[ "$n" = 1 ] || { cat /v/n; echo " $n"; exit 0; }; exec sleep 600'
    site.run(
        "again", "sh", "-c", script, container={"envFrom": whole, "readinessProbe": probe, **mounted("/v")},
        volumes=[{"name": "v", "configMap": {"name": "again"}}], restartPolicy="OnFailure",
    )  # fmt: skip
    site.until_phase("again", "Running")
    site.kill(site.node)
    site.patch(f"{BASE}/configmaps/again", {"data": {"n": "2"}})
    site.start_node()
    site.until(lambda: site.status("again")["containerStatuses"][0]["ready"], "it to be ready")
    main = folder(site, "again").parent.parent / "main" / "0"
    assert stat.S_IMODE((main / "variables.json").stat().st_mode) == 0o600
    site.patch(f"{BASE}/configmaps/again", {"data": {"n": "3"}})
    os.kill(json.loads((main / "started.json").read_text())["pid"], signal.SIGKILL)
    site.until_phase("again", "Succeeded")
    assert log(site, "again") == "3 3\n"
