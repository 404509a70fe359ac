"""Whether a Pod that this member has placed still fits its node, once the claims on the node have changed."""

import math
import operator
from collections.abc import Iterable

from carico_core.domain import messages
from carico_scheduler.nodes import headroom, snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.rules import registry


def demand_of(claim: messages.Claim) -> demands.Demand:
    """Return what a claim takes of its node."""
    return demands.Demand(
        pod_class=claim.pod_class, request_cores=claim.cores, request_bytes=claim.size_bytes,
        request_others=claim.others,
    )  # fmt: skip


def fits(
    row: snapshot.NodeRow, demand: demands.Demand, claims: Iterable[messages.Claim], stages: registry.Stages
) -> bool:
    """Return whether a Pod of this demand fits next to the Pods that `row` counts and the claims of others."""
    found = row
    for each in claims:
        found = found.with_pod(demand_of(each))
    return all(bool(each.passes(found, demand)) for each in stages.by_room)


def without(row: snapshot.NodeRow, demand: demands.Demand) -> snapshot.NodeRow:
    """Return the row without one of its Pods: the inverse of `NodeRow.with_pod`."""
    room = row.room
    taken = room.taken
    if room.offer is not None:
        taken = tuple(map(operator.sub, taken, room.offer.cost(demand.pod_class)))
    others = dict(row.more_others)
    for name, amount in demand.request_others:
        others[name] = others.get(name, 0.0) - amount
    before = headroom.NodeRoom(
        room.offer, taken, -math.inf, room.pod_limit + 1.0, room.pods_per_core + 1.0, room.limit + 1.0
    )
    return row._replace(
        room=before, more=row.more - 1, more_cores=row.more_cores - demand.request_cores,
        more_bytes=row.more_bytes - demand.request_bytes, more_others=others,
    )  # fmt: skip
