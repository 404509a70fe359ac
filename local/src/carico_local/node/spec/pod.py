"""A Pod as a node runs it: its containers, how it ends, and what an emulated node does not support."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from carico_core.domain import names
from carico_core.wire.kubernetes.pods import pod_requests
from carico_local import qos
from carico_local.node.spec import container as container_spec

Object = Mapping[str, Any]

# https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination
GRACE_S = 30.0
# The API server adds this volume for the service account's token; it is not mounted here.
_TOKEN_VOLUME = "kube-api-access"
# Containers have the files, the name resolution and the runtime of this machine, and end by their own command.
_UNSUPPORTED = ("activeDeadlineSeconds", "dnsConfig", "hostAliases", "runtimeClassName")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PodSpec:
    """One Pod as its node sees it."""

    namespace: str
    name: str
    uid: str
    node_name: str
    service_account: str
    node_selector: Mapping[str, str]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    restart_policy: str
    grace_s: float
    containers: tuple[container_spec.ContainerSpec, ...]
    init_containers: tuple[container_spec.ContainerSpec, ...]
    qos_class: str
    request_cores: float
    # A clause for each feature that the Pod uses and an emulated node does not support.
    unsupported: tuple[str, ...]

    @property
    def key(self) -> str:
        """namespace/name"""
        return f"{self.namespace}/{self.name}"

    @property
    def metadata(self) -> Object:
        """The metadata that variables may refer to."""
        return {
            "namespace": self.namespace, "name": self.name, "uid": self.uid,
            "labels": self.labels, "annotations": self.annotations,
        }  # fmt: skip

    @property
    def every_container(self) -> tuple[container_spec.ContainerSpec, ...]:
        """Init containers, then the others."""
        return (*self.init_containers, *self.containers)

    def oom_score_adj(self, container: container_spec.ContainerSpec, *, node_bytes: float) -> int:
        """Return the oom_score_adj of a container's processes, see `qos`."""
        return qos.oom_score_adj(self.qos_class, request_bytes=container.request_bytes, node_bytes=node_bytes)

    @property
    def limit_cores(self) -> float | None:
        """The Pod's CPU limit: the sum where every container has one."""
        limits = [container.limit_cores for container in self.containers]
        return None if None in limits else sum(limit for limit in limits if limit is not None)

    @property
    def limit_bytes(self) -> int | None:
        """The Pod's memory limit: the sum where every container has one."""
        limits = [container.limit_bytes for container in self.containers]
        return None if None in limits else sum(limit for limit in limits if limit is not None)


def parse(pod: Object) -> PodSpec:
    """Return the Pod of an API object. Raises `ValueError` for a malformed one."""
    try:
        return _parse(pod)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"Pod cannot be read: {error!r}") from error


def _parse(pod: Object) -> PodSpec:
    metadata, spec = pod["metadata"], pod["spec"]
    every = [*(spec.get("initContainers") or ()), *spec["containers"]]
    items = {item["name"]: item for item in every}
    declared = [each for each in spec.get("volumes") or () if not str(each.get("name", "")).startswith(_TOKEN_VOLUME)]
    mountable = frozenset(str(each.get("name", "")) for each in declared)
    security = spec.get("securityContext") or {}
    containers, init_containers = (
        tuple(container_spec.parse(item, items, mountable, security) for item in spec.get(group) or ())
        for group in ("containers", "initContainers")
    )
    return PodSpec(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        node_name=spec["nodeName"],
        service_account=spec.get("serviceAccountName") or "default",
        node_selector=spec.get("nodeSelector") or {},
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        restart_policy=spec.get("restartPolicy") or "Always",
        grace_s=_grace_s(metadata, spec),
        containers=containers,
        init_containers=init_containers,
        qos_class=(pod.get("status") or {}).get("qosClass") or qos.pod_class(spec),
        request_cores=pod_requests.pod_requests(pod).get("cpu", 0.0),
        unsupported=(
            *(f"the Pod has {field}" for field in _UNSUPPORTED if spec.get(field)),
            *_unsupported_volumes(declared),
            *(text for item in every for text in container_spec.unsupported(item, mountable, security)),
        ),
    )


def _unsupported_volumes(declared: Iterable[Object]) -> Iterator[str]:
    for volume in declared:
        if not names.is_label(str(volume.get("name", ""))):
            yield f"volume {volume.get('name', '')!r} has an invalid name"
        elif "emptyDir" not in volume:
            kind = next((key for key in volume if key != "name"), "no known kind")
            yield f"volume {volume.get('name', '')!r} is of kind {kind}, not emptyDir"


def _grace_s(metadata: Object, spec: Object) -> float:
    """Return seconds from SIGTERM to SIGKILL: the deletion's, else the Pod's; at least 1, as in a kubelet."""
    for value in (metadata.get("deletionGracePeriodSeconds"), spec.get("terminationGracePeriodSeconds")):
        if value is not None:
            return max(1.0, float(value))
    return GRACE_S
