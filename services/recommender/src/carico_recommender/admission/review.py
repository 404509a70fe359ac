"""The answer to an AdmissionReview of a Pod: requests by its class, where it has none. Pure.

A Pod gets the amounts that `carico recommend` shows: each container its own. Where those are not known, and with
sidecars, they are Pod-level resources of the whole Pod (Kubernetes 1.34 or later). While a new image is not learnt, the
amounts are those of the earlier one, too; of memory that grows they are what it has reached. They are raised to what a
LimitRange asks of a Pod, and left out where a ResourceQuota would refuse the Pod with them only, or no node gives so
much. An annotation says each of that. What the Pod states itself is never changed, and limits are never set. A webhook
that comes later may add containers with requests, or limits: the API server then asks again, and what was set here is
taken back where it contradicts them.

Source: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
"""

import base64
import enum
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from carico_core.domain import amounts, names, usage
from carico_core.numerics import recommendation
from carico_core.wire.kubernetes import api_objects, namespace_rules
from carico_core.wire.kubernetes import object_fields as fields
from carico_core.wire.kubernetes.pods import pod_requests

# Which requests were set here, and how sure they are.
ANNOTATION, SURE = "carico.dev/learnt-requests", "carico.dev/learnt-requests-confidence"
_ANNOTATION_PATH = f"/metadata/annotations/{ANNOTATION.replace('/', '~1')}"
_SURE_PATH = f"/metadata/annotations/{SURE.replace('/', '~1')}"
# A request that only makes the Pod Burstable, by deploy/admission/burstable.yaml: it gives way to a learnt one.
TOKEN = "carico.dev/token-request"
_TOKEN_REQUESTS = {"cpu": "1m"}
# Why something was not set, where a rule of the namespace or the size of the nodes is the reason.
LEFT_OUT = "carico.dev/learnt-requests-left-out"
# With these, amounts are set all the same: without them a rollout would interrupt what autoscalers and quotas go by.
_SET_WITH = frozenset({recommendation.Flag.IMAGE_CHANGED.value, recommendation.Flag.GROWING.value})
# What a Pod does not have before it is stored.
_STORED = {"name": "new", "uid": "new", "creationTimestamp": "1970-01-01T00:00:00Z"}

Object = Mapping[str, Any]
Lookup = Callable[[str], usage.Recommended | None]
RulesOf = Callable[[str], namespace_rules.Rules]


class Result(enum.StrEnum):
    """What became of a review: the label of the counter."""

    SET = "set"
    # Set, and raised to the smallest amount that a LimitRange allows.
    RAISED = "raised"
    # Learnt, and left out: a quota would refuse the Pod with requests, and does not count it without.
    QUOTA = "quota"
    # Learnt, and left out: it is more than the largest node gives.
    ABOVE_NODES = "above_nodes"
    # It states all requests itself, or those of a later webhook contradict what was set here.
    HAS_REQUESTS = "has_requests"
    NOT_LEARNT = "not_learnt"
    # Learnt, and flagged: not to be applied without a look.
    FLAGGED = "flagged"
    # Windows has no Pod-level resources, and agents measure no such Pods.
    WINDOWS = "windows"
    # A Pod that names its node: its kubelet would refuse it if the requests did not fit.
    HAS_NODE = "has_node"
    # It cannot be read, as far as its class depends on it.
    UNREADABLE = "unreadable"


class _Holder(NamedTuple):
    """What gets requests: a container, or the Pod's specification; and its path in the Pod."""

    obj: Object
    path: str
    requests: dict[str, float]


class Answer(NamedTuple):
    """The bytes of the answer, and what they mean."""

    body: bytes
    result: Result


def answer(body: bytes, lookup: Lookup, *, rules: RulesOf, dimensions: Sequence[str]) -> Answer:
    """Return the answer to a review: requests of `dimensions`. Raises `ValueError` for what is no review."""
    try:
        request = orjson.loads(body)["request"]
        uid = request["uid"]
        # What is nested can be too deep to be written again.
        is_review = isinstance(uid, str)
    except (orjson.JSONDecodeError, KeyError, TypeError):
        is_review = False
    if not is_review:
        raise ValueError("got no AdmissionReview with a request, expected one of admission.k8s.io/v1")
    try:
        result, patch = _judge(request, lookup, rules, dimensions)
    except (ValueError, KeyError, TypeError, AttributeError):
        # Whatever is in it: the Pod is admitted as it is.
        result, patch = Result.UNREADABLE, []
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if patch:
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(orjson.dumps(patch)).decode()}
    found = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    return Answer(body=orjson.dumps(found), result=result)


def _judge(
    request: Object, lookup: Lookup, rules_of: RulesOf, dimensions: Sequence[str]
) -> tuple[Result, list[dict[str, Any]]]:  # fmt: skip
    pod = request["object"]
    spec, metadata = fields.mapping(pod, "spec"), fields.mapping(pod, "metadata")
    if spec.get("nodeName"):
        return Result.HAS_NODE, []
    if fields.mapping(spec, "os", "spec.").get("name") == "windows":
        return Result.WINDOWS, []
    contradicted = _taken_back(spec, metadata)
    if contradicted:
        return Result.HAS_REQUESTS, contradicted
    stated = _stated_anywhere(spec, metadata)
    wanted = [dim for dim in dimensions if dim not in stated]
    if not wanted:
        return Result.HAS_REQUESTS, []
    namespace = fields.required(request, "namespace", "request.")
    whole = {**pod, "metadata": {**metadata, **_STORED, "namespace": namespace}}
    parsed = api_objects.parse_pod(whole)
    known = lookup(names.class_of(parsed))
    if known is None:
        return Result.NOT_LEARNT, []
    if set(known.flags) - _SET_WITH:
        return Result.FLAGGED, []
    wanted = [dim for dim in wanted if dim in known.requests]
    if not wanted:
        return Result.NOT_LEARNT, []
    template = None if stated else parsed.template
    return _requested(spec, metadata, known, wanted, rules_of(namespace), template)


def _requested(
    spec: Object, metadata: Object, known: usage.Recommended, wanted: Sequence[str], rules: namespace_rules.Rules,
    template: usage.Template | None,
) -> tuple[Result, list[dict[str, Any]]]:  # fmt: skip
    """Return the operations that set requests of these resources, as far as nodes and quotas have room.

    `template`: of a Pod that states none.
    """
    holders = _holders(spec, known, wanted)
    is_raised = _raise(holders, {dim: namespace_rules.least_of_pod(rules, dim) for dim in wanted})
    above = usage.above_node(_total_of(spec, holders, wanted), known.node_gives)
    holders, wanted = _without(above, holders), [dim for dim in wanted if dim not in above]
    left_out = {LEFT_OUT: "; ".join(above.values())}
    if not wanted:
        return Result.ABOVE_NODES, _annotated(metadata, left_out)
    if template is not None:
        refused = namespace_rules.refusal_of_requests(rules.quotas, _total_of(spec, holders, wanted), template)
        if refused is not None:
            return Result.QUOTA, _annotated(metadata, {LEFT_OUT: refused})
    sure = ", ".join(("low", *known.flags)) if known.flags else known.confidence
    annotations = {ANNOTATION: ",".join(wanted), SURE: f"{sure}, raised to a LimitRange" if is_raised else sure}
    annotations |= left_out if above else {}
    operations = [operation for each in holders for operation in _added(each)]
    return Result.RAISED if is_raised else Result.SET, [*operations, *_annotated(metadata, annotations)]


def _stated_anywhere(spec: Object, metadata: Object) -> set[str]:
    """Return those of CPU and memory that the Pod or a container states, other than by a token."""
    containers = [*fields.objects(spec, "containers", "spec."), *fields.objects(spec, "initContainers", "spec.")]
    is_marked = fields.mapping(metadata, "annotations", "metadata.").get(TOKEN) == "cpu"
    if is_marked and containers and _requests(containers[0]) == _TOKEN_REQUESTS:
        containers[0] = {"resources": {**containers[0]["resources"], "requests": {}}}
    return {dim for each in (spec, *containers) for dim in _stated(each)} & set(usage.DIMS)


def _stated(obj: Object) -> set[str]:
    resources = fields.mapping(obj, "resources")
    return {*fields.mapping(resources, "requests"), *fields.mapping(resources, "limits")}


def _taken_back(spec: Object, metadata: Object) -> list[dict[str, Any]]:
    """Return the operations that remove what was set here and with which the API server would refuse the Pod."""
    annotations = fields.mapping(metadata, "annotations", "metadata.")
    if ANNOTATION not in annotations:
        return []
    said = str(annotations[ANNOTATION]).split(",")
    containers = fields.objects(spec, "containers", "spec.")
    parts = pod_requests.pod_requests({"spec": {**spec, "resources": None, "overhead": None}})
    operations: list[dict[str, Any]] = []
    kept = []
    # Whatever else stands there: a patch that cannot be applied refuses the Pod, in spite of failurePolicy.
    for dim in [dim for dim in usage.DIMS if dim in said]:
        # Pod-level requests must not be below those of the containers, and no request above its limit.
        whole = _requests(spec).get(dim)
        is_below = whole is not None and amounts.parse_quantity(whole) < parts.get(dim, 0.0)
        holders = [("/spec", is_below or _is_above_limit(spec, dim))]
        holders += [(f"/spec/containers/{at}", _is_above_limit(each, dim)) for at, each in enumerate(containers)]
        found = [f"{path}/resources/requests/{dim}" for path, is_refused in holders if is_refused]
        operations += [{"op": "remove", "path": path} for path in found]
        kept += [] if found else [dim]
    if operations and kept:
        operations.append({"op": "replace", "path": _ANNOTATION_PATH, "value": ",".join(kept)})
    elif operations:
        operations.append({"op": "remove", "path": _ANNOTATION_PATH})
        operations += [{"op": "remove", "path": _SURE_PATH}] if SURE in annotations else []
    return operations


def _requests(obj: Object) -> Object:
    return fields.mapping(fields.mapping(obj, "resources"), "requests")


def _is_above_limit(obj: Object, dim: str) -> bool:
    limits = fields.mapping(fields.mapping(obj, "resources"), "limits")
    request = _requests(obj).get(dim)
    if request is None or limits.get(dim) is None:
        return False
    return amounts.parse_quantity(request) > amounts.parse_quantity(limits[dim])


def _holders(spec: Object, known: usage.Recommended, wanted: Sequence[str]) -> list[_Holder]:
    """Return what gets requests: each container, or the Pod."""
    containers = fields.objects(spec, "containers", "spec.")
    has_sidecars = any(
        each.get("restartPolicy") == "Always" for each in fields.objects(spec, "initContainers", "spec.")
    )
    whole = {dim: known.requests[dim] for dim in wanted}
    of_names = [known.of_containers.get(str(each.get("name"))) for each in containers]
    found = [each for each in of_names if each is not None and set(wanted) <= each.requests.keys()]
    if has_sidecars or (len(found) < len(containers) and len(containers) > 1):
        return [_Holder(spec, "/spec", whole)]
    # An only container may get others from a later webhook, which request for themselves.
    amounts_of = [{dim: each.requests[dim] for dim in wanted} for each in found] or [whole]
    return [
        _Holder(container, f"/spec/containers/{at}", each)
        for at, (container, each) in enumerate(zip(containers, amounts_of, strict=True))
    ]


def _without(dims: Container[str], holders: Sequence[_Holder]) -> list[_Holder]:
    return [
        each._replace(requests={dim: amount for dim, amount in each.requests.items() if dim not in dims})
        for each in holders
    ]


def _raise(holders: Sequence[_Holder], least: Mapping[str, float]) -> bool:
    """Raise the requests in proportion, up to the least amounts of a Pod; return whether one was too small."""
    is_raised = False
    for dim, amount in least.items():
        total = _total(holders, dim)
        if total < amount:
            is_raised = True
            for each in holders:
                raised = each.requests[dim] * amount / total
                each.requests[dim] = recommendation.rounded_up(dim, raised)
    return is_raised


def _total(holders: Sequence[_Holder], dim: str) -> float:
    return sum(each.requests[dim] for each in holders)


def _total_of(spec: Object, holders: Sequence[_Holder], dims: Iterable[str]) -> dict[str, float]:
    """Return what a quota counts of a Pod with these requests: also what the runtime takes."""
    overhead = pod_requests.amounts(spec, "overhead", "spec.")
    return {dim: _total(holders, dim) + overhead.get(dim, 0.0) for dim in dims}


def _annotated(metadata: Object, said: Mapping[str, str]) -> list[dict[str, Any]]:
    if not metadata.get("annotations"):
        return [{"op": "add", "path": "/metadata/annotations", "value": dict(said)}]
    return [
        {"op": "add", "path": f"/metadata/annotations/{name.replace('/', '~1')}", "value": text}
        for name, text in said.items()
    ]


def _added(holder: _Holder) -> list[dict[str, Any]]:
    """Return the operations that add requests to what is there: `add` replaces a whole mapping that exists."""
    found = {dim: amounts.quantity(dim, amount) for dim, amount in holder.requests.items()}
    resources, path = fields.mapping(holder.obj, "resources"), f"{holder.path}/resources"
    if not resources:
        return [{"op": "add", "path": path, "value": {"requests": found}}]
    if not resources.get("requests"):
        return [{"op": "add", "path": f"{path}/requests", "value": found}]
    return [{"op": "add", "path": f"{path}/requests/{dim}", "value": value} for dim, value in found.items()]
