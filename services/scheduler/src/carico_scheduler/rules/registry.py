"""The stages in their order: cheap and lasting reasons first, so that each node is refused for the plainest one."""

import dataclasses

from carico_scheduler.rules import by_requests, protocol
from carico_scheduler.rules import policy as policies
from carico_scheduler.rules.filters import (
    capacity,
    cordon,
    freshness,
    node_affinity,
    node_name,
    node_selector,
    pod_limit,
    requests,
    taints,
    trust,
    unsupported,
)
from carico_scheduler.rules.peers import host_ports, pod_affinity, pod_anti_affinity, spread, volumes


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """Filters in order, those of them that go by more than facts, those that go by other Pods, and the scorer."""

    filters: tuple[protocol.Filter, ...]
    by_columns: tuple[protocol.Filter, ...]
    by_peers: tuple[protocol.PeerFilter, ...]
    scorer: protocol.Scorer


def _hard() -> tuple[protocol.Filter, ...]:
    """What the Pod and the node state themselves."""
    return (
        unsupported.Unsupported(),
        node_name.NodeName(),
        cordon.Ready(),
        cordon.Schedulable(),
        taints.Taints(),
        node_selector.NodeSelector(),
        node_affinity.NodeAffinity(),
        requests.Requests(),
        pod_limit.PodLimit(),
    )


def _by_peers() -> tuple[protocol.PeerFilter, ...]:
    """What other Pods and volumes say."""
    return (
        host_ports.HostPorts(),
        host_ports.Disks(),
        volumes.Volumes(),
        volumes.VolumeLimits(),
        pod_affinity.PodAffinity(),
        pod_anti_affinity.PodAntiAffinity(),
        spread.TopologySpread(),
    )


def by_advertisement() -> tuple[protocol.Filter, ...]:
    """What the node's agent states, which CARICO alone knows."""
    return (freshness.Advertised(), freshness.Fresh(), trust.Trusted(), capacity.Capacity())


def by_capacity(policy: policies.Policy) -> Stages:
    """The stages that decide by advertised capacity."""
    return _stages(_hard() + by_advertisement(), capacity.scorer_of(policy.score))


def without_capacity() -> Stages:
    """The stages while nobody advertises and the policy says to go by requests."""
    return _stages(_hard(), by_requests.RequestsScore())


def _stages(filters: tuple[protocol.Filter, ...], scorer: protocol.Scorer) -> Stages:
    by_columns = tuple(each for each in filters if not each.by_facts)
    return Stages(filters=filters, by_columns=by_columns, by_peers=_by_peers(), scorer=scorer)
