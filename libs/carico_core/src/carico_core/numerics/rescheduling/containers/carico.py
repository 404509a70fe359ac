"""The mode `carico`: annealing from the present placement, at temperatures that fit it, for any time budget.

It differs from the paper's variants in four things. It starts cold, so that the present placement is improved rather
than forgotten. Most proposals move a container to a server with which it exchanges traffic. The extremes of
normalization begin with what such a search reaches, rather than with none. And the temperature follows the share of the
budget that is spent, so that an answer is ready at any deadline. Several chains share a budget, each from the present
placement; the best of them is the answer.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from carico_core.numerics.rescheduling.containers import annealing, kernel, model

# Measured on the sizes L and XL: cntc and coc after .1 and .2 s vary by less than 1 % in a factor of two of each.
_NEIGHBOURS = 0.8
# In units of what a mean pair's traffic costs.
_HOT, _COLD = 1.0, 0.05
# The proposals favour traffic; with equal weights L ends with less traffic and more overload than ws-sa-pn.
_COC_WEIGHT = 0.6
# Without traffic: of what the range of overload costs.
_PAIR_LEAST = 1e-4
# A cold search reaches 85 to 95 % of the traffic and no overload; a random placement has a quarter more overload.
_CNTC_LEAST, _COC_MOST = 0.95, 1.25
# Without overload at the start: that much load above saturation on each server is as bad as that traffic.
_EXCESS = 0.05
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
    chains, answers = [], []
    for index in range(effort.chains):
        chain = annealing.Chain(problem, random)
        if index == 0:
            before_s = effort.now_s()
            chain.propose(0, neighbours=_NEIGHBOURS)
            began_s += effort.now_s() - before_s
        _set_extremes(chain, coc_bound)
        curve = tuple(_cooled(chain, effort, began_s, index, coc_bound))
        placement = chain.placement()
        chains.append(chain)
        answers.append(
            annealing.Answer(
                placement=placement, costs=model.costs(problem, placement), evaluations=chain.evaluations,
                curve=curve, parts_s={}, runs=effort.chains,
            )
        )  # fmt: skip
    best = annealing.best_of(answers, chains)
    evaluations = sum(each.evaluations for each in answers)
    return dataclasses.replace(best, evaluations=evaluations, parts_s={"ws": effort.now_s() - began_s})


def _set_extremes(chain: annealing.Chain, bound: float) -> None:
    numbers = chain.numbers
    cntc, coc = float(numbers[kernel.CNTC]), float(numbers[kernel.COC])
    numbers[kernel.CNTC_MIN], numbers[kernel.CNTC_MAX] = _CNTC_LEAST * cntc, max(cntc, 1e-9)
    numbers[kernel.COC_MIN] = 0.0
    numbers[kernel.COC_MAX] = max(_COC_MOST * coc, _EXCESS * chain.problem.servers)
    numbers[kernel.COC_WEIGHT] = _COC_WEIGHT
    numbers[kernel.PER_BYTE] = (1.0 - _COC_WEIGHT) / (numbers[kernel.CNTC_MAX] - numbers[kernel.CNTC_MIN])
    # A bound is a limit: to exceed it by a hundredth of the range costs more than any traffic can gain.
    numbers[kernel.PER_LOAD] = (_COC_WEIGHT if bound == 0.0 else 1000.0 * _COC_WEIGHT) / numbers[kernel.COC_MAX]


def _cooled(
    chain: annealing.Chain, effort: Effort, began_s: float, index: int, bound: float
) -> Iterator[annealing.Point]:
    progress = _by_count(effort) if effort.budget_s is None else _by_clock(effort, began_s, index)
    traffic = chain.problem.traffic
    pair = float(traffic.mean() * chain.numbers[kernel.PER_BYTE]) if traffic.size else 0.0
    hot = _HOT * max(pair, _PAIR_LEAST)
    for iteration, (share, batch) in enumerate(progress):
        chain.numbers[kernel.TEMPERATURE] = hot * (_COLD / _HOT) ** share
        chain.propose(batch, neighbours=_NEIGHBOURS, progressive=bound == 0.0, bound=bound)
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
