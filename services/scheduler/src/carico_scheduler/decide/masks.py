"""Which nodes pass the filters over Node objects, for one demand; cached until a Node changes."""

import dataclasses

import numpy as np
import numpy.typing as npt

from carico_core.domain import constraints
from carico_scheduler.nodes import lru, snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.rules import registry


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeMask:
    """The nodes that pass, as of one version of the snapshot's nodes."""

    mask: snapshot.Bools
    count: int
    # Per slot the index of the first filter that refuses it, or -1; and the number of refused nodes by reason.
    refused_by: npt.NDArray[np.int8]
    refused: dict[str, int]
    version: int


class NodeMasks:
    """The masks of the most recently used demands."""

    def __init__(self) -> None:
        self._cached: lru.Lru[demands.Demand, NodeMask] = lru.Lru()
        # By demand the one that its mask is kept by: to make it takes as long as a third of a decision.
        self._keys: lru.Lru[demands.Demand, demands.Demand] = lru.Lru()

    def of(self, demand: demands.Demand, view: snapshot.Snapshot, stages: registry.Stages) -> NodeMask:
        """Return the mask of a demand."""
        key = self._keys.get(demand) or self._keys.put(demand, _key_of(demand), most=_room_for(demand, view))
        cached = self._cached.get(key)
        if cached is None or cached.version != view.nodes_version:
            cached = self._cached.put(key, _mask_of(key, view, stages), most=_room_for(key, view))
        return cached


def _room_for(demand: demands.Demand, view: snapshot.Snapshot) -> int:
    words = constraints.count_words((demand.node_selector, demand.tolerations, demand.constraints))
    return lru.room_for(len(view.present), entries=words)


def _key_of(demand: demands.Demand) -> demands.Demand:
    """Return the demand without what no filter over nodes reads: each mask of its own would displace others."""
    limits = demand.constraints
    if limits is not None and limits.default_spreads:
        # A Pod without other constraints has none.
        limits = dataclasses.replace(limits, default_spreads=())
        limits = None if limits == constraints.NONE else limits
    if demand.gang is None and limits is demand.constraints:
        return demand
    return dataclasses.replace(demand, gang=None, constraints=limits)


def _mask_of(demand: demands.Demand, view: snapshot.Snapshot, stages: registry.Stages) -> NodeMask:
    mask = view.present.copy()
    refused_by = np.full(len(mask), -1, dtype=np.int8)
    refused = {}
    for index, each in enumerate(stages.by_node):
        passes = each.passes(view, demand)
        if passes is True:
            continue
        lost = mask & np.logical_not(passes)
        if count := int(np.count_nonzero(lost)):
            refused[each.reason.value] = count
            refused_by[lost] = index
            mask &= passes
    return NodeMask(
        mask=mask, count=int(np.count_nonzero(mask)), refused_by=refused_by, refused=refused, version=view.nodes_version
    )  # fmt: skip
