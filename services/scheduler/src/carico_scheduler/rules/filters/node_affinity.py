"""Refuses nodes that the Pod's required node affinity does not match."""

from carico_core.domain import decision, selectors
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands


class NodeAffinity:
    """One of the required terms matches the node's labels and name; no terms, or an empty one, match nothing."""

    reason = decision.Reason.NODE_AFFINITY
    by_facts = True

    def feasible(self, view: snapshot.Snapshot, demand: demands.Demand) -> snapshot.Bools | None:
        """A mask over all slots; None where all pass."""
        terms = _terms(demand)
        return None if terms is None else view.facts.matching(terms)

    def refuse(self, row: snapshot.NodeRow, demand: demands.Demand, view: snapshot.Snapshot) -> str | None:
        """Names what is required."""
        terms = _terms(demand)
        if terms is None or selectors.any_matches(terms, row.node.name, row.node.labels):
            return None
        return f"required: {' or '.join(map(str, terms)) or 'nothing'}"


def _terms(demand: demands.Demand) -> selectors.NodeTerms | None:
    return None if demand.constraints is None else demand.constraints.node_terms
