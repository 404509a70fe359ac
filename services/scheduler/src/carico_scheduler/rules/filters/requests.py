"""Refuses nodes without enough unrequested resources for a Pod that states requests.

Pods without requests always pass: telemetry decides about them.
"""

from carico_core.domain import amounts, decision
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.rules import protocol

# For rounding in sums of cores; a millicore is the smallest request that Kubernetes accepts.
_SLACK = 1e-6


class Requests:
    """Allocatable less the requests of all Pods bound or assumed there, baseline included, is enough."""

    reason = decision.Reason.REQUESTS
    by_pods = True

    def passes(self, nodes: snapshot.Nodes, demand: demands.Demand) -> protocol.Passes:
        """See `protocol.RoomFilter`."""
        # A resource that the Pod does not request does not count, as in Kubernetes.
        found: protocol.Passes = True
        for name, amount in demand.requests:
            found = found & _has_left(nodes, name, amount)
        return found

    def why(self, row: snapshot.NodeRow, demand: demands.Demand) -> str:
        """State what is requested and what is left of the first insufficient resource."""
        name, amount = next(each for each in demand.requests if not _has_left(row, *each))
        return _say(name, amount, float(left(row, name)), allocatable(row, name))


def left(nodes: snapshot.Nodes, resource: str) -> snapshot.Floats | float:
    """Return the unrequested amount of a resource."""
    match resource:
        case "cpu":
            return nodes.allocatable_cores - nodes.used_cores
        case "memory":
            return nodes.allocatable_bytes - nodes.used_bytes
        case _:
            return nodes.left(resource)


def _has_left(nodes: snapshot.Nodes, resource: str, amount: float) -> protocol.Passes:
    return left(nodes, resource) >= amount - _SLACK


def allocatable(row: snapshot.NodeRow, resource: str) -> float:
    """Return what the node has of a resource in all."""
    own = {"cpu": row.node.allocatable_cores, "memory": row.node.allocatable_bytes}
    return own[resource] if resource in own else row.node.allocatable_others.get(resource, 0.0)


def _say(resource: str, amount: float, left: float, whole: float) -> str:
    match resource:
        case "cpu":
            return f"{amount:g} cores requested, {left:.3g} of {whole:g} left"
        case _ if resource.startswith(amounts.RESOURCES_IN_BYTES):
            what = "MiB" if resource == "memory" else f"MiB of {resource}"
            return f"{amount / 2**20:.0f} {what} requested, {left / 2**20:.0f} of {whole / 2**20:.0f} MiB left"
        case _:
            return f"{amount:g} {resource} requested, {left:g} of {whole:g} left"
