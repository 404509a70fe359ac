"""LRU caches of derived answers, and answers of one value per slot that are updated slot by slot."""

import collections
from collections.abc import Callable, Collection, Iterator, ValuesView
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

K = TypeVar("K")
V = TypeVar("V")

# The least and the most answers that are cached, and the total of their slots: 32 MB of floats. A class or demand
# stands for one Pod template, or for one Job if Jobs are created one by one.
KEPT_LEAST = 256
KEPT_MOST = 1024
SLOTS_MOST = 4_000_000
# The total of other entries, such as the terms and words of their keys: some 64 MB.
ENTRIES_MOST = 1_000_000


def room_for(slots: int, *, entries: int = 0) -> int:
    """Return how many answers with one value per slot, and these entries, are cached.

    >>> room_for(20), room_for(10_000), room_for(100_000), room_for(20, entries=50_000)
    (1024, 400, 256, 20)
    """
    most = max(KEPT_LEAST, min(KEPT_MOST, SLOTS_MOST // max(slots, 1)))
    return max(1, min(most, ENTRIES_MOST // max(entries, 1)))


class Lru(Generic[K, V]):
    """Answers by key. Beyond the limit the least recently used are dropped, and `on_drop` is called with their keys."""

    def __init__(self, on_drop: Callable[[K], object] | None = None) -> None:
        self._kept: collections.OrderedDict[K, V] = collections.OrderedDict()
        self._on_drop = on_drop

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: K) -> bool:
        return key in self._kept

    def __iter__(self) -> Iterator[K]:
        return iter(self._kept)

    def values(self) -> ValuesView[V]:
        """Return all cached answers; this does not count as use."""
        return self._kept.values()

    def peek(self, key: K) -> V:
        """Return the answer of a cached key; this does not count as use."""
        return self._kept[key]

    def get(self, key: K) -> V | None:
        """Return the cached answer, which counts as used; None if there is none."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def put(self, key: K, answer: V, *, most: int) -> V:
        """Cache `answer` and return it; beyond `most` answers, drop the least recently used."""
        self._kept[key] = answer
        self._kept.move_to_end(key)
        while len(self._kept) > most:
            dropped, _ = self._kept.popitem(last=False)
            if self._on_drop is not None:
                self._on_drop(dropped)
        return answer

    def clear(self) -> None:
        """Drop all answers; `on_drop` is not called."""
        self._kept.clear()

    def drop(self, key: K) -> None:
        """Drop the answer of a key."""
        self._kept.pop(key, None)


Fill: TypeAlias = Callable[[npt.NDArray[Any], Collection[int]], None]


class BySlot(Lru[K, tuple[npt.NDArray[Any], set[int]]]):
    """Answers with one value per slot, each with the slots whose value is out of date."""

    def __init__(self, entries_of: Callable[[K], int] = lambda key: 0) -> None:
        """`entries_of`: how many other entries a key has."""
        super().__init__()
        self._entries_of = entries_of

    def touch(self, slot: int) -> None:
        """Note that the node of a slot has changed: every answer is out of date there."""
        for _, stale in self.values():
            stale.add(slot)

    def answer(self, key: K, slots: int, *, nothing: float, fill: Fill) -> npt.NDArray[Any]:
        """Return the values of all slots, read-only, after `fill` has set those that are new or out of date.

        `nothing` is the initial value of a new slot.
        """
        values, stale = self.get(key) or (np.full(0, nothing), set())
        if len(values) < slots:
            stale.update(range(len(values), slots))
            values = np.concatenate([values, np.full(slots - len(values), nothing)])
            self.put(key, (values, stale), most=room_for(slots, entries=self._entries_of(key)))
        if stale:
            fill(values, stale)
            stale.clear()
        return values
