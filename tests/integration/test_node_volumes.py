"""Volumes of the machine on an emulated node: made, checked, kept from writing, found again by the next process."""

import json
import os
import pathlib
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from carico_local.node import read_only
from tests.integration import node_site

pytestmark = pytest.mark.skipif(bool(node_site.why_no_cgroups()), reason=node_site.why_no_cgroups())
PODS = node_site.PODS


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[node_site.NodeSite]:
    with node_site.running(
        tmp_path_factory.mktemp("volumes"), "--latency", "0.1", "--memory-bytes", str(2**28)
    ) as found:
        yield found


def host(path: pathlib.Path, kind: str = "") -> list[dict[str, Any]]:
    return [{"name": "h", "hostPath": {"path": str(path), "type": kind}}]


def mounted(path: str, **more: Any) -> dict[str, Any]:
    return {"volumeMounts": [{"name": "h", "mountPath": path, **more}]}


def log(site: node_site.NodeSite, name: str) -> str:
    found: str = site.request("GET", f"{PODS}/{name}/log")
    return found


def test_two_pods_share_a_folder_of_the_machine(site: node_site.NodeSite, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "shared"
    site.run("writes", "sh", "-c", "echo hello > /data/said", container=mounted("/data"), volumes=host(folder))
    site.until_phase("writes", "Succeeded")
    assert (folder / "said").read_text() == "hello\n"
    volumes = host(folder, "Directory")
    site.run("reads", "cat", "/in/a/said", container=mounted("/in/a"), volumes=volumes)
    site.until_phase("reads", "Succeeded")
    assert log(site, "reads") == "hello\n"


def test_a_file_is_a_volume_too(site: node_site.NodeSite, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "settings"
    file.write_text("a=1\n")
    site.run("file", "cat", "/etc/app.conf", container=mounted("/etc/app.conf"), volumes=host(file, "File"))
    site.until_phase("file", "Succeeded")
    assert log(site, "file") == "a=1\n"


def test_a_pod_waits_for_its_place_and_starts_once_it_is_there(
    site: node_site.NodeSite, tmp_path: pathlib.Path
) -> None:
    folder = tmp_path / "later"
    site.run("patient", "true", container=mounted("/data"), volumes=host(folder, "Directory"))

    def is_told() -> bool:
        found = site.request("GET", "/api/v1/namespaces/default/events")["items"]
        said = f'MountVolume.SetUp failed for volume "h" : hostPath {folder} doesn\'t exist'
        return any(event["reason"] == "FailedMount" and event["message"] == said for event in found)

    site.until(is_told, "an Event")
    assert site.status("patient")["containerStatuses"][0]["state"]["waiting"]["reason"] == "ContainerCreating"
    folder.mkdir()
    site.until_phase("patient", "Succeeded")


@pytest.mark.skipif(not read_only.is_possible(), reason="needs CAP_SYS_ADMIN")
def test_a_read_only_mount_is_not_written_to(site: node_site.NodeSite, tmp_path: pathlib.Path) -> None:
    (tmp_path / "kept").write_text("as it was\n")
    script = "cat /data/kept; echo spoiled > /data/kept; echo spoiled > /data/new"
    site.run("tries", "sh", "-c", script, container=mounted("/data", readOnly=True), volumes=host(tmp_path))
    status = site.until_phase("tries", "Failed")
    assert node_site.terminated(status)["exitCode"] != 0
    said = log(site, "tries")
    assert said.startswith("as it was\n")
    assert said.count("Read-only file system") == 2
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept").read_text() == "as it was\n"
    assert str(tmp_path) not in pathlib.Path("/proc/self/mountinfo").read_text()


def test_a_claim_that_the_api_does_not_have_is_said(site: node_site.NodeSite) -> None:
    site.run("claims", "true", volumes=[{"name": "h", "persistentVolumeClaim": {"claimName": "disk"}}])

    def is_told() -> bool:
        found = site.request("GET", "/api/v1/namespaces/default/events")["items"]
        return any('persistentvolumeclaims "disk" not found' in event["message"] for event in found)

    site.until(is_told, "an Event")
    site.request("DELETE", f"{PODS}/claims?gracePeriodSeconds=1")
    site.until(lambda: site.pod("claims") is None, "the Pod to go")


def test_a_node_process_that_starts_anew_knows_where_they_are(site: node_site.NodeSite, tmp_path: pathlib.Path) -> None:
    script = 'n=$(cat /data/starts 2>/dev/null || echo 0); echo $((n + 1)) > /data/starts; [ "$n" -ge 1 ] || sleep 600'
    spec = {"container": mounted("/data"), "volumes": host(tmp_path), "restartPolicy": "OnFailure"}
    uid = site.run("again", "sh", "-c", script, **spec)["metadata"]["uid"]
    site.until(lambda: (tmp_path / "starts").exists(), "its first start")
    site.until_phase("again", "Running")
    site.kill(site.node)
    site.start_node()
    started = site.root / "node" / "pods" / uid / "main" / "0" / "started.json"
    os.kill(json.loads(started.read_text())["pid"], signal.SIGKILL)
    site.until_phase("again", "Succeeded")
    assert (tmp_path / "starts").read_text() == "2\n"
