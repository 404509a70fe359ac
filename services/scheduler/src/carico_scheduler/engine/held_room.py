"""Which room a cycle leaves free: for Pods that others make way for or that have a turn, and for other schedulers."""

import operator
from collections.abc import Callable, Iterable, Iterator

from carico_core.domain import cluster
from carico_scheduler.decide import cycle as cycles
from carico_scheduler.decide import turns
from carico_scheduler.nodes import fleet as fleets
from carico_scheduler.pods import demand as demands
from carico_scheduler.preempt import preemptor
from carico_scheduler.sharing import member


class HeldRoom:
    """The room that is held on nodes."""

    def __init__(
        self, fleet: fleets.Fleet, *, preemptor: preemptor.Preemptor, turns: turns.Turns, member: member.Member | None
    ) -> None:
        self._fleet = fleet
        self._preemptor = preemptor
        self._turns = turns
        self._member = member
        # Returns (node, demand, Pod) of room that is held for Pods of kube-scheduler or of other members; the Pod as in
        # `cycle.Nominee`.
        self.for_others: Callable[[], Iterable[tuple[str, demands.Demand, cluster.Pod | None]]] = (
            tuple if member is None else member.held
        )
        if member is not None:
            member.corrections.own_nominees = self._own_nominees

    def nominees(self) -> list[cycles.Nominee]:
        """Return the Pods for which room is held on a node, in the order of the queue."""
        return self._own_nominees() if self._member is None else self._member.corrections.nominees()

    def slots_for_others(self) -> Iterator[cycles.Held]:
        """Yield the room that is held for others."""
        for node, demand, pod in self.for_others():
            slot = self._fleet.slot_of(node)
            if slot is not None:
                yield slot, demand, pod

    def _own_nominees(self) -> list[cycles.Nominee]:
        """Return those for which this scheduler holds it."""
        found = self._preemptor.nominees()
        return sorted([*found, *self._turns.nominees()], key=operator.attrgetter("key")) if len(self._turns) else found
