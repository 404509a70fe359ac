"""The subjects of the bus: the one place that builds them and takes them apart.

    carico.v1.capacity.<node>     carico.v1.subspace.<node>     carico.v1.partial.<replica>     carico.v1.model
    carico.v1.usage.<node>        carico.v1.decision.<namespace>.<pod>
    carico.v1.pods.<node>         carico.v1.traffic.<node>
    carico.v1.roster.<node>       carico.v1.query.<service>[.<node>].<verb>
    carico.v1.claim.<node>        carico.v1.claimed.<node>      carico.v1.epoch.claims    carico.v1.member.<replica>
    carico.v1.summary

Node and Pod names hold dots, which would split a token: they become `_` (`carico_core.domain.names`).
"""

import functools
import re

from carico_core.domain import errors, names

PREFIX = "carico.v1"
_CAPACITY = f"{PREFIX}.capacity."
_SUBSPACE = f"{PREFIX}.subspace."
_USAGE = f"{PREFIX}.usage."
_PODS = f"{PREFIX}.pods."
_TRAFFIC = f"{PREFIX}.traffic."
_PARTIAL = f"{PREFIX}.partial."
_DECISION = f"{PREFIX}.decision."
_ROSTER = f"{PREFIX}.roster."
_QUERY = f"{PREFIX}.query."
_CLAIM = f"{PREFIX}.claim."
_CLAIMED = f"{PREFIX}.claimed."
_MEMBER = f"{PREFIX}.member."

MODEL = f"{PREFIX}.model"
SUMMARY = f"{PREFIX}.summary"
CAPACITY_ALL = f"{_CAPACITY}*"
SUBSPACE_ALL = f"{_SUBSPACE}*"
USAGE_ALL = f"{_USAGE}*"
PODS_ALL = f"{_PODS}*"
TRAFFIC_ALL = f"{_TRAFFIC}*"
ROSTER_ALL = f"{_ROSTER}*"
PARTIAL_ALL = f"{_PARTIAL}*"
DECISION_ALL = f"{_DECISION}*.*"
CLAIM_ALL = f"{_CLAIM}*"
# What the stream of claims has stored. Subscribers of the claims themselves also receive what the stream refused.
CLAIMED_ALL = f"{_CLAIMED}*"
MEMBER_ALL = f"{_MEMBER}*"
# Names the stream of claims from its creation to its loss: a stream that was created again has another epoch.
CLAIMS_EPOCH = f"{PREFIX}.epoch.claims"

_VERB = re.compile(r"[a-z]{1,32}(?:\.[a-z]{1,32}){0,3}")


def capacity(node: str) -> str:
    """Return the subject of a node's advertisements. Raises `BadName`.

    >>> capacity("ip-10-0-0-1.ec2.internal")
    'carico.v1.capacity.ip-10-0-0-1_ec2_internal'
    """
    return _CAPACITY + names.to_token(node)


def subspace(node: str) -> str:
    """Return the subject of a node's local subspaces. Raises `BadName`."""
    return _SUBSPACE + names.to_token(node)


def roster(node: str) -> str:
    """Return the subject of the Pods on a node. Raises `BadName`."""
    return _ROSTER + names.to_token(node)


def usage(node: str) -> str:
    """Return the subject on which a node reports what its Pods use. Raises `BadName`."""
    return _USAGE + names.to_token(node)


def pods(node: str) -> str:
    """Return the subject on which a node reports the load of each Pod. Raises `BadName`."""
    return _PODS + names.to_token(node)


def traffic(node: str) -> str:
    """Return the subject on which a node reports the traffic of its Pods. Raises `BadName`."""
    return _TRAFFIC + names.to_token(node)


def of_node(all_nodes: str, node: str) -> str:
    """Return the subject of one node among those of all nodes. Raises `BadName`.

    >>> of_node(USAGE_ALL, "node-1")
    'carico.v1.usage.node-1'
    """
    return all_nodes.removesuffix("*") + names.to_token(node)


def of_agent(node: str | None) -> tuple[str, ...]:
    """Return the subjects on which the agent of one node or of all (None) reports. Raises `BadName`."""
    token = "*" if node is None else names.to_token(node)
    return tuple(prefix + token for prefix in (_CAPACITY, _SUBSPACE, _USAGE, _PODS, _TRAFFIC))


def partial(replica: str) -> str:
    """Return the subject on which one aggregator replica sends the others what it has. Raises `BadName`."""
    return _PARTIAL + names.to_token(replica, kind="replica")


def claim(node: str) -> str:
    """Return the subject on which schedulers claim room on a node. Raises `BadName`."""
    return _CLAIM + names.to_token(node)


def claimed(claim_subject: str) -> str:
    """Return the subject on which the stored claims of a claim subject are published again.

    >>> claimed("carico.v1.claim.node-1")
    'carico.v1.claimed.node-1'
    """
    return _CLAIMED + claim_subject.removeprefix(_CLAIM)


def member(replica: str) -> str:
    """Return the subject of the heartbeats of one of several schedulers that share the work. Raises `BadName`."""
    return _MEMBER + names.to_token(replica, kind="replica")


def decision(namespace: str, pod: str) -> str:
    """Return the subject of the decisions about one Pod. Raises `BadName`."""
    return f"{_DECISION}{_namespace(namespace)}.{names.to_token(pod, kind='pod')}"


def decisions(namespace: str | None, pod: str | None) -> str:
    """Return the subject that matches the decisions of one Pod, one namespace or all (None: any). Raises `BadName`."""
    first = "*" if namespace is None else _namespace(namespace)
    second = "*" if pod is None else names.to_token(pod, kind="pod")
    return f"{_DECISION}{first}.{second}"


def query(service: str, verb: str, node: str | None = None) -> str:
    """Return the subject of a question to a service; to the one of a node, where `node` is given. Raises `BadName`.

    >>> query("agent", "state.get", "node-1")
    'carico.v1.query.agent.node-1.state.get'
    """
    if not names.is_label(service):
        raise errors.BadName("service", service)
    if _VERB.fullmatch(verb) is None:
        raise errors.BadName("verb", verb)
    middle = "" if node is None else f".{names.to_token(node)}"
    return f"{_QUERY}{service}{middle}.{verb}"


# A cluster has few nodes and each sends every second: subjects that were parsed once are cached, within bounds.
@functools.lru_cache(maxsize=65_536)
def node_of(subject: str) -> str:
    """Return the node or replica in a subject that ends with one. Raises `BadName`."""
    for prefix in (_CAPACITY, _SUBSPACE, _USAGE, _PODS, _TRAFFIC, _ROSTER, _PARTIAL, _CLAIM, _CLAIMED, _MEMBER):
        if subject.startswith(prefix):
            return names.from_token(subject[len(prefix) :])
    raise errors.BadName("subject", subject)


def pod_of(subject: str) -> tuple[str, str]:
    """Return the namespace and the name of the Pod whose decision subject this is. Raises `BadName`."""
    tokens = subject[len(_DECISION) :].split(".") if subject.startswith(_DECISION) else []
    if len(tokens) != 2 or not names.is_label(tokens[0]):
        raise errors.BadName("subject", subject)
    return tokens[0], names.from_token(tokens[1], kind="pod")


def _namespace(namespace: str) -> str:
    if not names.is_label(namespace):
        raise errors.BadName("namespace", namespace)
    return namespace
