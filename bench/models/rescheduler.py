"""The rescheduler's mode `carico` against the paper's progressive variant, on random problems of sizes L and XL.

The reference is the mean cost of several runs of ws-sa-pn, with alpha .99 and 1000 moves a temperature: 917,000
evaluations each, by the same compiled kernel. Times are of the processor, since other work shares its cores, on one
core after compilation. Without numba the budgets are 2 s (L) and 1 s (XL), and one run is the reference.
"""

import statistics
import time

from carico_core.numerics.rescheduling import compiled
from carico_core.numerics.rescheduling.containers import annealing, carico, generator, model

Row = tuple[str, float, str, str]
_PROBLEM_SEED = 1
# Size: budget to reach the reference, and to be within 1 % of the long run.
_BUDGETS_S = {"L": (0.1, 0.5), "XL": (0.2, 1.0)} if compiled.IS_COMPILED else {"L": (2.0, 0.0), "XL": (1.0, 0.0)}
_LONG_S = 10.0


def run(quick: bool) -> list[Row]:
    """Rows of both sizes; --quick: 3 runs each instead of 25, and no long run."""
    runs = 3 if quick else 25
    return [row for size in _BUDGETS_S for row in _size(size, runs=runs, is_long=compiled.IS_COMPILED and not quick)]


def _size(size: str, *, runs: int, is_long: bool) -> list[Row]:
    problem = generator.generate(generator.SIZES[size], seed=_PROBLEM_SEED)
    present = model.costs(problem, problem.present)
    annealing.solve(problem, annealing.Variant.WS_SA_PN, seed=0, schedule=annealing.Schedule(alpha=0.1, moves=1))
    references = [
        annealing.solve(problem, annealing.Variant.WS_SA_PN, seed=seed, now_s=time.process_time)
        for seed in range(1, 1 + (runs if compiled.IS_COMPILED else 1))
    ]
    budget_s, near_s = _BUDGETS_S[size]
    answers = [_carico(problem, budget_s, seed) for seed in range(1, 1 + runs)]
    rows = []
    for name in ("cntc", "coc"):
        most, found = (_percent(each, present, name) for each in (references, answers))
        rows += [
            (f"{size}: {name} of ws-sa-pn, mean of {len(references)}", most, "%", ""),
            (f"{size}: {name} of carico in {budget_s:g} s, mean of {runs}", found, "%", f"at most {most:.4g}"),
        ]
    longest_s = max(each.parts_s["ws"] for each in answers)
    spent_s = statistics.fmean(each.parts_s["ws"] for each in references)
    rows += [
        (f"{size}: a run of ws-sa-pn", spent_s, "s", ""),
        (f"{size}: an evaluation of ws-sa-pn", 1e6 * spent_s / references[0].evaluations, "us", ""),
        (f"{size}: longest run of carico", longest_s, "s", f"at most {1.05 * budget_s:g}"),
    ]  # fmt: skip
    return rows + (_near(size, problem, near_s) if is_long else [])


def _near(size: str, problem: model.Problem, budget_s: float) -> list[Row]:
    """The costs of ten short and three long runs, and how far the mean of the short is above the median of the long."""
    present = model.costs(problem, problem.present)
    costs, longs = (
        [_cost(_carico(problem, each_s, seed).costs, present) for seed in range(1, seeds + 1)]
        for each_s, seeds in ((budget_s, 10), (_LONG_S, 3))
    )
    above = 100.0 * (statistics.fmean(costs) / statistics.median(longs) - 1.0)
    short, long = f"carico in {budget_s:g} s, mean of 10", f"in {_LONG_S:g} s, median of 3"
    return [
        (f"{size}: cost of {short}", 100.0 * statistics.fmean(costs), "%", ""),
        (f"{size}: standard deviation of the ten", 100.0 * statistics.stdev(costs), "%", ""),
        (f"{size}: cost of carico {long}", 100.0 * statistics.median(longs), "%", ""),
        (f"{size}: {short}, above {long}", above, "%", "at most 1"),
    ]


def _cost(costs: model.Costs, present: model.Costs) -> float:
    """Return both costs as shares of the present ones, with equal weights."""
    return 0.5 * costs.cntc / present.cntc + 0.5 * costs.coc / present.coc


def _carico(problem: model.Problem, budget_s: float, seed: int) -> annealing.Answer:
    return carico.solve(problem, carico.Effort(budget_s=budget_s, now_s=time.process_time), seed=seed)


def _percent(answers: list[annealing.Answer], present: model.Costs, name: str) -> float:
    return 100.0 * statistics.fmean(getattr(each.costs, name) / getattr(present, name) for each in answers)
