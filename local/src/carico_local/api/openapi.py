"""The OpenAPI documents that kubectl fetches for `apply` and `explain`.

Paths are listed as far as clients read them: which verbs a kind has, and that a write can be validated and tried.
"""

import functools
from typing import Any

from carico_local.api import discovery, resources, schema

_INFO = {"title": "Kubernetes", "version": discovery.VERSION["gitVersion"]}
_WRITES = {"post": "post", "put": "put", "patch": "patch"}


def version_3(path: str) -> dict[str, Any] | None:
    """The OpenAPI v3 index or the document of one group and version; None for another path."""
    if path.rstrip("/") == "/openapi/v3":
        return {"paths": {_root(*named): {"serverRelativeURL": f"/openapi/v3/{_root(*named)}"} for named in _served()}}
    for group, version in _served():
        if path == f"/openapi/v3/{_root(group, version)}":
            return _document_3(group, version)
    return None


@functools.cache
def version_2() -> dict[str, Any]:
    """The OpenAPI v2 document of everything."""
    paths = {}
    for group, version in _served():
        paths.update(_paths(group, version, style=2))
    return {
        "swagger": "2.0",
        "info": _INFO,
        "paths": paths,
        "definitions": {name: _as_version_2(of) for name, of in schema.definitions().items()},
    }


def _served() -> tuple[tuple[str, str], ...]:
    return resources.GROUP_VERSIONS


def _root(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


@functools.cache
def _document_3(group: str, version: str) -> dict[str, Any]:
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": _paths(group, version, style=3),
        "components": {"schemas": {name: _public(of) for name, of in _needed(group, version).items()}},
    }


def _needed(group: str, version: str) -> dict[str, dict[str, Any]]:
    """The definitions that the kinds of a group refer to."""
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
    """A schema without the marks that only this API's decoder reads."""
    if isinstance(of, list):
        return [_public(item) for item in of]
    if not isinstance(of, dict):
        return of
    kept = {name: _public(value) for name, value in of.items() if not name.startswith("x-carico-")}
    if "$ref" in kept and "description" in kept:
        # Siblings of a $ref are ignored in OpenAPI 3.0; allOf is how kube-apiserver keeps the description.
        return {"allOf": [{"$ref": kept["$ref"]}], "default": {}, "description": kept["description"]}
    return kept


def _as_version_2(of: Any) -> Any:
    if isinstance(of, list):
        return [_as_version_2(item) for item in of]
    if not isinstance(of, dict):
        return of
    kept = {name: _as_version_2(value) for name, value in of.items() if not name.startswith("x-carico-")}
    if isinstance(kept.get("$ref"), str):
        kept["$ref"] = kept["$ref"].replace(schema.REF_PREFIX, "#/definitions/")
    if kept.pop("oneOf", None):
        # Version 2 has no oneOf: kube-apiserver calls quantities and int-or-strings strings.
        kept["type"] = "string"
    return kept


def _paths(group: str, version: str, *, style: int) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for resource in discovery.served(group, version):
        scope = "namespaces/{namespace}/" if resource.namespaced else ""
        collection = f"/{_root(group, version)}/{scope}{resource.plural}"
        paths[collection] = _operations(resource, {"get": "list", "post": "post", "delete": "deletecollection"}, style)
        single = {"get": "get", "put": "put", "patch": "patch", "delete": "delete"}
        paths[f"{collection}/{{name}}"] = _operations(resource, single, style)
        if resource.has_status:
            status = {"get": "get", "put": "put", "patch": "patch"}
            paths[f"{collection}/{{name}}/status"] = _operations(resource, status, style)
        if resource.namespaced:
            paths[f"/{_root(group, version)}/{resource.plural}"] = _operations(resource, {"get": "list"}, style)
    return paths


def _operations(resource: resources.Resource, verbs: dict[str, str], style: int) -> dict[str, Any]:
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
            "parameters": [_parameter(name, style) for name in names],
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": kind,
        }
    return operations


def _parameter(name: str, style: int) -> dict[str, Any]:
    kind = {"type": "integer" if name == "gracePeriodSeconds" else "string"}
    return {"name": name, "in": "query"} | (kind if style == 2 else {"schema": kind})
