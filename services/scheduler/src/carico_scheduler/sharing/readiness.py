"""Whether one member may commit now, and if not, why."""

from carico_core.runtime.process import clock as clocks
from carico_scheduler.sharing import heartbeats, stream
from carico_scheduler.sharing import parts as member_parts


class Readiness:
    """The readiness of one member. `bus` is None until it has one; set `is_leaving` once it stops."""

    def __init__(
        self, parts: member_parts.MemberParts, beats: heartbeats.Heartbeats, following: stream.Stream
    ) -> None:  # fmt: skip
        self._parts = parts
        self._heartbeats = beats
        self._stream = following
        self._clock: clocks.Clock = parts.clock
        self.bus: member_parts.Bus | None = None
        self.is_leaving = False

    def why_not(self) -> str | None:
        """Return why this member may not commit now; None if it may."""
        if self.is_leaving:
            return "stopping"
        if self.bus is None or not self.bus.connected:
            return "not connected to NATS"
        if self._clock.monotonic_s() - self._parts.lease.heard_s > self._parts.lease_read_s:
            return "the Lease cannot be read: a scheduler that does not share may hold it"
        intruder = self.intruder()
        if intruder:
            return f"{intruder} holds the Lease and does not share: stop it, or let it share"
        return self._parts.why_not_fit() or self._stream.why_not_ready()

    def intruder(self) -> str:
        """Return who holds the Lease and does not share; empty if there is none."""
        holder = self._parts.lease.holder
        return "" if self._heartbeats.knows(holder) else holder

    def term(self) -> int | None:
        """Return the number of the stream's epoch in which this member may decide and bind now; None if it must not."""
        return self._stream.number if self.why_not() is None else None
