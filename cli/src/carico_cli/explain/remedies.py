"""What could help a Pod that nodes refuse, by the reason of the refusal."""

from collections.abc import Mapping

from carico_cli.live import addresses
from carico_core.domain import decision

_Reason = decision.Reason
_FULL = (
    "a node needs room for a whole Pod (the threshold): the Pod starts when other Pods end, sooner with more nodes or "
    "a higher ceiling ({ceiling}: more Pods on a node, each slower), or by eviction of Pods of lower priority, if "
    "it gets a higher one"
)
_SILENT = "check the agent and its connection to NATS: `{doctor}`, then the agent's log"
_RESERVED = (
    "Pods that have not started yet reserve room on their node, and one that the node cannot start (image, volume) "
    "does so until it is deleted: `{explain_node}` names them"
)
BY_REASON: Mapping[str, str] = {
    _Reason.CAPACITY: _FULL,
    _Reason.NO_ADVERTISEMENT: _SILENT,
    _Reason.STALE: _SILENT,
    _Reason.SUSPECT: "its agent does not report a Pod that was placed there: `{explain_node}`, the agent's log",
    _Reason.NOT_READY: "check the node: `{kubectl} describe node NODE`",
    _Reason.UNSCHEDULABLE: "`{kubectl} uncordon NODE`, unless it is being drained",
    _Reason.TAINT: "add a toleration to the Pod, or `{kubectl} taint node NODE KEY-`",
    _Reason.NODE_NAME: "the Pod's nodeName names another node",
    _Reason.NODE_SELECTOR: "`{kubectl} label node NODE KEY=VALUE`, or change the Pod's nodeSelector",
    _Reason.NODE_AFFINITY: "add labels to a node, or change the Pod's required terms",
    _Reason.REQUESTS: "smaller requests, or none: CARICO needs none, but respects those that a Pod has",
    _Reason.POD_LIMIT: "more nodes, or a higher maxPods of the kubelet",
    _Reason.HOST_PORTS: "another hostPort, or none",
    _Reason.DISK: "only one Pod on a node can use such a disk: another node, or another disk",
    _Reason.VOLUME: "check the claim and its StorageClass: `{kubectl} describe pvc`",
    _Reason.VOLUME_LIMIT: "more nodes: the driver attaches no more volumes there",
    _Reason.POD_AFFINITY: "the Pod that it must be near has to run first, on a node with the topology's label",
    _Reason.POD_ANTI_AFFINITY: "more nodes or zones: each of these has a Pod that it must be apart from",
    _Reason.TOPOLOGY_SPREAD: "room in the domains with the fewest such Pods, the topology's label, or a larger maxSkew",
    _Reason.GANG: "the Pods of its gang are placed together: it needs room for all of them at the same time",
    _Reason.UNSUPPORTED: "CARICO cannot place it: create it with kube-scheduler's schedulerName",
}


def for_refused(refused: Mapping[str, int], at: addresses.Address = addresses.OF_SHELL) -> list[tuple[str, str]]:
    """Return (reason, what could help), beginning with the reason that refuses the most nodes.

    at: the cluster, which the advice names.
    """
    ordered = sorted(refused.items(), key=lambda item: (-item[1], item[0]))
    return [(reason, BY_REASON[reason].format(**_words(at))) for reason, _ in ordered if reason in BY_REASON]


def reserved(at: addresses.Address) -> str:
    """Return what could help where only reservations fill the node."""
    return _RESERVED.format(**_words(at))


def _words(at: addresses.Address) -> dict[str, str]:
    return {
        "ceiling": "`carico up --ceiling`" if at.is_local else "CARICO_AGENT_CEILING_CPU",
        "kubectl": at.kubectl,
        "doctor": at.carico("doctor"),
        "explain_node": at.carico("explain node NODE"),
    }
