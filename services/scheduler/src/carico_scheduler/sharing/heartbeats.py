"""Which members are alive: each one announces itself several times a second.

One that may not commit announces that it has no share. The others must know its name nevertheless: it may hold the
Lease.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable

from carico_core.domain import errors, messages
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_core.wire import replicas, subjects

# Two of three heartbeats may be lost. A member that is gone is noticed within this time, and its share is taken.
EVERY_S = 0.4
ALIVE_S = 1.4
# A Lease that is held under a name that no member has had for this long is held by a scheduler that does not share. But
# the Lease of a member that is gone lasts for its whole time, and is seen to be renewed up to `renew_s` later.
IDENTITY_KEPT_S = 60.0
IDENTITY_KEPT_LEASES = 2.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LastHeartbeat:
    """The newest heartbeat of a member, and when it arrived: monotonic seconds."""

    beat: messages.Heartbeat
    at_s: float


class Heartbeats:
    """The members of which this one has heard."""

    def __init__(
        self, replica: str, *, boot: str, identity: Callable[[], str], clock: clocks.Clock,
        lease_s: float, on_change: Callable[[], None], on_drop: Callable[[str], None],
    ) -> None:  # fmt: skip
        """`identity` returns this member's name in the Lease, which lasts for `lease_s`.

        `on_change` is called when other members have come or gone, or have other Pods to be corrected.
        """
        self._replica = replica
        self._boot = boot
        self._identity = identity
        self._clock = clock
        self._identity_kept_s = max(IDENTITY_KEPT_S, IDENTITY_KEPT_LEASES * lease_s)
        self._on_change = on_change
        self._on_drop = on_drop
        self._known = replicas.Replicas(replica, lease_s=ALIVE_S)
        self._identities: dict[str, float] = {}
        self._newest: dict[str, LastHeartbeat] = {}
        self._seq = 0
        # When `note_turn` was called last; None before the first time.
        self._ran_s: float | None = None

    @property
    def stood_still(self) -> bool:
        """True if this process was stopped a moment ago, so that all others seem to be gone."""
        return self._ran_s is not None and self._clock.monotonic_s() - self._ran_s > ALIVE_S

    def note_turn(self) -> None:
        """Note that this process runs, several times a second; what it was stopped for counts as silence of no one."""
        self._note_turn(self._clock.monotonic_s())

    def _note_turn(self, now_s: float) -> None:
        if self._ran_s is not None and now_s - self._ran_s > EVERY_S:
            self._known.excuse(now_s - self._ran_s - EVERY_S / 2.0)
        self._ran_s = now_s

    def others(self) -> list[str]:
        """Return the names of the others that are alive."""
        return self._known.others(self._clock.monotonic_s())

    def newest(self) -> list[LastHeartbeat]:
        """Return the newest heartbeat of each of the others that are alive."""
        return self._newest_at(self._clock.monotonic_s())

    def _newest_at(self, now_s: float) -> list[LastHeartbeat]:
        return [self._newest[name] for name in self._known.others(now_s)]

    def holder(self, identity: str) -> LastHeartbeat | None:
        """Return the newest heartbeat of the one that is alive and has this name in the Lease; None if none has."""
        return next((each for each in self.newest() if each.beat.identity == identity), None)

    def knows(self, identity: str) -> bool:
        """Return whether a name in the Lease is that of a member, alive or gone a moment ago."""
        at_s = self._identities.get(identity, -math.inf)
        return identity == self._identity() or self._clock.monotonic_s() - at_s < self._identity_kept_s

    def take(self, subject: str, payload: bytes) -> None:
        """Take in a heartbeat."""
        try:
            found = wire.decode_heartbeat(payload, subject=subject)
        except errors.MessageError as error:
            self._on_drop(error.reason.value)
            return
        # One time for all that follows, so that `_newest` has who is known also if the process is stopped here.
        now_s = self._clock.monotonic_s()
        if self._ran_s is not None:
            # It may be the first thing that happens after the process was stopped.
            self._note_turn(now_s)
        before = self._newest_at(now_s)
        if not self._known.take(found.replica, boot=found.boot, seq=found.seq, now_s=now_s):
            return
        kept_s = self._identity_kept_s
        self._identities = {name: at_s for name, at_s in self._identities.items() if now_s - at_s < kept_s}
        self._identities[found.identity] = now_s
        self._newest[found.replica] = LastHeartbeat(beat=found, at_s=now_s)
        if found.is_leaving:
            self._known.forget(found.replica)
        after = self._newest_at(now_s)
        self._newest = {each.beat.replica: each for each in after}
        if _shares(after) != _shares(before):
            self._on_change()

    def next(
        self, *, is_leaving: bool, report: messages.MemberReport | None = None,
        corrections: messages.Corrections | None = None,
    ) -> tuple[str, bytes]:  # fmt: skip
        """Return the subject and the bytes of this member's next heartbeat; `is_leaving`: it has no share."""
        self._seq += 1
        made = messages.Heartbeat(
            replica=self._replica, boot=self._boot, seq=self._seq, ts_ns=self._clock.wall_ns(),
            identity=self._identity(), is_leaving=is_leaving, report=report, corrections=corrections,
        )  # fmt: skip
        return subjects.member(self._replica), wire.encode_heartbeat(made)


def _shares(heard: Iterable[LastHeartbeat]) -> list[tuple[object, ...]]:
    """Return who is alive, and which Pods are handed over and held: not how long they have waited, which grows."""
    found = []
    for each in heard:
        passed = each.beat.corrections
        found.append((each.beat.replica, *(() if passed is None else (set(passed.handed), passed.held))))
    return found
