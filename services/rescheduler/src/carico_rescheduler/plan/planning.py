"""From the context to a plan: search, order, and what of it is worth its cost."""

import collections
import dataclasses
from collections.abc import Sequence

import numpy as np

from carico_core.numerics.rescheduling.containers import carico, gains, model
from carico_rescheduler.context import problem as contexts
from carico_rescheduler.plan import decision, generator, ordering

# Moves that are left out by the budget alone, and are shown.
_SHOWN = 10
# Pairs of nodes whose traffic a plan keeps: for a picture.
LINKS_MOST = 100


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A plan that is asked for. `most`: of at most so many moves; None: as many as the settings allow."""

    most: int | None = None
    algorithm: str = generator.CARICO


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """How to plan: the effort and seed of the search, the rule, and how many moves the budget has left.

    has_detours: whether a Pod may go to a third node first, and on from there in the same plan.
    """

    algorithm: str = generator.CARICO
    effort: carico.Effort
    seed: int
    rule: decision.Rule
    budget: int
    at_ns: int
    has_detours: bool = True


def make(context: contexts.Context, asked: PlanRequest) -> decision.Plan:
    """Return the plan for a context, of those to several placements the one that gains most beyond its cost."""
    # Some more than may be made, so that a plan shows what the budget leaves out.
    most = asked.rule.most_moves + _SHOWN
    curves = generator.curves(
        context, asked.effort, seed=asked.seed, weights=asked.rule.weights, most=most, algorithm=asked.algorithm,
        detours=ordering.ANY if asked.has_detours else frozenset(),
    )  # fmt: skip
    return max((_along(context, curve, asked) for curve in curves), key=lambda plan: plan.net)


def _along(context: contexts.Context, curve: ordering.Curve, asked: PlanRequest) -> decision.Plan:
    """Return the plan that carries out what pays of a curve."""
    rule = asked.rule
    moves, small = decision.worth(decision.moves_of(context, curve.steps))
    moves, late, verdict = decision.within(moves, min(rule.most_moves, asked.budget), rule)
    unpaid = decision.small(decision.moves_of(context, curve.unpaid[:_SHOWN]))
    left = [*small, *late, *unpaid, *_blocked(context, curve)]
    return describe(context, moves, left=left, weights=rule.weights, verdict=verdict, at_ns=asked.at_ns)


def without_others(
    context: contexts.Context, plan: decision.Plan, kept: Sequence[decision.Move], *, rule: decision.Rule,
    refused: Sequence[decision.LeftOut],
) -> decision.Plan:  # fmt: skip
    """Return the plan with some of its moves alone: without the others they may gain less, or have no room."""
    target = placement(context, kept)
    # The scheduler was asked about no other detour than those of the plan.
    index, place = _numbers(context)
    detours = {(index[each.pod.uid], place[each.target]) for each in kept if each.goes_on}
    curve = ordering.towards(context, target, plan.weights, most=len(kept), detours=detours)
    moves, small, verdict = decision.within(decision.moves_of(context, curve.steps), len(kept), rule)
    if not kept:
        verdict = "the scheduler would place none of the Pods where the plan wants them"
    left = [*plan.left_out, *refused, *small, *_blocked(context, curve)]
    return describe(context, moves, left=left, weights=plan.weights, verdict=verdict, at_ns=plan.at_ns)


def describe(
    context: contexts.Context, moves: Sequence[decision.Move], *, left: Sequence[decision.LeftOut],
    weights: gains.Weights, verdict: str, at_ns: int,
) -> decision.Plan:  # fmt: skip
    """Return the plan of these moves, with the cluster before and after them."""
    problem = context.problem
    after = placement(context, moves)
    between = model.cntc(problem, problem.present)
    return decision.Plan(
        moves=tuple(moves),
        left_out=tuple(left),
        pods=frozenset(each.uid for each in context.pods),
        skipped=context.skipped,
        skipped_names={pod.uid: pod.pod.key for pod in context.pods if pod.uid in context.skipped},
        nodes=_nodes(context, after),
        traffic_bytes=(between, model.cntc(problem, after)),
        within_bytes=max(float(problem.traffic.sum()) - between, 0.0),
        links=_links(context),
        excess_tasks=(gains.excess_tasks(problem, problem.present), gains.excess_tasks(problem, after)),
        weights=weights,
        verdict=verdict,
        has_traffic=bool(len(problem.traffic)),
        at_ns=at_ns,
    )


def placement(context: contexts.Context, moves: Sequence[decision.Move]) -> model.Ints:
    """Return the placement after these moves."""
    index, place = _numbers(context)
    after = context.problem.present.copy()
    for move in moves:
        after[index[move.pod.uid]] = place[move.target]
    return after


def _numbers(context: contexts.Context) -> tuple[dict[str, int], dict[str, int]]:
    """Return the number of each Pod, by UID, and of each node."""
    return {pod.uid: number for number, pod in enumerate(context.pods)}, {
        name: number for number, name in enumerate(context.nodes)
    }


def _nodes(context: contexts.Context, after: model.Ints) -> tuple[decision.NodeLoad, ...]:
    problem, count = context.problem, len(context.pods)
    loads = context.loads(problem.present), context.loads(after)
    pods = [
        np.bincount(placed[:count], minlength=problem.servers) if count else np.zeros(problem.servers, dtype=np.int64)
        for placed in (problem.present, after)
    ]
    return tuple(
        decision.NodeLoad(
            node=name, before=float(loads[0][number]), after=float(loads[1][number]),
            saturation=float(context.saturations[number]),
            pods_before=int(pods[0][number]), pods_after=int(pods[1][number]),
        )
        for number, name in enumerate(context.nodes)
    )  # fmt: skip


def _links(context: contexts.Context) -> tuple[decision.Link, ...]:
    """Return the traffic between nodes now, of the pairs of nodes with the most of it."""
    problem = context.problem
    ends = np.sort(problem.present[problem.pairs].astype(np.int64), axis=1)
    apart = ends[:, 0] != ends[:, 1]
    numbers, of_pair = np.unique(ends[apart, 0] * problem.servers + ends[apart, 1], return_inverse=True)
    amounts = np.bincount(of_pair, weights=problem.traffic[apart], minlength=len(numbers))
    most = np.argsort(-amounts, kind="stable")[:LINKS_MOST]
    names = context.nodes
    return tuple(
        decision.Link(
            one=names[numbers[each] // problem.servers], other=names[numbers[each] % problem.servers],
            bytes_per_s=float(amounts[each]),
        )
        for each in most
        if amounts[each] > 0.0
    )  # fmt: skip


def _blocked(context: contexts.Context, curve: ordering.Curve) -> list[decision.LeftOut]:
    return [
        decision.LeftOut(
            pod=context.pods[each].pod.key, source=context.nodes[int(context.problem.present[each])], target="",
            why=decision.Left.BLOCKED, detail="no step leaves room for the old and the new Pod",
        )
        for each in curve.blocked
    ]  # fmt: skip


def count_skipped(plan: decision.Plan) -> dict[str, int]:
    """Return how many Pods stay, by the kind of reason."""
    return dict(collections.Counter(each.why.value for each in plan.skipped.values()))
