"""Whether a Pod that this member has placed still fits its node, once the claims on the node have changed."""

import functools
from collections.abc import Iterable

from carico_core.domain import messages
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.rules import registry

# Each cycle looks at all claims that count, and those of Pods of one template are alike.
_DEMANDS_KEPT = 256
# What takes a node on which no claim can be made.
WHOLE = demands.Demand(fills_node=True)


def demand_of(claim: messages.Claim) -> demands.Demand:
    """Return what a claim takes of its node."""
    return _demand_of(claim.pod_class, claim.cores, claim.size_bytes, claim.others)


@functools.lru_cache(maxsize=_DEMANDS_KEPT)
def _demand_of(
    pod_class: str, cores: float, size_bytes: float, others: tuple[tuple[str, float], ...]
) -> demands.Demand:  # fmt: skip
    return demands.Demand(
        pod_class=pod_class, request_cores=cores, request_bytes=size_bytes, request_others=others
    )  # fmt: skip


def fits(
    row: snapshot.NodeRow, demand: demands.Demand, claims: Iterable[messages.Claim], stages: registry.Stages
) -> bool:
    """Return whether a Pod of this demand fits next to the Pods that `row` counts and the claims of others."""
    found = row
    for each in claims:
        found = found.with_pod(demand_of(each))
    return all(bool(each.passes(found, demand)) for each in stages.by_room)
