"""What is believed of a class's cost before this node has measured it: what peers measured, or a careful guess."""

from collections.abc import Mapping

from carico_core.domain import fusion
from carico_core.numerics.estimators import base, cost_constants, resource

# Spread left to a part of the profile that peers have measured as a whole, as a share of the cost.
_KNOWN_PART = 0.1
# Of the cluster's weight, a node's own share may be this much: beyond it rounding and a message's delay decide.
_MOST_TAKEN = 0.95


class Priors:
    """Of one dimension, in physical units; `floor`: its baseline as far as it is known, which the guess goes by."""

    __slots__ = ("_constants", "_facts", "_parts", "_peers", "_unknown", "floor")

    def __init__(self, facts: resource.Facts, constants: cost_constants.CostConstants, *, parts: int) -> None:
        self._facts = facts
        self._constants = constants
        self._parts = parts
        # What the other nodes measured: class -> (mean, variance between nodes included) of a Pod's whole cost.
        self._peers: dict[str, base.Evidence] = {}
        self.rest_on(0.0)

    def rest_on(self, floor: float) -> None:
        """Take this for the baseline from now on."""
        self.floor = floor
        # c0, sd 0.7 c0
        cost = self._facts.unknown_cost(floor)
        self._unknown: base.Evidence = (cost, (self._constants.unknown_sd * cost) ** 2)

    def hear(self, peers: Mapping[str, base.Evidence]) -> None:
        """Take in what the other nodes measured (mean, variance)."""
        share = self._constants.between_nodes
        # v_g + (0.2 c_g)^2
        self._peers = {name: (mean, variance + (share * mean) ** 2) for name, (mean, variance) in peers.items()}

    def heard(self, name: str) -> base.Evidence | None:
        """(mean, variance) of a class as its peers have it; None where they have not measured it."""
        return self._peers.get(name)

    def whole(self, name: str) -> base.Evidence:
        """(mean, variance) of what a Pod of a class takes, as peers have it, or as unknown."""
        if name not in self._peers:
            return self._unknown
        mean, variance = self._peers[name]
        return self._facts.held_to_range(mean), variance

    def by_part(self, name: str) -> list[base.Evidence]:
        """(mean, variance) of each part of a class that begins here."""
        if name not in self._peers:
            return [self._unknown] + [(0.0, self.unknown_part())] * (self._parts - 1)
        mean, variance = self.whole(name)
        # Peers tell the whole: taken as there at once, which is cautious, until this node has seen how it comes.
        return [(mean, variance)] + [(0.0, (_KNOWN_PART * mean) ** 2)] * (self._parts - 1)

    def unknown_part(self) -> float:
        """Variance of a part of the profile that nobody measured."""
        return float((self._constants.growth_sd * self._unknown[0]) ** 2)


def without(fused: base.Evidence, own: base.Evidence | None, share: float) -> base.Evidence | None:
    """A fused (mean, variance) with one part taken out; None where nothing is left. Weights 1 / (v + (share c)^2)."""
    mean, variance = fused
    if own is None:
        return fused
    part = own[1] + (share * own[0]) ** 2
    if part < fusion.EXACT_BELOW:
        return None
    # Of the whole weight 1 / variance, the part's share.
    taken = variance / part
    if not taken <= _MOST_TAKEN:
        return None
    return (mean - own[0] * taken) / (1.0 - taken), variance / (1.0 - taken)
