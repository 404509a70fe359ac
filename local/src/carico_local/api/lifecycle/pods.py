"""Operations of Pods only: binding one to a node, once, and evicting it.

Source: k8s.io/kubernetes/pkg/registry/core/pod/storage/{storage,eviction}.go.
"""

from typing import Any

from carico_core.runtime.process import clock as clocks
from carico_core.wire.kubernetes import instants
from carico_local.api.model import objects, resources, schema, statuses
from carico_local.api.storage import store

BINDING = "io.k8s.api.core.v1.Binding"
EVICTION = "io.k8s.api.policy.v1.Eviction"


def parse_binding(body: object) -> objects.Object:
    """Parse the Binding of a request; raise `RequestFailed` (400, 422)."""
    binding, _ = schema.decode(BINDING, body)
    target = binding.get("target") or {}
    causes = []
    if target.get("kind", "") not in ("", "Node"):
        message = f'Unsupported value: "{target["kind"]}": supported values: "Node", "<empty>"'
        causes.append(statuses.Cause(reason="FieldValueNotSupported", message=message, field="target.kind"))
    if not target.get("name"):
        causes.append(statuses.Cause(reason="FieldValueRequired", message="Required value", field="target.name"))
    if causes:
        raise statuses.invalid("Binding", (binding.get("metadata") or {}).get("name", ""), causes)
    return binding


def bind(
    kept: store.Store, clock: clocks.Clock, pod: objects.Stored, binding: objects.Object, *, dry_run: bool
) -> None:
    """Bind a Pod to a node. Raise `RequestFailed` (409) if it is bound, is being deleted, or is another Pod."""
    name = pod.data["metadata"]["name"]
    assumed = binding.get("metadata") or {}
    statuses.check_preconditions(
        "pods", pod.data["metadata"], uid=assumed.get("uid") or None, version=assumed.get("resourceVersion") or None
    )
    if refusal := _refusal(pod.data):
        raise statuses.conflict("pods/binding", name, refusal)
    data = objects.copy(pod)
    data["spec"]["nodeName"] = binding["target"]["name"]
    for field in ("annotations", "labels"):
        if added := assumed.get(field):
            data["metadata"][field] = {**(data["metadata"].get(field) or {}), **added}
    set_condition(
        data.setdefault("status", {}),
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": instants.format_time(clock.wall_ns())},
    )
    if not dry_run:
        kept.put(resources.PODS.storage, data)


def set_condition(status: objects.Object, condition: dict[str, Any]) -> None:
    """Set a condition, replacing one of the same type."""
    others = [item for item in status.get("conditions") or () if item.get("type") != condition["type"]]
    status["conditions"] = [*others, condition]


def _refusal(pod: objects.Object) -> str:
    name, spec = pod["metadata"]["name"], pod["spec"]
    if pod["metadata"].get("deletionTimestamp"):
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    if spec.get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""
