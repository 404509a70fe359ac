"""A node that is stopped for good: cordoned, its Pods finish or are ended, its Node object goes. As in compose."""

import pathlib
import signal
from collections.abc import Iterator

import pytest

from tests.integration.nodes import node_site

# As in a container: no cgroups, and an address that others reach.
FLAGS = ("--latency", "0.1", "--cgroups", "none", "--leave", "--address", "127.0.0.2")
NODE_PATH = f"/api/v1/nodes/{node_site.NODE}"
LEASE_PATH = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node_site.NODE}"


@pytest.fixture
def site(tmp_path: pathlib.Path) -> Iterator[node_site.NodeSite]:
    found = node_site.NodeSite(tmp_path, *FLAGS)
    try:
        yield found
    finally:
        found.stop()


def ask_to_end(site: node_site.NodeSite) -> None:
    assert site.node is not None
    site.node.send_signal(signal.SIGTERM)


def until_ended(site: node_site.NodeSite) -> int:
    assert site.node is not None
    return site.node.wait(60.0)


def test_pods_finish_before_the_node_goes(site: node_site.NodeSite) -> None:
    site.flags = (*FLAGS, "--drain-s", "60")
    site.start()
    node = site.request("GET", NODE_PATH)
    assert node["status"]["addresses"][0]["address"] == "127.0.0.2"
    mark = site.marks / "mark"
    site.run("last", "sh", "-c", f"until [ -e {mark} ]; do sleep 0.05; done")
    site.until_phase("last", "Running")
    ask_to_end(site)
    site.until(lambda: site.request("GET", NODE_PATH)["spec"].get("unschedulable", False), "the cordon")
    # It gets no more work, and what it has goes on.
    assert site.status("last")["phase"] == "Running"
    mark.touch()
    assert until_ended(site) == 0
    assert site.status("last")["phase"] == "Succeeded"
    assert site.request("GET", NODE_PATH) is None
    assert site.request("GET", LEASE_PATH) is None


def test_pods_that_do_not_finish_are_ended(site: node_site.NodeSite) -> None:
    site.flags = (*FLAGS, "--drain-s", "0.6")
    site.start()
    site.run("endless", "sleep", "600")
    site.until_phase("endless", "Running")
    ask_to_end(site)
    assert until_ended(site) == 0
    status = site.status("endless")
    assert (status["phase"], status["reason"]) == ("Failed", "Terminated")
    assert site.request("GET", NODE_PATH) is None


def test_a_node_that_was_killed_while_it_drained_takes_work_again(site: node_site.NodeSite) -> None:
    site.flags = (*FLAGS, "--drain-s", "60")
    site.start()
    site.run("endless", "sleep", "600")
    site.until_phase("endless", "Running")
    ask_to_end(site)
    site.until(lambda: site.request("GET", NODE_PATH)["spec"].get("unschedulable", False), "the cordon")
    site.kill(site.node)
    site.start_node()
    node = site.request("GET", NODE_PATH)
    assert "unschedulable" not in node["spec"]
    assert "carico.dev/draining" not in node["metadata"].get("annotations", {})
    # Asked to end, it would wait for its Pod once more.
    site.kill(site.node)


def test_a_cordon_of_a_person_stays(site: node_site.NodeSite) -> None:
    site.start()
    site.kill(site.node)
    node = site.request("GET", NODE_PATH)
    node["spec"]["unschedulable"] = True
    site.request("PUT", NODE_PATH, node)
    site.start_node()
    assert site.request("GET", NODE_PATH)["spec"]["unschedulable"] is True


def test_an_api_that_is_gone_does_not_hold_a_node_up(site: node_site.NodeSite) -> None:
    site.flags = (*FLAGS, "--drain-s", "60")
    site.start()
    site.kill(site.api)
    ask_to_end(site)
    assert until_ended(site) == 0


def test_a_node_that_fails_leaves_its_pods_to_its_next_process(site: node_site.NodeSite) -> None:
    mark = site.marks / "mark"
    site.start()
    site.run("goes-on", "sh", "-c", f"until [ -e {mark} ]; do sleep 0.05; done; exit 4")
    site.until_phase("goes-on", "Running")
    site.kill(site.node)
    # The last value of a flag counts.
    site.flags = (*FLAGS, "--ready-file", str(site.root / "nowhere" / "ready"))
    with pytest.raises(AssertionError, match="FileNotFoundError"):
        site.start_node()
    site.flags = FLAGS
    site.start_node()
    mark.touch()
    assert node_site.terminated(site.until_phase("goes-on", "Failed"))["exitCode"] == 4
