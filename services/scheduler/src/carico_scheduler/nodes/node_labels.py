"""Which nodes match terms over names, labels, taints and features; cached, and updated slot by slot."""

import dataclasses
import functools
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence, Set
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from carico_core.domain import cluster, constraints, selectors
from carico_scheduler.nodes import lru

T = TypeVar("T")

NO_DOMAIN = -1
# The number of a value that no node has.
_NOWHERE = -2
# With more values of a label per slot than this they are numbered again: most then belong to nodes that are gone.
_VALUES_A_SLOT = 2
_VALUES_LEAST = 64
# With more keys of labels than this, and twice as many as nodes had when they were last looked up, they are looked up
# again: most then belong to nodes that are gone.
_KEYS_LEAST = 1024


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Domains:
    """The values of one label: per slot the number of its value, or NO_DOMAIN; `count` numbers are in use."""

    of: npt.NDArray[np.int64]
    numbers: dict[str, int]

    @property
    def count(self) -> int:
        """The number of values seen so far."""
        return len(self.numbers)

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """True for the slots whose node has the label."""
        return self.of >= 0

    def having(self, values: Iterable[str]) -> npt.NDArray[np.bool_]:
        """Return a mask, True for the slots whose node has the label with one of these values."""
        mask: npt.NDArray[np.bool_] = np.zeros(len(self.of), dtype=np.bool_)
        for value in values:
            mask |= self.of == self.numbers.get(value, _NOWHERE)
        return mask

    def sums(self, per_slot: npt.NDArray[Any], only: npt.NDArray[np.bool_] | None = None) -> npt.NDArray[np.float64]:
        """Return the sum over the nodes of each domain; an additional last entry, for nodes without a domain, is 0.

        `only`: of these nodes.
        """
        # Mostly few nodes have any of the Pods that are counted.
        slots = (per_slot != 0).nonzero()[0]
        slots = slots[self.of[slots] >= 0] if only is None else slots[only[slots] & (self.of[slots] >= 0)]
        return np.bincount(self.of[slots], weights=per_slot[slots], minlength=self.count + 1).astype(np.float64)


class NodeLabels:
    """Answers over the nodes of one fleet; `nodes` is the fleet's own list, by slot, `slot_of` the slot of a name."""

    def __init__(self, nodes: Sequence[cluster.Node | None], slot_of: Callable[[str], int | None]) -> None:
        self._nodes = nodes
        self._slot_of = slot_of
        self._kept: lru.BySlot[Hashable] = lru.BySlot(constraints.count_words)
        self._derived: lru.Lru[Hashable, Any] = lru.Lru()
        self._numbers: dict[str, dict[str, int]] = {}
        # The keys of all labels that any node has, or had until lately.
        self._keys: set[str] = set()
        self._keys_most = _KEYS_LEAST
        # The slots of nodes with a PreferNoSchedule taint.
        self.disliking: set[int] = set()

    def touch(self, slot: int) -> None:
        """Note that the node of a slot was added, changed or removed."""
        self._kept.touch(slot)
        self._derived.clear()
        node = self._nodes[slot]
        self.disliking.discard(slot)
        if node is not None:
            self._keys.update(node.labels)
            if len(self._keys) > self._keys_most:
                self._keys = {key for each in self._nodes if each is not None for key in each.labels}
                self._keys_most = max(_KEYS_LEAST, 2 * len(self._keys))
            if cluster.has_prefer_no_schedule(node):
                self.disliking.add(slot)

    def derived(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return what was computed for this key since a node was last added, changed or removed, or compute it."""
        found: T | None = self._derived.get(key)
        if found is None:
            most = lru.room_for(len(self._nodes), entries=constraints.count_words(key))
            found = self._derived.put(key, compute(), most=most)
        return found

    def having_any(self, keys: Set[str]) -> Set[str]:
        """Return which of these labels any node has or had."""
        return self._keys & keys

    def matching(self, terms: selectors.NodeTerms) -> npt.NDArray[np.bool_]:
        """Return a mask, True for the nodes that match one of the terms."""
        if terms and all(_name_in(term) is not None for term in terms):
            # Each Pod of a DaemonSet names its node. Cached, their answers would replace all others.
            return self.where(terms)
        return self._answer(
            ("matching", terms),
            False,
            lambda node: selectors.any_matches(terms, node.name, node.labels),
        )

    def where(self, terms: selectors.NodeTerms) -> npt.NDArray[np.bool_]:
        """Return the same as `matching`, for rare terms: not cached, and fast where each names a node or a label."""
        mask = np.zeros(len(self._nodes), dtype=np.bool_)
        for term in terms:
            for slot in self._may_match(term):
                node = self._nodes[slot]
                mask[slot] = mask[slot] or (node is not None and term.matches(node.name, node.labels))
        return mask

    def _may_match(self, term: selectors.NodeTerm) -> Sequence[int]:
        """Return the slots that may match the term."""
        name = _name_in(term)
        if name is not None:
            slot = self._slot_of(name)
            return () if slot is None else (slot,)
        named = next((each for each in term.labels if each.operator == selectors.IN), None)
        if named is None:
            return range(len(self._nodes))
        found: list[int] = self.domains(named.key).having(named.values).nonzero()[0].tolist()
        return found

    def tolerated(self, tolerations: tuple[cluster.Toleration, ...]) -> npt.NDArray[np.bool_]:
        """Return a mask, True for the nodes whose NoSchedule and NoExecute taints are all tolerated."""
        return self._answer(
            ("tolerated", tolerations), False, lambda node: cluster.refusing_taint(node, tolerations) is None
        )

    def declaring(self, features: tuple[str, ...]) -> npt.NDArray[np.bool_]:
        """Return a mask, True for the nodes that declare all these features."""
        return self._answer(("declaring", features), False, lambda node: node.declared_features.issuperset(features))

    def disliked(self, tolerations: tuple[cluster.Toleration, ...]) -> npt.NDArray[np.float64]:
        """Return per slot how many PreferNoSchedule taints are not tolerated."""
        return self._answer(
            ("disliked", tolerations), 0.0, lambda node: float(cluster.count_prefer_no_schedule(node, tolerations))
        )

    def preferred(self, preferences: tuple[constraints.NodePreference, ...]) -> npt.NDArray[np.float64]:
        """Return per slot the sum of the weights of the preferred terms that the node matches."""
        return self._answer(
            ("preferred", preferences),
            0.0,
            lambda node: float(sum(each.weight for each in preferences if each.term.matches(node.name, node.labels))),
        )

    def domains(self, key: str) -> Domains:
        """Return the values of a label over all nodes."""
        if ("domains", key) not in self._kept:
            # Numbers are kept only as long as the answer that uses them.
            self._numbers = {each: of for each, of in self._numbers.items() if ("domains", each) in self._kept}
        elif len(self._numbers[key]) > max(_VALUES_A_SLOT * len(self._nodes), _VALUES_LEAST):
            self._kept.drop(("domains", key))
            del self._numbers[key]
        numbers = self._numbers.setdefault(key, {})

        def number(node: cluster.Node) -> int:
            value = node.labels.get(key)
            return NO_DOMAIN if value is None else numbers.setdefault(value, len(numbers))

        return Domains(of=self._answer(("domains", key), NO_DOMAIN, number), numbers=numbers)

    def _answer(self, key: Hashable, nothing: float, of: Callable[[cluster.Node], Any]) -> npt.NDArray[Any]:
        """Return the values of all slots; `nothing` for a vacant one."""

        return self._kept.answer(
            key, len(self._nodes), nothing=nothing, fill=functools.partial(self._fill, nothing, of)
        )

    def _fill(
        self, nothing: float, of: Callable[[cluster.Node], Any], values: npt.NDArray[Any], slots: Collection[int]
    ) -> None:
        for slot in slots:
            node = self._nodes[slot]
            values[slot] = nothing if node is None else of(node)


def _name_in(term: selectors.NodeTerm) -> str | None:
    """Return the name that a node must have; None if the term does not name one."""
    fields = (each for each in term.fields if each.key == selectors.NAME_FIELD and each.operator == selectors.IN)
    return next((each.values[0] for each in fields if len(each.values) == 1), None)
