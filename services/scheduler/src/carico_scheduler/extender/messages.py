"""What kube-scheduler sends to an extender and reads from it: JSON of k8s.io/kube-scheduler/extender/v1.

Fields are spelled as Go's encoder writes them; its decoder accepts any case.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from carico_core.domain import cluster, errors
from carico_core.domain import names as domain_names
from carico_core.wire.kubernetes import api_objects

# MaxExtenderPriority.
SCORE_MOST = 10


class BadRequest(errors.CaricoError):
    """A request that does not follow the protocol."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """ExtenderArgs: a Pod and the nodes that have passed so far, in kube-scheduler's order.

    `objects` are the whole Nodes, if kube-scheduler is configured with nodeCacheCapable false.
    """

    pod: cluster.Pod
    names: tuple[str, ...]
    objects: Mapping[str, Any] | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BindArgs:
    """ExtenderBindingArgs."""

    namespace: str
    name: str
    uid: str
    node: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FilterResult:
    """Which nodes pass, and why the others do not. `lasting`: refusals that evicting Pods would not change."""

    passed: tuple[str, ...]
    refused: Mapping[str, str]
    lasting: Mapping[str, str]


def decode_args(payload: bytes) -> Args:
    """Return the arguments of filter and prioritize. Raises `BadRequest`."""
    body = _object(payload)
    try:
        pod = api_objects.parse_pod(body["Pod"])
        names, nodes = body.get("NodeNames"), body.get("Nodes")
        if names is not None:
            return Args(pod=pod, names=tuple(map(str, names)), objects=None)
        objects = {str(each["metadata"]["name"]): each for each in (nodes or {}).get("items") or ()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadRequest(f"expected ExtenderArgs with a Pod and Nodes or NodeNames: {error!r}") from error
    return Args(pod=pod, names=tuple(objects), objects=objects)


def decode_bind_args(payload: bytes) -> BindArgs:
    """Return the arguments of bind. Raises `BadRequest`."""
    body = _object(payload)
    fields = [body.get(name) for name in ("PodNamespace", "PodName", "PodUID", "Node")]
    if not all(isinstance(field, str) and field for field in fields):
        raise BadRequest("expected ExtenderBindingArgs with PodNamespace, PodName, PodUID and Node")
    namespace, name, uid, node = map(str, fields)
    if not domain_names.is_subdomain(node):
        # Schedulers that share the work claim it on a subject of its own.
        raise BadRequest(f"Node: got {node!r}, expected a Kubernetes name")
    return BindArgs(namespace=namespace, name=name, uid=uid, node=node)


def encode_verdict(verdict: FilterResult, asked: Args) -> bytes:
    """Return an ExtenderFilterResult, with names or whole Nodes as in the request."""
    answer: dict[str, Any] = {
        "FailedNodes": dict(verdict.refused),
        "FailedAndUnresolvableNodes": dict(verdict.lasting),
        "Error": "",
    }
    if asked.objects is None:
        answer["NodeNames"] = list(verdict.passed)
    else:
        answer["Nodes"] = {"metadata": {}, "items": [asked.objects[name] for name in verdict.passed]}
    return orjson.dumps(answer)


def encode_filter_error(error: str) -> bytes:
    """Return an ExtenderFilterResult with an error."""
    return orjson.dumps({"Error": error})


def encode_scores(names: Sequence[str], scores: Sequence[int]) -> bytes:
    """Return a HostPriorityList."""
    return orjson.dumps([{"Host": name, "Score": score} for name, score in zip(names, scores, strict=True)])


def encode_bind_result(error: str) -> bytes:
    """Return an ExtenderBindingResult; an empty error means success."""
    return orjson.dumps({"Error": error})


def _object(payload: bytes) -> Mapping[str, Any]:
    try:
        body = orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"expected JSON: {error}") from error
    if not isinstance(body, dict):
        raise BadRequest(f"expected a JSON object, got {type(body).__name__}")
    return body
