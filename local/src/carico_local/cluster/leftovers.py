"""What an earlier run of a cluster left at its API, and what of it does not go on.

A supervisor that was killed leaves the API's store behind. `carico up` goes on with it, as `carico status` says: Pods
that waited are scheduled, those that ran are started again or have ended. Nodes that the new plan has not are removed
with the Pods bound to them: nothing runs them any more.
"""

import dataclasses
import pathlib
from typing import Any, Protocol

from carico_core.domain import errors
from carico_core.runtime.kube import api_client
from carico_core.runtime.process import clock as clocks
from carico_local.cluster import state

_ENDED = ("Succeeded", "Failed")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """Pods that go on and those that had ended; Nodes that were removed, with how many Pods."""

    waiting: int
    ended: int
    removed_nodes: tuple[str, ...]
    removed_pods: int

    def text(self, name: str) -> str:
        """Return one line for a person; empty where nothing was left."""
        if not (self.waiting or self.ended or self.removed_nodes):
            return ""
        gone = ""
        if self.removed_nodes:
            gone = f"; removed {', '.join(self.removed_nodes)}, not in this plan, with {self.removed_pods} Pods"
        return (
            f"cluster {name} had ended without `carico down`: going on with its {self.waiting} Pods that have not "
            f"ended and {self.ended} that have{gone}; to start empty: `carico down` first"
        )


class Api(Protocol):
    """What is needed of the Kubernetes API."""

    async def request(self, method: str, path: str, *, body: Any = None) -> Any:
        """Return the decoded answer."""
        ...


def are_possible(paths: state.Paths) -> bool:
    """Return True where a control plane has kept something here."""
    return any((paths.data / store).is_dir() for store in ("api", "etcd"))


async def go_on(kubeconfig: pathlib.Path, node_names: tuple[str, ...], *, clock: clocks.Clock) -> Leftovers:
    """Return what was left, once what does not go on is removed."""
    settings = api_client.KubeSettings(kubeconfig=str(kubeconfig))
    api = await api_client.connect(settings, clock=clock, user_agent="carico-supervisor")
    try:
        return await sort_out(api, node_names)
    finally:
        await api.close()


async def sort_out(api: Api, node_names: tuple[str, ...]) -> Leftovers:
    """Do as `go_on`, at an API that is connected."""
    nodes = [item["metadata"]["name"] for item in (await api.request("GET", "/api/v1/nodes"))["items"]]
    pods = (await api.request("GET", "/api/v1/pods"))["items"]
    removed = tuple(name for name in nodes if name not in node_names)
    lost = [pod for pod in pods if pod["spec"].get("nodeName") in removed]
    for pod in lost:
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        # Nothing is left that could end it in order.
        await _delete(api, path, {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}})
    for name in removed:
        await _delete(api, f"/api/v1/nodes/{name}", {})
    kept = [pod for pod in pods if pod["spec"].get("nodeName") not in removed]
    ended = sum(pod.get("status", {}).get("phase") in _ENDED for pod in kept)
    return Leftovers(waiting=len(kept) - ended, ended=ended, removed_nodes=removed, removed_pods=len(lost))


async def _delete(api: Api, path: str, options: dict[str, Any]) -> None:
    try:
        await api.request("DELETE", path, body={"apiVersion": "v1", "kind": "DeleteOptions", **options})
    except (errors.NotFound, errors.Conflict):
        return  # it was deleted meanwhile
