"""How a scheduler ranks nodes: by room alone, with homes, or at random among the emptiest."""

from collections.abc import Callable, Sequence

import numpy as np

from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.rules import protocol
from carico_scheduler.sharing import shares
from carico_twin.evaluate.sharing import setup as setups

# `Choice.RANDOM` chooses among this many nodes for each Pod that a batch may have.
RANDOM_OF = 4


def ranking(
    setup: setups.Setup, own: str, names: Sequence[str], rng: np.random.Generator
) -> Callable[[protocol.Scorer], protocol.Scorer]:
    """Return what makes the scorer of the scheduler `own`, one of `names`, of the policy's."""
    if setup.mode is setups.Mode.SHARED and setup.choice is setups.Choice.HOMES:
        at_home = shares.Homes(own, fuller_pods=setup.fuller_pods)
        at_home.set_members(names)
        return lambda scorer: shares.HomeScore(scorer=scorer, fuller=at_home.fuller)
    if setup.mode is setups.Mode.SHARED and setup.choice is setups.Choice.RANDOM:
        return lambda scorer: _RandomScore(scorer, rng, most=RANDOM_OF * setup.batch)
    return lambda scorer: scorer


class _RandomScore:
    """Ranks some of the highest scores at random, above all others; a node that was just chosen is none of them."""

    def __init__(self, scorer: protocol.Scorer, rng: np.random.Generator, *, most: int) -> None:
        self._scorer = scorer
        self._rng = rng
        self._most = most

    def score(self, nodes: snapshot.Nodes, demand: demands.Demand) -> snapshot.Floats | float:
        """See `protocol.Scorer`."""
        found = self._scorer.score(nodes, demand)
        if isinstance(nodes, snapshot.NodeRow):
            return found
        values = np.array(found, dtype=np.float64)
        # Ties in random order.
        order = np.lexsort((self._rng.random(len(values)), -values))
        chosen = order[: self._most]
        values[chosen] = values.max() + 1.0 + self._rng.random(len(chosen))
        return values
