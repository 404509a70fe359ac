"""The answer to an AdmissionReview of a Pod: requests by its class, where it has none. Pure.

A Pod gets the amounts that `carico recommend` shows: each container its own. Where those are not known, and with
sidecars, they are Pod-level resources of the whole Pod (Kubernetes 1.34 or later). While a new image is not learnt, the
amounts are those of the earlier one, too, and an annotation says so. What the Pod
states itself is never changed, and limits are never set. A webhook that comes later may add containers with requests,
or limits: the API server then asks again, and what was set here is taken back where it contradicts them.

Source: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
"""

import base64
import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from carico_core.domain import amounts, names, usage
from carico_core.numerics import recommendation
from carico_core.wire.kubernetes import api_objects, pod_requests
from carico_core.wire.kubernetes import object_fields as fields

# Which requests were set here, and how sure they are.
ANNOTATION, SURE = "carico.dev/learnt-requests", "carico.dev/learnt-requests-confidence"
_ANNOTATION_PATH = f"/metadata/annotations/{ANNOTATION.replace('/', '~1')}"
_SURE_PATH = f"/metadata/annotations/{SURE.replace('/', '~1')}"
_IMAGE = recommendation.Flag.IMAGE_CHANGED.value
# What a Pod does not have before it is stored.
_STORED = {"name": "new", "uid": "new", "creationTimestamp": "1970-01-01T00:00:00Z"}

Object = Mapping[str, Any]
Lookup = Callable[[str], usage.Recommended | None]


class Result(enum.StrEnum):
    """What became of a review: the label of the counter."""

    SET = "set"
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


class Answer(NamedTuple):
    """The bytes of the answer, and what they mean."""

    body: bytes
    result: Result


def answer(body: bytes, lookup: Lookup, *, dimensions: Sequence[str] = usage.DIMS) -> Answer:
    """Return the answer to a review: requests of `dimensions`. Raises `ValueError` for what is no review."""
    try:
        request = orjson.loads(body)["request"]
        uid = request["uid"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise ValueError("got no AdmissionReview with a request, expected one of admission.k8s.io/v1") from None
    try:
        result, patch = _judge(request, lookup, dimensions)
    except (ValueError, KeyError, TypeError, AttributeError):
        # Whatever is in it: the Pod is admitted as it is.
        result, patch = Result.UNREADABLE, []
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if patch:
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(orjson.dumps(patch)).decode()}
    found = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    return Answer(body=orjson.dumps(found), result=result)


def _judge(request: Object, lookup: Lookup, dimensions: Sequence[str]) -> tuple[Result, list[dict[str, Any]]]:
    pod = request["object"]
    spec, metadata = fields.mapping(pod, "spec"), fields.mapping(pod, "metadata")
    if spec.get("nodeName"):
        return Result.HAS_NODE, []
    if fields.mapping(spec, "os", "spec.").get("name") == "windows":
        return Result.WINDOWS, []
    contradicted = _taken_back(spec, metadata)
    if contradicted:
        return Result.HAS_REQUESTS, contradicted
    wanted = _lacking(spec, dimensions)
    if not wanted:
        return Result.HAS_REQUESTS, []
    namespace = fields.required(request, "namespace", "request.")
    whole = {**pod, "metadata": {**metadata, **_STORED, "namespace": namespace}}
    known = lookup(names.class_of(api_objects.parse_pod(whole)))
    if known is None:
        return Result.NOT_LEARNT, []
    # Without amounts a rollout would interrupt what autoscalers and quotas go by; those of before are near enough.
    if set(known.flags) - {_IMAGE}:
        return Result.FLAGGED, []
    wanted = [dim for dim in wanted if dim in known.requests]
    if not wanted:
        return Result.NOT_LEARNT, []
    sure = f"low, {_IMAGE}" if known.flags else known.confidence
    return Result.SET, [*_resources(spec, known, wanted), *_annotated(metadata, ",".join(wanted), sure)]


def _lacking(spec: Object, dimensions: Sequence[str]) -> list[str]:
    """Return those resources of which neither the Pod nor a container states anything."""
    containers = [*fields.objects(spec, "containers", "spec."), *fields.objects(spec, "initContainers", "spec.")]
    stated = {dim for each in (spec, *containers) for dim in _stated(each)}
    return [dim for dim in dimensions if dim not in stated]


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


def _resources(spec: Object, known: usage.Recommended, wanted: Sequence[str]) -> list[dict[str, Any]]:
    """Return the operations that add requests: to each container, or to the Pod."""
    containers = fields.objects(spec, "containers", "spec.")
    has_sidecars = any(
        each.get("restartPolicy") == "Always" for each in fields.objects(spec, "initContainers", "spec.")
    )
    if len(containers) == 1 and not has_sidecars:
        return _added(containers[0], "/spec/containers/0", known.requests, wanted)
    of_names = [known.of_containers.get(str(each.get("name"))) for each in containers]
    found = [each for each in of_names if each is not None and set(wanted) <= each.requests.keys()]
    if has_sidecars or len(found) < len(containers):
        return _added(spec, "/spec", known.requests, wanted)
    return [
        operation
        for at, (container, each) in enumerate(zip(containers, found, strict=True))
        for operation in _added(container, f"/spec/containers/{at}", each.requests, wanted)
    ]


def _annotated(metadata: Object, said: str, sure: str) -> list[dict[str, Any]]:
    if not metadata.get("annotations"):
        return [{"op": "add", "path": "/metadata/annotations", "value": {ANNOTATION: said, SURE: sure}}]
    return [
        {"op": "add", "path": _ANNOTATION_PATH, "value": said},
        {"op": "add", "path": _SURE_PATH, "value": sure},
    ]


def _added(holder: Object, path: str, known: Mapping[str, float], wanted: Sequence[str]) -> list[dict[str, Any]]:
    """Return the operations that add requests to what is there: `add` replaces a whole mapping that exists."""
    found = {dim: amounts.quantity(dim, known[dim]) for dim in wanted}
    resources, path = fields.mapping(holder, "resources"), f"{path}/resources"
    if not resources:
        return [{"op": "add", "path": path, "value": {"requests": found}}]
    if not resources.get("requests"):
        return [{"op": "add", "path": f"{path}/requests", "value": found}]
    return [{"op": "add", "path": f"{path}/requests/{dim}", "value": value} for dim, value in found.items()]
