"""What a Pod asks of a node, apart from who it is: Pods with equal demands are decided on together."""

import dataclasses

from carico_core.domain import cluster, pod_class


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The constraints of a Pod. Hashable: it is the key of the Pod's equivalence class."""

    node_name: str | None = None
    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[cluster.Toleration, ...] = ()
    request_cores: float = 0.0
    request_bytes: float = 0.0
    unsupported: tuple[str, ...] = ()
    pod_class: str = ""

    @property
    def has_requests(self) -> bool:
        """True where the Pod states a request of cores or of memory."""
        return self.request_cores > 0 or self.request_bytes > 0


def demand_of(pod: cluster.Pod) -> Demand:
    """The demand of `pod`; equal for all Pods of one template."""
    return Demand(
        node_name=pod.node_name,
        node_selector=tuple(sorted(pod.node_selector.items())),
        tolerations=pod.tolerations,
        request_cores=pod.request_cores,
        request_bytes=pod.request_bytes,
        unsupported=pod.unsupported,
        pod_class=pod_class.class_of(pod),
    )
