"""What requests are worth on an emulated node: weights at the CPU, and who is ended first when memory runs out."""

import os
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from carico_local.cgroups import group as groups
from carico_local.cgroups import layout, node_group
from carico_recommender.admission import review
from tests.integration.nodes import node_site
from tests.unit.recommender import learnt
from tests.unit.recommender.admission import test_admission_review as reviews

pytestmark = pytest.mark.skipif(bool(node_site.why_no_cgroups()), reason=node_site.why_no_cgroups())
# capability.h; /proc/PID/status has the mask.
CAP_SYS_RESOURCE = 24
# This Python may be in a directory that only root can enter.
ROOT = {"runAsUser": 0}
# On one CPU: two that have a CPU each share nothing but the node's quota, which knows no weights.
SPIN = f"import os; os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}})\nwhile True: pass"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[node_site.NodeSite]:
    flags = ("--allow-root", "--latency", "0.1", "--memory-bytes", str(2**28))
    with node_site.running(tmp_path_factory.mktemp("qos"), *flags) as found:
        yield found


def group_of(site: node_site.NodeSite, pod: dict[str, Any], *below: str) -> groups.Group:
    """The Pod's cgroup, or one of its containers'."""
    path = node_group.node_path(site.cluster, node_site.NODE)
    return groups.Group(layout=layout.read_layout(), path="/".join((path, f"pod{pod['metadata']['uid']}", *below)))


def weighs(group: groups.Group) -> int:
    """cpu.shares, or the weight on v2."""
    trees = group.layout.trees
    root, name = (trees["cpu"], "cpu.shares") if "cpu" in trees else (trees[layout.UNIFIED], "cpu.weight")
    return int((root / group.path / name).read_text())


def expected(shares: int) -> int:
    return shares if "cpu" in layout.read_layout().trees else groups.weight(shares)


def cpu_s(group: groups.Group) -> float:
    """CPU seconds used so far; 0 before the group is there."""
    trees = group.layout.trees
    tree, name = ("cpuacct", "cpuacct.usage") if "cpuacct" in trees else (layout.UNIFIED, "cpu.stat")
    file = trees[tree] / group.path / name
    if not file.exists():
        return 0.0
    text = file.read_text()
    return int(text) / 1e9 if tree == "cpuacct" else groups.parse_flat(text)["usage_usec"] / 1e6


def remove(site: node_site.NodeSite, *names: str) -> None:
    for name in names:
        site.request("DELETE", f"{node_site.PODS}/{name}?gracePeriodSeconds=1")
    site.until(lambda: all(site.pod(name) is None for name in names), "the Pods to go")


def least_adj() -> int:
    """The least that a process may write of itself: what it has inherited, or all that there is."""
    (line,) = [each for each in pathlib.Path("/proc/self/status").read_text().splitlines() if each.startswith("CapEff")]
    is_free = int(line.split()[1], 16) >> CAP_SYS_RESOURCE & 1
    return -1000 if is_free else int(pathlib.Path("/proc/self/oom_score_adj").read_text())


def asking(kind: str = "requests", **amounts: str) -> dict[str, Any]:
    return {"resources": {kind: amounts}}


def test_a_pod_has_class_weight_and_score_of_what_it_asks_for(site: node_site.NodeSite) -> None:
    # The node has 4 cores and 2 GiB, as emulated.
    for name, more, of_class, shares, adj in (
        ("none", {}, "BestEffort", 2, 1000),
        ("some", asking(cpu="300m", memory="512Mi"), "Burstable", 307, 750),
        ("all", asking("limits", cpu="1", memory="1Gi"), "Guaranteed", 1024, -997),
    ):
        pod = site.run(name, "sleep", "600", container=more)
        assert site.until_phase(name, "Running")["qosClass"] == of_class
        assert weighs(group_of(site, pod)) == weighs(group_of(site, pod, "main")) == expected(shares)
        (pid,) = group_of(site, pod, "main").pids()
        assert int(pathlib.Path(f"/proc/{pid}/oom_score_adj").read_text()) == max(adj, least_adj())
    remove(site, "none", "some", "all")


def test_containers_of_a_pod_weigh_what_each_asks_for(site: node_site.NodeSite) -> None:
    both = [{"name": name, "image": "none", "command": ["sleep", "600"], **more}
            for name, more in (("large", asking(cpu="1500m")), ("small", {}))]  # fmt: skip
    pod = site.run("pair", containers=both)
    site.until_phase("pair", "Running")
    found = [weighs(group_of(site, pod, *below)) for below in ((), ("large",), ("small",))]
    assert found == [expected(1536), expected(1536), expected(2)]
    remove(site, "pair")


def test_two_pods_that_spin_share_their_nodes_quota_as_they_asked(site: node_site.NodeSite) -> None:
    pods = [site.run(name, sys.executable, "-S", "-c", SPIN, container=asking(cpu=cpu), securityContext=ROOT)
            for name, cpu in (("much", "400m"), ("little", "100m"))]  # fmt: skip
    much, little = (group_of(site, pod) for pod in pods)
    site.until(lambda: cpu_s(much) > 0.2 and cpu_s(little) > 0.02, "both to spin")
    before = cpu_s(much), cpu_s(little)
    site.until(lambda: cpu_s(much) + cpu_s(little) - sum(before) > 0.5, "half a CPU second")
    used = cpu_s(much) - before[0], cpu_s(little) - before[1]
    # 4 on v1, where shares are in the ratio of the requests; 2.9 on v2, whose curve is flatter.
    assert (wanted := weighs(much) / weighs(little)) > 2.5
    assert wanted / 2 < used[0] / used[1] < wanted * 2, used
    remove(site, "much", "little")


def test_a_server_with_its_learnt_request_gets_its_share_next_to_pods_without(site: node_site.NodeSite) -> None:
    """20 requests of 1 ms a second are recommended 25m; the webhook sets that, the node makes a weight of it."""
    result, found = reviews.ask(reviews.pod(), learnt.recommended(cpu=0.025))
    assert result is review.Result.SET
    given = {"resources": found["spec"]["containers"][0]["resources"]}
    # It asks for as much as it can get: what it would wait for. It is the first: under a quota, Linux 6.18 gives the
    # group that was made last next to nothing where groups of two weights spin, without a node of ours, too.
    server = group_of(site, site.run("server", sys.executable, "-S", "-c", SPIN, container=given, securityContext=ROOT))
    names = [f"busy-{number}" for number in range(3)]
    busy = [group_of(site, site.run(name, sys.executable, "-S", "-c", SPIN, securityContext=ROOT)) for name in names]
    every = [server, *busy]
    site.until(lambda: all(each.pids() for each in every), "all to start")
    site.until(lambda: cpu_s(server) > 0.02 and sum(map(cpu_s, busy)) > 0.06, "the server and the others to spin")
    before = [cpu_s(each) for each in every]
    site.until(lambda: sum(map(cpu_s, every)) - sum(before) > 1.0, "a CPU second")
    used = [cpu_s(each) - earlier for each, earlier in zip(every, before, strict=True)]
    # On v1 25 of 31 shares, on v2 a weight of 6 of 9: at least as much as all the others together.
    assert weighs(server) == expected(25)
    wanted = weighs(server) / sum(map(weighs, busy))
    assert wanted >= 1.0
    assert used[0] / sum(used[1:]) > wanted / 2, used
    remove(site, "server", *names)


@pytest.mark.skipif(least_adj() > 0, reason="what runs here may not go below its own oom_score_adj")
def test_without_memory_the_pod_that_asked_for_none_is_ended_first(site: node_site.NodeSite) -> None:
    hold = "import time; held = b'x' * ({} << 20); print('held', flush=True); time.sleep({})"
    site.run("unasked", sys.executable, "-S", "-c", hold.format(50, 600), securityContext=ROOT)
    site.until(lambda: site.status("unasked").get("phase") == "Running", "it to run")
    site.until(lambda: "held" in site.request("GET", f"{node_site.PODS}/unasked/log"), "its memory")
    # Together more than the node's 256 MiB, and this one has the more by far: without scores it would be ended.
    site.run(
        "asked",
        sys.executable,
        "-S",
        "-c",
        hold.format(215, 0),
        container=asking(memory="1800Mi"),
        securityContext=ROOT,
    )
    ended = node_site.terminated(site.until_phase("unasked", "Failed"))
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")
    assert node_site.terminated(site.until_phase("asked", "Succeeded", "Failed"))["reason"] == "Completed"
