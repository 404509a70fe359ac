"""Which runs an evaluation of rescheduling makes, and each run.

One problem for each size and share of overloaded servers (seed 1), so that runs differ in their own seeds only, as the
paper's do. The variant with a time budget has the published share of WS_SA_PN's time: 25 and 31 times for S and M, 51
and 7 % for L and XL.
"""

import dataclasses
import itertools
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from carico_core.numerics.rescheduling.containers import annealing, carico, generator, model, threshold
from carico_twin.rescheduling import published

OURS, THRESHOLD = "carico", "threshold"
SIZE_OF_TABLE_4 = "S"
_PROBLEM_SEED = 1
# Our time budget by size, and chains in it.
_BUDGET_S = {"S": 0.1, "M": 0.1, "L": 0.1, "XL": 0.2}
_CHAINS = {"S": 4, "M": 4, "L": 1, "XL": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What is run. front_points and front_proposals: of each lexicographic point of figure 6."""

    sizes: tuple[str, ...] = tuple(generator.SIZES)
    runs: int = published.RUNS
    schedule: annealing.Schedule = dataclasses.field(default_factory=annealing.Schedule)
    front_points: int = published.FRONT_POINTS
    front_proposals: int = 200_000


QUICK = Selection(
    sizes=("S", "M", "L"), runs=3, schedule=annealing.Schedule(alpha=0.9, moves=100), front_points=10,
    front_proposals=4_000,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run: costs as shares of the present placement's (coc None: it was 0), and what the search did."""

    table: int
    size: str
    overload: str
    algorithm: str
    seed: int
    cntc: float
    coc: float | None
    coc_left: float
    moved: float
    violations: int
    seconds: float
    evaluations: int
    parts_s: dict[str, float]
    curve: tuple[tuple[float, float, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontPoint:
    """The least traffic found with at most this overload, as shares of the present placement's."""

    overload: str
    bound: float
    cntc: float
    coc: float


def load(now_s: annealing.Now) -> None:
    """Load or compile the machine code, so that no run's time contains that."""
    problem = generator.generate(generator.SIZES["S"], seed=_PROBLEM_SEED)
    annealing.solve(problem, annealing.Variant.WS_SA_PN, seed=0, schedule=annealing.Schedule(alpha=0.5, moves=1))
    carico.solve(problem, carico.Effort(proposals=1, now_s=now_s), seed=0)


def count(selection: Selection) -> int:
    """Return how many runs `runs` yields."""
    return (len(selection.sizes) * (len(annealing.Variant) + 1) + 3) * selection.runs + len(selection.sizes)


def runs(selection: Selection, now_s: annealing.Now) -> Iterator[Run]:
    """Yield the runs of tables 7, 6 and 4."""
    for size in selection.sizes:
        yield from _table_7(size, selection, now_s)
    for overload in generator.Overload:
        problem = _problem(SIZE_OF_TABLE_4, overload)
        for seed in range(1, 1 + selection.runs):
            answer = annealing.solve(
                problem, annealing.Variant.WS_SA, seed=seed, schedule=selection.schedule, now_s=now_s
            )
            yield _run(4, SIZE_OF_TABLE_4, overload, annealing.Variant.WS_SA.value, seed, problem, answer)


def _problem(size: str, overload: generator.Overload) -> model.Problem:
    return generator.generate(generator.SIZES[size], seed=_PROBLEM_SEED, overload=overload)


def _table_7(size: str, selection: Selection, now_s: annealing.Now) -> Iterator[Run]:
    half = generator.Overload.HALF
    problem = _problem(size, half)
    spent_s: list[float] = []
    for variant in annealing.Variant:
        budget_s = _budget_s(size, spent_s)
        for seed in range(1, 1 + selection.runs):
            answer = annealing.solve(
                problem, variant, seed=seed, schedule=selection.schedule, now_s=now_s, budget_s=budget_s
            )
            if variant is annealing.Variant.WS_SA_PN:
                spent_s.append(answer.parts_s["ws"])
            yield _run(7, size, half, variant.value, seed, problem, answer, last=selection.schedule.iterations)
    effort = carico.Effort(budget_s=_BUDGET_S[size], now_s=now_s, chains=_CHAINS[size])
    for seed in range(1, 1 + selection.runs):
        answer = carico.solve(problem, effort, seed=seed)
        yield _run(7, size, half, OURS, seed, problem, answer)
    yield _threshold(size, half, problem, now_s)


def _budget_s(size: str, spent_s: list[float]) -> float:
    """Return the budget that is to WS_SA_PN's mean time as the published ones are."""
    rows = published.TABLE_7[size]
    return statistics.fmean(spent_s or [1.0]) * rows["ws-sa-pn-tb"].seconds / rows["ws-sa-pn"].seconds


def _threshold(size: str, overload: generator.Overload, problem: model.Problem, now_s: annealing.Now) -> Run:
    began_s = now_s()
    placement = threshold.rebalanced(problem)
    answer = annealing.Answer(
        placement=placement, costs=model.costs(problem, placement), evaluations=0, curve=(),
        parts_s={"ws": now_s() - began_s},
    )  # fmt: skip
    return _run(7, size, overload, THRESHOLD, 1, problem, answer)


def _run(
    table: int, size: str, overload: generator.Overload, algorithm: str, seed: int, problem: model.Problem,
    answer: annealing.Answer, *, last: int | None = None,
) -> Run:  # fmt: skip
    present = model.costs(problem, problem.present)
    iterations = last or (answer.curve[-1].iteration if answer.curve else 1)
    return Run(
        table=table, size=size, overload=overload.value, algorithm=algorithm, seed=seed,
        cntc=answer.costs.cntc / present.cntc, coc=_share(answer.costs.coc, present.coc), coc_left=answer.costs.coc,
        moved=float(np.mean(answer.placement != problem.present)),
        violations=len(list(model.violations(problem, answer.placement))), seconds=sum(answer.parts_s.values()),
        evaluations=answer.evaluations, parts_s=dict(answer.parts_s),
        curve=tuple(
            (each.iteration / iterations, each.costs.cntc / present.cntc, _share(each.costs.coc, present.coc) or 0.0)
            for each in _thinned(answer.curve)
        ) if seed == 1 else (),
    )  # fmt: skip


def _share(coc: float, present: float) -> float | None:
    return coc / present if present > 0.0 else None


def _thinned(curve: tuple[annealing.Point, ...]) -> Iterator[annealing.Point]:
    step = max(1, len(curve) // 100)
    return itertools.islice(curve, step - 1, None, step)


def front(selection: Selection, overload: generator.Overload) -> Iterator[FrontPoint]:
    """Yield the points of figure 6: equidistant bounds of overload, and the least traffic found within each.

    From the least overload found to the present one. Where nothing is overloaded there is no point.
    """
    problem = _problem(SIZE_OF_TABLE_4, overload)
    present = model.costs(problem, problem.present)
    if present.coc == 0.0:
        return
    # Close to 0, since a bound of 0 would mean no bound.
    least = _within(selection, problem, 1e-6 * present.coc).coc
    found = present
    for bound in np.linspace(max(least, 1e-6 * present.coc), present.coc, selection.front_points).tolist():
        # What a tighter bound has found is within this one, too.
        found = min(found, _within(selection, problem, bound * (1.0 + 1e-9)), key=lambda costs: costs.cntc)
        yield FrontPoint(
            overload=overload.value, bound=bound / present.coc, cntc=found.cntc / present.cntc,
            coc=found.coc / present.coc,
        )  # fmt: skip


def _within(selection: Selection, problem: model.Problem, bound: float) -> model.Costs:
    effort = carico.Effort(proposals=selection.front_proposals, chains=2)
    return carico.solve(problem, effort, seed=1, coc_bound=bound).costs
