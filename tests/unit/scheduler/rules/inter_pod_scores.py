"""kube-scheduler's InterPodAffinity scores, as its source computes them, over objects of the API.

https://github.com/kubernetes/kubernetes/blob/v1.36.4/pkg/scheduler/framework/plugins/interpodaffinity/scoring.go
The functions have that file's names and order, and nothing is kept or indexed.
"""

import collections
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Object: TypeAlias = Mapping[str, Any]
Labels: TypeAlias = Mapping[str, str]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_HARD_POD_AFFINITY_WEIGHT = 1


def scores(
    incoming: Object, placed: Sequence[tuple[Object, Object]], nodes: Sequence[Object], namespaces: Mapping[str, Labels]
) -> dict[str, int]:
    """Return each node's score before it is normalized. `placed`: Pods with their nodes."""
    topology: dict[str, dict[str, int]] = collections.defaultdict(lambda: collections.defaultdict(int))
    for existing, node in placed:
        _process_existing_pod(topology, incoming, existing, node, namespaces)
    return {
        node["metadata"]["name"]: sum(
            values[node["metadata"]["labels"][key]]
            for key, values in topology.items()
            if key in node["metadata"]["labels"]
        )
        for node in nodes
    }


def normalized(found: Mapping[str, int]) -> dict[str, float] | None:
    """Return the scores scaled from 0 to 1; None if all are equal, so that they decide nothing."""
    least, most = min(found.values()), max(found.values())
    return None if least == most else {name: (each - least) / (most - least) for name, each in found.items()}


def _process_existing_pod(
    topology: dict[str, dict[str, int]], incoming: Object, existing: Object, node: Object,
    namespaces: Mapping[str, Labels],
) -> None:  # fmt: skip
    if not node["metadata"]["labels"]:
        return

    def process(term: Object, weight: int, owner: Object, pod: Object, merged: bool) -> None:
        names = set(term.get("namespaces", ()))
        selector = term.get("namespaceSelector")
        labels = namespaces.get(pod["metadata"]["namespace"], {})
        if not names and selector is None:
            names = {owner["metadata"]["namespace"]}
        if merged and selector:
            # mergeAffinityTermNamespacesIfNotEmpty; the selector itself then meets no labels instead of nothing.
            names |= {name for name, found in namespaces.items() if _selects(selector, found)}
            labels = {}
        is_there = pod["metadata"]["namespace"] in names or (selector is not None and _selects(selector, labels))
        if is_there and _selects(term.get("labelSelector"), pod["metadata"]["labels"]):
            value = node["metadata"]["labels"].get(term["topologyKey"])
            if value is not None:
                topology[term["topologyKey"]][value] += weight

    for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
        for each in _terms(incoming, kind, PREFERRED):
            process(each["podAffinityTerm"], sign * each["weight"], incoming, existing, merged=True)
    for each in _terms(existing, "podAffinity", REQUIRED):
        process(each, _HARD_POD_AFFINITY_WEIGHT, existing, incoming, merged=False)
    for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
        for each in _terms(existing, kind, PREFERRED):
            process(each["podAffinityTerm"], sign * each["weight"], existing, incoming, merged=False)


def _terms(pod: Object, kind: str, when: str) -> Sequence[Object]:
    found: Sequence[Object] = pod["spec"].get("affinity", {}).get(kind, {}).get(when, ())
    return found


def _selects(selector: Object | None, labels: Labels) -> bool:
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    return all(_meets(each, labels.get(each["key"])) for each in selector.get("matchExpressions", ()))


def _meets(requirement: Object, value: str | None) -> bool:
    match requirement["operator"]:
        case "In":
            return value in requirement["values"]
        case "NotIn":
            return value not in requirement["values"]
        case "Exists":
            return value is not None
    return value is None
