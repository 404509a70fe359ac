"""Which Nodes the API shows as Ready: followed by a watch, since thousands of them are megabytes a list."""

import pathlib
from collections.abc import Mapping
from typing import Any

from carico_core.runtime import clock as clocks
from carico_core.runtime import kube


class ReadyNodes:
    """`names` are those of the Nodes that are Ready now."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    async def follow(self, kubeconfig: pathlib.Path, *, clock: clocks.Clock) -> None:
        """Never returns; keeps `names`. Raises `KubeconfigError`."""
        settings = kube.KubeSettings(kubeconfig=str(kubeconfig))
        client = await kube.connect(settings, clock=clock, user_agent="carico-supervisor")
        try:
            async for event in client.mirror("/api/v1/nodes"):
                match event:
                    case kube.Listed(objects=objects):
                        self.names = {node["metadata"]["name"] for node in objects if is_ready(node)}
                    case kube.Changed(type=kind, object=node):
                        name = node["metadata"]["name"]
                        (self.names.add if kind != "DELETED" and is_ready(node) else self.names.discard)(name)
        finally:
            await client.close()


def is_ready(node: Mapping[str, Any]) -> bool:
    """True where the Node's kubelet says so."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
