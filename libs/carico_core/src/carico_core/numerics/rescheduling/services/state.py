"""The arrays of the inner loop (`moves`): what a search reads, and the placement that it changes."""

from typing import NamedTuple

from carico_core.numerics import arrays
from carico_core.numerics.rescheduling.services import affinity


class Fixed(NamedTuple):
    """The problem as the inner loop reads it.

    begin (S + 1,): where the containers of each service begin. links (S + 1,): where its pairs begin in `partner`,
    `own` and `other`: with counts x and y on a machine, a pair keeps min(own x, other y) local there. lottery (T,): a
    pair for each ticket. floor (M + 1,): where the containers of each machine begin in `State.on`. talking (C,): the
    containers of services with traffic, or all if none has.
    """

    begin: affinity.Ints
    service: affinity.Ints
    request: arrays.Array
    allowed: affinity.Bools
    home: affinity.Ints
    before: affinity.Ints
    links: affinity.Ints
    partner: affinity.Ints
    own: arrays.Array
    other: arrays.Array
    pairs: affinity.Ints
    weight: arrays.Array
    lottery: affinity.Ints
    floor: affinity.Ints
    talking: affinity.Ints


class State(NamedTuple):
    """A placement; changed by the inner loop.

    where (P,): each container's machine; on: the containers of each machine; slot (P,): each one's place in it; filled
    (M,): how many there are. counts (M, S). free (M, 2). add, drop (M, S): what the gain would become more by. extra
    (P, 2): machine and service of which there are more than before, in no order; rank (M, S): the place in it, or -1.
    gain (1,). tally (4,): containers moved, entries of `extra`, `log` and `picks`. log (L, 2): container and machine of
    before, of the proposal that is looked at. picks (EVICTED,): containers that it is about to evict.
    """

    where: affinity.Ints
    on: affinity.Ints
    slot: affinity.Ints
    filled: affinity.Ints
    counts: affinity.Ints
    free: arrays.Array
    add: arrays.Array
    drop: arrays.Array
    extra: affinity.Ints
    rank: affinity.Ints
    gain: arrays.Array
    tally: affinity.Ints
    log: affinity.Ints
    picks: affinity.Ints
