"""Errors as metav1.Status objects, with the codes, reasons and messages of kube-apiserver.

Source: k8s.io/apimachinery/pkg/api/errors, and
https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from carico_core.domain import errors


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One reason why an object is invalid: `FieldValueRequired` at `spec.containers`, and so on."""

    reason: str
    message: str
    field: str

    def as_json(self) -> dict[str, str]:
        """Return the cause in the format of a Status."""
        return {"reason": self.reason, "message": self.message, "field": self.field}


class RequestFailed(errors.CaricoError):
    """A request that is answered with a failure Status."""

    def __init__(self, code: int, reason: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        self.code = code
        self.reason = reason
        self.message = message
        self.details = dict(details or {})
        super().__init__(message)

    def as_json(self) -> dict[str, Any]:
        """Return the metav1.Status of the failure."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if self.details:
            status["details"] = self.details
        return status


def success(details: Mapping[str, Any] | None = None, *, code: int = 200) -> dict[str, Any]:
    """Return the Status of a request that succeeded and returns no object."""
    status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code}
    if details is not None:
        status["details"] = dict(details)
    return status


def not_found(resource: str, name: str, *, group: str = "") -> RequestFailed:
    """Return a 404: there is no object with that name."""
    details = _details(resource, name, group)
    return RequestFailed(404, "NotFound", f"{_qualified(resource, group)} {_quote(name)} not found", details)


# Advice for requests that this API does not support.
_ELSEWHERE = "the embedded API serves a part of Kubernetes, `carico up --control-plane real` all of it"


def no_such_path(what: str = "such resource") -> RequestFailed:
    """Return a 404: the API has no such resource at all."""
    return RequestFailed(404, "NotFound", f"this cluster has no {what}: {_ELSEWHERE}")


def not_on_emulated_nodes(command: str) -> RequestFailed:
    """Return a 404: no emulated node serves what this command of kubectl asks for."""
    where = "real kubelets have it, `carico up --nodes kubelet=2`"
    # `kubectl debug` reads the name of what was not found, and ends with a panic where there are no details.
    return RequestFailed(404, "NotFound", f"this cluster has no `{command}`: {where}", {"kind": "pods"})


def already_exists(resource: str, name: str, *, group: str) -> RequestFailed:
    """Return a 409: an object with the same name exists."""
    message = f"{_qualified(resource, group)} {_quote(name)} already exists"
    return RequestFailed(409, "AlreadyExists", message, _details(resource, name, group))


def conflict(resource: str, name: str, detail: str, *, group: str = "") -> RequestFailed:
    """Return a 409: a precondition of the request does not hold."""
    message = f"Operation cannot be fulfilled on {_qualified(resource, group)} {_quote(name)}: {detail}"
    return RequestFailed(409, "Conflict", message, _details(resource, name, group))


STALE = "the object has been modified; please apply your changes to the latest version and try again"


def uid_mismatch(expected: str, actual: str) -> str:
    """Return the detail of a 409 for a UID precondition that does not hold."""
    return f"Precondition failed: UID in precondition: {expected}, UID in object meta: {actual}"


def check_preconditions(
    resource: str, metadata: Mapping[str, Any], *, uid: str | None, version: str | None, group: str = ""
) -> None:  # fmt: skip
    """Raise a 409 if the object is not the one, or not of the version, that a request states; None: any."""
    detail = ""
    if uid is not None and uid != metadata["uid"]:
        detail = uid_mismatch(uid, metadata["uid"])
    elif version is not None and version != (now := metadata["resourceVersion"]):
        detail = (
            f"Precondition failed: ResourceVersion in precondition: {version}, ResourceVersion in object meta: {now}"
        )
    if detail:
        raise conflict(resource, metadata["name"], detail, group=group)


def bad_request(message: str) -> RequestFailed:
    """Return a 400: the request is malformed."""
    return RequestFailed(400, "BadRequest", message)


class Unreadable(RequestFailed):
    """A 400: an object whose fields do not have the types of its kind."""

    def __init__(self, message: str) -> None:
        super().__init__(400, "BadRequest", message)


def unreadable_patch(message: str) -> RequestFailed:
    """Return a 422: a patch whose result is malformed (k8s.io/apiserver/pkg/endpoints/handlers/patch.go)."""
    return RequestFailed(422, "Invalid", f' "" is invalid: patch: Invalid value: {message}')


def forbidden(resource: str, name: str, detail: str, *, group: str = "") -> RequestFailed:
    """Return a 403: the request is not allowed."""
    message = f"{_qualified(resource, group)} {_quote(name)} is forbidden: {detail}"
    return RequestFailed(403, "Forbidden", message, _details(resource, name, group))


def unauthorized(message: str) -> RequestFailed:
    """Return a 401: no token, or a wrong one."""
    return RequestFailed(401, "Unauthorized", message)


def expired(message: str) -> RequestFailed:
    """Return a 410: the resourceVersion or the continue token is too old."""
    return RequestFailed(410, "Expired", message)


def too_old(asked: int, oldest: int) -> RequestFailed:
    """Return a 410: the requested history is no longer available."""
    return expired(f"too old resource version: {asked} ({oldest})")


def invalid(kind: str, name: str, causes: Iterable[Cause], *, group: str = "") -> RequestFailed:
    """Return a 422: the object violates rules; one cause for each."""
    listed = list(causes)
    lines = [f"{cause.field}: {cause.message}" for cause in listed]
    text = lines[0] if len(lines) == 1 else f"[{', '.join(lines)}]"
    message = f"{_qualified(kind, group)} {_quote(name)} is invalid: {text}"
    details = _details(kind, name, group) | {"causes": [cause.as_json() for cause in listed]}
    return RequestFailed(422, "Invalid", message, details)


def method_not_allowed() -> RequestFailed:
    """Return a 405: the resource does not support this verb."""
    return RequestFailed(405, "MethodNotAllowed", f"this method is not allowed on the requested resource: {_ELSEWHERE}")


def unsupported_media_type(got: str, allowed: Iterable[str]) -> RequestFailed:
    """Return a 415: the API does not support the format of the body."""
    hint = (
        "; `kubectl create ... --dry-run=client -o yaml | kubectl apply -f -` sends JSON" if "protobuf" in got else ""
    )
    message = f"got a body of type {got}, expected {' or '.join(allowed)}{hint}: {_ELSEWHERE}"
    return RequestFailed(415, "UnsupportedMediaType", message)


def no_media_type() -> RequestFailed:
    """Return a 415: a body without a Content-Type."""
    return RequestFailed(
        415, "UnsupportedMediaType", "got a body without a Content-Type, expected for example application/json"
    )


def not_acceptable(allowed: Iterable[str]) -> RequestFailed:
    """Return a 406: the API does not support the requested format of the answer."""
    message = f"only the following media types are accepted: {', '.join(allowed)}"
    return RequestFailed(406, "NotAcceptable", message)


def too_large(limit_bytes: int) -> RequestFailed:
    """Return a 413: the body is too large."""
    return RequestFailed(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit_bytes}")


def internal(message: str) -> RequestFailed:
    """Return a 500: an error of the API itself."""
    return RequestFailed(500, "InternalError", f"Internal error occurred: {message}")


def _qualified(resource: str, group: str) -> str:
    return f"{resource}.{group}" if group else resource


def _details(resource: str, name: str, group: str) -> dict[str, Any]:
    details = {"name": name, "kind": resource}
    return details | {"group": group} if group else details


def _quote(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
