"""Answers over all nodes that rest on their names, labels and taints alone: kept, and mended slot by slot."""

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from carico_core.domain import cluster, constraints, selectors, taints
from carico_scheduler import lately

NO_DOMAIN = -1


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class _Kept:
    """One value per slot, and the slots whose value is out of date."""

    values: npt.NDArray[Any]
    stale: set[int]


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

    def sums(self, per_slot: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Per domain the sum over its nodes; one entry more, for nodes without one, is 0."""
        known = self.of >= 0
        totals = np.bincount(self.of[known], weights=per_slot[known], minlength=self.count + 1).astype(np.float64)
        totals[-1] = 0.0
        return totals


class NodeFacts:
    """Answers over the nodes of one fleet; `nodes` is the fleet's own list, by slot."""

    def __init__(self, nodes: Sequence[cluster.Node | None]) -> None:
        self._nodes = nodes
        self._kept: lately.Lately[Hashable, _Kept] = lately.Lately()
        self._numbers: dict[str, dict[str, int]] = {}

    def touch(self, slot: int) -> None:
        """Notes that the node of a slot has changed, come or gone."""
        for kept in self._kept.values():
            kept.stale.add(slot)

    def matching(self, terms: selectors.NodeTerms) -> npt.NDArray[np.bool_]:
        """True for the nodes that meet one of the terms."""
        return self._answer(
            ("matching", terms),
            False,
            lambda node: selectors.any_matches(terms, node.name, node.labels),
        )

    def where(self, terms: selectors.NodeTerms) -> npt.NDArray[np.bool_]:
        """As `matching`, for terms that few ask for: not kept, and quick where a term names values of a label."""
        mask = np.zeros(len(self._nodes), dtype=np.bool_)
        for term in terms:
            for slot in self._worth_a_look(term):
                node = self._nodes[slot]
                mask[slot] = mask[slot] or (node is not None and term.matches(node.name, node.labels))
        return mask

    def _worth_a_look(self, term: selectors.NodeTerm) -> Sequence[int]:
        """The slots that may match the term."""
        named = next((each for each in term.labels if each.operator == selectors.IN), None)
        if named is None:
            return range(len(self._nodes))
        domains = self.domains(named.key)
        numbers = [domains.numbers[value] for value in named.values if value in domains.numbers]
        return [int(slot) for number in numbers for slot in (domains.of == number).nonzero()[0]]

    def tolerated(self, tolerations: tuple[cluster.Toleration, ...]) -> npt.NDArray[np.bool_]:
        """True for the nodes whose taints keep no Pod of these tolerations away."""
        return self._answer(("tolerated", tolerations), False, lambda node: taints.refusing(node, tolerations) is None)

    def disliked(self, tolerations: tuple[cluster.Toleration, ...]) -> npt.NDArray[np.float64]:
        """Per node how many PreferNoSchedule taints are not tolerated."""
        return self._answer(("disliked", tolerations), 0.0, lambda node: float(taints.disliked(node, tolerations)))

    def wished(self, wishes: tuple[constraints.NodeWish, ...]) -> npt.NDArray[np.float64]:
        """Per node the weights of the preferred terms that it meets."""
        return self._answer(
            ("wished", wishes),
            0.0,
            lambda node: float(sum(wish.weight for wish in wishes if wish.term.matches(node.name, node.labels))),
        )

    def domains(self, key: str) -> Domains:
        """The values of a label over all nodes."""
        numbers = self._numbers.setdefault(key, {})

        def number(node: cluster.Node) -> int:
            value = node.labels.get(key)
            return NO_DOMAIN if value is None else numbers.setdefault(value, len(numbers))

        return Domains(of=self._answer(("domains", key), NO_DOMAIN, number), numbers=numbers)

    def _answer(self, key: Hashable, nothing: float, of: Callable[[cluster.Node], Any]) -> npt.NDArray[Any]:
        """The values of all slots; `nothing` for a vacant one."""
        count = len(self._nodes)
        kept = self._kept.get(key)
        if kept is None or len(kept.values) != count:
            kept = _Kept(values=np.full(count, nothing), stale=set(range(count)))
            self._kept.put(key, kept, most=lately.room_for(count))
        if kept.stale:
            for slot in kept.stale:
                node = self._nodes[slot]
                kept.values[slot] = nothing if node is None else of(node)
            kept.stale.clear()
        return kept.values
