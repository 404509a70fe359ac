"""What could help a Pod that no node takes, by the reasons for which nodes are refused."""

from collections.abc import Mapping

from carico_core.domain import decision

_Reason = decision.Reason
_FULL = (
    "a node needs room for a whole Pod (the threshold); it starts by itself as Pods end there, sooner with more nodes, "
    "or with a higher CARICO_AGENT_CEILING_CPU (denser, and each Pod slower)"
)
_SILENT = "the agent, or its way to NATS: `carico doctor`, then the agent's log"
# Where a node has room but for what is reserved.
RESERVED = (
    "Pods that are on their way to a node hold their room there, and one that its node cannot start (image, volume)"
    " does so for as long as it is there: `carico explain node NODE` names them"
)
BY_REASON: Mapping[str, str] = {
    _Reason.CAPACITY: _FULL,
    _Reason.NO_ADVERTISEMENT: _SILENT,
    _Reason.STALE: _SILENT,
    _Reason.SUSPECT: "it does not account for a Pod that it was given: `carico explain node NODE`, its agent's log",
    _Reason.NOT_READY: "the node itself: `kubectl describe node NODE`",
    _Reason.UNSCHEDULABLE: "`kubectl uncordon NODE`, where nobody drains it",
    _Reason.TAINT: "a toleration in the Pod, or `kubectl taint node NODE KEY-`",
    _Reason.NODE_NAME: "the Pod names another node itself",
    _Reason.NODE_SELECTOR: "`kubectl label node NODE KEY=VALUE`, or another nodeSelector in the Pod",
    _Reason.NODE_AFFINITY: "labels on a node, or other required terms in the Pod",
    _Reason.REQUESTS: "smaller requests, or none: CARICO needs none, but keeps to those that a Pod has",
    _Reason.POD_LIMIT: "more nodes, or a higher maxPods of the kubelet",
    _Reason.HOST_PORTS: "another hostPort, or none",
    _Reason.DISK: "one Pod a node can have such a disk: another node, or another disk",
    _Reason.VOLUME: "the claim and its StorageClass: `kubectl describe pvc`",
    _Reason.VOLUME_LIMIT: "more nodes: the driver attaches no more volumes there",
    _Reason.POD_AFFINITY: "a Pod that it must be near has to run first, on a node with the topology's label",
    _Reason.POD_ANTI_AFFINITY: "more nodes or zones: those there have a Pod that it must be apart from",
    _Reason.TOPOLOGY_SPREAD: "room in the domains with the fewest such Pods, the topology's label, or a larger maxSkew",
    _Reason.UNSUPPORTED: "CARICO will not place it: create it with kube-scheduler's schedulerName",
}


def for_refused(refused: Mapping[str, int]) -> list[tuple[str, str]]:
    """(reason, what could help), of the reason with the most nodes first."""
    ordered = sorted(refused.items(), key=lambda item: (-item[1], item[0]))
    return [(reason, BY_REASON[reason]) for reason, _ in ordered if reason in BY_REASON]
