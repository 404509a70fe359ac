"""Whether a Pod can ever fit as it is, and which of its names look misspelt: from it and all Nodes.

A decision states the first reason for which each node is refused; this looks at everything that no node has.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from carico_core.domain import amounts, cluster, decision, names, selectors

_Reason = decision.Reason
# Refusals that it explains.
EXPLAINS = frozenset(
    {
        _Reason.REQUESTS, _Reason.TAINT, _Reason.NODE_SELECTOR, _Reason.NODE_AFFINITY, _Reason.POD_AFFINITY,
        _Reason.POD_ANTI_AFFINITY, _Reason.TOPOLOGY_SPREAD,
    }
)  # fmt: skip
# Names below this similarity are not suggested. Values of a key that is spelt right are few and short (sdd for ssd).
_ALIKE, _VALUES_ALIKE = 0.75, 0.6
# What is named of it, and tolerations that are compared: who creates a Pod writes as many terms as fit into an object,
# and the scheduler decides nothing while it judges them.
_NAMED_MOST = 8
_TERMS_MOST = 64
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi")


# What is missing, and a function that returns a question after what is probably meant.
_Missing: TypeAlias = tuple[str, Callable[[], str]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """`never`: what no node has, so that the Pod can never fit as it is; `hints`: names that are probably meant."""

    never: tuple[str, ...]
    hints: tuple[str, ...]

    @property
    def why(self) -> str:
        """What no node has, in words; empty where the Pod may fit."""
        return f"no node has {', nor '.join(self.never)}" if self.never else ""

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON types."""
        return {"never": list(self.never), "hints": list(self.hints), "why": self.why}


class _Labels:
    """The labels of all Nodes: values by key."""

    def __init__(self, nodes: Iterable[cluster.Node]) -> None:
        self.values: dict[str, set[str]] = {}
        for node in nodes:
            for key, value in node.labels.items():
                self.values.setdefault(key, set()).add(value)

    def any_of(self, key: str, values: Sequence[str], of: str = "the label") -> Iterator[_Missing]:
        """Yield a label that no node has, or none with any of these values; without values any is enough."""
        found = self.values.get(key)
        if found is None:
            yield f"{of} {key}", functools.partial(_meant, (key,), self.values)
        elif values and not found & set(values):
            shown = f"{key}={values[0]}" if len(values) == 1 else f"{key} in ({', '.join(values[:_NAMED_MOST])})"
            yield f"{of} {shown}", functools.partial(_meant, values[:_NAMED_MOST], found, key=key)


def judge(pod: cluster.Pod, nodes: Sequence[cluster.Node]) -> Judgement:
    """Return what no node has of what the Pod asks for. Without nodes there is nothing to compare with."""
    if not nodes:
        return Judgement(never=(), hints=())
    labels = _Labels(nodes)
    missing = dict((*_selector(pod, labels), *_affinity(pod, labels), *_topologies(pod, labels)))
    every: dict[str, Callable[[], str]] = {**dict.fromkeys(_resources(pod, nodes), str), **missing}
    never = list(every)[:_NAMED_MOST]
    hints = [*(every[each]() for each in never), *_tolerations(pod, nodes)]
    left = len(every) - len(never)
    return Judgement(
        never=(*never, *([f"{left} more"] if left else ())), hints=tuple(dict.fromkeys(filter(None, hints)))
    )


def quantity(resource: str, value: float) -> str:
    """Return an amount of a resource as people write it.

    >>> quantity("cpu", 100.0), quantity("memory", 1.5 * 2**40), quantity("example.com/x", 3)
    ('100 cores', '1.5 Ti of memory', '3 example.com/x')
    """
    if resource == "cpu":
        return f"{value:g} cores"
    if not resource.startswith(amounts.RESOURCES_IN_BYTES):
        return f"{value:g} {resource}"
    size = 0
    while abs(value) >= 1024.0 and size + 1 < len(_BINARY):
        value, size = value / 1024.0, size + 1
    return f"{round(value, 1):g} {_BINARY[size] or 'bytes'} of {resource}"


def _resources(pod: cluster.Pod, nodes: Sequence[cluster.Node]) -> Iterator[str]:
    """Yield each resource of which no node has enough, even when empty."""
    asked = {"cpu": pod.request_cores, "memory": pod.request_bytes, **dict(pod.request_others)}
    asked = {resource: value for resource, value in asked.items() if value > 0.0}
    if not asked:
        return
    offered = [(node.name, _allocatable(node)) for node in nodes]
    lacking = []
    for resource, value in asked.items():
        name, has = max(offered, key=lambda each: each[1].get(resource, 0.0))
        most = has.get(resource, 0.0)
        if value > most:
            lacking.append(resource)
            best = f"{name} has the most: {_only(resource, most)}" if most else "none has any"
            yield f"{quantity(resource, value)} ({best})"
    if not lacking and not any(all(has.get(name, 0.0) >= asked[name] for name in asked) for _, has in offered):
        yield " together with ".join(quantity(name, value) for name, value in asked.items())


def _only(resource: str, value: float) -> str:
    return quantity(resource, value).removesuffix(f" of {resource}").removesuffix(f" {resource}")


def _allocatable(node: cluster.Node) -> Mapping[str, float]:
    return {"cpu": node.allocatable_cores, "memory": node.allocatable_bytes, **node.allocatable_others}


def _selector(pod: cluster.Pod, labels: _Labels) -> Iterator[_Missing]:
    """Yield what is missing of the nodeSelector."""
    for key, value in pod.node_selector.items():
        yield from labels.any_of(key, (value,))


def _affinity(pod: cluster.Pod, labels: _Labels) -> Iterator[_Missing]:
    """Yield the same of required node affinity: only if each of its terms, which are alternatives, is missing some."""
    required = None if pod.constraints is None else pod.constraints.node_terms
    terms = [list(_expressions(term, labels)) for term in required or ()]
    if terms and all(terms):
        for missing in terms:
            yield from missing


def _expressions(term: selectors.NodeTerm, labels: _Labels) -> Iterator[_Missing]:
    for each in term.labels:
        if each.operator in ("In", "Exists", "Gt", "Lt"):
            yield from labels.any_of(each.key, each.values if each.operator == "In" else ())


def _topologies(pod: cluster.Pod, labels: _Labels) -> Iterator[_Missing]:
    """Yield the same of the topology keys that must be on a node."""
    found = pod.constraints
    if found is not None:
        keys = [each.topology_key for each in found.hard_spreads] + [each.topology_key for each in found.affinity]
        for key in keys:
            yield from labels.any_of(key, (), "the topology's label")


def _tolerations(pod: cluster.Pod, nodes: Sequence[cluster.Node]) -> Iterator[str]:
    """Yield what is meant by a toleration that tolerates no taint of any node, but nearly does."""
    taints: dict[str, set[str]] = {}
    for taint in (each for node in nodes for each in node.taints):
        taints.setdefault(taint.key, set()).add(taint.value)
    for each in pod.tolerations[:_TERMS_MOST]:
        values = taints.get(each.key)
        hint = ""
        # Kubernetes adds tolerations for its own taints to every Pod.
        if each.key and values is None and not each.key.startswith("node.kubernetes.io/"):
            hint = _meant((each.key,), taints)
        elif values and each.operator == "Equal" and each.value not in values:
            hint = _meant((each.value,), values, key=each.key)
        if hint:
            yield f"toleration {each.key}: {hint}"


def _meant(got: Iterable[str], known: Iterable[str], *, key: str = "") -> str:
    """Return a question after the name, or the value of a key, that is probably meant; empty where none is near."""
    for each in got:
        near = names.nearest(each, known, most=1, alike=_VALUES_ALIKE if key else _ALIKE)
        if near:
            return f"did you mean {f'{key}=' if key else ''}{near[0]}?"
    return ""
