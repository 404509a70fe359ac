"""An emulated node through kill -9, an API that goes away, a stop, and a machine without cgroups."""

import json
import os
import pathlib
import signal
import time
from collections.abc import Iterator

import pytest

from carico_local.cgroups import sweep
from tests.integration.nodes import node_site
from tests.tools import waiting

pytestmark = pytest.mark.skipif(bool(node_site.why_no_cgroups()), reason=node_site.why_no_cgroups())
PODS = node_site.PODS


@pytest.fixture
def site(tmp_path: pathlib.Path) -> Iterator[node_site.NodeSite]:
    with node_site.running(tmp_path, "--allow-root", "--latency", "0.1") as found:
        yield found


def until_there(mark: pathlib.Path) -> str:
    """A command that ends once the file is there."""
    return f"until [ -e {mark} ]; do sleep 0.05; done"


def test_pods_outlive_a_killed_node_process_and_their_exit_codes_are_not_lost(site: node_site.NodeSite) -> None:
    away, back = site.marks / "away", site.marks / "back"
    site.run("ends-meanwhile", "sh", "-c", f"{until_there(away)}; exit 4")
    # As root: from a shell, the workload needs this Python, which may be in a directory that only root can enter.
    site.run(
        "goes-on", "sh", "-c", f"{until_there(back)}; exec carico-workload pi --seconds 0.5",
        securityContext={"runAsUser": 0},
    )  # fmt: skip
    site.run("removed-meanwhile", "carico-workload", "pi", "--seconds", "600")
    for name in ("ends-meanwhile", "goes-on", "removed-meanwhile"):
        site.until_phase(name, "Running")
    before = site.status("goes-on")["containerStatuses"][0]
    site.kill(site.node)
    away.touch()
    site.request("DELETE", f"{PODS}/removed-meanwhile?gracePeriodSeconds=0")
    site.until(lambda: bool(list((site.root / "node" / "pods").glob("*/*/0/exit.json"))), "the first to end")
    site.start_node()
    assert node_site.terminated(site.until_phase("ends-meanwhile", "Failed"))["exitCode"] == 4
    back.touch()
    status = site.until_phase("goes-on", "Succeeded")
    after = status["containerStatuses"][0]
    assert (after["containerID"], after["restartCount"]) == (before["containerID"], 0)
    line = json.loads(node_site.terminated(status)["message"])
    assert line["cpu_s"] == pytest.approx(0.5 * 0.125, rel=0.1)
    # The kubelet's part of a removal that it did not see: nothing of the Pod runs on.
    site.until(lambda: not any(list(path.rglob("pod*")) for path in site.cgroups()), "every Pod's cgroup to go")


def test_a_container_whose_end_was_not_seen_is_unknown(site: node_site.NodeSite) -> None:
    site.run("orphaned", "carico-workload", "pi", "--seconds", "600")
    site.until_phase("orphaned", "Running")
    site.kill(site.node)
    # The runtime and all of its containers too, as when a machine is reset; the records stay.
    sweep.sweep(site.cluster, state_dirs=[site.root / "node"])
    for record in (site.root / "node" / "pods").glob("*/*/0/exit.json"):
        record.unlink()
    site.start_node()
    ended = node_site.terminated(site.until_phase("orphaned", "Failed"))
    assert (ended["exitCode"], ended["reason"]) == (137, "ContainerStatusUnknown")


def test_a_killed_container_runtime_is_replaced_and_its_containers_end_unknown(site: node_site.NodeSite) -> None:
    # To be seen while it runs, and to end by itself: nothing is left to end it.
    site.run("orphan", "sh", "-c", until_there(site.marks / "end"))
    site.until_phase("orphan", "Running")
    os.kill(json.loads((site.root / "node" / "runtime.json").read_text())["pid"], signal.SIGKILL)
    site.until(lambda: "runtime_lost" in (site.root / "node.log").read_text(), "the node to notice")
    (site.marks / "end").touch()
    site.run("next", "true")
    site.until_phase("next", "Succeeded")
    ended = node_site.terminated(site.until_phase("orphan", "Failed"))
    assert (ended["exitCode"], ended["reason"]) == (137, "ContainerStatusUnknown")


def test_pods_run_on_and_statuses_catch_up_when_the_api_was_away(site: node_site.NodeSite) -> None:
    site.run("through", "sh", "-c", until_there(site.marks / "away"))
    site.until_phase("through", "Running")
    site.kill(site.api)
    (site.marks / "away").touch()
    site.until(lambda: bool(list((site.root / "node" / "pods").glob("*/*/0/exit.json"))), "its end")
    # So that all reports have been tried.
    time.sleep(1.0)
    site.start_api()
    assert node_site.terminated(site.until_phase("through", "Succeeded"))["exitCode"] == 0
    site.run("after", "true")
    site.until_phase("after", "Succeeded")


def test_stop_ends_pods_and_removes_every_trace(site: node_site.NodeSite) -> None:
    site.run("runs", "sh", "-c", "trap '' TERM; while true; do sleep 0.1; done")
    site.until_phase("runs", "Running")
    assert site.cgroups()
    assert site.node is not None
    site.node.terminate()
    assert site.node.wait(waiting.WAIT_S) == 0
    assert site.cgroups() == []
    status = site.status("runs")
    assert (status["phase"], status["reason"]) == ("Failed", "Terminated")
    assert not list((site.root / "node").glob("pods/*"))


def test_a_sweep_after_kill_9_of_everything_leaves_nothing(site: node_site.NodeSite) -> None:
    site.run("left", "carico-workload", "pi", "--seconds", "600")
    site.until_phase("left", "Running")
    site.kill(site.node)
    swept = sweep.sweep(site.cluster, state_dirs=[site.root / "node"])
    assert swept.remaining == ()
    assert swept.killed >= 2
    assert site.cgroups() == []


def test_without_cgroups_pods_run_as_plain_processes_and_the_node_says_so(tmp_path: pathlib.Path) -> None:
    site = node_site.NodeSite(tmp_path, "--latency", "0.1", "--cgroups", "none")
    try:
        site.start_api()
        ready = site.start_node()
        assert (ready["fallback"], ready["cgroup"]) == ("process-accounting", None)
        site.run("pi", "carico-workload", "pi", "--seconds", "0.3")
        site.run("runs", "sh", "-c", "sleep 600 & sleep 600")
        assert node_site.terminated(site.until_phase("pi", "Succeeded"))["exitCode"] == 0
        site.until_phase("runs", "Running")
        site.request("DELETE", f"{PODS}/runs?gracePeriodSeconds=1")
        site.until(lambda: site.pod("runs") is None, "the Pod to go")
    finally:
        site.stop()
    assert site.cgroups() == []
