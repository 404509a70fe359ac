"""That a half-empty node tries one Pod where caution alone would keep it waiting for ever (ADR 30).

A cautious cost can be more than all that is left of a node, and where the node is never empty nothing would ever
correct it: a class that nobody has measured; one whose Pod ended before it showed, or showed wrongly; one that is
larger than what standing Pods leave. So where at least half of the ceiling is left, one such Pod gets in.
"""

# Of the ceiling, what has to be left. Up to here a cost is in nobody's way.
FROM = 0.5
# What the Pod is then said to take of the room: more than half, so that two never fit. The rest is for what is promised
# already: a small Pod that waits for its image would otherwise hold the tried one back for as long.
_OF_ROOM = 0.75
# A node on which no Pod has started or ended for this long stands still: what its Pods will give back is not coming.
_STILL_S = 15.0


class Trial:
    """Of one node; knows for how long it has stood still."""

    __slots__ = ("_still_s",)

    def __init__(self) -> None:
        self._still_s = 0.0

    def changed(self) -> None:
        """A Pod has started or ended."""
        self._still_s = 0.0

    def tick(self, dt_s: float) -> None:
        """Move on by this time."""
        self._still_s += dt_s

    def is_due(self, *, is_unknown: bool, runs: bool) -> bool:
        """Whether a Pod is tried of a class that nobody has measured, or of one that does not run on the node.

        >>> Trial().is_due(is_unknown=True, runs=False), Trial().is_due(is_unknown=False, runs=False)
        (True, False)
        """
        return is_unknown or (self._still_s >= _STILL_S and not runs)


def cost_plus(plus: float, *, room: float, half: float, least: float) -> float:
    """c+ of a tried Pod in one dimension, in its unit: at most `plus`, and less than the room.

    half: FROM of the ceiling. least: what is known of the cost where that cannot be squeezed.

    >>> cost_plus(2.0, room=1.5, half=0.8, least=0.0), cost_plus(2.0, room=1.5, half=0.8, least=1.75)
    (1.125, 1.75)
    """
    return min(plus, max(half, _OF_ROOM * room, least))
