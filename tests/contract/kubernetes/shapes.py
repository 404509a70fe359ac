"""Objects that the tests create."""

from typing import Any

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def pods(namespace: str, *rest: str) -> str:
    """The path of the Pods of a namespace, or of what is below."""
    return "/".join((f"/api/v1/namespaces/{namespace}/pods", *rest))


def pod(name: str = "p", *, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """A Pod of one container, for a scheduler that no control plane runs."""
    container = {"name": "main", "image": "example.invalid/image:1", "command": ["true"]}
    metadata = {"name": name} | ({"labels": labels} if labels else {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"schedulerName": "contract", "containers": [container]} | spec,
    }


def binding(name: str, node: str, **metadata: Any) -> dict[str, Any]:
    """A Binding of a Pod to a Node."""
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name} | metadata, "target": target}


def event(name: str, namespace: str, about: dict[str, Any]) -> dict[str, Any]:
    """A core Event."""
    reference = {
        "kind": "Pod",
        "namespace": namespace,
        "name": about["metadata"]["name"],
        "uid": about["metadata"]["uid"],
    }
    return {
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": reference,
        "reason": "Scheduled",
        "message": "placed by contract",
        "type": "Normal",
        "count": 1,
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "source": {"component": "contract"},
    }
