"""Whether a Pod that this member has placed still fits its node, once the claims on the node have changed."""

from collections.abc import Iterable

from carico_core.domain import messages
from carico_scheduler.nodes import snapshot
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
