"""Applies merge patches and strategic-merge patches.

Sources: RFC 7386 (merge), and for strategic merge
https://github.com/kubernetes/community/blob/master/contributors/devel/sig-api-machinery/strategic-merge-patch.md
with the merge keys of the schema.
"""

from typing import Any

from carico_local.api.model import objects, schema, statuses

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
PATCH_TYPES = (MERGE_PATCH, STRATEGIC_PATCH)

_DIRECTIVE = "$patch"
_DELETE_FROM_LIST = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"
_RETAIN = "$retainKeys"


def apply(kind: str, *, data: objects.Object, patch: object, definition: str) -> objects.Object:
    """Return the patched object; raise `RequestFailed` (400, 422). `data` may be changed."""
    if not isinstance(patch, dict):
        raise statuses.bad_request("a merge patch must be a JSON object")
    if kind == MERGE_PATCH:
        return _expect_object(merge(data, patch))
    return _expect_object(_merge_object(data, patch, {"$ref": schema.REF_PREFIX + definition}))


def merge(data: Any, patch: Any) -> Any:
    """Return the RFC 7386 merge of a patch into a value."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(data) if isinstance(data, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value)
    return merged


def _expect_object(value: Any) -> objects.Object:
    if not isinstance(value, dict) or not isinstance(value.get("metadata", {}), dict):
        raise statuses.unreadable_patch("the result is not a Kubernetes object")
    value.setdefault("metadata", {})
    return value


def _merge_object(data: Any, patch: objects.Object, of: dict[str, Any]) -> Any:
    """Return the strategic merge of two objects of one type; `of`: the type's schema, {} where it is unknown."""
    directive = patch.get(_DIRECTIVE)
    if directive not in (None, "replace", "delete", "merge"):
        raise statuses.bad_request(f"Unknown patch type: {directive!r}")
    content = {name: value for name, value in patch.items() if not name.startswith("$")}
    if directive == "replace":
        return content
    if directive == "delete":
        return {}
    merged = dict(data) if isinstance(data, dict) else {}
    if isinstance(kept := patch.get(_RETAIN), list):
        merged = {name: value for name, value in merged.items() if name in kept}
    known = _fields(of)
    for name, value in content.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merge_value(merged.get(name), value, known.get(name, {}))
    _delete_from_lists(merged, patch)
    _reorder(merged, patch, known)
    return merged


def _merge_value(data: Any, patch: Any, of: dict[str, Any]) -> Any:
    if isinstance(patch, dict):
        return _merge_object(data, patch, of)
    if isinstance(patch, list) and "merge" in of.get("x-kubernetes-patch-strategy", ""):
        return _merge_list(data if isinstance(data, list) else [], patch, of)
    return patch


def _merge_list(data: list[Any], patch: list[Any], of: dict[str, Any]) -> list[Any]:
    key = of.get("x-kubernetes-patch-merge-key")
    if key is None:
        return data + [value for value in patch if value not in data]
    if any(isinstance(item, dict) and item.get(_DIRECTIVE) == "replace" and key not in item for item in patch):
        return [item for item in patch if isinstance(item, dict) and _DIRECTIVE not in item]
    merged = list(data)
    for item in patch:
        if not isinstance(item, dict) or key not in item:
            raise statuses.bad_request(f"map: {item!r} does not contain declared merge key: {key}")
        _merge_item(merged, item, key, of.get("items", {}))
    return merged


def _merge_item(merged: list[Any], item: objects.Object, key: str, of: dict[str, Any]) -> None:
    places = [at for at, value in enumerate(merged) if isinstance(value, dict) and value.get(key) == item[key]]
    if item.get(_DIRECTIVE) == "delete":
        for at in reversed(places):
            del merged[at]
    elif places:
        # Several entries may share a key (ports of two protocols); a patch then applies to the first.
        merged[places[0]] = _merge_object(merged[places[0]], item, of)
    else:
        merged.append(_merge_object({}, item, of))


def _delete_from_lists(merged: objects.Object, patch: objects.Object) -> None:
    for directive, values in patch.items():
        if directive.startswith(_DELETE_FROM_LIST) and isinstance(values, list):
            name = directive.removeprefix(_DELETE_FROM_LIST)
            if isinstance(merged.get(name), list):
                merged[name] = [value for value in merged[name] if value not in values]


def _reorder(merged: objects.Object, patch: objects.Object, known: dict[str, Any]) -> None:
    """Order list entries as in the patch; entries that it does not name follow in their own order."""
    for directive, order in patch.items():
        name = directive.removeprefix(_ORDER)
        if not directive.startswith(_ORDER) or not isinstance(order, list) or not isinstance(merged.get(name), list):
            continue
        key = known.get(name, {}).get("x-kubernetes-patch-merge-key")
        ranks = [entry.get(key) if isinstance(entry, dict) else entry for entry in order]
        found = [value.get(key) if isinstance(value, dict) else value for value in merged[name]]
        placed = sorted(range(len(found)), key=lambda at: ranks.index(found[at]) if found[at] in ranks else len(ranks))
        merged[name] = [merged[name][at] for at in placed]


def _fields(of: dict[str, Any]) -> dict[str, Any]:
    """Return the schemas of a type's fields by name; empty for an unknown type."""
    reference = of.get("$ref", "")
    known = schema.definitions().get(reference.removeprefix(schema.REF_PREFIX), {})
    found: dict[str, Any] = known.get("properties", {})
    return found
