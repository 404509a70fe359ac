"""The discovery documents: what the API serves.

Source: https://kubernetes.io/docs/concepts/overview/kubernetes-api/#discovery-api
"""

import functools
from typing import Any

from carico_local.api.model import resources

# How the version ends, by which `carico doctor` recognises this API.
VERSION_END = "+carico"
# The release whose types and behaviour the API follows: that of the schema.
VERSION = {
    "major": "1",
    "minor": "37",
    "gitVersion": f"v1.37.0{VERSION_END}",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "none",
    "platform": "linux/amd64",
}
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
# Subresource -> the verbs, and the group, version and kind of its body (None: the object itself).
_SUBRESOURCES: dict[str, tuple[list[str], tuple[str, str, str] | None]] = {
    "status": (["get", "patch", "update"], None),
    "binding": (["create"], ("", "v1", "Binding")),
    "eviction": (["create"], ("policy", "v1", "Eviction")),
    "log": (["get"], None),
}
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def document(path: str, accept: str) -> tuple[dict[str, Any], str] | None:
    """Return the document at a path and its content type; None where there is none."""
    parts = path.strip("/").split("/")
    plain = "application/json"
    if parts in (["api"], ["apis"]):
        if _AGGREGATED in accept:
            return _aggregated(core=parts == ["api"]), _AGGREGATED
        return (_core_versions() if parts == ["api"] else _group_list()), plain
    if parts == ["version"]:
        return VERSION, plain
    if len(parts) == 2 and parts[0] == "apis":
        group = _groups().get(parts[1])
        return None if group is None else ({"kind": "APIGroup", "apiVersion": "v1", **group}, plain)
    return _resource_list(parts, plain)


def _resource_list(parts: list[str], plain: str) -> tuple[dict[str, Any], str] | None:
    if len(parts) == 2 and parts[0] == "api":
        group, version = "", parts[1]
    elif len(parts) == 3 and parts[0] == "apis":
        group, version = parts[1], parts[2]
    else:
        return None
    if (group, version) not in resources.GROUP_VERSIONS:
        return None
    named = f"{group}/{version}" if group else version
    entries = [entry for resource in served(group, version) for entry in _entries(resource)]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": named, "resources": entries}, plain


def served(group: str, version: str) -> list[resources.Resource]:
    """Return the resources of one group and version."""
    return [resource for resource in resources.ALL if (resource.group, resource.version) == (group, version)]


def _core_versions() -> dict[str, Any]:
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def _group_list() -> dict[str, Any]:
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": list(_groups().values())}


@functools.cache
def _groups() -> dict[str, dict[str, Any]]:
    groups = {}
    for group, version in resources.GROUP_VERSIONS:
        if group:
            entry = {"groupVersion": f"{group}/{version}", "version": version}
            groups[group] = {"name": group, "versions": [entry], "preferredVersion": entry}
    return groups


def _entries(resource: resources.Resource) -> list[dict[str, Any]]:
    main: dict[str, Any] = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": _VERBS,
    }
    if resource.short_names:
        main["shortNames"] = list(resource.short_names)
    if resource.categories:
        main["categories"] = list(resource.categories)
    entries = [main]
    for name in resource.subresources:
        verbs, body = _SUBRESOURCES[name]
        group, version, kind = body or (resource.group, resource.version, resource.kind)
        entry = {
            "name": f"{resource.plural}/{name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": kind,
        }
        if body is not None:
            entry |= {"group": group, "version": version}
        entries.append(entry | {"verbs": verbs})
    return entries


def _aggregated(*, core: bool) -> dict[str, Any]:
    items = []
    for group, group_version in dict.fromkeys((each.group, each.version) for each in resources.NAMED):
        if (group == "") is core:
            entries = [
                _aggregated_entry(each)
                for each in resources.NAMED
                if (each.group, each.version) == (group, group_version)
            ]
            metadata = {"name": group, "creationTimestamp": None} if group else {"creationTimestamp": None}
            versions = [{"version": group_version, "resources": entries, "freshness": "Current"}]
            items.append({"metadata": metadata, "versions": versions})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }


def _aggregated_entry(resource: resources.Resource) -> dict[str, Any]:
    subresources = []
    for name in resource.subresources:
        verbs, body = _SUBRESOURCES[name]
        group, version, kind = body or (resource.group, resource.version, resource.kind)
        subresources.append({"subresource": name, "responseKind": _gvk(group, version, kind), "verbs": verbs})
    entry: dict[str, Any] = {
        "resource": resource.plural,
        "responseKind": _gvk(resource.group, resource.version, resource.kind),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": _VERBS,
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    return entry | ({"subresources": subresources} if subresources else {})


def _gvk(group: str, version: str, kind: str) -> dict[str, str]:
    return {"group": group, "version": version, "kind": kind}
