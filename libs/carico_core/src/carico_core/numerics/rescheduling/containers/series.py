"""Placements of less absolute cost (`gains`), by series of moves.

A search with weights of the whole problem takes the traffic of one pair of many for noise. Here each step is the one
move that gains most, as long as one gains. Where none does, a series begins with each of the moves that lose least and
goes on with the best move of any sign, each container once; of the series, the beginning is kept up to where it has
gained most, if it has gained. So two saturated servers exchange containers, and several that talk go to another server
together, though the first of them loses by that. Where no series gains, some containers go to random servers, each with
those that it exchanges most with, and it begins again; what it reaches is kept if it is better.

Sources: Kernighan and Lin, "An efficient heuristic procedure for partitioning graphs" (1970), with single moves as by
Fiduccia and Mattheyses (1982); iterated local search as by Lourenco, Martin and Stuetzle (2003).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from carico_core.numerics import arrays
from carico_core.numerics.rescheduling.containers import gains, model

# Moves of a series, and series that are tried before a placement counts as the best that they reach.
LENGTH, STARTS = 10, 64
# How often in a row it begins again without finding anything better, and the most random moves before that.
SEARCHES, KICKED = 16, 10
# Below this, a gain is rounding.
_LEAST = 1e-9
# What it is worth not to move, in tasks: of two places that are as good, a container takes the one where it is.
_HOME = 1e-6
# A table of so many entries is calculated whole faster than in parts, and copied faster than moves are taken back.
_SMALL = 4_000
# Up to so many entries, a container may go to any server. In a larger table it has so many: its own, those with most
# room, and those of the partners with which it exchanges most.
_WHOLE, _COLUMNS, _ROOMY = 2_000_000, 24, 8
_NONE = -1
IsOver = Callable[[], bool]


def solve(
    problem: model.Problem, *, seed: int, weights: gains.Weights, room: arrays.Array | None = None,
    prices: arrays.Array | None = None, is_over: IsOver = lambda: False,
) -> list[model.Ints]:  # fmt: skip
    """Return placements that cost less than the present one, the best first.

    room (N,): how many more containers each server takes than now; None: any number. prices (P,): what it costs to
    move each container, in tasks. is_over: whether the time is up, asked between moves: what has been found by then is
    returned. Raises `errors.SettingsError` if the present placement violates a constraint.
    """
    model.check_present(problem)
    groups, group = model.contracted(problem)
    price = np.zeros(groups.containers) if prices is None else model.totals(group, prices, groups.containers)
    table = _Table(groups, weights, np.full(groups.servers, np.inf) if room is None else room, price)
    if not table.gains.size:
        return []

    def cost(placement: model.Ints) -> float:
        return gains.cost(groups, placement, weights) + float(price[placement != groups.present].sum())

    random = np.random.default_rng(seed)
    table.improve(is_over)
    best, found = table.placed.copy(), {table.placed.tobytes(): table.placed.copy()}
    in_vain = 0
    while in_vain < SEARCHES and not is_over():
        table.restore(best)
        table.kick(random)
        table.improve(is_over)
        found[table.placed.tobytes()] = table.placed.copy()
        is_better = cost(table.placed) < cost(best) - _LEAST
        best, in_vain = (table.placed.copy(), 0) if is_better else (best, in_vain + 1)
    costs = sorted((cost(each), key) for key, each in found.items())
    now = cost(groups.present)
    return [found[key][group] for each, key in costs if each < now - _LEAST]


class _Table:
    """A placement, and what each move from it would gain: by container that may move and column, -inf if impossible.

    columns (U, C): the servers to which each container may go; `_NONE` where it has fewer.
    """

    def __init__(
        self, problem: model.Problem, weights: gains.Weights, room: arrays.Array, price: arrays.Array | None = None
    ) -> None:
        self._problem = problem
        self.placed: model.Ints = problem.present.copy()
        self._places = room.copy()
        # Rows of all tables are `units`: containers that may move.
        self.units = units = np.flatnonzero(problem.movable)
        self._row_of = np.full(problem.containers, _NONE)
        self._row_of[units] = np.arange(len(units))
        self._locked = np.zeros(len(units), dtype=bool)
        self._home, self._need, self._request = problem.present[units], problem.tasks[units], problem.request[units]
        self._price = _HOME + (np.zeros(len(units)) if price is None else price[units])
        self._free = problem.capacity * (1.0 + model.ROUNDING)
        self._free -= np.column_stack([model.totals(self.placed, each, problem.servers) for each in problem.request.T])
        # Tasks up to saturation; below 0 where a server is above it.
        self._spare = problem.saturation * problem.capacity[:, 0]
        self._spare -= model.totals(self.placed, problem.tasks, problem.servers)
        self._talks = _Pairs(self, problem.pairs, problem.traffic / weights.task_bytes)
        self._apart = _Pairs(self, problem.apart, np.ones(len(problem.apart)))
        self.is_whole = len(units) * problem.servers <= _WHOLE
        self._alike = [] if self.is_whole else _alike(problem.allowed, units)
        self.columns: model.Ints = np.empty((len(units), 0), dtype=np.int32)
        self.gains: arrays.Array = np.empty((len(units), 0))
        # Placements from which no series gains: most searches of a small problem end in one that is known. Of a large
        # one, series from the same placement differ with the columns.
        self._at_rest: set[bytes] = set()
        self._choose_columns()

    def improve(self, is_over: IsOver) -> None:
        """Make moves that gain, then series that gain, until none of both does."""
        has_gained = True
        while has_gained:
            while not is_over() and (best := self._best()) is not None and self.gains[best] > _LEAST:
                self._move(*best)
            if (placed := self.placed.tobytes()) in self._at_rest:
                return
            has_gained = any(self._follow(*start, is_over) for start in self._starts() if not is_over())
            if not has_gained and self.is_whole:
                self._at_rest.add(placed)

    def kick(self, random: np.random.Generator) -> None:
        """Make some random moves: a container goes to a random server, and those that it exchanges most with too.

        Alone it would come back, or the next series would only bring it to where its partners are.
        """
        left = int(random.integers(2, KICKED + 1))
        while left > 0:
            possible = np.flatnonzero(self.gains.ravel() > -np.inf)
            if not possible.size:
                return
            row, column = divmod(int(random.choice(possible)), self.gains.shape[1])
            together, server = [row, *self._talks.closest(row, left - 1)], int(self.columns[row, column])
            for each in together:
                for place in np.flatnonzero((self.columns[each] == server) & (self.gains[each] > -np.inf)).tolist():
                    self._move(each, place)
            left -= len(together)

    def restore(self, placement: model.Ints) -> None:
        """Go back to a placement."""
        rows = np.flatnonzero(self.placed[self.units] != placement[self.units])
        changed = {int(each) for placed in (self.placed, placement) for each in placed[self.units[rows]]}
        for row in rows:
            self._shift(int(row), int(placement[self.units[row]]))
        if self.is_whole:
            self._refill(changed)
        else:
            # Where there is room has changed since they were chosen.
            self._choose_columns()

    def _starts(self) -> list[tuple[int, int]]:
        """Return the best move of each container, the one that loses least first."""
        most = self.gains.max(axis=1)
        rows = np.argsort(-most, kind="stable")[:STARTS]
        return [(int(row), int(self.gains[row].argmax())) for row in rows if most[row] > -np.inf]

    def _follow(self, row: int, column: int, is_over: IsOver) -> bool:
        """Make a series of moves that begins with this one, up to where it has gained most; False if it never gains."""
        made: list[tuple[int, int]] = []
        total, most, kept = 0.0, _LEAST, 0
        changed: set[int] = set()
        before = [each.copy() for each in self._arrays()] if self.gains.size <= _SMALL else None
        best: tuple[int, int] | None = (row, column)
        while best is not None and len(made) < LENGTH and not is_over():
            row, column = best
            made.append((row, int(self.placed[self.units[row]])))
            total += float(self.gains[row, column])
            self._locked[row] = True
            changed |= self._move(row, column)
            if total > most:
                most, kept = total, len(made)
            best = self._best()
        self._locked[:] = False
        if before is not None and kept == 0:
            for array, was in zip(self._arrays(), before, strict=True):
                array[...] = was
            return False
        for each, source in reversed(made[kept:]):
            self._shift(each, source)
        self._refill(changed)
        return kept > 0

    def _arrays(self) -> tuple[arrays.Array | model.Ints, ...]:
        """Return all that a move changes."""
        pairs = (self._talks.own, self._talks.weight, self._apart.own, self._apart.weight)
        return (self.placed, self._free, self._spare, self._places, self.columns, self.gains, *pairs)

    def _best(self) -> tuple[int, int] | None:
        """Return the possible move that gains most; None if none is possible."""
        row, column = divmod(int(self.gains.argmax()), self.gains.shape[1])
        return (row, column) if self.gains[row, column] > -np.inf else None

    def _move(self, row: int, column: int) -> set[int]:
        """Move a container; return the two servers."""
        server = int(self.columns[row, column])
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
        for pairs in (self._talks, self._apart):
            pairs.shift(unit, source, server)
        if not self.is_whole:
            rows = self._talks.rows(unit)
            for each in rows[~(self.columns[rows] == server).any(axis=1)].tolist():
                self._open(each, server)

    def _open(self, row: int, server: int) -> None:
        """Let a container go to a server of a partner, in place of the one with which it exchanges least."""
        # The first is where it was at first.
        column = 1 + int(self._talks.weight[row, 1:].argmin())
        self.columns[row, column] = server
        for pairs in (self._talks, self._apart):
            pairs.weight[row, column] = pairs.between(row, server)

    def _choose_columns(self) -> None:
        """Choose the servers to which containers may go, and calculate what that gains."""
        servers = self._problem.servers
        if self.is_whole:
            self.columns = np.tile(np.arange(servers, dtype=np.int32), (len(self.units), 1))
        else:
            roomy = np.full((len(self.units), _ROOMY), _NONE, dtype=np.int32)
            for rows in self._alike:
                found = self._roomy(rows)
                roomy[rows, : len(found)] = found
            talking = self._talks.servers(_COLUMNS - _ROOMY - 1)
            self.columns = _distinct(np.column_stack((self._home, talking, roomy)).astype(np.int32))
        for pairs in (self._talks, self._apart):
            pairs.fill()
        self.gains = np.empty(self.columns.shape)
        self._fill()

    def _roomy(self, rows: model.Ints) -> model.Ints:
        """Return the servers with most tasks up to saturation where most of these containers, all alike, fit."""
        open_to = self._problem.allowed[self.units[rows[0]]] & (self._places >= 1.0)
        fit = open_to & (self._free >= np.median(self._request[rows], axis=0)).all(axis=1)
        servers = np.flatnonzero(fit)
        return servers[np.argsort(-self._spare[servers], kind="stable")[:_ROOMY]]

    def _refill(self, changed: set[int]) -> None:
        """Calculate again what moves from and to these servers gain: a move changes no others."""
        if self.gains.size <= _SMALL:
            self._fill()
            return
        is_changed = np.zeros(self._problem.servers + 1, dtype=bool)
        is_changed[list(changed)] = True
        # The last one is that of `_NONE`.
        entries = is_changed[self.columns]
        entries[is_changed[self.placed[self.units]]] = True
        self._fill(np.flatnonzero(entries))

    def _fill(self, entries: model.Ints | None = None) -> None:
        """Calculate the gains of these entries of the flattened table; None: of all, row by row."""
        # Of all, what depends on the container alone is a column, calculated once for its row.
        chosen: Any = ... if entries is None else np.divmod(entries, self.gains.shape[1])
        rows: Any = (slice(None), None) if entries is None else chosen[0]
        server, at = self.columns[chosen], self.placed[self.units][rows]
        need, home, price = self._need[rows], self._home[rows], self._price[rows]
        over = np.maximum(-self._spare, 0.0)
        stays = self._talks.own[rows] - (over[at] - np.maximum(-self._spare[at] - need, 0.0)) + price * (home == at)
        goes = self._talks.weight[chosen] - (np.maximum(need - self._spare[server], 0.0) - over[server])
        goes += price * (home == server) - stays
        fits = self._problem.allowed[self.units[rows], server] & (at != server) & (server != _NONE)
        fits &= ~self._locked[rows] & (self._places >= 1.0)[server]
        fits &= self._apart.weight[chosen] < 0.5
        for request, free in zip(self._request.T, self._free.T, strict=True):
            fits &= request[rows] <= free[server]
        self.gains[chosen] = np.where(fits, goes, -np.inf)


class _Pairs:
    """Pairs of containers with weights: those of each row with all containers on its own server, and of each column."""

    def __init__(self, table: _Table, pairs: model.Ints, weight: arrays.Array) -> None:
        self._table = table
        one, other = np.concatenate((pairs, pairs[:, ::-1])).reshape(-1, 2).T.astype(np.intp)
        order = np.argsort(one, kind="stable")
        self._one, self._other, self._weight = one[order], other[order], np.concatenate((weight, weight))[order]
        units = np.arange(table.placed.size + 1)
        self._first = np.searchsorted(self._one, units).tolist()
        # The same of partners that may move.
        may_move = table._row_of[self._other] != _NONE
        self._rows, self._row_weight = table._row_of[self._other[may_move]], self._weight[may_move]
        self._row_first = np.searchsorted(self._one[may_move], units).tolist()
        self.own: arrays.Array = np.zeros(len(table.units))
        self.weight: arrays.Array = np.zeros((len(table.units), 0))

    def rows(self, unit: int) -> model.Ints:
        """Return the rows of a container's partners."""
        found: model.Ints = self._rows[self._row_first[unit] : self._row_first[unit + 1]]
        return found

    def closest(self, row: int, most: int) -> list[int]:
        """Return the rows of the partners of a row with which it has the most weight."""
        unit = int(self._table.units[row])
        part = slice(self._row_first[unit], self._row_first[unit + 1])
        found: list[int] = self._rows[part][np.argsort(-self._row_weight[part], kind="stable")[:most]].tolist()
        return found

    def between(self, row: int, server: int) -> float:
        """Return the weight of a row's pairs with containers on a server."""
        unit = self._table.units[row]
        part = slice(self._first[unit], self._first[unit + 1])
        if part.start == part.stop:
            return 0.0
        return float(self._weight[part][self._table.placed[self._other[part]] == server].sum())

    def fill(self) -> None:
        """Calculate the weights of all rows and columns."""
        table, columns = self._table, self._table.columns
        rows, server, weight = self._ends()
        is_own = table.placed[table.units[rows]] == server
        self.own = model.totals(rows[is_own], weight[is_own], len(table.units))
        if table.is_whole:
            place = server
        else:
            is_here = columns[rows] == server[:, None]
            place, has_place = is_here.argmax(axis=1), is_here.any(axis=1)
            rows, place, weight = rows[has_place], place[has_place], weight[has_place]
        flat = rows * columns.shape[1] + place
        self.weight = model.totals(flat, weight, columns.size).reshape(columns.shape)

    def servers(self, most: int) -> model.Ints:
        """Return the servers (U, most) of each row's partners, those of most weight first; `_NONE` for no more."""
        rows, server, weight = self._ends()
        keys, place = np.unique(rows * self._table._problem.servers + server, return_inverse=True)
        row, server = np.divmod(keys, self._table._problem.servers)
        order = np.lexsort((-model.totals(place, weight, len(keys)), row))
        row, server = row[order], server[order]
        rank = np.arange(len(row)) - np.searchsorted(row, row)
        found = np.full((len(self._table.units), most), _NONE)
        found[row[rank < most], rank[rank < most]] = server[rank < most]
        return found

    def shift(self, unit: int, source: int, server: int) -> None:
        """Take in that a container has gone from one server to another."""
        if self._first[unit] == self._first[unit + 1]:
            return
        table, row = self._table, int(self._table._row_of[unit])
        self.own[row] = self.between(row, server)
        rows, weight = self.rows(unit), self._row_weight[self._row_first[unit] : self._row_first[unit + 1]]
        at, columns = table.placed[table.units[rows]], table.columns[rows]
        for place, change in ((source, -weight), (server, weight)):
            is_here = at == place
            self.own[rows[is_here]] += change[is_here]
            if table.is_whole:
                self.weight[rows, place] += change
            else:
                each, column = np.nonzero(columns == place)
                self.weight[rows[each], column] += change[each]

    def _ends(self) -> tuple[model.Ints, model.Ints, arrays.Array]:
        """Return the row, the partner's server and the weight of each end that may move."""
        rows = self._table._row_of[self._one]
        here = rows != _NONE
        return rows[here], self._table.placed[self._other[here]], self._weight[here]


def _alike(allowed: model.Bools, units: model.Ints) -> Sequence[model.Ints]:
    """Return the rows of containers that may be on the same servers."""
    found: dict[bytes, list[int]] = {}
    for row, bits in enumerate(np.packbits(allowed, axis=1)[units]):
        found.setdefault(bits.tobytes(), []).append(row)
    return [np.array(rows) for rows in found.values()]


def _distinct(servers: model.Ints) -> model.Ints:
    """Return a table whose rows have no server twice; the first one of it stays."""
    order = np.argsort(servers, axis=1, kind="stable")
    ranked = np.take_along_axis(servers, order, axis=1)
    again = np.zeros(servers.shape, dtype=bool)
    np.put_along_axis(again, order[:, 1:], ranked[:, 1:] == ranked[:, :-1], axis=1)
    return np.where(again, _NONE, servers)
