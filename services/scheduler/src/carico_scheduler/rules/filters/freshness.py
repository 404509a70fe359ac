"""Refuses nodes that advertise nothing, or nothing recent enough to be believed."""

from carico_core.domain import decision
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands


class Advertised:
    """There is an advertisement younger than its lease."""

    reason = decision.Reason.NO_ADVERTISEMENT
    by_facts = False

    def feasible(self, view: snapshot.Snapshot, demand: demands.Demand) -> snapshot.Bools | None:
        """A mask over all slots; None where all pass."""
        return view.sampled_s >= view.now_s - view.policy.lease_s

    def refuse(self, row: snapshot.NodeRow, demand: demands.Demand, view: snapshot.Snapshot) -> str | None:
        """Says since when there is none."""
        if row.sampled_s >= view.now_s - view.policy.lease_s:
            return None
        if not row.is_advertised:
            return "no advertisement seen: is its agent running?"
        return f"no advertisement for {view.now_s - row.sampled_s:.0f} s: is its agent running?"


class Fresh:
    """The advertisement is fresh or ageing, not stale."""

    reason = decision.Reason.STALE
    by_facts = False

    def feasible(self, view: snapshot.Snapshot, demand: demands.Demand) -> snapshot.Bools | None:
        """A mask over all slots; None where all pass."""
        return view.sampled_s >= view.now_s - view.policy.ageing_s

    def refuse(self, row: snapshot.NodeRow, demand: demands.Demand, view: snapshot.Snapshot) -> str | None:
        """States the age."""
        if row.sampled_s >= view.now_s - view.policy.ageing_s:
            return None
        return f"advertisement {view.now_s - row.sampled_s:.1f} s old, used to {view.policy.ageing_s:g} s"
