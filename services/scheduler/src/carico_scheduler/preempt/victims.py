"""Which Pods of a node would have to go so that it admits a Pod, and which node loses least. Pure.

The rules are kube-scheduler's (pkg/scheduler/framework/plugins/defaultpreemption): all Pods of lower priority are taken
away; if the Pod then fits, as many as possible return, those first whose eviction would violate a budget, then those of
high priority, then the old. What a victim frees is what it is measured to hold, or requests; whether that is enough is
decided by the filters that admit every Pod.
"""

from collections.abc import Callable, Collection, Iterable, Sequence, Set
from typing import NamedTuple

from carico_core.domain import cluster
from carico_scheduler.decide import scores as scoring
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import pod_questions, reservations
from carico_scheduler.preempt import budgets as budgeting
from carico_scheduler.rules import protocol, registry


class Resident(NamedTuple):
    """A Pod that counts on a node."""

    pod: cluster.Pod
    booking: reservations.Booking
    # Whether its node does not account for it yet.
    is_reserved: bool
    # Whether it is being evicted for another Pod, which the API may not show yet.
    is_evicted: bool = False

    @property
    def is_leaving(self) -> bool:
        """Whether it ends anyway."""
        return self.pod.deleting or self.is_evicted

    @property
    def counted(self) -> tuple[reservations.Booking, bool]:
        """The Pod as `snapshot.NodeRow.counting` takes it."""
        return self.booking, self.is_reserved


class PreemptingPod(NamedTuple):
    """The Pod for which room is wanted."""

    demand: demands.Demand
    priority: int


class Choice(NamedTuple):
    """A node, and the Pods that would have to go, most important first: none if there is or will be room.

    `awaited`: Pods that are leaving anyway, and without whose room those victims are not enough.
    """

    node: str
    victims: tuple[cluster.Pod, ...]
    violations: int
    awaited: tuple[cluster.Pod, ...] = ()

    @property
    def cost(self) -> tuple[int, int, int, int, float]:
        """The cost of the choice in kube-scheduler's order: the lowest is chosen.

        Violated budgets; the highest priority; the sum of the priorities; the count; the most important victim that
        started last.
        """
        highest = max((pod.priority for pod in self.victims), default=_LEAST)
        first_s = min((pod.created_at_s for pod in self.victims if pod.priority == highest), default=0.0)
        # As in kube-scheduler, shifted so that each victim adds to the sum.
        total = sum(pod.priority - _LEAST for pod in self.victims)
        return (self.violations, highest, total, len(self.victims), -first_s)


# The lowest priority of a Pod in Kubernetes.
_LEAST = -(2**31)


def on_node(
    row: snapshot.NodeRow, wanted: PreemptingPod, residents: Collection[Resident], stages: registry.Stages,
    budgets: budgeting.Budgets, spent: Iterable[budgeting.Spent] = (),
    peers_of: Callable[[], Collection[protocol.Peers]] = tuple,
) -> Choice | None:  # fmt: skip
    """Return what the node would lose, or None if the Pod would not fit there even so.

    `row` already counts what is held for other Pods of this priority and above. `spent`: Pods that are being evicted.
    `peers_of` returns, for this search alone, what Pods on the node may change for the Pod besides room.
    """
    leaving = [each for each in residents if each.is_leaving]
    lower = sorted((each for each in residents if not each.is_leaving and _may_go(each, wanted, row)), key=_importance)
    if not leaving and not lower:
        return None
    peers = peers_of()
    row = _without(row, leaving, peers)
    violating: Set[str] = frozenset()
    gone: list[Resident] = []
    if not _fits(stages.by_room, row, wanted, peers):
        row = _without(row, lower, peers)
        if not lower or not _fits(stages.by_room, row, wanted, peers):
            return None
        violating = budgets.violated_by([each.pod for each in lower], spent)
        order = sorted(lower, key=lambda found: found.pod.uid not in violating)
        row, gone = _returning(order, row, wanted, stages, peers)
    # Those that end soon are waited for rather than others.
    order = sorted(leaving, key=lambda each: each.pod.ends_at_s, reverse=True)
    _, awaited = _returning(order, row, wanted, stages, peers)
    pods = tuple(each.pod for each in sorted(gone, key=_importance))
    return Choice(
        row.node.name, pods, sum(pod.uid in violating for pod in pods),
        awaited=tuple(each.pod._replace(deleting=True) for each in awaited),
    )  # fmt: skip


def _returning(
    order: Iterable[Resident], row: snapshot.NodeRow, wanted: PreemptingPod, stages: registry.Stages,
    peers: Collection[protocol.Peers],
) -> tuple[snapshot.NodeRow, list[Resident]]:  # fmt: skip
    """Let these Pods return to the node, one after another, if the new one still fits; return the others, too."""
    away: list[Resident] = []
    for each in order:
        back = row.counting((each.counted,), 1)
        _count(peers, each.pod, row.slot, 1)
        # Only these filters' answers change with Pods.
        if _fits(stages.by_pods, back, wanted, peers):
            row = back
        else:
            _count(peers, each.pod, row.slot, -1)
            away.append(each)
    return row, away


def best_of(choices: Sequence[Choice]) -> Choice | None:
    """Return the choice that costs least, the first of equals; None if there is none."""
    return min(choices, key=lambda each: each.cost, default=None)


def _without(
    row: snapshot.NodeRow, gone: Sequence[Resident], peers: Collection[protocol.Peers]
) -> snapshot.NodeRow:  # fmt: skip
    """Return the node without these Pods, and count them no longer as peers."""
    for each in gone:
        _count(peers, each.pod, row.slot, -1)
    return row.counting((each.counted for each in gone), -1)


def _count(peers: Collection[protocol.Peers], pod: cluster.Pod, slot: int, change: int) -> None:
    for each in peers:
        each.add(pod, slot, change)


def _fits(
    filters: Iterable[protocol.RoomFilter], row: snapshot.NodeRow, wanted: PreemptingPod,
    peers: Collection[protocol.Peers],
) -> bool:  # fmt: skip
    return scoring.rejection_by(filters, row, wanted.demand) is None and all(
        condition.passes[row.slot] for each in peers for condition in each.conditions()
    )


def _may_go(each: Resident, wanted: PreemptingPod, row: snapshot.NodeRow) -> bool:
    """Return True if a Pod may go: of lower priority, not the node's own, and none that the Pod must be near."""
    if each.pod.priority >= wanted.priority or each.booking.is_baseline:
        return False
    constraints = wanted.demand.constraints
    near = () if constraints is None else constraints.affinity
    return not near or not row.view.pod_counts.count_of(pod_questions.Matching(terms=near), each.pod)


def _importance(each: Resident) -> tuple[int, float, str]:
    """Sorts the most important first: by priority, then the oldest."""
    return (-each.pod.priority, each.pod.created_at_s, each.pod.uid)
