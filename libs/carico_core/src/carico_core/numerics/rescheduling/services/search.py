"""Annealing: the placement with the most local traffic within a limit of moved containers."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from carico_core.numerics.rescheduling import compiled
from carico_core.numerics.rescheduling.services import affinity, moves, start

# Shares of the proposals up to `Schedule.heavy_until`.
EARLY = moves.Mix(partner=0.8)
# Uniform random numbers for each proposal of a block, the mean use on M3; more would be drawn for nothing.
UNIFORM = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """hot, cold: the temperature at the start and end of each start: hot (cold / hot)^(share^bend) in between. Its unit
    is what one container next to a partner brings, in the mean over the traffic.

    block: proposals between two looks at the clock and at the limit of moves.
    price: what a moved container costs at first, times the limit of moves: all moves together cost this share of the
    traffic; `followed` says how it goes on. least_price: it does not fall below that, in units of the temperature.
    starts: how often the search starts from the present placement, one after the other. kept_from: the share of a start
    after which the limit binds and placements count. rise: how fast the price rises until one counts. heavy_until: the
    share of a start up to which pairs are drawn as often as they have traffic, and nothing goes home.
    """

    block: int = 2048
    hot: float = 2.0
    cold: float = 3e-3
    bend: float = 1.0
    price: float = 0.35
    follow: float = 0.03 / 2000.0
    follow_all: float = 100.0
    least_price: float = 1e-4
    starts: int = 1
    kept_from: float = 0.7
    rise: float = 60.0
    heavy_until: float = 0.0
    mix: moves.Mix = dataclasses.field(default_factory=moves.Mix)

    def followed(self, price: float, moved: int, limit: int, *, proposals: int, passed: float, rises: bool) -> float:
        """Return the price after so many proposals, `passed` as a share of a start: it follows the moved containers.

        rises: the limit binds, and no placement counts yet. At low temperatures, some moves too many would stay too
        many to the end.
        """
        # p <- p exp(x (moved - limit) / limit), at least p exp(rise) for a whole start that rises
        follow = max(self.follow * proposals, self.follow_all * passed) * (moved - limit) / limit
        if rises:
            follow = max(follow, self.rise * passed)
        return price * math.exp(min(follow, 1.0))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Found:
    """A placement: each container's machine (P,), the share of traffic that is local, and how many have moved."""

    where: affinity.Ints
    gain: float
    moved: int
    proposals: int


# Without a limit there is more to arrange: the places of the heaviest pairs are decided at the first temperatures, so
# time there pays. On RASA M3 (6 million proposals, mean of 12 seeds), bend 2.5 finds 86.1 % local, 1.6 finds 85.4 %.
# Moves home only cost time there.
LIMITED = Schedule()
UNLIMITED = Schedule(hot=1.0, bend=2.5, heavy_until=0.4)
# A small limit is used up by a few choices, and without a limit the first places of large services bind the others: a
# search that began badly does not revise them. There, several starts find more than a long one. On M3, at most 1 %
# moved: 25.9 % local with 60 million proposals in eight starts, 24.9 % with 20 million in one; without a limit, one
# start of 13 million finds 85.9 to 86.9 %, depending on the seed alone, and annealing again from what was found adds .1
# points. FEW: a small limit, as a share of the containers.
FEW = 0.06
STARTS = 12


def suited(problem: affinity.Problem, limit: int) -> Schedule:
    """Return the schedule for a limit of moves, for a search that is long enough."""
    has_limit, is_few = limit < problem.containers, limit <= FEW * problem.containers
    schedule = LIMITED if has_limit else UNLIMITED
    return dataclasses.replace(schedule, starts=STARTS) if is_few or not has_limit else schedule


def search(
    problem: affinity.Problem, *, limit: int, rng: np.random.Generator, progress: Callable[[int], float],
    schedule: Schedule | None = None,
) -> Found:  # fmt: skip
    """Return the best placement found in which at most `limit` containers have moved.

    progress: the share of the search that is over, of the number of proposals made so far; at 1 the search ends.
    """
    schedule = schedule or suited(problem, limit)
    fixed = start.fix(problem)
    best = Found(where=problem.home, gain=affinity.local(problem, fixed.before), moved=0, proposals=0)
    unit = float(problem.share @ fixed.weight)
    heavy = fixed._replace(lottery=start.lottery(problem.share, 1.0))
    made = 0
    drawn: moves.Draws | None = None
    for number in range(schedule.starts if limit else 0):
        state = start.place(problem, fixed, problem.home)
        has_limit, is_kept = limit < problem.containers, False
        price = schedule.price / limit if has_limit else 0.0
        share = progress(made) * schedule.starts - number
        while share < 1.0:
            binds, is_early = share >= schedule.kept_from, share < schedule.heavy_until
            heat = unit * schedule.hot * (schedule.cold / schedule.hot) ** share**schedule.bend
            # The same arrays for each block: memory for new ones takes a third of the time that all the numbers take.
            drawn = draws(rng, schedule.block, drawn)
            block = moves.propose(
                heavy if is_early else fixed, state, drawn, EARLY if is_early else schedule.mix, price, heat,
                limit if binds else problem.containers,
            )  # fmt: skip
            made += block
            moved = int(state.tally[0])
            is_kept = is_kept or (binds and moved <= limit)
            if binds and moved <= limit and state.gain[0] > best.gain:
                best = Found(where=state.where.copy(), gain=float(state.gain[0]), moved=moved, proposals=made)
            before, share = share, progress(made) * schedule.starts - number
            if has_limit:
                price = schedule.followed(
                    price, moved, limit, proposals=block, passed=share - before, rises=binds and not is_kept
                )
                price = max(price, schedule.least_price * unit)
    return dataclasses.replace(best, proposals=made)


def prepare() -> bool:
    """Have the inner loop compiled; True if it was compiled now, in some ten seconds, not loaded from disk."""
    if not compiled.IS_COMPILED:
        return False
    pair = affinity.Problem(
        size=np.ones(2, dtype=np.int32), request=np.ones((2, 2)), capacity=np.full((2, 2), 2.0),
        allowed=np.ones((2, 2), dtype=np.bool_), home=np.arange(2, dtype=np.int32),
        pairs=np.array([[0, 1]], dtype=np.int32), traffic=np.ones(1),
    )  # fmt: skip
    search(pair, limit=2, rng=np.random.default_rng(0), progress=lambda made: float(made > 0))
    return compiled.was_compiled(moves.propose)


def draws(rng: np.random.Generator, block: int, drawn: moves.Draws | None = None) -> moves.Draws:
    """Return random numbers for a block of at most so many proposals, in the arrays of `drawn` if given."""
    drawn = drawn or moves.Draws(
        # 24 random bits choose among containers and machines as well as 53, in half the time.
        uniform=np.empty(moves.DRAWS + block * UNIFORM, dtype=np.float32),
        exponential=np.empty(block),
        used=np.empty(1, dtype=np.int32),
    )
    rng.random(out=drawn.uniform, dtype=np.float32)
    rng.standard_exponential(out=drawn.exponential)
    drawn.used[0] = 0
    return drawn
