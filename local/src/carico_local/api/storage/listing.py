"""Lists, in pages that all show the same revision."""

import base64
import binascii
import collections
import dataclasses
import itertools
import secrets

import orjson

from carico_local.api.model import objects, resources, statuses
from carico_local.api.storage import selectors, store

# Unfinished lists that are kept; continuing an older one gets a 410, as after etcd's compaction.
_KEPT_LISTS = 64
_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter."
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """The fields of metav1.ListOptions that the API supports. `version`: None where the client gave none."""

    selector: selectors.Selector
    limit: int
    token: str
    version: int | None
    watch: bool
    bookmarks: bool
    initial_events: bool
    timeout_s: float | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Page:
    """One page of a list."""

    items: list[objects.Stored]
    version: int
    token: str = ""
    remaining: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Snapshot:
    items: list[objects.Stored]
    version: int


class Lister:
    """Lists from one store."""

    def __init__(self, kept: store.Store) -> None:
        self._store = kept
        # Stored objects never change, so a snapshot is a list of references.
        self._snapshots: collections.OrderedDict[int, _Snapshot] = collections.OrderedDict()
        # A token of an earlier process must not continue a list of this one.
        self._numbers = itertools.count(secrets.randbits(48))

    def page(self, resource: resources.Resource, namespace: str, query: ListQuery) -> Page:
        """Return the requested page; raise `RequestFailed` (400, 410, 504)."""
        if query.token:
            return self._next_page(query)
        self._check_version(query)
        chosen = self.select(resource, namespace, query)
        snapshot = _Snapshot(items=chosen, version=self._store.revision)
        if not query.limit or len(chosen) <= query.limit:
            return Page(items=chosen, version=snapshot.version)
        number = next(self._numbers)
        self._snapshots[number] = snapshot
        while len(self._snapshots) > _KEPT_LISTS:
            self._snapshots.popitem(last=False)
        return _cut(snapshot, number, 0, query.limit)

    def select(self, resource: resources.Resource, namespace: str, query: ListQuery) -> list[objects.Stored]:
        """Return the objects that match now."""
        kept = self._store.select(resource.storage, namespace)
        if query.selector.everything:
            return kept
        return [stored for stored in kept if query.selector.matches(stored.data)]

    def _check_version(self, query: ListQuery) -> None:
        if query.version is None or query.version == 0:
            return
        if query.version > self._store.revision:
            raise statuses.RequestFailed(
                504, "Timeout", f"Too large resource version: {query.version}, current: {self._store.revision}"
            )

    def _next_page(self, query: ListQuery) -> Page:
        number, offset = _parse_token(query.token)
        snapshot = self._snapshots.get(number)
        if snapshot is None:
            raise statuses.expired(_EXPIRED)
        return _cut(snapshot, number, offset, query.limit or len(snapshot.items))


def _cut(snapshot: _Snapshot, number: int, offset: int, limit: int) -> Page:
    items = snapshot.items[offset : offset + limit]
    remaining = len(snapshot.items) - offset - len(items)
    token = _token(number, offset + len(items)) if remaining > 0 else ""
    return Page(items=items, version=snapshot.version, token=token, remaining=max(remaining, 0))


def _token(number: int, offset: int) -> str:
    return base64.urlsafe_b64encode(orjson.dumps([number, offset])).decode()


def _parse_token(text: str) -> tuple[int, int]:
    try:
        number, offset = orjson.loads(base64.urlsafe_b64decode(text.encode()))
        if not type(number) is type(offset) is int or offset < 0:
            raise ValueError("fields of other types")
    except (binascii.Error, ValueError, TypeError) as error:
        raise statuses.bad_request(f"continue key is not valid: {error}") from error
    return number, offset
