"""Which nodes suit a demand by facts alone: answers kept from cycle to cycle, and mended slot by slot."""

import dataclasses

import numpy as np

from carico_scheduler.nodes import lru, snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.rules import registry


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class FactMask:
    """A mask by facts alone, and up to which change of facts it is true."""

    mask: snapshot.Bools
    # Per slot the index of the first filter that refuses it, or -1; and nodes refused by reason.
    refused_by: snapshot.Ints
    refused: dict[str, int]
    version: int


class FactMasks:
    """The masks by facts of all demands seen lately."""

    def __init__(self) -> None:
        self._kept: lru.Lru[demands.Demand, FactMask] = lru.Lru()

    def of(self, demand: demands.Demand, view: snapshot.Snapshot, stages: registry.Stages) -> FactMask:
        """The mask of a demand, made anew or mended where nodes have changed since."""
        kept = self._kept.get(demand)
        if kept is None:
            kept = self._kept.put(demand, _whole(demand, view, stages), most=lru.room_for(len(view.present)))
        elif kept.version != view.facts_version:
            _mend(kept, demand, view, stages)
        return kept


def _whole(demand: demands.Demand, view: snapshot.Snapshot, stages: registry.Stages) -> FactMask:
    """The mask by facts over all nodes."""
    mask = view.present.copy()
    refused_by = np.full(len(mask), -1, dtype=np.int64)
    for index, each in enumerate(stages.filters):
        passes = each.feasible(view, demand) if each.by_facts else None
        if passes is not None:
            refused_by[mask & ~passes] = index
            mask &= passes
    refused = _count(refused_by, stages)
    return FactMask(mask=mask, refused_by=refused_by, refused=refused, version=view.facts_version)


def _mend(kept: FactMask, demand: demands.Demand, view: snapshot.Snapshot, stages: registry.Stages) -> None:
    """Brings the slots up to date that have changed since."""
    grown = len(view.present) - len(kept.mask)
    if grown:
        kept.mask = np.concatenate([kept.mask, np.zeros(grown, dtype=np.bool_)])
        kept.refused_by = np.concatenate([kept.refused_by, np.full(grown, -1, dtype=np.int64)])
    for slot in (view.facts_changed > kept.version).nonzero()[0].tolist():
        refusing = _refusing(slot, demand, view, stages)
        kept.mask[slot] = bool(view.present[slot]) and refusing < 0
        kept.refused_by[slot] = refusing
    kept.refused = _count(kept.refused_by, stages)
    kept.version = view.facts_version


def _refusing(slot: int, demand: demands.Demand, view: snapshot.Snapshot, stages: registry.Stages) -> int:
    """The index of the first filter by facts that refuses the slot, or -1."""
    if not view.present[slot]:
        return -1
    row = view.row(slot)
    for index, each in enumerate(stages.filters):
        if each.by_facts and each.refuse(row, demand, view) is not None:
            return index
    return -1


def _count(refused_by: snapshot.Ints, stages: registry.Stages) -> dict[str, int]:
    """Nodes refused by facts, by reason."""
    counts = np.bincount(refused_by[refused_by >= 0], minlength=len(stages.filters))
    return {stages.filters[index].reason.value: int(counts[index]) for index in counts.nonzero()[0]}
