"""Whether a Pod can ever fit as it is, and which of its names look misspelt: from its object and all Nodes. Pure.

The scheduler reports the first reason for which each node is refused; this looks at everything that no node has.
"""

import contextlib
import dataclasses
import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from carico_core.domain import decision
from carico_core.wire.kubernetes.pods import pod_requests

Object = Mapping[str, Any]
_Reason = decision.Reason
# Refusals that objects explain. Nodes are read only for these: a large cluster's are a megabyte.
READS_NODES = frozenset(
    {
        _Reason.REQUESTS, _Reason.TAINT, _Reason.NODE_SELECTOR, _Reason.NODE_AFFINITY, _Reason.POD_AFFINITY,
        _Reason.POD_ANTI_AFFINITY, _Reason.TOPOLOGY_SPREAD,
    }
)  # fmt: skip
# Names below this similarity are not suggested.
_ALIKE = 0.75
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_IN_BYTES = ("memory", "ephemeral-storage", "hugepages-")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """`never`: what no node has, so that the Pod can never fit as it is; `hints`: names that are probably meant."""

    never: tuple[str, ...]
    hints: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON types."""
        return {"never": list(self.never), "hints": list(self.hints)}


def judge(pod: Object, nodes: Sequence[Object]) -> Judgement:
    """Return what no node has of what the Pod asks for. Without nodes there is nothing to compare with."""
    if not nodes:
        return Judgement(never=(), hints=())
    labels = _labels(nodes)
    never, hints = list(_resources(pod, nodes)), []
    for missing, hint in (*_selector(pod, labels), *_affinity(pod, labels), *_topologies(pod, labels)):
        never.append(missing)
        hints += [hint] if hint else []
    hints += _tolerations(pod, nodes)
    return Judgement(never=tuple(dict.fromkeys(never)), hints=tuple(dict.fromkeys(hints)))


def quantity(resource: str, value: float) -> str:
    """Return an amount of a resource as people write it.

    >>> quantity("cpu", 100.0), quantity("memory", 1.5 * 2**40), quantity("example.com/x", 3)
    ('100 cores', '1.5 Ti of memory', '3 example.com/x')
    """
    if resource == "cpu":
        return f"{value:g} cores"
    if not resource.startswith(_IN_BYTES):
        return f"{value:g} {resource}"
    size = 0
    while abs(value) >= 1024.0 and size + 1 < len(_BINARY):
        value, size = value / 1024.0, size + 1
    return f"{round(value, 1):g} {_BINARY[size] or 'bytes'} of {resource}"


def _resources(pod: Object, nodes: Sequence[Object]) -> Iterator[str]:
    """Yield each resource of which no node has enough, even when empty."""
    try:
        wanted = pod_requests.pod_requests(pod)
    except ValueError:
        return
    offered = [(_name(node), _allocatable(node)) for node in nodes]
    lacking = []
    for resource, value in wanted.items():
        name, has = max(offered, key=lambda each: each[1].get(resource, 0.0))
        most = has.get(resource, 0.0)
        if value > most:
            lacking.append(resource)
            best = f"{name} has the most: {_only(resource, most)}" if most else "none has any"
            yield f"{quantity(resource, value)} ({best})"
    asked = {resource: value for resource, value in wanted.items() if value > 0.0}
    if not lacking and not any(all(has.get(name, 0.0) >= asked[name] for name in asked) for _, has in offered):
        yield " together with ".join(quantity(name, value) for name, value in asked.items())


def _only(resource: str, value: float) -> str:
    return quantity(resource, value).removesuffix(f" of {resource}").removesuffix(f" {resource}")


def _allocatable(node: Object) -> Mapping[str, float]:
    with contextlib.suppress(ValueError):
        return pod_requests.amounts(node.get("status") or {}, "allocatable", "status.")
    return {}


def _name(node: Object) -> str:
    return str(node["metadata"]["name"])


def _labels(nodes: Iterable[Object]) -> dict[str, set[str]]:
    """Return label -> values on any node."""
    found: dict[str, set[str]] = {}
    for node in nodes:
        for key, value in (node["metadata"].get("labels") or {}).items():
            found.setdefault(str(key), set()).add(str(value))
    return found


def _selector(pod: Object, labels: Mapping[str, set[str]]) -> Iterator[tuple[str, str]]:
    """Yield (what is missing, what is meant) of the nodeSelector."""
    for key, value in (_spec(pod).get("nodeSelector") or {}).items():
        if key not in labels:
            yield f"the label {key}", _meant(key, labels)
        elif value not in labels[key]:
            yield f"the label {key}={value}", _meant(str(value), labels[key], of=f"{key}=")


def _affinity(pod: Object, labels: Mapping[str, set[str]]) -> Iterator[tuple[str, str]]:
    """Yield the same of required node affinity: only if each of its terms, which are alternatives, is missing some."""
    required = ((_spec(pod).get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    terms = [list(_expressions(term, labels)) for term in required.get("nodeSelectorTerms") or ()]
    if terms and all(terms):
        for missing in terms:
            yield from missing


def _expressions(term: Object, labels: Mapping[str, set[str]]) -> Iterator[tuple[str, str]]:
    for each in term.get("matchExpressions") or ():
        key, values = str(each.get("key")), [str(value) for value in each.get("values") or ()]
        if each.get("operator") not in ("In", "Exists", "Gt", "Lt"):
            continue
        if key not in labels:
            yield f"the label {key}", _meant(key, labels)
        elif each["operator"] == "In" and not labels[key] & set(values):
            shown = f"{key}={values[0]}" if len(values) == 1 else f"{key} in ({', '.join(values)})"
            hints = (_meant(value, labels[key], of=f"{key}=") for value in values)
            yield f"the label {shown}", next(filter(None, hints), "")


def _topologies(pod: Object, labels: Mapping[str, set[str]]) -> Iterator[tuple[str, str]]:
    """Yield the same of the topology keys that must be on a node."""
    spec = _spec(pod)
    keys = [
        each.get("topologyKey")
        for each in spec.get("topologySpreadConstraints") or ()
        if each.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"
    ]
    near = (spec.get("affinity") or {}).get("podAffinity") or {}
    keys += [each.get("topologyKey") for each in near.get("requiredDuringSchedulingIgnoredDuringExecution") or ()]
    for key in keys:
        if key and key not in labels:
            yield f"the topology's label {key}", _meant(str(key), labels)


def _tolerations(pod: Object, nodes: Iterable[Object]) -> Iterator[str]:
    """Yield what is meant by a toleration that tolerates no taint of any node, but nearly does."""
    taints = {str(each.get("key")) for node in nodes for each in (node.get("spec") or {}).get("taints") or ()}
    for each in _spec(pod).get("tolerations") or ():
        key = str(each.get("key") or "")
        # Kubernetes adds tolerations for its own taints to every Pod.
        if key and key not in taints and not key.startswith("node.kubernetes.io/"):
            hint = _meant(key, taints)
            if hint:
                yield f"toleration {key}: {hint}"


def _meant(got: str, known: Iterable[str], *, of: str = "") -> str:
    """Return a question after the name that is probably meant; empty where none is near."""
    near = difflib.get_close_matches(got, list(known), n=1, cutoff=_ALIKE)
    return f"did you mean {of}{near[0]}?" if near else ""


def _spec(pod: Object) -> Object:
    found: Object = pod.get("spec") or {}
    return found
