"""Which other replicas of a service are alive, by their messages. Pure: time is an argument."""

from carico_core.wire import freshness


class Replicas:
    """The other replicas that reported within a lease."""

    def __init__(self, own: str, *, lease_s: float) -> None:
        self._own = own
        self._lease_s = lease_s
        self._last_seen_s: dict[str, float] = {}
        self._guard = freshness.SequenceGuard(lease_s)

    def take(self, replica: str, *, boot: str, seq: int, now_s: float) -> bool:
        """Note a message of a replica; return whether it is another one's and new."""
        if replica == self._own:
            return False
        if self._guard.accept(replica, boot, seq, now_s) is not None:
            return False
        # A replica may have a new name after each start: one that is silent for a lease is forgotten.
        self._last_seen_s = {name: at_s for name, at_s in self._last_seen_s.items() if now_s - at_s < self._lease_s}
        self._last_seen_s[replica] = now_s
        return True

    def forget(self, replica: str) -> None:
        """Take in that a replica has left; a later message of it is refused like any other that is not newer."""
        self._last_seen_s.pop(replica, None)

    def excuse(self, stood_s: float) -> None:
        """Leave a time out of the age of all messages: this process stood still in it, and has read none."""
        self._last_seen_s = {name: at_s + stood_s for name, at_s in self._last_seen_s.items()}

    def others(self, now_s: float) -> list[str]:
        """Return the names of the others that are alive."""
        return sorted(name for name, seen_s in self._last_seen_s.items() if now_s - seen_s < self._lease_s)

    def leader(self, now_s: float, *, besides: str | None = None) -> str:
        """Return the first live replica by name: all who see the same replicas choose the same one.

        `besides`: one that does not count.

        Two may lead for up to a lease after a partition, so nothing may depend on it that must happen once. Aggregators
        then broadcast two models in turn, and agents follow the one they received last.
        """
        return min([self._own, *(name for name in self.others(now_s) if name != besides)])
