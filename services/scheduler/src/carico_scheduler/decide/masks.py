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

    def of(self, demand: demands.Demand, view: snapshot.Snapshot, stages: registry.Stages) -> NodeMask:
        """Return the mask of a demand."""
        if demand.gang is not None:
            # One mask for all gangs of a template: each of its own would displace those of other Pods.
            demand = dataclasses.replace(demand, gang=None)
        limits = demand.constraints
        if limits is not None and limits.default_spreads:
            # Preferences, which no filter reads. A Pod without other constraints has none.
            limits = dataclasses.replace(limits, default_spreads=())
            demand = dataclasses.replace(demand, constraints=None if limits == constraints.NONE else limits)
        cached = self._cached.get(demand)
        if cached is None or cached.version != view.nodes_version:
            cached = self._cached.put(demand, _mask_of(demand, view, stages), most=lru.room_for(len(view.present)))
        return cached


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
