"""The bodies of what CARICO writes to the Kubernetes API."""

from collections.abc import Mapping
from typing import Any

from carico_core.domain import names
from carico_core.wire.kubernetes import instants

# https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/: note is at most 1 kB.
NOTE_LIMIT_BYTES = 1024


def binding_body(
    *, namespace: str, name: str, uid: str, node: str, resource_version: str = "", by: str = ""
) -> dict[str, Any]:
    """Return a v1 Binding with the Pod's UID, and its resourceVersion if given, as preconditions.

    `by` names the bind: the API adds the Binding's annotations to those of the Pod, in the write that sets the node.
    """
    metadata: dict[str, Any] = {"namespace": namespace, "name": name, "uid": uid}
    if resource_version:
        metadata["resourceVersion"] = resource_version
    if by:
        metadata["annotations"] = {names.BOUND_BY: by}
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}


def event_body(
    regarding: Mapping[str, str],
    *,
    name: str,
    reason: str,
    action: str,
    note: str,
    controller: str,
    instance: str,
    at_ns: int,
    warning: bool,
) -> dict[str, Any]:
    """Return an events.k8s.io/v1 Event about `regarding` (apiVersion, kind, namespace, name, uid)."""
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        # Events about objects without a namespace (Nodes) live in "default", as kubectl describe expects.
        "metadata": {"namespace": regarding.get("namespace") or "default", "name": name},
        "regarding": dict(regarding),
        "reason": reason,
        "action": action,
        "note": note.encode()[:NOTE_LIMIT_BYTES].decode(errors="ignore"),
        "type": "Warning" if warning else "Normal",
        "eventTime": instants.format_instant(at_ns),
        "reportingController": controller,
        "reportingInstance": instance,
    }
