"""A queue in which namespaces take turns, so that a tenant with many entries does not delay those of others."""

import asyncio
import collections
from typing import Generic, TypeVar

T = TypeVar("T")


class NamespaceQueue(Generic[T]):
    """Up to `most` entries: the oldest of each namespace in turn.

    When it is full, the next entry of a namespace that has its share gives way, which costs little; for one of another
    namespace, one that has most loses its newest.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._more = asyncio.Event()
        # Entries by key, by namespace; the namespace whose turn is next comes first.
        self._entries: collections.OrderedDict[str, dict[str, T]] = collections.OrderedDict()

    def __len__(self) -> int:
        return self._count

    def put(self, namespace: str, key: str, entry: T) -> T | None:
        """Add an entry, or replace the one with this key; return the entry that gives way, perhaps this one."""
        own, lost = self._entries.get(namespace, {}), None
        if key not in own:
            if self._count >= self._most:
                if (len(own) + 1) * (len(self._entries) + (not own)) > self._most:
                    return entry
                _, lost = max(self._entries.values(), key=len).popitem()
                self._count -= 1
            self._count += 1
        own[key] = entry
        self._entries.setdefault(namespace, own)
        self._more.set()
        return lost

    async def until_some(self) -> None:
        """Wait until there is an entry."""
        while not self._count:
            self._more.clear()
            await self._more.wait()

    def take(self) -> T:
        """Remove and return the next entry. Raises `KeyError` if there is none."""
        namespace, own = self._entries.popitem(last=False)
        entry = own.pop(next(iter(own)))
        self._count -= 1
        if own:
            self._entries[namespace] = own
        return entry
