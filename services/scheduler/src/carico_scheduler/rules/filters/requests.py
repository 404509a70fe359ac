"""Refuses nodes whose allocatable resources are requested already, where the Pod states requests.

A Pod without requests is not held against them: telemetry decides on it.
"""

from carico_core.domain import decision
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands

# Sums of floats in cores; a millicore is the smallest request that Kubernetes takes.
_SLACK_CORES = 1e-6


class Requests:
    """Allocatable minus the requests of all Pods bound or reserved there, baseline included."""

    reason = decision.Reason.REQUESTS
    by_facts = False

    def feasible(self, view: snapshot.Snapshot, demand: demands.Demand) -> snapshot.Bools | None:
        """A mask over all slots; None where all pass."""
        # A resource that the Pod does not request is not looked at, as in Kubernetes.
        mask: snapshot.Bools | None = None
        if demand.request_cores > 0:
            mask = view.used_cores + demand.request_cores <= view.allocatable_cores + _SLACK_CORES
        if demand.request_bytes > 0:
            fits = view.used_bytes + demand.request_bytes <= view.allocatable_bytes
            mask = fits if mask is None else mask & fits
        for name, amount in demand.request_others:
            fits = view.left(name) >= amount
            mask = fits if mask is None else mask & fits
        return mask

    def refuse(self, row: snapshot.NodeRow, demand: demands.Demand, view: snapshot.Snapshot) -> str | None:
        """States what is asked and what is left of the first resource that is short."""
        cores, size_bytes = row.node.allocatable_cores, row.node.allocatable_bytes
        if demand.request_cores > 0 and not row.used_cores + demand.request_cores <= cores + _SLACK_CORES:
            return f"{demand.request_cores:g} cores requested, {cores - row.used_cores:.3g} of {cores:g} left"
        if demand.request_bytes > 0 and not row.used_bytes + demand.request_bytes <= size_bytes:
            left_mib, all_mib = (size_bytes - row.used_bytes) / 2**20, size_bytes / 2**20
            return f"{demand.request_bytes / 2**20:.0f} MiB requested, {left_mib:.0f} of {all_mib:.0f} MiB left"
        for name, amount in demand.request_others:
            if row.left(name) < amount:
                all_of_it = row.node.allocatable_others.get(name, 0.0)
                return f"{amount:g} {name} requested, {row.left(name):g} of {all_of_it:g} left"
        return None
