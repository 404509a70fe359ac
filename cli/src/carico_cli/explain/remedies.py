"""What could help a Pod that nodes refuse, by the reason of the refusal."""

import collections
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from carico_cli.live import addresses
from carico_core.domain import decision

_Reason = decision.Reason
_FULL = (
    "a node needs room for a whole Pod (the threshold): the Pod starts when other Pods end, sooner with more nodes or "
    "a higher ceiling ({ceiling}: more Pods on a node, each slower), or by eviction of Pods of lower priority than its "
    "own"
)
# Of a Pod whose requests an empty node can meet.
_HELD = (
    "Pods that are there hold what it requests: it starts when enough of them end, with one node more, or by eviction "
    "of Pods of lower priority than its own; a Pod that has waited for two minutes gets its turn: room is held for it "
    "on one node. CARICO needs no requests, but respects those that a Pod has"
)
_TOO_LARGE = "smaller requests, or none: CARICO needs none, but respects those that a Pod has"
_NEVER = "change what the Pod asks for, or give a node what none has (above): until then, nothing else helps"
_SILENT = "check the agent and its connection to NATS: `{doctor}`, then the agent's log"
_RESERVED = (
    "Pods that have not started yet reserve room on their node, and one that the node cannot start (image, volume) "
    "does so until it is deleted: `{explain_node}` names them"
)
# How the scheduler names a taint that refuses (`carico_scheduler.rules.filters.taints`); some nodes have more than one.
_TAINT = re.compile(r"taint (?P<key>[^=:]+)(?:=(?P<value>[^:]+))?:(?P<effect>\w+) not tolerated")
_TAINTS_MOST = 3
_OF_KUBERNETES = "node.kubernetes.io/"
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
    _Reason.REQUESTS: _HELD,
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


def for_refused(
    refused: Mapping[str, int], at: addresses.Address = addresses.OF_SHELL, *, never: bool = False,
    candidates: Sequence[Mapping[str, Any]] = (),
) -> list[tuple[str, str]]:  # fmt: skip
    """Return (reason, what could help), beginning with the reason that refuses the most nodes.

    at: the cluster, which the advice names. never: no node has what the Pod asks for. A node's refusal names only the
    first rule that fails, so that following the advice on the others would not help. candidates: the nodes as the
    scheduler lists them, of which the advice names one.
    """
    ordered = sorted(refused.items(), key=lambda item: (-item[1], item[0]))
    by_reason = {**BY_REASON, _Reason.REQUESTS: _TOO_LARGE} if never else BY_REASON
    found = []
    for reason in (each for each, _ in ordered if each in by_reason):
        own = list(_of_taints(candidates, at)) if reason == _Reason.TAINT else []
        found += [(reason, text) for text in own or (by_reason[reason].format(**_words(at)),)]
    return [("first", _NEVER), *found] if never else found


def _of_taints(candidates: Sequence[Mapping[str, Any]], at: addresses.Address) -> Iterator[str]:
    """Yield what tolerates or removes each taint that refuses, those of the most nodes first."""
    nodes: dict[str, list[str]] = collections.defaultdict(list)
    for each in candidates:
        nodes[(each.get("rejected_by") or {}).get("detail") or ""].append(each["node"])
    by_count = sorted(nodes.items(), key=lambda item: -len(item[1]))
    found = [(taint, names[0]) for detail, names in by_count if (taint := _TAINT.fullmatch(detail))]
    for taint, node in found[:_TAINTS_MOST]:
        key, value, effect = taint["key"], taint["value"], taint["effect"]
        if key.startswith(_OF_KUBERNETES):
            yield f"Kubernetes itself has set {key}: `{at.kubectl} describe node {node}` shows why"
            continue
        # Quoted as in JSON: in YAML, a plain `true` or `1` is no string.
        wanted = "operator: Exists" if value is None else f"operator: Equal, value: {json.dumps(value)}"
        toleration = f"- {{key: {json.dumps(key)}, {wanted}, effect: {effect}}}"
        remove = f"{at.kubectl} taint node {node} {key}:{effect}-"
        yield f"add to the Pod's tolerations `{toleration}`, or `{remove}`"


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
