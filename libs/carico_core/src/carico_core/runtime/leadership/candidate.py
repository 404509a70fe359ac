"""One candidate for a Lease: whether it leads, and what it should write. No clock, no input or output.

The rules are those of client-go (k8s.io/client-go/tools/leaderelection), with two differences that only add safety: a
term is counted from the moment before the renewal was sent, not from its answer; and if someone deletes a held Lease,
the other candidates wait as long as if it were still held.

At most one candidate leads at a time. The holder stops `renew_s` after it sent its last accepted renewal; the others
saw that renewal later than it was sent, and wait `duration_s` from then. No two clocks are ever compared, only lengths
of time: clocks may differ by any amount, and only their rates matter. If every rate is within 1 - r to 1 + r of the
true one, this holds while renew_s / (1 - r) <= duration_s / (1 + r).
"""

import dataclasses
import math

from carico_core.wire.kubernetes import lease as leases


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimes:
    """The times of an election, in seconds: how long a Lease holds for others, for its holder, and between tries."""

    duration_s: int
    renew_s: float
    retry_s: float


class LeaseCandidate:
    """What one candidate knows of a Lease. Times are monotonic seconds of its own clock."""

    def __init__(self, *, identity: str, namespace: str, name: str, times: LeaseTimes) -> None:
        self.identity = identity
        self.times = times
        self._namespace = namespace
        self._name = name
        # As last read or written; kept if the Lease is deleted, since its holder may not know yet.
        self._record: leases.Lease | None = None
        self._observed_s = -math.inf
        self._is_known = False
        self._is_missing = False
        self._until_s = -math.inf

    def leads(self, now_s: float) -> bool:
        """True until `renew_s` after the last accepted renewal was sent."""
        return now_s < self._until_s

    @property
    def holder(self) -> str:
        """The holder of the Lease when it was last seen; empty if it has none."""
        return "" if self._record is None else self._record.holder

    @property
    def term(self) -> int:
        """The number of changes of holder so far: it differs between any two leaders in a row."""
        return -1 if self._record is None else self._record.transitions

    @property
    def must_read(self) -> bool:
        """True if the version of the Lease is not known, so that it must be read before it is written."""
        return not self._is_known

    def see(self, found: leases.Lease | None, now_s: float) -> None:
        """Take in the Lease as it was read; if it has changed, the wait for its end starts again."""
        self._is_known = True
        self._is_missing = found is None
        if found is None:
            return
        if self._record is None or _election_fields(found) != _election_fields(self._record):
            self._observed_s = now_s
        if found.holder != self.identity:
            # Someone edited the Lease, so the new holder did not wait for our term to end.
            self._until_s = -math.inf
        self._record = found

    def proposal(self, now_s: float, wall_ns: int) -> leases.Lease | None:
        """Return the Lease to write now; None while another holds it, or while it must be read first."""
        record = self._record
        if not self._is_known or self._is_held(now_s):
            return None
        is_mine = record is not None and record.holder == self.identity
        changes = 0 if record is None else record.transitions + (not is_mine)
        return leases.Lease(
            namespace=self._namespace,
            name=self._name,
            holder=self.identity,
            duration_s=self.times.duration_s,
            acquired_at_ns=record.acquired_at_ns if record is not None and is_mine else wall_ns,
            renewed_at_ns=wall_ns,
            transitions=changes,
            resource_version="" if record is None or self._is_missing else record.resource_version,
        )

    def accept(self, written: leases.Lease, *, sent_s: float, now_s: float) -> None:
        """Take in that a proposal was accepted: this candidate leads, counted from `sent_s`, when it was sent."""
        self._record = written
        self._observed_s = now_s
        self._is_known, self._is_missing = True, False
        self._until_s = sent_s + self.times.renew_s

    def doubt(self) -> None:
        """Note that a write was refused, or may have been accepted without an answer: the Lease must be read."""
        self._is_known = False

    def next_s(self, now_s: float) -> float:
        """Return when to act next: the holder renews every `retry_s`; others read twice as often and at the end.

        They read often so that they take over a released Lease soon; each read is of one object.
        """
        if self.holder == self.identity:
            return now_s + self.times.retry_s
        read_s = now_s + self.times.retry_s / 2.0
        return min(read_s, self._ends_s) if self._ends_s > now_s else read_s

    def resignation(self, wall_ns: int) -> leases.Lease | None:
        """End the term; return the Lease to write so that others take over at once, or None if it is not held."""
        self._until_s = -math.inf
        record = self._record
        if record is None or record.holder != self.identity or not self._is_known or self._is_missing:
            return None
        return dataclasses.replace(record, holder="", duration_s=1, acquired_at_ns=wall_ns, renewed_at_ns=wall_ns)

    @property
    def _ends_s(self) -> float:
        return self._observed_s + (0 if self._record is None else self._record.duration_s)

    def _is_held(self, now_s: float) -> bool:
        """True while another candidate must be assumed to lead."""
        return self.holder not in ("", self.identity) and now_s < self._ends_s


def _election_fields(lease: leases.Lease) -> tuple[str, int, int, int, int]:
    """Return the fields that a renewal changes: a new version alone (a label, for example) is no renewal."""
    return lease.holder, lease.duration_s, lease.acquired_at_ns, lease.renewed_at_ns, lease.transitions
