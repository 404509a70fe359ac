"""Pods and Nodes that an earlier run of a cluster left at its API.

A supervisor that was killed leaves the API's store behind. `carico up` continues with it, as `carico status` announces:
Pods that waited are scheduled; those that ran were ended with the supervisor and are restarted or fail, by policy.
Nodes that are not in the new plan are removed with the Pods bound to them, since nothing runs those any more.
"""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any, Protocol

from carico_core.domain import errors
from carico_core.runtime.kube import api_client
from carico_core.runtime.process import clock as clocks
from carico_local.cluster import folders

_ENDED = ("Succeeded", "Failed")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """Counts of the Pods left, by what becomes of them, and the Nodes that were removed."""

    continuing: int
    interrupted: int
    ended: int
    removed_nodes: tuple[str, ...]
    removed_pods: int

    def text(self, name: str) -> str:
        """Return one line for the user; empty where nothing was left."""
        if not (self.continuing or self.interrupted or self.ended or self.removed_nodes):
            return ""
        clauses = [f"{self.continuing} Pods continue", f"{self.ended} had ended"]
        if self.interrupted:
            clauses.insert(
                1, f"{self.interrupted} that ran were ended with it and are restarted or fail, by their restartPolicy"
            )
        if self.removed_nodes:
            clauses.append(f"removed {', '.join(self.removed_nodes)}, not in this plan, with {self.removed_pods} Pods")
        return (
            f"cluster {name} had ended without `carico down`: {'; '.join(clauses)}; to start empty: "
            f"`carico down --name {name}` first"
        )


class Api(Protocol):
    """What is needed from the Kubernetes API."""

    async def request(self, method: str, path: str, *, body: Any = None) -> Any:
        """Return the decoded answer."""
        ...


def are_possible(paths: folders.Paths) -> bool:
    """Return True where a control plane has stored data here."""
    return any((paths.data / store).is_dir() for store in ("api", "etcd"))


async def take_over(
    kubeconfig: pathlib.Path, node_names: tuple[str, ...], *, are_played: bool, clock: clocks.Clock
) -> Leftovers:
    """Remove what the new plan does not continue with, and return what was left.

    `are_played`: the nodes are kwok's, whose Pods have no processes that could have ended.
    """
    settings = api_client.KubeSettings(kubeconfig=str(kubeconfig))
    api = await api_client.connect(settings, clock=clock, user_agent="carico-supervisor")
    try:
        return await clean_up(api, node_names, are_played=are_played)
    finally:
        await api.close()


async def clean_up(api: Api, node_names: tuple[str, ...], *, are_played: bool = False) -> Leftovers:
    """Do the work of `take_over` on a connected API."""
    nodes = [item["metadata"]["name"] for item in (await api.request("GET", "/api/v1/nodes"))["items"]]
    pods = (await api.request("GET", "/api/v1/pods"))["items"]
    removed = tuple(name for name in nodes if name not in node_names)
    lost = [pod for pod in pods if pod["spec"].get("nodeName") in removed]
    for pod in lost:
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        # No node is left that could end it in order.
        await _delete(api, path, {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}})
    for name in removed:
        await _delete(api, f"/api/v1/nodes/{name}", {})
    kept = [pod for pod in pods if pod["spec"].get("nodeName") not in removed]
    ended = sum(pod.get("status", {}).get("phase") in _ENDED for pod in kept)
    interrupted = 0 if are_played else sum(_had_run(pod.get("status") or {}) for pod in kept)
    return Leftovers(
        continuing=len(kept) - ended - interrupted, interrupted=interrupted, ended=ended, removed_nodes=removed,
        removed_pods=len(lost),
    )  # fmt: skip


def _had_run(status: Mapping[str, Any]) -> bool:
    """Return True where processes of the Pod ran, which ended with the cluster."""
    containers = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
    is_running = any("running" in (each.get("state") or {}) for each in containers)
    return status.get("phase") not in _ENDED and (status.get("phase") == "Running" or is_running)


async def _delete(api: Api, path: str, options: dict[str, Any]) -> None:
    try:
        await api.request("DELETE", path, body={"apiVersion": "v1", "kind": "DeleteOptions", **options})
    except (errors.NotFound, errors.Conflict):
        return  # deleted meanwhile
