"""Placements of less absolute cost (`gains`), by series of moves.

A search with weights of the whole problem takes the traffic of one pair of many for noise. Here each step is the one
move that gains most, as long as one gains. Where none does, a series begins with each of the moves that lose least and
goes on with the best move of any sign, each container once; of the series, the beginning is kept up to where it has
gained most, if it has gained. So two saturated servers exchange containers, and several that talk go to another server
together, though the first of them loses by that. Where no series gains, some random moves are made, and it begins
again; what it reaches is kept if it is better.

Sources: Kernighan and Lin, "An efficient heuristic procedure for partitioning graphs" (1970), with single moves as by
Fiduccia and Mattheyses (1982); iterated local search as by Lourenco, Martin and Stuetzle (2003).
"""

from collections.abc import Callable

import numpy as np

from carico_core.numerics import arrays
from carico_core.numerics.rescheduling.containers import gains, model

# Moves of a series, and series that are tried before a placement counts as the best that they reach.
LENGTH, STARTS = 10, 64
# How often it begins again, and the most random moves before that.
SEARCHES, KICKED = 16, 10
# Below this, a gain is rounding.
_LEAST = 1e-9
# What it is worth not to move, in tasks: of two places that are as good, a container takes the one where it is.
_HOME = 1e-6
# A table of so many entries is calculated whole faster than in parts. Of a larger one, that many at a time at first.
_SMALL, _BLOCK = 4_000, 1_000_000
_ALL = slice(None)
IsOver = Callable[[], bool]


def solve(
    problem: model.Problem, *, seed: int, weights: gains.Weights, room: arrays.Array | None = None,
    is_over: IsOver = lambda: False,
) -> list[model.Ints]:  # fmt: skip
    """Return placements that cost less than the present one, the best first.

    room (N,): how many more containers each server takes than now; None: any number. is_over: whether the time is up,
    asked between moves: what has been found by then is returned. Raises `errors.SettingsError` if the present placement
    violates a constraint.
    """
    model.check_present(problem)
    groups, group = model.contracted(problem)
    table = _Table(groups, weights, np.full(groups.servers, np.inf) if room is None else room)
    if not table.gains.size:
        return []
    random = np.random.default_rng(seed)
    table.improve(is_over)
    best, found = table.placed.copy(), {table.placed.tobytes(): table.placed.copy()}
    for _ in range(SEARCHES):
        if is_over():
            break
        table.restore(best)
        table.kick(random)
        table.improve(is_over)
        found[table.placed.tobytes()] = table.placed.copy()
        best = min(best, table.placed.copy(), key=lambda each: gains.cost(groups, each, weights))
    costs = sorted((gains.cost(groups, each, weights), key) for key, each in found.items())
    now = gains.cost(groups, groups.present, weights)
    return [found[key][group] for cost, key in costs if cost < now - _LEAST]


class _Table:
    """A placement, and what each move from it would gain: by container that may move and server, -inf if impossible."""

    def __init__(self, problem: model.Problem, weights: gains.Weights, room: arrays.Array) -> None:
        self._problem = problem
        self.placed: model.Ints = problem.present.copy()
        self._places = room.copy()
        # Rows of all tables are `units`: containers that may move.
        self.units = units = np.flatnonzero(problem.movable)
        self._rows = np.arange(len(units))
        self._row_of = np.full(problem.containers, -1)
        self._row_of[units] = self._rows
        self._locked = np.zeros(len(units), dtype=bool)
        self._home, self._allowed, self._need = problem.present[units], problem.allowed[units], problem.tasks[units]
        self._request = problem.request[units]
        self._free = problem.capacity * (1.0 + model.ROUNDING)
        self._free -= np.column_stack([model.totals(self.placed, each, problem.servers) for each in problem.request.T])
        # Tasks up to saturation; below 0 where a server is above it.
        self._spare = problem.saturation * problem.capacity[:, 0]
        self._spare -= model.totals(self.placed, problem.tasks, problem.servers)
        self._talks = self._adjacent(problem.pairs, problem.traffic / weights.task_bytes)
        self._apart = self._adjacent(problem.apart, np.ones(len(problem.apart)))
        self._near = self._to_servers(self._talks)
        self._clashes = self._to_servers(self._apart)
        self.gains: arrays.Array = np.empty(self._allowed.shape)
        for rows in np.array_split(self._rows, self.gains.size // _BLOCK + 1):
            self._fill(rows, _ALL)

    def improve(self, is_over: IsOver) -> None:
        """Make moves that gain, then series that gain, until none of both does."""
        has_gained = True
        while has_gained:
            while not is_over() and (best := self._best()) is not None and self.gains[best] > _LEAST:
                self._move(*best)
            has_gained = any(self._follow(*start, is_over) for start in self._starts() if not is_over())

    def kick(self, random: np.random.Generator) -> None:
        """Make some random moves."""
        for _ in range(int(random.integers(2, KICKED + 1))):
            possible = np.flatnonzero(self.gains.ravel() > -np.inf)
            if possible.size:
                row, server = divmod(int(random.choice(possible)), self._problem.servers)
                self._move(row, server)

    def restore(self, placement: model.Ints) -> None:
        """Go back to a placement."""
        rows = np.flatnonzero(self.placed[self.units] != placement[self.units])
        changed = {int(each) for placed in (self.placed, placement) for each in placed[self.units[rows]]}
        for row in rows:
            self._shift(int(row), int(placement[self.units[row]]))
        self._refill(changed)

    def _starts(self) -> list[tuple[int, int]]:
        """Return the best move of each container, the one that loses least first."""
        most = self.gains.max(axis=1)
        rows = np.argsort(-most, kind="stable")[:STARTS]
        return [(int(row), int(self.gains[row].argmax())) for row in rows if most[row] > -np.inf]

    def _follow(self, row: int, server: int, is_over: IsOver) -> bool:
        """Make a series of moves that begins with this one, up to where it has gained most; False if it never gains."""
        made: list[tuple[int, int]] = []
        total, most, kept = 0.0, _LEAST, 0
        changed: set[int] = set()
        best: tuple[int, int] | None = (row, server)
        while best is not None and len(made) < LENGTH and not is_over():
            row, server = best
            made.append((row, int(self.placed[self.units[row]])))
            total += float(self.gains[row, server])
            self._locked[row] = True
            changed |= self._move(row, server)
            if total > most:
                most, kept = total, len(made)
            best = self._best()
        self._locked[:] = False
        for each, source in reversed(made[kept:]):
            self._shift(each, source)
        self._refill(changed)
        return kept > 0

    def _best(self) -> tuple[int, int] | None:
        """Return the possible move that gains most; None if none is possible."""
        row, server = divmod(int(self.gains.argmax()), self._problem.servers)
        return (row, server) if self.gains[row, server] > -np.inf else None

    def _move(self, row: int, server: int) -> set[int]:
        """Move a container; return the two servers."""
        changed = {int(self.placed[self.units[row]]), server}
        self._shift(row, server)
        self._refill(changed)
        return changed

    def _shift(self, row: int, server: int) -> None:
        """Change the placement alone, not the gains."""
        unit = int(self.units[row])
        source = int(self.placed[unit])
        self._free[source] += self._request[row]
        self._free[server] -= self._request[row]
        self._spare[source] += self._need[row]
        self._spare[server] -= self._need[row]
        self._places[source] += 1.0
        self._places[server] -= 1.0
        self.placed[unit] = server
        for table, adjacent in ((self._near, self._talks), (self._clashes, self._apart)):
            if unit in adjacent:
                rows, weight = adjacent[unit]
                table[rows, source] -= weight
                table[rows, server] += weight

    def _refill(self, changed: set[int]) -> None:
        """Calculate again what moves from and to these servers gain: a move changes no others."""
        if self.gains.size <= _SMALL:
            self._fill(_ALL, _ALL)
            return
        servers = np.array(sorted(changed), dtype=np.intp)
        self._fill(np.flatnonzero(np.isin(self.placed[self.units], servers)), _ALL)
        self._fill(_ALL, servers)

    def _fill(self, rows: model.Ints | slice, servers: model.Ints | slice) -> None:
        """Calculate gains of these rows and servers; one of both is all."""
        at, need, home = self.placed[self.units[rows]], self._need[rows], self._home[rows]
        over, spare = np.maximum(-self._spare, 0.0), self._spare[servers]
        stays = self._near[self._rows[rows], at] - (over[at] - np.maximum(-self._spare[at] - need, 0.0))
        stays += _HOME * (home == at)
        goes = self._near[rows][:, servers] - (np.maximum(need[:, None] - spare, 0.0) - over[servers])
        every = np.arange(self._problem.servers)[servers]
        goes += _HOME * (home[:, None] == every) - stays[:, None]
        fits = self._allowed[rows][:, servers] & (at[:, None] != every) & ~self._locked[rows][:, None]
        fits &= self._places[servers] >= 1.0
        if self._apart:
            fits &= self._clashes[rows][:, servers] < 0.5
        for resource, request in enumerate(self._request[rows].T):
            fits &= request[:, None] <= self._free[servers, resource]
        self.gains[rows, servers] = np.where(fits, goes, -np.inf)

    def _adjacent(self, pairs: model.Ints, weight: arrays.Array) -> dict[int, tuple[model.Ints, arrays.Array]]:
        """Return for each container the rows of its partners that may move, and the weights."""
        found = {}
        for one, partners in gains.adjacent(pairs, weight).items():
            rows = self._row_of[list(partners)]
            found[one] = rows[rows >= 0], np.array(list(partners.values()))[rows >= 0]
        return found

    def _to_servers(self, adjacent: dict[int, tuple[model.Ints, arrays.Array]]) -> arrays.Array:
        """Return by row and server the weight of its pairs with containers on that server."""
        found = np.zeros(self._allowed.shape)
        for one, (rows, weight) in adjacent.items():
            found[rows, self.placed[one]] += weight
        return found
