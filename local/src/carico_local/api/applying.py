"""Server-side apply: what a manager's configuration makes of an object, and which fields it owns then.

Source: https://kubernetes.io/docs/reference/using-api/server-side-apply/ and
sigs.k8s.io/structured-merge-diff/v4/fieldpath/serialize.go for the form of `fieldsV1`.

Simplified: only managers that apply are tracked, so a field that was last written by an update belongs to nobody and is
no conflict; lists are joined by the merge keys of strategic merge patches, one key an entry.
"""

import json
from collections.abc import Iterator
from typing import Any

from carico_local.api import objects, patching, schema, statuses

APPLY_PATCH = "application/apply-patch+yaml"
_APPLY = "Apply"
# What identifies an object is owned by nobody.
_IDENTITY = ("name", "namespace", "uid", "resourceVersion", "managedFields", "creationTimestamp", "generation")

# {"f:labels": {"f:a": {}}}; a list's entry is k:{"name":"main"}, the entry itself ".".
Fields = dict[str, Any]
Path = tuple[str, ...]


def parse(body: object, *, name: str) -> objects.Object:
    """The configuration that a body holds; raises RequestFailed (400)."""
    if not isinstance(body, dict) or not isinstance(body.get("metadata") or {}, dict):
        raise statuses.bad_request("an apply patch must be an object with its metadata")
    if not body.get("kind") or not body.get("apiVersion"):
        raise statuses.bad_request("invalid object type: an apply patch states its apiVersion and kind")
    metadata = body.get("metadata") or {}
    if metadata.get("managedFields"):
        raise statuses.bad_request("metadata.managedFields must be nil")
    return {**body, "metadata": {"name": name, **metadata}}


def owned(configuration: objects.Object, definition: str) -> Fields:
    """The fields that a configuration states, as `fieldsV1`."""
    stated = {name: value for name, value in configuration.items() if name not in ("kind", "apiVersion")}
    metadata = stated.pop("metadata", None) or {}
    metadata = {name: value for name, value in metadata.items() if name not in _IDENTITY}
    if metadata:
        stated["metadata"] = metadata
    return _fields_of(stated, {"$ref": schema.REF_PREFIX + definition})


def apply(
    live: objects.Object, configuration: objects.Object, *, definition: str, manager: str, force: bool
) -> objects.Object:
    """The object after an apply; raises RequestFailed (409) where another applier owns a field with another value."""
    of = {"$ref": schema.REF_PREFIX + definition}
    mine = owned(configuration, definition)
    if not force:
        _check_conflicts(live, configuration, mine, manager)
    before: Fields = next((entry["fieldsV1"] for entry in appliers(live) if entry["manager"] == manager), {})
    others = [entry["fieldsV1"] for entry in appliers(live) if entry["manager"] != manager]
    dropped = set(_leaves(before)) - set(_leaves(mine))
    for path in sorted(dropped, key=len, reverse=True):
        if not any(path in set(_leaves(fields)) for fields in others):
            _remove(live, path)
    return patching.join(live, configuration, of)


def managed(
    live: objects.Object | None, configuration: objects.Object, *,
    definition: str, api_version: str, manager: str, force: bool, now: str,
) -> list[objects.Object]:  # fmt: skip
    """`managedFields` after the apply; the manager's own entry keeps its time where it owns what it owned."""
    mine = owned(configuration, definition)
    kept = []
    for entry in appliers(live or {}):
        if entry["manager"] == manager:
            now = entry["time"] if entry["fieldsV1"] == mine else now
        elif force:
            taken = set(_leaves(mine))
            kept.append({**entry, "fieldsV1": _without(entry["fieldsV1"], taken)})
        else:
            kept.append(entry)
    own = {
        "manager": manager, "operation": _APPLY, "apiVersion": api_version, "time": now, "fieldsType": "FieldsV1",
        "fieldsV1": mine,
    }  # fmt: skip
    return [*(entry for entry in kept if entry["fieldsV1"]), own]


def appliers(data: objects.Object) -> list[objects.Object]:
    """The entries of `managedFields`."""
    found: list[objects.Object] = data.get("metadata", {}).get("managedFields") or []
    return found


def _check_conflicts(live: objects.Object, configuration: objects.Object, mine: Fields, manager: str) -> None:
    stated = set(_leaves(mine))
    lines = []
    for entry in appliers(live):
        if entry["manager"] == manager:
            continue
        both = sorted(stated & set(_leaves(entry["fieldsV1"])))
        differing = [path for path in both if _get(live, path) != _get(configuration, path)]
        lines += [(entry["manager"], "".join(_shown(step) for step in path)) for path in differing]
    if lines:
        count = "1 conflict" if len(lines) == 1 else f"{len(lines)} conflicts"
        told = "; ".join(f'conflict with "{other}": {field}' for other, field in lines)
        causes = [
            statuses.Cause(reason="FieldManagerConflict", message=f'conflict with "{other}"', field=field).as_json()
            for other, field in lines
        ]
        raise statuses.RequestFailed(409, "Conflict", f"Apply failed with {count}: {told}", {"causes": causes})


def _fields_of(value: objects.Object, of: dict[str, Any]) -> Fields:
    known = patching.fields(of)
    found: Fields = {}
    for name, item in value.items():
        inner = known.get(name, {})
        key = inner.get("x-kubernetes-patch-merge-key")
        if isinstance(item, dict) and item:
            found[f"f:{name}"] = _fields_of(item, inner)
        elif isinstance(item, list) and key and all(isinstance(each, dict) and key in each for each in item):
            found[f"f:{name}"] = {
                "k:" + json.dumps({key: each[key]}, separators=(",", ":")): {
                    ".": {}, **_fields_of(each, inner.get("items", {})),
                }
                for each in item
            }  # fmt: skip
        else:
            found[f"f:{name}"] = {}
    return found


def _leaves(fields: Fields, path: Path = ()) -> Iterator[Path]:
    for step, inner in fields.items():
        if step == ".":
            yield path
        elif inner:
            yield from _leaves(inner, (*path, step))
        else:
            yield (*path, step)


def _without(fields: Fields, taken: set[Path], path: Path = ()) -> Fields:
    kept: Fields = {}
    for step, inner in fields.items():
        here = path if step == "." else (*path, step)
        left = _without(inner, taken, here) if inner else {}
        if left or (not inner and here not in taken):
            kept[step] = left
    return kept


def _step(value: Any, step: str) -> Any:
    """What a step leads to; None where nothing is there."""
    if step.startswith("f:"):
        return value.get(step[2:]) if isinstance(value, dict) else None
    (key, wanted), = json.loads(step[2:]).items()  # fmt: skip
    entries = value if isinstance(value, list) else []
    return next((each for each in entries if isinstance(each, dict) and each.get(key) == wanted), None)


def _get(data: objects.Object, path: Path) -> Any:
    found: Any = data
    for step in path:
        found = _step(found, step)
    # Of an entry of a list only that it is there is owned.
    return True if path[-1].startswith("k:") and found is not None else found


def _remove(data: objects.Object, path: Path) -> None:
    """Takes a field or an entry off, and what is empty then."""
    parents: list[Any] = [data]
    for step in path[:-1]:
        parents.append(_step(parents[-1], step))
    for parent, step in zip(reversed(parents), reversed(path), strict=True):
        found = _step(parent, step)
        if found is None or (step != path[-1] and found):
            return
        if step.startswith("f:"):
            del parent[step[2:]]
        else:
            parent.remove(found)


def _shown(step: str) -> str:
    """A step of a path as conflicts name it: .labels, [name="main"]."""
    if step.startswith("f:"):
        return f".{step[2:]}"
    (key, value), = json.loads(step[2:]).items()  # fmt: skip
    return f"[{key}={json.dumps(value)}]"
