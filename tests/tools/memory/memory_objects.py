"""The objects of the in-memory Kubernetes API: store, history and selectors, with the rules that clients rely on."""

import asyncio
import bisect
import dataclasses
import uuid
from collections.abc import Mapping
from typing import Any, TypeVar

import orjson

from carico_core.domain import errors
from carico_core.runtime.kube import api_errors
from carico_core.runtime.process import clock as clocks
from carico_core.wire.kubernetes import instants

Object = dict[str, Any]
Key = tuple[str, str]
T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One write: the object before (None: created) and after (None: deleted)."""

    version: int
    plural: str
    before: Object | None
    after: Object | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """What a list or watch selects: a namespace (empty: all), and pairs that labels and fields must equal."""

    namespace: str
    pairs: tuple[tuple[tuple[str, ...], str, bool], ...]

    def matches(self, obj: Object) -> bool:
        """Return whether the object is selected."""
        if self.namespace and obj["metadata"].get("namespace") != self.namespace:
            return False
        return all((_field(obj, path) == value) is equal for path, value, equal in self.pairs)


def parse_selector(namespace: str, params: Mapping[str, str]) -> Selector:
    """Return the selector of a request: `a=b`, `a==b` and `a!=b`, joined by commas."""
    pairs = []
    for name, root in (("fieldSelector", ()), ("labelSelector", ("metadata", "labels"))):
        for term in filter(None, params.get(name, "").split(",")):
            key, _, value = term.partition("=")
            path = (*root, key.rstrip("!")) if root else tuple(key.rstrip("!").split("."))
            pairs.append((path, value.lstrip("="), not key.endswith("!")))
    return Selector(namespace=namespace, pairs=tuple(pairs))


class Objects:
    """All objects by kind, one increasing version, and the history that watches read."""

    def __init__(self, *, clock: clocks.Clock) -> None:
        self.version = 1
        self.history: list[Change] = []
        # Watches from an earlier version are too old.
        self.compacted = 0
        self.changed = asyncio.Event()
        self._clock = clock
        self._kinds: dict[str, dict[Key, Object]] = {}

    def all(self, plural: str, selector: Selector) -> list[Object]:
        """Return copies of the selected objects, sorted by namespace and name."""
        found = sorted(self._kinds.get(plural, {}).items())
        return [copied(obj) for _, obj in found if selector.matches(obj)]

    def since(self, version: int) -> list[Change]:
        """Return the changes after a version."""
        return self.history[bisect.bisect_right(self.history, version, key=lambda change: change.version) :]

    def get(self, plural: str, key: Key, request: str) -> Object:
        """Return a copy of one object. Raises `NotFound`."""
        found = self._kinds.get(plural, {}).get(key)
        if found is None:
            raise refusal(404, "NotFound", f'{plural} "{key[1]}" not found', request)
        return copied(found)

    def create(self, plural: str, obj: Object, request: str) -> Object:
        """Return the object as created, with uid, version and creation time. Raises `Conflict` and `Invalid`."""
        metadata = obj.setdefault("metadata", {})
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = f"{metadata['generateName']}{self.version:05x}"
        if not metadata.get("name"):
            raise refusal(422, "Invalid", "metadata.name: Required value", request)
        key = (metadata.get("namespace", ""), metadata["name"])
        if key in self._kinds.get(plural, {}):
            raise refusal(409, "AlreadyExists", f'{plural} "{key[1]}" already exists', request)
        # Given values are kept, so that a test can choose its Pods' UIDs; a real API makes its own.
        metadata.setdefault("uid", str(uuid.uuid5(uuid.NAMESPACE_OID, f"{plural}{key}{self.version}")))
        metadata.setdefault("creationTimestamp", instants.format_time(self._clock.wall_ns()))
        return self._write(plural, key, None, obj)

    def update(self, plural: str, key: Key, obj: Object, request: str) -> Object:
        """Return the replaced object. Raises `NotFound`, `Conflict` for another uid or a stale resourceVersion."""
        before = self.get(plural, key, request)
        for field in ("uid", "resourceVersion"):
            wanted = obj["metadata"].get(field)
            if wanted and wanted != before["metadata"][field]:
                raise refusal(409, "Conflict", f"{field}: got {wanted}, is {before['metadata'][field]}", request)
        obj["metadata"] = before["metadata"] | obj["metadata"]
        return before if obj == before else self._write(plural, key, before, obj)

    def delete(self, plural: str, key: Key, preconditions: Mapping[str, str], request: str) -> Object:
        """Return the last state of the object. Raises `NotFound` and `Conflict`."""
        before = self.get(plural, key, request)
        for field, wanted in preconditions.items():
            if before["metadata"].get(field) != wanted:
                raise refusal(409, "Conflict", f"Precondition failed: {field} in precondition: {wanted}", request)
        self.version += 1
        last = copied(before)
        last["metadata"]["resourceVersion"] = str(self.version)
        del self._kinds[plural][key]
        self._add(Change(version=self.version, plural=plural, before=last, after=None))
        return last

    def _write(self, plural: str, key: Key, before: Object | None, obj: Object) -> Object:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        stored = copied(obj)
        self._kinds.setdefault(plural, {})[key] = stored
        self._add(Change(version=self.version, plural=plural, before=before, after=stored))
        return obj

    def _add(self, change: Change) -> None:
        self.history.append(change)
        self.wake()

    def wake(self) -> None:
        """Make every watch read the history again."""
        self.changed.set()
        self.changed = asyncio.Event()


def merge(target: Object, patch: Mapping[str, Any], *, by_type: bool) -> Object:
    """Return `target` with a JSON merge patch; `by_type`: merge conditions by type, as strategic merge patches do."""
    merged = dict(target)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, Mapping):
            merged[name] = merge(merged.get(name) or {}, value, by_type=by_type)
        elif by_type and name == "conditions":
            older = {item["type"]: item for item in merged.get(name) or []}
            merged[name] = list((older | {item["type"]: older.get(item["type"], {}) | item for item in value}).values())
        else:
            merged[name] = copied(value)
    return merged


def event_of(change: Change, selector: Selector) -> tuple[str, Object] | None:
    """Return what a watch with a selector sees of a change; an object that leaves the selection is DELETED."""
    before = change.before is not None and selector.matches(change.before)
    after = change.after is not None and selector.matches(change.after)
    if after and change.after is not None:
        return ("MODIFIED" if before else "ADDED"), change.after
    if before and change.before is not None:
        last = copied(change.before)
        last["metadata"]["resourceVersion"] = str(change.version)
        return "DELETED", last
    return None


def copied(value: T) -> T:
    """Return a copy of JSON values. `copy.deepcopy` takes ten times as long, most of the time of many tests."""
    copy: T = orjson.loads(orjson.dumps(value))
    return copy


def refusal(status: int, reason: str, message: str, request: str) -> errors.ApiError:
    """Return the error that a client raises for this answer."""
    known = api_errors.ERROR_OF_STATUS.get(status, errors.ApiError)
    return known(status=status, reason=reason, message=message, request=request)


def _field(obj: Object, path: tuple[str, ...]) -> str:
    value: Any = obj
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return "" if value is None else str(value)
