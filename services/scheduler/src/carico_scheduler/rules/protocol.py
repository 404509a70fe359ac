"""What a stage implements. Each states its condition once, over all nodes; `why` only formats what it compared."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from carico_core.domain import cluster, decision
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands

# For all nodes a mask by slot, True if the node passes, or one answer for all of them; for one node its answer.
Passes: TypeAlias = snapshot.Bools | bool


class NodeFilter(Protocol):
    """Refuses nodes by the fields of Node objects: labels, taints, conditions. Its answer is cached by demand."""

    @property
    def reason(self) -> decision.Reason:
        """Why it refuses."""

    def passes(self, view: snapshot.Snapshot, demand: demands.Demand) -> Passes:
        """Return which nodes pass."""

    def why(self, row: snapshot.NodeRow, demand: demands.Demand) -> str:
        """Return why a node does not pass, in words that an operator can act on."""


class RoomFilter(Protocol):
    """Refuses nodes by what changes with Pods and advertisements: requests, counts, capacity."""

    @property
    def reason(self) -> decision.Reason:
        """Why it refuses."""

    @property
    def by_pods(self) -> bool:
        """True if a placement on the node can change the answer; otherwise it is the same for every demand."""

    def passes(self, nodes: snapshot.Nodes, demand: demands.Demand) -> Passes:
        """Return which of all nodes pass, or whether one node does."""

    def why(self, row: snapshot.NodeRow, demand: demands.Demand) -> str:
        """Return why a node does not pass, in words that an operator can act on."""


class Condition(NamedTuple):
    """A part of a peer filter: a mask by slot, and why a slot is refused.

    `yields`: whether a node could pass if Pods left it.
    """

    passes: snapshot.Bools
    why: Callable[[int], str]
    yields: bool = False


class Peers(Protocol):
    """How placed Pods or volumes affect one demand; kept up to date through one cycle."""

    def conditions(self) -> Sequence[Condition]:
        """Return the conditions that a node must meet; computed again after each `add`."""

    def add(self, pod: cluster.Pod, slot: int, change: int = 1) -> None:
        """Count a Pod that this cycle has placed; `change` -1: one fewer, if any condition yields."""

    def hold(self, pod: cluster.Pod, slot: int) -> None:
        """Count a Pod for which room is held, and which may not come after all: it can only rule nodes out."""


class PeerFilter(Protocol):
    """Refuses nodes for one reason that depends on where other Pods are, or on volumes."""

    @property
    def reason(self) -> decision.Reason:
        """Why it refuses."""

    def peers(self, view: snapshot.Snapshot, demand: demands.Demand) -> Peers | None:
        """Return what affects one demand; None if nothing does."""


class Scorer(Protocol):
    """Ranks nodes: the highest score is chosen."""

    def score(self, nodes: snapshot.Nodes, demand: demands.Demand) -> snapshot.Floats | float:
        """Return the score of every slot, or of one node; -inf if nothing is advertised."""
