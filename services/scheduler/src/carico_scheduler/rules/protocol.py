"""What a stage of the scheduling cycle is."""

from typing import Protocol

from carico_core.domain import cluster, decision
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands


class Filter(Protocol):
    """Refuses nodes for one reason. `feasible` and `refuse` agree on every node, as a test makes sure."""

    @property
    def reason(self) -> decision.Reason:
        """Why it refuses."""

    @property
    def by_facts(self) -> bool:
        """True where the answer depends on the Pod and the node's own facts only, so that it may be kept."""

    def feasible(self, view: snapshot.Snapshot, demand: demands.Demand) -> snapshot.Bools | None:
        """A mask over all slots, True where the node passes; None where all pass."""

    def refuse(self, row: snapshot.NodeRow, demand: demands.Demand, view: snapshot.Snapshot) -> str | None:
        """Why this node is refused, in words a person can act on; None where it passes."""


class Look(Protocol):
    """How Pods that are placed already bear on one demand, over all nodes; kept up to date through one cycle."""

    def mask(self) -> snapshot.Bools:
        """A mask over all slots, True where the node passes; worked out anew after each `add`."""

    def add(self, pod: cluster.Pod, slot: int) -> None:
        """Takes in a Pod that this cycle has placed."""

    def refuse(self, slot: int) -> str | None:
        """Why this node is refused, in words a person can act on; None where it passes."""


class PeerFilter(Protocol):
    """Refuses nodes for one reason that rests on where other Pods are, or on volumes."""

    @property
    def reason(self) -> decision.Reason:
        """Why it refuses."""

    def look(self, view: snapshot.Snapshot, demand: demands.Demand) -> Look | None:
        """The state of the matter for one demand; None where the demand does not care."""


class Scorer(Protocol):
    """Ranks nodes: the highest score is chosen."""

    def scores(self, view: snapshot.Snapshot, demand: demands.Demand) -> snapshot.Floats:
        """A score for every slot, for one demand."""

    def score(self, row: snapshot.NodeRow, view: snapshot.Snapshot, demand: demands.Demand) -> float:
        """The score of one node; equal to its entry of `scores`."""
