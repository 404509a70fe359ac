"""What an earlier run left at its API: said, and sorted out by the new plan."""

import pathlib
from typing import Any

import pytest

from carico_core.domain import errors
from carico_local.cluster import folders, leftovers
from carico_local.cluster.services import service


class Api:
    """Keeps what it is given; `gone` are deleted by another client at the moment they are asked for."""

    def __init__(self, nodes: list[str], pods: list[tuple[str, str | None, str]], *, gone: str = "") -> None:
        self.nodes = nodes
        self.pods = pods
        self.gone = gone
        self.deleted: list[tuple[str, dict[str, Any]]] = []

    async def request(self, method: str, path: str, *, body: Any = None) -> Any:
        if method == "DELETE":
            if path.endswith(f"/{self.gone}"):
                raise errors.NotFound(404, "NotFound", "gone", f"{method} {path}")
            self.deleted.append((path, body))
            return {}
        if path == "/api/v1/nodes":
            return {"items": [{"metadata": {"name": name}} for name in self.nodes]}
        return {
            "items": [
                {
                    "metadata": {"namespace": "default", "name": name, "uid": f"uid-{name}"},
                    "spec": {"nodeName": node} if node else {},
                    "status": {"phase": phase},
                }
                for name, node, phase in self.pods
            ]
        }


async def test_pods_go_on_and_nodes_out_of_the_plan_are_removed_with_theirs() -> None:
    api = Api(
        ["node-1", "node-2", "node-3"],
        [
            ("a", "node-1", "Running"), ("b", None, "Pending"), ("c", "node-1", "Succeeded"),
            ("d", "node-3", "Running"), ("e", "node-3", "Failed"),
        ],
        gone="e",
    )  # fmt: skip
    found = await leftovers.clean_up(api, ("node-1", "node-2"))
    assert found == leftovers.Leftovers(continuing=1, interrupted=1, ended=1, removed_nodes=("node-3",), removed_pods=2)
    assert [path for path, _ in api.deleted] == ["/api/v1/namespaces/default/pods/d", "/api/v1/nodes/node-3"]
    options = api.deleted[0][1]
    assert (options["gracePeriodSeconds"], options["preconditions"]) == (0, {"uid": "uid-d"})
    said = found.text("demo")
    assert "1 Pods continue; 1 that ran were ended with it and are restarted or fail, by their restartPolicy" in said
    assert "1 had ended; removed node-3, not in this plan, with 2 Pods" in said
    assert "to start empty: `carico down --name demo`" in said


async def test_pods_of_played_nodes_continue_since_they_have_no_processes() -> None:
    found = await leftovers.clean_up(Api(["node-1"], [("a", "node-1", "Running")]), ("node-1",), are_played=True)
    assert (found.continuing, found.interrupted) == (1, 0)
    assert "1 Pods continue; 0 had ended" in found.text("demo")


async def test_an_empty_store_says_nothing() -> None:
    assert (await leftovers.clean_up(Api(["node-1"], []), ("node-1",))).text("demo") == ""


def test_logs_of_a_cluster_that_is_gone_are_found_by_the_names_of_its_services(tmp_path: pathlib.Path) -> None:
    paths = folders.Paths(tmp_path / "demo")
    paths.logs.mkdir(parents=True)
    with pytest.raises(errors.SettingsError, match="no cluster named 'demo'"):
        folders.find_logs(tmp_path, "demo")
    for name in ("node/node-1", "agent/node-1", "scheduler", "kube-scheduler"):
        paths.log(service.log_name(name)).write_text("said\n")
    assert service.logged(folders.find_logs(tmp_path, "demo")) == [
        "agent/node-1", "kube-scheduler", "node/node-1", "scheduler",
    ]  # fmt: skip
    with pytest.raises(errors.SettingsError, match="no cluster named"):
        folders.find_logs(tmp_path, "../demo")
