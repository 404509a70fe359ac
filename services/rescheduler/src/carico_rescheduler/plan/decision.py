"""How much of a curve is carried out: what gains enough, and what the budget of moves allows."""

import dataclasses
import enum
from collections.abc import Mapping, Sequence, Set

from carico_core.domain import amounts
from carico_core.numerics.rescheduling.containers import gains
from carico_rescheduler.context import cluster as clusters
from carico_rescheduler.context import movable, objects
from carico_rescheduler.context import problem as contexts
from carico_rescheduler.plan import ordering


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """When moves pay, in absolute amounts: what the rest of a cluster does changes no decision.

    least_bytes, least_tasks: traffic between nodes (bytes per second) and overload (tasks) of which a plan must end one
    or the other: less is noise. weights: how the two count against each other.
    """

    least_bytes: float
    least_tasks: float
    most_moves: int
    weights: gains.Weights

    def is_enough(self, bytes_per_s: float, tasks: float) -> bool:
        """Return whether so much that ends is more than noise."""
        return bytes_per_s >= self.least_bytes or tasks >= self.least_tasks


class Left(enum.StrEnum):
    """Why a move of the curve is left out."""

    SMALL = "small"
    BUDGET = "budget"
    SCHEDULER = "scheduler"
    BLOCKED = "blocked"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One move of a Pod, in the order of the plan, and what it is expected to gain (see `ordering.Step`)."""

    pod: objects.KnownPod
    source: str
    target: str
    bytes_per_s: float
    tasks: float
    gain: float
    # What it costs, and the time in which that must pay back (`context.payback`).
    cost_task_s: float
    horizon_s: float
    # The node to which a later move takes the Pod; empty if it stays.
    goes_on: str = ""

    @property
    def net(self) -> float:
        """What it gains beyond what it must gain to pay back in time."""
        return self.gain - self.cost_task_s / self.horizon_s

    @property
    def pays_back_s(self) -> float | None:
        """After how many seconds it has gained what it costs; None if it gains nothing by itself."""
        return self.cost_task_s / self.gain if self.gain > 0.0 else None

    @property
    def why(self) -> str:
        """What it gains, for people."""
        parts = []
        if abs(self.bytes_per_s) >= 1.0:
            parts.append(
                f"{amounts.rate(abs(self.bytes_per_s))} {'less' if self.bytes_per_s > 0.0 else 'more'} between nodes"
            )
        if abs(self.tasks) >= 0.005:
            parts.append(f"{abs(self.tasks):.2f} {'fewer' if self.tasks > 0.0 else 'more'} tasks above the ceiling")
        if self.goes_on:
            parts.append(f"makes room, on the way to {self.goes_on}")
        return ", ".join(parts) or "makes room for the next move"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A move that is not made, and why."""

    pod: str
    source: str
    target: str
    why: Left
    detail: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NodeLoad:
    """A node's load in tasks per core, now and after the plan, above which it is overloaded, and its Pods."""

    node: str
    before: float
    after: float
    saturation: float
    pods_before: int
    pods_after: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Bytes per second between the Pods of two nodes, in both directions."""

    one: str
    other: str
    bytes_per_s: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """The moves, what is left out, and the cluster before and after.

    pods: UIDs of all that it was made for. traffic_bytes, excess_tasks: (before, after). within_bytes, links: the
    traffic before that stays on a node, and that between nodes, the most first. verdict: why there are no moves; empty
    if there are.
    """

    moves: tuple[Move, ...]
    left_out: tuple[LeftOut, ...]
    pods: Set[str]
    skipped: Mapping[str, movable.Skipped]
    skipped_names: Mapping[str, str]
    nodes: tuple[NodeLoad, ...]
    traffic_bytes: tuple[float, float]
    within_bytes: float
    links: tuple[Link, ...]
    excess_tasks: tuple[float, float]
    weights: gains.Weights
    verdict: str
    # Whether traffic between Pods is known.
    has_traffic: bool
    at_ns: int
    gaps: clusters.Gaps = dataclasses.field(default_factory=clusters.Gaps)

    @property
    def gain(self) -> float:
        """The gain of all moves together."""
        return sum(each.gain for each in self.moves)

    @property
    def net(self) -> float:
        """What all moves together gain beyond what they cost."""
        return sum(each.net for each in self.moves)


def moves_of(context: contexts.Context, steps: Sequence[ordering.Step]) -> list[Move]:
    """Return the steps of a curve as moves."""
    return [
        Move(
            pod=context.pods[step.container], source=context.nodes[step.source], target=context.nodes[step.target],
            bytes_per_s=step.bytes_per_s, tasks=step.tasks, gain=step.gain,
            cost_task_s=float(context.costs[step.container]), horizon_s=float(context.horizons[step.container]),
            goes_on="" if step.goes_on is None else context.nodes[step.goes_on],
        )
        for step in steps
    ]  # fmt: skip


def worth(moves: Sequence[Move]) -> tuple[list[Move], list[LeftOut]]:
    """Return the moves up to the one with which they gain most beyond what they cost, and the others.

    One with little gain, or none, may be what a later one needs. No Pod is left on the way to another node.
    """
    kept, most, total = 0, 0.0, 0.0
    on_the_way: set[str] = set()
    for number, each in enumerate(moves, 1):
        total += each.net
        on_the_way = on_the_way | {each.pod.uid} if each.goes_on else on_the_way - {each.pod.uid}
        if total > most and not on_the_way:
            kept, most = number, total
    return list(moves[:kept]), small(moves[kept:])


def small(moves: Sequence[Move]) -> list[LeftOut]:
    """Return moves as ones that are not made since they gain too little."""
    return [left_out(each, Left.SMALL, _why_small(each)) for each in moves]


def within(moves: Sequence[Move], most: int, rule: Rule) -> tuple[list[Move], list[LeftOut], str]:
    """Return at most `most` moves, the others, and why nothing is moved if all together gain too little."""
    late = [left_out(each, Left.BUDGET, "the budget of moves is used up") for each in moves[max(most, 0) :]]
    # Of two that go together, the first may not pay without the second.
    kept, alone = worth(moves[: max(most, 0)])
    too_little = _too_little(kept, rule) if kept else ""
    if too_little:
        little = [left_out(each, Left.SMALL, too_little) for each in kept]
        return [], [*little, *alone, *late], too_little
    if not kept and late:
        return [], [*alone, *late], "the budget of moves is used up"
    return kept, [*alone, *late], "" if kept else "no move pays"


def _too_little(moves: Sequence[Move], rule: Rule) -> str:
    """Return why these moves are not worth their cost; empty if they are."""
    bytes_per_s, tasks = sum(each.bytes_per_s for each in moves), sum(each.tasks for each in moves)
    if rule.is_enough(bytes_per_s, tasks):
        return ""
    least = f"{amounts.rate(rule.least_bytes)} and {rule.least_tasks:.2f} tasks"
    return f"all moves together end {_ended(bytes_per_s, tasks)}, less than {least}"


def _why_small(move: Move) -> str:
    ends = f"it ends {_ended(move.bytes_per_s, move.tasks)}"
    if move.pays_back_s is None:
        return ends
    return f"{ends}, and pays back after {move.pays_back_s:.0f} s, not within {move.horizon_s:.0f}"


def _ended(bytes_per_s: float, tasks: float) -> str:
    return f"{amounts.rate(max(bytes_per_s, 0.0))} between nodes and {max(tasks, 0.0):.2f} tasks above the ceiling"


def left_out(move: Move, why: Left, detail: str) -> LeftOut:
    """Return a move as one that is not made."""
    return LeftOut(pod=move.pod.pod.key, source=move.source, target=move.target, why=why, detail=detail)
