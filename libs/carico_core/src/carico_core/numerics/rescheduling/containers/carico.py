"""The mode `carico`: annealing from the present placement, at temperatures that fit it, for any time budget.

It differs from the paper's variants in five things. It starts cold, so that the present placement is improved rather
than forgotten. Most proposals move a container to a server with which it exchanges traffic; where only load or room is
in the way, it changes places with one there. Both costs count as shares of the present ones. Overload costs little at
first: at its full price, a move would overload a server by more than traffic can gain, and nearly all would be refused.
And the temperature follows the share of the budget that is spent, so that an answer is ready at any deadline. Several
chains share a budget, each from the present placement; the best of them is the answer.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from carico_core.numerics.rescheduling.containers import annealing, kernel, model

# Measured on the sizes L and XL: a factor of 1.5 in each changes the cost by less than 1 %.
_NEIGHBOURS = 0.9
# In units of what a mean pair's traffic costs.
_HOT, _COLD = 1.0, 0.1
# At first, a mean container's load above saturation costs as much as so many mean pairs.
_LENIENT = 15.0
# Without traffic between servers: a share of what the present overload costs.
_PAIR = 1e-5
# Without overload at the start: that much load above saturation on each server is as bad as the present traffic.
_EXCESS = 0.05
# A bound is a limit: to exceed it by a thousandth of the present overload costs as much as the present traffic.
_STRICT = 1000.0
# Proposals between two looks at the clock: one per cent of the budget.
_FIRST_BATCH, _MOST_BATCH, _BATCHES = 100, 20_000, 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How long to search: a number of proposals, with which a seed repeats an answer, or seconds by a clock."""

    proposals: int | None = None
    budget_s: float | None = None
    now_s: annealing.Now = lambda: 0.0
    chains: int = 1

    def __post_init__(self) -> None:
        if (self.proposals is None) == (self.budget_s is None):
            raise ValueError("effort: expected either proposals or a budget in seconds")
        if self.chains < 1:
            raise ValueError(f"effort chains: expected at least 1, got {self.chains}")


def solve(problem: model.Problem, effort: Effort, *, seed: int, coc_bound: float = 0.0) -> annealing.Answer:
    """Return the best placement found. coc up to the bound costs nothing, which leaves the least cntc within it.

    Loading or compiling machine code, once in a process, is not part of the budget. Raises `errors.SettingsError` if
    the present placement violates a constraint.
    """
    began_s = effort.now_s()
    random = np.random.default_rng(seed)
    prices, answers = _prices(problem, coc_bound), []
    for index in range(effort.chains):
        chain = annealing.Chain(problem, random)
        if index == 0:
            before_s = effort.now_s()
            chain.search(0, neighbours=_NEIGHBOURS)
            began_s += effort.now_s() - before_s
        curve = tuple(_cooled(chain, effort, began_s, index, prices))
        placement = chain.placement()
        answers.append(
            annealing.Answer(
                placement=placement, costs=model.costs(problem, placement), evaluations=chain.evaluations,
                curve=curve, parts_s={}, runs=effort.chains,
            )
        )  # fmt: skip
    best = min(answers, key=prices.of)
    evaluations = sum(each.evaluations for each in answers)
    return dataclasses.replace(best, evaluations=evaluations, parts_s={"ws": effort.now_s() - began_s})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prices:
    """What traffic and overload cost. pair: what a mean pair does. per_load grows from `lenient` to `strict`."""

    per_byte: float
    lenient: float
    strict: float
    pair: float
    bound: float

    def of(self, answer: annealing.Answer) -> float:
        return self.per_byte * answer.costs.cntc + self.strict * max(0.0, answer.costs.coc - self.bound)


def _prices(problem: model.Problem, bound: float) -> _Prices:
    present = model.costs(problem, problem.present)
    per_byte = 0.5 / max(present.cntc, 1e-9)
    strict = (0.5 if bound == 0.0 else 0.5 * _STRICT) / max(present.coc, _EXCESS * problem.servers)
    pair = float(problem.traffic.mean()) * per_byte if present.cntc > 0.0 else _PAIR
    share = float(problem.tasks.mean() / problem.capacity[:, 0].mean())
    lenient = min(strict, _LENIENT * pair / max(share, 1e-9)) if bound == 0.0 else strict
    return _Prices(per_byte=per_byte, lenient=lenient, strict=strict, pair=pair, bound=bound)


def _cooled(
    chain: annealing.Chain, effort: Effort, began_s: float, index: int, prices: _Prices
) -> Iterator[annealing.Point]:
    progress = _by_count(effort) if effort.budget_s is None else _by_clock(effort, began_s, index)
    numbers = chain.numbers
    numbers[kernel.PER_BYTE] = prices.per_byte
    for iteration, (share, batch) in enumerate(progress):
        numbers[kernel.TEMPERATURE] = _HOT * prices.pair * (_COLD / _HOT) ** share
        numbers[kernel.PER_LOAD] = prices.lenient * (prices.strict / prices.lenient) ** share
        chain.search(batch, neighbours=_NEIGHBOURS, bound=prices.bound)
        yield annealing.Point(iteration=iteration + 1, costs=chain.best)


def _by_count(effort: Effort) -> Iterator[tuple[float, int]]:
    """Yield the share that is done of a chain, and the next number of proposals."""
    total = (effort.proposals or 0) // effort.chains
    for step in range(_BATCHES):
        share = step / _BATCHES
        yield share, total * (step + 1) // _BATCHES - total * step // _BATCHES


def _by_clock(effort: Effort, began_s: float, index: int) -> Iterator[tuple[float, int]]:
    """Likewise until the clock is at the end of this chain's part of the budget."""
    budget_s = effort.budget_s or 0.0
    starts_s, end_s = effort.now_s(), began_s + budget_s * (index + 1) / effort.chains
    batch, before_s = _FIRST_BATCH, starts_s
    while before_s < end_s:
        yield (before_s - starts_s) / (end_s - starts_s), batch
        now_s = effort.now_s()
        fits = batch * budget_s / _BATCHES / max(now_s - before_s, 1e-9)
        batch, before_s = int(np.clip(fits, 1, _MOST_BATCH)), now_s
