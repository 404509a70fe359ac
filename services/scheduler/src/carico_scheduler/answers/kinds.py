"""The kind of Pod that is asked about: a described one, one like another Pod, one of a class, or the typical one."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from carico_core.domain import cluster, constraints, messages, names
from carico_core.runtime.bus import serving
from carico_core.wire.kubernetes import api_objects
from carico_scheduler.answers import known as knowns
from carico_scheduler.answers import questions
from carico_scheduler.nodes import headroom
from carico_scheduler.pods import demand as demands

WHAT_IF = "what-if"
# Terms about other Pods in a question. For each of them all Pods are looked at: 15 ms with 3,000 Pods, in which nothing
# is decided. A reader may ask what it likes.
TERMS_MOST = 8
# Texts and terms that are compared with each node, and with each Pod: 25 preferred terms take half a second with 10,000
# nodes, and each question is kept.
WORDS_MOST = 128


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The kind of Pod that is asked about."""

    pod: cluster.Pod
    demand: demands.Demand
    # The question in words; the class that determines its cost, and whether any node has measured that class.
    of: str
    pod_class: str
    is_measured: bool
    # True for the typical Pod, the unit of advertised capacity, instead of a Pod of a class.
    is_typical: bool = False


def kind_of(known: knowns.Known, asked: Mapping[str, Any]) -> Kind:
    """Return the kind for {"pod": object}, {"like": "namespace/name"} or {"class": name}; the typical one for {}."""
    given = [name for name in ("pod", "like", "class") if asked.get(name) is not None]
    if len(given) > 1:
        raise serving.BadQuestion(f"got {' and '.join(given)}, expected at most one of them")
    if not given:
        found = kind(known, typical(), "a typical Pod", headroom.UNNAMED)
        return dataclasses.replace(found, pod_class=messages.ANY_CLASS, is_typical=True)
    if given == ["class"]:
        name = _class(known, questions.text_of(asked, "class"))
        return kind(known, typical(), f"a Pod of class {name}", name)
    pod = _like(known, questions.text_of(asked, "like")) if given == ["like"] else _parsed(asked["pod"])
    _check_terms(pod)
    of = f"a Pod like {pod.key}" if given == ["like"] else f"the Pod {pod.key} as described"
    return kind(known, pod._replace(node_name=None), of, names.class_of(pod))


def kind(known: knowns.Known, pod: cluster.Pod, of: str, named: str) -> Kind:
    """Return the kind of this Pod, described by `of`, with the cost of the class `named`."""
    measured = known.measured(named)
    demand = dataclasses.replace(known.state.demand_of(pod), pod_class=measured)
    return Kind(pod=pod, demand=demand, of=of, pod_class=named, is_measured=measured == named)


def typical() -> cluster.Pod:
    """Return a Pod without constraints or requests."""
    return _parsed({"metadata": {"name": "typical"}, "spec": {"containers": [{"name": "main", "image": "typical"}]}})


def _parsed(described: object) -> cluster.Pod:
    """Return the Pod of an API object, or of a spec alone. Raises `BadQuestion`."""
    if not isinstance(described, dict):
        raise serving.BadQuestion(f'"pod": got {type(described).__name__}, expected a Kubernetes Pod')
    whole = described if "spec" in described else {"spec": described}
    metadata = whole.get("metadata")
    stamped = {
        "name": "what-if", "namespace": "default", **(metadata if isinstance(metadata, dict) else {}),
        "uid": WHAT_IF, "creationTimestamp": "1970-01-01T00:00:00Z", "deletionTimestamp": None,
    }  # fmt: skip
    try:
        return api_objects.parse_pod({**whole, "metadata": stamped, "status": {}})
    except ValueError as error:
        raise serving.BadQuestion(f'"pod": {error}') from error


def _check_terms(pod: cluster.Pod) -> None:
    """Raise `BadQuestion` for a Pod that asks too much of nodes, or about others."""
    found = pod.constraints or constraints.NONE
    peers = (found.affinity, found.anti_affinity, found.spreads, found.pod_preferences)
    count = sum(map(len, peers))
    if count > TERMS_MOST:
        raise serving.BadQuestion(
            f"{pod.key} has {count} terms about other Pods (affinity, spread), expected at most {TERMS_MOST} to count "
            "what fits"
        )
    nodes = (found.node_terms, found.node_preferences, tuple(pod.node_selector.items()), pod.tolerations)
    words = constraints.count_words((*peers, *nodes))
    if words > WORDS_MOST:
        raise serving.BadQuestion(
            f"{pod.key} has {words} words and terms in affinity, spread, tolerations and node selector, expected at "
            f"most {WORDS_MOST} to count what fits"
        )


def _like(known: knowns.Known, named: str) -> cluster.Pod:
    """Return the Pod with this name, with or without a namespace. Raises `BadQuestion`."""
    key = named if "/" in named else f"default/{named}"
    pods = known.state.pods()
    found = next((each for each in pods if each.key == key), None)
    if found is None:
        near = names.nearest(key, (each.key for each in pods))
        raise serving.BadQuestion(f'"like": got {key}, expected a waiting or running Pod{_hint(near)}')
    return found


def _class(known: knowns.Known, named: str) -> str:
    """Return the class with this name, or with this last part if that is unique. Raises `BadQuestion`."""
    classes = known.classes()
    found = [each for each in classes if each == named] or [each for each in classes if each.endswith(f"/{named}")]
    if len(found) == 1:
        return found[0]
    near = sorted(found) if found else names.nearest(named, classes) or sorted(classes)[: names.NEAREST_MOST]
    wanted = "the full name of one class" if found else "a class that a node has measured"
    raise serving.BadQuestion(f'"class": got {named!r}, expected {wanted}{_hint(near)}')


def _hint(near: list[str]) -> str:
    return f" (known: {', '.join(near[: names.NEAREST_MOST])})" if near else ""
