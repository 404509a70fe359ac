"""The paper's four variants of simulated annealing, by name, with exact effects of moves.

All minimise .5 eta_cntc cntc + .5 eta_coc coc with eta = 1 / (max - min) (equations 13 and 14); they differ in where
the extremes come from (section 4.3). Each accepts a move with min(1, exp((old - new) / T)) (equation 15); T falls from
1 by the factor alpha after each iteration of 100 to 1000 moves.

What the paper leaves open, and what is done here:
- Step 1 of the algorithm is a random solution, but the basic and progressive variants start from the present
  placement: all start there.
- A neighbour is one container, with those that must share its server, on another random server. Neighbours that violate
  a constraint are drawn again and not counted.
- The end: T = 1e-4. With alpha .99 and 1000 moves these are 917 iterations.
- "After each iteration" the extremes follow: after each accepted move.
- The four single-objective runs of WS_SA have costs as they are: bytes, and tasks per core.
- WS_SA_PN_TB starts another run while half of one still fits. Its runs are compared by the extremes seen in all.
"""

import dataclasses
import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from carico_core.numerics.rescheduling.containers import kernel, model, tables

Now = Callable[[], float]

# "To avoid recurrent micro-adjustments, a minimum jump of 10 iterations", and only if more than 10 remain.
_JUMP_LEAST = 10
# Random numbers are drawn for so many proposals at a time.
_DRAWN = 4096


class Variant(enum.Enum):
    """The paper's names in lower case: WS_SA, and with basic, progressive and time-bound progressive normalization."""

    WS_SA = "ws-sa"
    WS_SA_BN = "ws-sa-bn"
    WS_SA_PN = "ws-sa-pn"
    WS_SA_PN_TB = "ws-sa-pn-tb"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How the temperature falls, and the moves at each."""

    alpha: float = 0.99
    moves: int = 1000
    start: float = 1.0
    end: float = 1e-4

    @property
    def iterations(self) -> int:
        """The temperatures above the end."""
        return int(np.ceil(np.log(self.end / self.start) / np.log(self.alpha) - 1e-9))


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The best costs after an iteration of the last run."""

    iteration: int
    costs: model.Costs


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answer:
    """A placement and its costs. parts_s: the duration of each part. runs: complete and cut runs of the last part."""

    placement: model.Ints
    costs: model.Costs
    evaluations: int
    curve: tuple[Point, ...]
    parts_s: dict[str, float]
    runs: int = 1


class Chain:
    """A placement of groups that annealing changes, with its random numbers."""

    def __init__(self, problem: model.Problem, random: np.random.Generator) -> None:
        model.check_present(problem)
        groups, self._group = model.contracted(problem)
        self._saturation = problem.saturation
        self._random = random
        self._fixed = tables.fixed(groups)
        self._state = tables.state(groups, groups.present)
        self._drawn, self._row = tables.draws(random, 0), 0
        self.numbers = self._state.numbers
        self.can_move = bool(len(self._fixed.movable)) and problem.servers > 1

    def iterate(self, *, moves: int, progressive: bool) -> None:
        """Evaluate so many random moves at the temperature in `numbers`."""
        while self.can_move:
            if self._row == len(self._drawn) // kernel.DRAW_WIDTH:
                self._drawn, self._row = tables.draws(self._random, _DRAWN), 0
            self._row = kernel.advance(
                self._fixed, self._state, self._drawn, self._row, self._saturation, moves, progressive
            )
            if self._row < len(self._drawn) // kernel.DRAW_WIDTH:
                return

    def search(self, count: int, *, neighbours: float, bound: float = 0.0) -> None:
        """Make so many proposals, `neighbours` of them to servers of containers that exchange traffic."""
        for begin in range(0, max(count, 1), _DRAWN):
            drawn = tables.draws(self._random, min(count - begin, _DRAWN) if self.can_move else 0)
            kernel.search(self._fixed, self._state, drawn, self._saturation, neighbours, bound)

    @property
    def best(self) -> model.Costs:
        """The costs of the best placement."""
        return model.Costs(cntc=float(self.numbers[kernel.BEST_CNTC]), coc=float(self.numbers[kernel.BEST_COC]))

    @property
    def evaluations(self) -> int:
        """Moves that were evaluated: of the paper's variants those that fulfilled all constraints, of ours all."""
        return int(self.numbers[kernel.EVALUATIONS])

    def placement(self) -> model.Ints:
        """Return the best placement, by container."""
        found: model.Ints = np.array(self._state.best, dtype=np.int32)[self._group]
        return found


def solve(
    problem: model.Problem,
    variant: Variant,
    *,
    seed: int,
    schedule: Schedule | None = None,
    budget_s: float | None = None,
    now_s: Now | None = None,
) -> Answer:
    """Return the answer of a variant. WS_SA_PN_TB needs a budget and a clock; the others only measure with the clock.

    A seed repeats an answer, of WS_SA_PN_TB with the same clock. Raises `errors.SettingsError` if the present placement
    violates a constraint.
    """
    run = _Run(problem, np.random.default_rng(seed), schedule or Schedule(), now_s or (lambda: 0.0))
    if variant is Variant.WS_SA:
        return run.with_true_extremes()
    if variant is Variant.WS_SA_BN:
        present = model.costs(problem, problem.present)
        return run.with_extremes(model.Costs(cntc=0.0, coc=0.0), present)
    if variant is Variant.WS_SA_PN:
        return run.progressive()
    if budget_s is None or now_s is None:
        raise ValueError(f"{variant.value}: expected a time budget and a clock")
    return run.within(budget_s)


class _Run:
    def __init__(self, problem: model.Problem, random: np.random.Generator, schedule: Schedule, now_s: Now) -> None:
        self._problem, self._random, self._schedule, self._now_s = problem, random, schedule, now_s
        self._parts_s: dict[str, float] = {}
        self._evaluations = 0

    def with_true_extremes(self) -> Answer:
        """Find the least and largest of each cost first."""
        found = {}
        for name, per_byte, per_load in (
            ("cntc_min", 1.0, 0.0), ("cntc_max", -1.0, 0.0), ("coc_min", 0.0, 1.0), ("coc_max", 0.0, -1.0),
        ):  # fmt: skip
            found[name] = self._annealed(name, per_byte=per_byte, per_load=per_load).costs
        least = model.Costs(cntc=found["cntc_min"].cntc, coc=found["coc_min"].coc)
        return self.with_extremes(least, model.Costs(cntc=found["cntc_max"].cntc, coc=found["coc_max"].coc))

    def with_extremes(self, least: model.Costs, most: model.Costs) -> Answer:
        return self._annealed("ws", per_byte=_weight(most.cntc - least.cntc), per_load=_weight(most.coc - least.coc))

    def _annealed(self, part: str, *, per_byte: float, per_load: float) -> Answer:
        chain = Chain(self._problem, self._random)
        chain.numbers[kernel.PER_BYTE], chain.numbers[kernel.PER_LOAD] = per_byte, per_load
        return self._cooled(part, chain, progressive=False)

    def progressive(self) -> Answer:
        return self._cooled("ws", _progressive(Chain(self._problem, self._random)), progressive=True)

    def _cooled(self, part: str, chain: Chain, *, progressive: bool) -> Answer:
        began_s, curve = self._now_s(), []
        temperature = self._schedule.start
        for iteration in range(self._schedule.iterations):
            chain.numbers[kernel.TEMPERATURE] = temperature
            chain.iterate(moves=self._schedule.moves, progressive=progressive)
            curve.append(Point(iteration=iteration + 1, costs=chain.best))
            temperature *= self._schedule.alpha
        self._parts_s[part] = self._now_s() - began_s
        self._evaluations += chain.evaluations
        return self._answer(chain, curve)

    def _answer(self, chain: Chain, curve: list[Point]) -> Answer:
        placement = chain.placement()
        return Answer(
            placement=placement, costs=model.costs(self._problem, placement), evaluations=self._evaluations,
            curve=tuple(curve), parts_s=dict(self._parts_s),
        )  # fmt: skip

    def within(self, budget_s: float) -> Answer:
        """Run again and again until the deadline; a run that would end after it is fast-forwarded."""
        began_s = self._now_s()
        deadline_s = began_s + budget_s
        answers: list[Answer] = []
        chains: list[Chain] = []
        run_s = 0.0
        while not answers or deadline_s - self._now_s() > 0.5 * run_s:
            starts_s = self._now_s()
            chain = _progressive(Chain(self._problem, self._random))
            answers.append(self._forwarded(chain, deadline_s))
            chains.append(chain)
            run_s = max(run_s, self._now_s() - starts_s)
            if not chain.can_move:
                break
        best = best_of(answers, chains)
        parts_s = {"ws": self._now_s() - began_s}
        return dataclasses.replace(best, evaluations=self._evaluations, parts_s=parts_s, runs=len(answers))

    def _forwarded(self, chain: Chain, deadline_s: float) -> Answer:
        began_s, curve = self._now_s(), []
        schedule, iteration, made = self._schedule, 0, 0
        while iteration < schedule.iterations:
            chain.numbers[kernel.TEMPERATURE] = schedule.start * schedule.alpha**iteration
            chain.iterate(moves=schedule.moves, progressive=True)
            iteration, made = iteration + 1, made + 1
            curve.append(Point(iteration=iteration, costs=chain.best))
            now_s = self._now_s()
            if now_s >= deadline_s:
                break
            iteration += _jump(schedule.iterations - iteration, (deadline_s - now_s) * made, now_s - began_s)
        self._evaluations += chain.evaluations
        return self._answer(chain, curve)


def best_of(answers: Sequence[Answer], chains: Sequence[Chain]) -> Answer:
    """Return the best answer, normalized by the extremes that any of their chains has seen."""
    least = [min(float(each.numbers[index]) for each in chains) for index in (kernel.CNTC_MIN, kernel.COC_MIN)]
    most = [max(float(each.numbers[index]) for each in chains) for index in (kernel.CNTC_MAX, kernel.COC_MAX)]
    per_byte, per_load = (_weight(high - low) for low, high in zip(least, most, strict=True))
    return min(answers, key=lambda each: per_byte * each.costs.cntc + per_load * each.costs.coc)


def _progressive(chain: Chain) -> Chain:
    # eta = 1 while least and most are equal.
    chain.numbers[kernel.PER_BYTE] = chain.numbers[kernel.PER_LOAD] = _weight(0.0)
    return chain


def _jump(remaining: int, left: float, spent: float) -> int:
    """Return the iterations to skip, if left / spent of them fit and the rest does not."""
    if remaining <= _JUMP_LEAST or left >= remaining * spent:
        return 0
    skipped = remaining - max(int(left / spent), 1)
    return skipped if skipped >= _JUMP_LEAST else 0


def _weight(extent: float) -> float:
    """Return weight times eta; eta is 1 for a cost that does not vary."""
    return 0.5 / extent if extent > 0.0 else 0.5
