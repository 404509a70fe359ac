"""Refuses nodes that the Pod's required node affinity does not match."""

from carico_core.domain import decision, selectors
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.rules import protocol


class NodeAffinity:
    """One of the required terms matches the node's labels and name; no terms, or an empty one, match nothing."""

    reason = decision.Reason.NODE_AFFINITY

    def passes(self, view: snapshot.Snapshot, demand: demands.Demand) -> protocol.Passes:
        """See `protocol.NodeFilter`."""
        terms = _terms(demand)
        return True if terms is None else view.labels.matching(terms)

    def why(self, row: snapshot.NodeRow, demand: demands.Demand) -> str:
        """State the required terms."""
        return f"required: {' or '.join(map(str, _terms(demand) or ())) or 'nothing'}"


def _terms(demand: demands.Demand) -> selectors.NodeTerms | None:
    return None if demand.constraints is None else demand.constraints.node_terms
