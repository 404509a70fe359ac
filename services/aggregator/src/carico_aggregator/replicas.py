"""Which replicas there are, by what they say, and who leads where only one may."""

from carico_core.domain import messages
from carico_core.wire import freshness


class Replicas:
    """The other replicas heard within a lease. Pure: time comes with each call."""

    def __init__(self, own: str, *, lease_s: float) -> None:
        self._own = own
        self._lease_s = lease_s
        self._heard_s: dict[str, float] = {}
        self._guard = freshness.SequenceGuard(lease_s)

    def hear(self, partial: messages.Partial, now_s: float) -> bool:
        """True where the partial is another replica's and new."""
        if partial.replica == self._own:
            return False
        if self._guard.accept(partial.replica, partial.boot, partial.seq, now_s) is not None:
            return False
        # Replicas are named anew at each start: whoever is silent for a lease is forgotten.
        self._heard_s = {name: at_s for name, at_s in self._heard_s.items() if now_s - at_s < self._lease_s}
        self._heard_s[partial.replica] = now_s
        return True

    def others(self, now_s: float) -> list[str]:
        """Names of the others that are alive."""
        return sorted(name for name, heard_s in self._heard_s.items() if now_s - heard_s < self._lease_s)

    def leader(self, now_s: float) -> str:
        """The first live replica by name: everybody who hears the same replicas names the same one.

        Two may lead for up to a lease after a partition; `sequential` then broadcasts two models in turn, and agents
        follow the one they heard last. Nothing is bound on it, so no lock is worth its cost.
        """
        return min([self._own, *self.others(now_s)])
