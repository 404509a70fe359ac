"""Refuses nodes that do not account for the Pods they were given: what they advertise cannot be believed."""

from carico_core.domain import decision
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands


class Trusted:
    """No reservation has stayed uncovered for longer than the policy allows."""

    reason = decision.Reason.SUSPECT
    by_facts = False

    def feasible(self, view: snapshot.Snapshot, demand: demands.Demand) -> snapshot.Bools | None:
        """A mask over all slots; None where all pass."""
        return view.uncovered_since_s >= view.now_s - view.policy.suspect_after_s

    def refuse(self, row: snapshot.NodeRow, demand: demands.Demand, view: snapshot.Snapshot) -> str | None:
        """Says for how long a Pod is uncovered."""
        if row.uncovered_since_s >= view.now_s - view.policy.suspect_after_s:
            return None
        return f"a Pod given {view.now_s - row.uncovered_since_s:.0f} s ago is still not in its advertisements"
