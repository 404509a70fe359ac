"""The OpenAPI documents that kubectl fetches for `apply` and `explain`.

Those of v3 contain only the paths that clients read: the verbs of a kind, and that writes support validation and dry
run. That of v2 is empty.
"""

import functools
from typing import Any

from carico_local.api.kubectl import discovery
from carico_local.api.model import resources, schema

_INFO = {"title": "Kubernetes", "version": discovery.VERSION["gitVersion"]}
# kubectl reads it before it applies a `kind: List`, which is in no document of v3, and does not validate kinds that it
# lacks. Protobuf, https://github.com/google/gnostic/blob/main/openapiv2/OpenAPIv2.proto: swagger 2.0, title, version.
V2_PATH = "/openapi/v2"
V2 = b"\n\x032.0\x12\x11\n\nKubernetes\x12\x031.0"
V2_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_WRITES = {"post": "post", "put": "put", "patch": "patch"}


def document(path: str) -> dict[str, Any] | None:
    """Return the OpenAPI v3 index or the document of one group and version; None for another path."""
    if path.rstrip("/") == "/openapi/v3":
        return {"paths": {_root(*named): {"serverRelativeURL": f"/openapi/v3/{_root(*named)}"} for named in _named()}}
    for group, version in _named():
        if path == f"/openapi/v3/{_root(group, version)}":
            return _document(group, version)
    return None


def _named() -> tuple[tuple[str, str], ...]:
    """Return every group and version, including kinds that are not served: `kubectl apply` reads these documents."""
    return tuple(dict.fromkeys((each.group, each.version) for each in resources.NAMED))


def _root(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


@functools.cache
def _document(group: str, version: str) -> dict[str, Any]:
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": _paths(group, version),
        "components": {"schemas": {name: _public(of) for name, of in _needed(group, version).items()}},
    }


def _needed(group: str, version: str) -> dict[str, dict[str, Any]]:
    """Return the definitions that the kinds of a group refer to."""
    found: dict[str, dict[str, Any]] = {}
    waiting = [resource.definition for resource in discovery.served(group, version)]
    waiting += [name for name in schema.definitions() if name.endswith((".DeleteOptions", ".Status"))]
    if not group:
        waiting += ["io.k8s.api.core.v1.Binding", "io.k8s.api.policy.v1.Eviction"]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = schema.definitions()[name]
            waiting.extend(_references(found[name]))
    return found


def _references(of: Any) -> list[str]:
    if isinstance(of, list):
        return [name for item in of for name in _references(item)]
    if not isinstance(of, dict):
        return []
    own = [of["$ref"].removeprefix(schema.REF_PREFIX)] if isinstance(of.get("$ref"), str) else []
    return own + [name for value in of.values() for name in _references(value)]


def _public(of: Any) -> Any:
    """Return a schema without the extensions that only this API's decoder reads."""
    if isinstance(of, list):
        return [_public(item) for item in of]
    if not isinstance(of, dict):
        return of
    kept = {name: _public(value) for name, value in of.items() if not name.startswith("x-carico-")}
    if "$ref" in kept and "description" in kept:
        # Siblings of a $ref are ignored in OpenAPI 3.0; allOf is how kube-apiserver keeps the description.
        return {"allOf": [{"$ref": kept["$ref"]}], "default": {}, "description": kept["description"]}
    return kept


def _paths(group: str, version: str) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for resource in (each for each in resources.NAMED if (each.group, each.version) == (group, version)):
        scope = "namespaces/{namespace}/" if resource.namespaced else ""
        collection = f"/{_root(group, version)}/{scope}{resource.plural}"
        paths[collection] = _operations(resource, {"get": "list", "post": "post", "delete": "deletecollection"})
        single = {"get": "get", "put": "put", "patch": "patch", "delete": "delete"}
        paths[f"{collection}/{{name}}"] = _operations(resource, single)
        if resource.has_status:
            status = {"get": "get", "put": "put", "patch": "patch"}
            paths[f"{collection}/{{name}}/status"] = _operations(resource, status)
        if resource.namespaced:
            paths[f"/{_root(group, version)}/{resource.plural}"] = _operations(resource, {"get": "list"})
    return paths


def _operations(resource: resources.Resource, verbs: dict[str, str]) -> dict[str, Any]:
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    operations: dict[str, Any] = {}
    for method, action in verbs.items():
        names = ["pretty"]
        if action in _WRITES:
            names += ["dryRun", "fieldManager", "fieldValidation"]
        elif action in ("delete", "deletecollection"):
            names += ["dryRun", "gracePeriodSeconds"]
        operations[method] = {
            "operationId": f"{action}{resource.kind}",
            "parameters": [_parameter(name) for name in names],
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": kind,
        }
    return operations


def _parameter(name: str) -> dict[str, Any]:
    kind = {"type": "integer" if name == "gracePeriodSeconds" else "string"}
    return {"name": name, "in": "query", "schema": kind}
