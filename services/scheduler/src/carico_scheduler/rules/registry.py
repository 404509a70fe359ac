"""The stages in their order: cheap and lasting reasons first, so that each node is refused for the simplest one."""

import dataclasses

from carico_scheduler.rules import admission, protocol, scorers
from carico_scheduler.rules import policy as policies
from carico_scheduler.rules.filters import (
    cordon,
    node_affinity,
    node_name,
    node_selector,
    pod_limit,
    requests,
    taints,
    unsupported,
)
from carico_scheduler.rules.peers import host_ports, pod_affinity, pod_anti_affinity, spread, volumes

_BY_NODE: tuple[protocol.NodeFilter, ...] = (
    unsupported.Unsupported(),
    node_name.NodeName(),
    cordon.Ready(),
    cordon.Schedulable(),
    taints.Taints(),
    node_selector.NodeSelector(),
    node_affinity.NodeAffinity(),
)
_BY_ROOM: tuple[protocol.RoomFilter, ...] = (requests.Requests(), pod_limit.PodLimit())
_BY_PEERS: tuple[protocol.PeerFilter, ...] = (
    host_ports.HostPorts(),
    host_ports.Disks(),
    volumes.Volumes(),
    volumes.VolumeLimits(),
    pod_affinity.PodAffinity(),
    pod_anti_affinity.PodAntiAffinity(),
    spread.TopologySpread(),
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """The filters by kind, in the order in which they are evaluated, and the scorer."""

    by_node: tuple[protocol.NodeFilter, ...]
    by_room: tuple[protocol.RoomFilter, ...]
    # Those of `by_room` whose answer a placement may change.
    by_pods: tuple[protocol.RoomFilter, ...]
    by_peers: tuple[protocol.PeerFilter, ...]
    scorer: protocol.Scorer


def by_capacity(policy: policies.Policy) -> Stages:
    """Return the stages that decide by advertised capacity."""
    return _stages((*_BY_ROOM, *admission.FILTERS), scorers.scorer_by(policy))


def without_capacity() -> Stages:
    """Return the stages for placing by requests while no node advertises."""
    return _stages(_BY_ROOM, scorers.RequestsScore())


def _stages(by_room: tuple[protocol.RoomFilter, ...], scorer: protocol.Scorer) -> Stages:
    by_pods = tuple(each for each in by_room if each.by_pods)
    return Stages(by_node=_BY_NODE, by_room=by_room, by_pods=by_pods, by_peers=_BY_PEERS, scorer=scorer)
