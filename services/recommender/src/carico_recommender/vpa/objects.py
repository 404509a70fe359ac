"""VerticalPodAutoscaler objects of the API as records. Pure.

Source: pkg/apis/autoscaling.k8s.io/v1/types.go of kubernetes/autoscaler, vertical-pod-autoscaler 1.7.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from carico_core.domain import names
from carico_core.wire.kubernetes import object_fields as fields
from carico_core.wire.kubernetes.pods import pod_requests

PATH = "/apis/autoscaling.k8s.io/v1/verticalpodautoscalers"
# The policy of containers without one of their own.
ANY = "*"

Object = Mapping[str, Any]
# Kind of the target -> kind in the name of its Pods' class (`names.class_of`).
_CLASS_KINDS: Mapping[str, str] = {
    "Deployment": "ReplicaSet",
    "ReplicaSet": "ReplicaSet",
    "StatefulSet": "StatefulSet",
    "ReplicationController": "ReplicationController",
    "CronJob": "Job",
    "Job": "Job",
}
# These add to the names of what they create, which is no part of the class's name.
_ADDING = frozenset({"Deployment", "CronJob"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The policy of a container: amounts in cores and bytes. `controlled` None: CPU and memory.

    `raises_limits`: whether VPA keeps limits in proportion to requests.
    """

    is_off: bool = False
    least: Mapping[str, float] = dataclasses.field(default_factory=dict)
    most: Mapping[str, float] = dataclasses.field(default_factory=dict)
    controlled: tuple[str, ...] | None = None
    raises_limits: bool = True


NO_POLICY = Policy()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Autoscaler:
    """An object that names this recommender. `fault`: why its specification cannot be used; empty if it can."""

    namespace: str
    name: str
    resource_version: str
    pod_class: str
    policies: Mapping[str, Policy]
    fault: str
    # As in the API.
    status: Object

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def path(self) -> str:
        """The path of its status."""
        return f"/apis/autoscaling.k8s.io/v1/namespaces/{self.namespace}/verticalpodautoscalers/{self.name}/status"

    def policy(self, container: str) -> Policy:
        """Return the policy of a container."""
        return self.policies.get(container) or self.policies.get(ANY) or NO_POLICY


def parse(obj: Object, *, recommender: str) -> Autoscaler | None:
    """Return the object, or None if it is for another recommender. Raises `ValueError` if it has no name."""
    spec = obj.get("spec")
    if not isinstance(spec, dict) or not _names(spec, recommender):
        return None
    namespace, name = fields.key_of(obj)
    pod_class, policies, fault = "", {}, ""
    try:
        pod_class = class_of_target(namespace, fields.mapping(spec, "targetRef", "spec."))
        policies = _policies(fields.mapping(spec, "resourcePolicy", "spec."))
    except ValueError as error:
        fault = str(error)
    status = obj.get("status")
    return Autoscaler(
        namespace=namespace, name=name, pod_class=pod_class, policies=policies, fault=fault,
        resource_version=fields.required(fields.mapping(obj, "metadata"), "resourceVersion", "metadata."),
        status=status if isinstance(status, dict) else {},
    )  # fmt: skip


def class_of_target(namespace: str, target: Object) -> str:
    """Return the class of the Pods of a workload. Raises `ValueError` for one whose Pods have no class of their own.

    >>> class_of_target("default", {"kind": "Deployment", "name": "web"})
    'ReplicaSet/default/web'
    """
    kind, name = (fields.required(target, key, "spec.targetRef.") for key in ("kind", "name"))
    if kind not in _CLASS_KINDS:
        why = ": the Pods of a DaemonSet count as their node's own load" if kind == "DaemonSet" else ""
        raise ValueError(f"spec.targetRef.kind: got {kind}, expected one of {', '.join(sorted(_CLASS_KINDS))}{why}")
    return f"{_CLASS_KINDS[kind]}/{namespace}/{name if kind in _ADDING else names.template_of(name)}"


def _names(spec: Object, recommender: str) -> bool:
    chosen = spec.get("recommenders")
    return isinstance(chosen, list) and any(
        isinstance(each, dict) and each.get("name") == recommender for each in chosen
    )


def _policies(policy: Object) -> dict[str, Policy]:
    found: dict[str, Policy] = {}
    path = "spec.resourcePolicy.containerPolicies"
    for index, each in enumerate(fields.objects(policy, "containerPolicies", "spec.resourcePolicy.")):
        at = f"{path}[{index}]."
        container = fields.optional(each, "containerName", at) or ANY
        one = Policy(
            is_off=fields.optional(each, "mode", at) == "Off",
            least=pod_requests.amounts(each, "minAllowed", at),
            most=pod_requests.amounts(each, "maxAllowed", at),
            controlled=fields.words(each, "controlledResources", at) if "controlledResources" in each else None,
            raises_limits=fields.optional(each, "controlledValues", at) != "RequestsOnly",
        )
        for resource, least in one.least.items():
            if 0.0 < one.most.get(resource, least) < least:
                raise ValueError(f"{at}minAllowed.{resource} of {container} is above its maxAllowed: no amount is both")
        found[container] = one
    return found
