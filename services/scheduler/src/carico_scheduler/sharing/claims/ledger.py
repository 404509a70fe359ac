"""The claims of all nodes as last read: which of them count, and which may be left out of the next message.

A claim is dropped only if no member can still need it:

- its Pod is gone: nothing will be bound, and what it took is free;
- its Pod is bound and the claim is older than `LEASE_S`: by then every member that may commit has seen the bind;
- its bind was never sent, or the API has refused it: its own scheduler drops it;
- its Pod is not bound, and the claim is older or its bind had no answer: only a janitor drops it, after it has changed
  the Pod, so that a bind that is still on its way is refused (`janitor`).

The age of a claim is the time since this member first saw it, in whichever stream. That is at most its true age,
whatever the clocks of other machines show, and longer ages only hold room for longer. A member that starts finds claims
of Pods that are gone, of up to an hour. It lists Pods only after it has read them, so that it knows which those are.
"""

import dataclasses
import enum
import math
from collections.abc import Callable, Collection, Iterable, Iterator

from carico_core.domain import messages

# A member commits only while its lists are younger than 45 s (`informer.STALE_S`). A bind arrives at most 5 s after
# its claim was written; 10 s are left for a scheduler that is slow to notice either.
LEASE_S = 60.0
# The stream drops a message after an hour (`jetstream.CLAIMS_AGE_S`): mostly of a node that is gone.
FORGET_S = 3660.0
# A node about which no message holds all claims is tried again after so long: some may be dropped by then.
FULL_S = 5.0
# Ended claims remembered in case a message still has them.
ENDED_KEPT = 4096


class PodFate(enum.Enum):
    """What is known of the Pod of a claim."""

    # The watch has not shown it (yet, or any more).
    UNKNOWN = enum.auto()
    # It has no node here, or this member has chosen another one.
    OPEN = enum.auto()
    # This member has chosen this node; it counts there.
    ASSUMED = enum.auto()
    # Bound to any node, and counts there.
    BOUND = enum.auto()
    GONE = enum.auto()


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Held:
    """One claim.

    `is_void`: nothing will be bound by it any more, so it may leave the stream. `is_doubtful`: it is this member's, and
    a bind by it has failed that may still arrive.
    """

    claim: messages.Claim
    seen_s: float
    is_void: bool
    is_doubtful: bool = False


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class _Node:
    seq: int = 0
    # When the newest message arrived.
    taken_s: float = 0.0
    held: dict[str, Held] = dataclasses.field(default_factory=dict)
    # Since when its message cannot be read.
    unreadable_s: float | None = None


class Ledger:
    """The claims by node. `fate(uid, node)` returns what is known of the Pod of a claim on that node."""

    def __init__(self, fate: Callable[[str, str], PodFate]) -> None:
        self._fate = fate
        # Called with a node on which a claim that may have counted does so no longer, other than by its Pod's fate, and
        # with one on which claims can be made again.
        self.on_room: Callable[[str], None] = lambda node: None
        self._nodes: dict[str, _Node] = {}
        # Until when no claim can be made on these nodes, unless a newer message comes before; `forget_old` ends it.
        self._closed: dict[str, float] = {}
        # A list of all Pods was asked for later than this, and has been taken in: it shows which Pods of claims that
        # were seen until then are there.
        self.listed_s = -math.inf
        # How often the stream was replaced. An answer that was asked for before is of another stream.
        self.generation = 0
        # The claims that may count. They leave once their Pods are known to be bound or gone, whatever is forgotten of
        # these later: few, since a bind takes milliseconds.
        self._open: dict[tuple[str, str], Held] = {}
        # Those in the stream whose Pods keep others away: few.
        self._apart: dict[tuple[str, str], Held] = {}
        # When claims of the last stream were first seen, by identity.
        self._seen_s: dict[tuple[str, str, int], float] = {}
        # Identities of claims by which nothing will be bound, wherever they are read again.
        self._ended: dict[tuple[str, str, int], None] = {}

    def __len__(self) -> int:
        return sum(len(each.held) for each in self._nodes.values())

    def seq(self, node: str) -> int:
        """Return the number of the message by which the claims on a node are known; 0 if there is none."""
        known = self._nodes.get(node)
        return 0 if known is None else known.seq

    def find(self, node: str, uid: str) -> messages.Claim | None:
        """Return the claim of a Pod on a node."""
        known = self._nodes.get(node)
        held = None if known is None else known.held.get(uid)
        return None if held is None else held.claim

    def take(self, node: str, seq: int, claims: Iterable[messages.Claim], now_s: float) -> None:
        """Take in a newer message about a node."""
        known = self._nodes.get(node)
        if known is None:
            known = self._nodes[node] = _Node()
        if seq <= known.seq:
            return
        before, known.held = known.held, {}
        known.seq, known.taken_s, known.unreadable_s = seq, now_s, None
        for claim in claims:
            held = before.pop(claim.uid, None)
            if held is None or (held.claim is not claim and _identity(held.claim) != _identity(claim)):
                # Only a new one: most are of Pods that are bound, and stay for a lease.
                identity = _identity(claim)
                held = self._open[node, claim.uid] = Held(
                    claim=claim, seen_s=self._seen_s.get(identity, now_s), is_void=identity in self._ended
                )
                if claim.apart:
                    self._apart[node, claim.uid] = held
            known.held[claim.uid] = held
        self._drop_open(node, before)
        self._reopen(node)

    def take_unreadable(self, node: str, seq: int, now_s: float) -> None:
        """Note that the message about a node cannot be read: what it claims is not known."""
        known = self._nodes.setdefault(node, _Node())
        if seq > known.seq:
            known.seq, known.taken_s, known.unreadable_s = seq, now_s, now_s
            self._closed[node] = now_s + LEASE_S

    def note_full(self, node: str, now_s: float) -> None:
        """Note that a message about a node would not hold one more claim."""
        self._closed[node] = now_s + FULL_S

    def closed(self) -> Collection[str]:
        """Return the nodes on which no claim can be made: what is claimed there is not known, or too much."""
        return self._closed.keys()

    def note_missing(self, node: str) -> None:
        """Note that the stream has no message about a node any more."""
        known = self._nodes.pop(node, None)
        if known is not None:
            self._drop_open(node, known.held)
            self._reopen(node)

    def is_set_back(self, node: str, newest: int, now_s: float) -> bool:
        """Return whether the stream has lost what it had of a node: its newest message there is the older `newest`.

        Without a message (0), it may also have dropped one for its age, which no claim that still counts can have.
        """
        return 0 < newest < self.seq(node) or (not newest and bool(self.counted_on(node, now_s)))

    def restart(self, now_s: float) -> dict[str, list[messages.Claim]]:
        """Forget everything: the stream is another one. Return the claims that it must contain, too, by node."""
        left: dict[str, list[messages.Claim]] = {}
        # What was to be stated again in the stream between may not have been.
        self._seen_s = {claim: seen_s for claim, seen_s in self._seen_s.items() if now_s - seen_s < 2.0 * LEASE_S}
        for node, known in self._nodes.items():
            for uid, held in known.held.items():
                self._seen_s[_identity(held.claim)] = held.seen_s
                # One that does not count any more, and whose Pod is not known, is of a Pod that is gone.
                is_needed = (node, uid) in self._open or self._fate(uid, node) is PodFate.BOUND
                has_ended = _identity(held.claim) in self._ended or self._may_drop(node, uid, held, now_s)
                if is_needed and not has_ended:
                    left.setdefault(node, []).append(held.claim)
        self._nodes, self._open, self._apart, self._closed = {}, {}, {}, {}
        self.generation += 1
        return left

    def counted(self, now_s: float) -> Iterator[tuple[str, messages.Claim]]:
        """Yield (node, claim) of every claim that counts besides what the own state counts."""
        for (node, uid), held in list(self._open.items()):
            fate = self._fate(uid, node)
            if fate is PodFate.ASSUMED:
                # Most: this member's own binds under way, at each cycle.
                continue
            if fate in (PodFate.BOUND, PodFate.GONE) or self._has_ended(held, fate, now_s):
                del self._open[node, uid]
            elif self._counts(held, fate, now_s):
                yield node, held.claim

    def rival(self, node: str, own: str) -> str | None:
        """Return which scheduler other than `own` has the newest claim on a node; None if none has one."""
        known = self._nodes.get(node)
        others = [held for held in (known.held.values() if known else ()) if held.claim.scheduler != own]
        newest = max(others, key=lambda held: held.seen_s, default=None)
        return None if newest is None else newest.claim.scheduler

    def counted_on(self, node: str, now_s: float) -> list[messages.Claim]:
        """Return the same of one node."""
        known = self._nodes.get(node)
        held_by = {} if known is None else known.held
        return [
            held.claim
            for uid, held in held_by.items()
            if (node, uid) in self._open and self._counts(held, self._fate(uid, node), now_s)
        ]

    @property
    def has_apart(self) -> bool:
        """True if there are claims of Pods that keep others away."""
        return bool(self._apart)

    def apart(self, now_s: float) -> Iterator[tuple[str, messages.Claim]]:
        """Yield (node, claim) of each claim of a Pod that keeps others away and that this member does not know."""
        for (node, uid), held in self._apart.items():
            fate = self._fate(uid, node)
            if fate is PodFate.UNKNOWN and self._counts(held, fate, now_s):
                yield node, held.claim

    def kept(self, node: str, now_s: float) -> list[messages.Claim] | None:
        """Return the claims that the next message about a node must contain; None if they are not known."""
        known = self._nodes.get(node)
        if known is None:
            return []
        if known.unreadable_s is not None and now_s - known.unreadable_s < LEASE_S:
            return None
        return [held.claim for uid, held in known.held.items() if not self._may_drop(node, uid, held, now_s)]

    def orphans(self, now_s: float) -> list[tuple[str, messages.Claim]]:
        """Return (node, claim) of each claim whose Pod was not bound in time."""
        return [
            (node, held.claim)
            for (node, uid), held in self._open.items()
            if not held.is_void and now_s - held.seen_s > LEASE_S and self._fate(uid, node) is PodFate.OPEN
        ]

    def doubtful(self) -> list[tuple[str, messages.Claim]]:
        """Return (node, claim) of each claim by which a bind of this member may still arrive, but none is sent."""
        return [
            (node, held.claim)
            for (node, uid), held in self._open.items()
            if held.is_doubtful and not held.is_void and self._fate(uid, node) is PodFate.OPEN
        ]

    def voided(self) -> list[str]:
        """Return the nodes whose messages still have claims that ended: withdrawing them failed, or is under way."""
        return sorted({node for (node, _), held in self._open.items() if held.is_void})

    def forget_old(self, now_s: float) -> None:
        """Forget the messages that the stream has dropped for their age, and what closed nodes, if its time is over."""
        for node in [node for node, until_s in self._closed.items() if now_s >= until_s]:
            self._reopen(node)
        for node in [node for node, known in self._nodes.items() if now_s - known.taken_s > FORGET_S]:
            self.note_missing(node)

    def doubt(self, node: str, claim: messages.Claim) -> None:
        """Note that no bind is sent by a claim any more, but an earlier one may still arrive."""
        held = self._find_open(node, claim)
        if held is not None:
            held.is_doubtful = True

    def void(self, node: str, claim: messages.Claim) -> bool:
        """End a claim by which nothing can be bound any more. Return False if it is another one by now."""
        held = self._find_open(node, claim)
        if held is None:
            return False
        held.is_void = True
        self.note_ended(claim)
        self.on_room(node)
        return True

    def note_ended(self, claim: messages.Claim) -> None:
        """Note that nothing will be bound by a claim, which may be read only later, also from the next stream."""
        self._ended[_identity(claim)] = None
        if len(self._ended) > ENDED_KEPT:
            self._ended.pop(next(iter(self._ended)))

    def put_last(self, node: str, uid: str) -> None:
        """Let a claim come after all others where they are listed: it could not be ended."""
        held = self._open.pop((node, uid), None)
        if held is not None:
            self._open[node, uid] = held

    def _drop_open(self, node: str, uids: Collection[str]) -> None:
        """Drop claims that have left the stream."""
        for uid in uids if self._apart else ():
            self._apart.pop((node, uid), None)
        left = [self._open.pop((node, uid), None) for uid in uids]
        if any(held is not None and not held.is_void for held in left):
            self.on_room(node)

    def _reopen(self, node: str) -> None:
        if self._closed.pop(node, None) is not None:
            self.on_room(node)

    def _find_open(self, node: str, claim: messages.Claim) -> Held | None:
        held = self._open.get((node, claim.uid))
        return held if held is not None and _identity(held.claim) == _identity(claim) else None

    def _counts(self, held: Held, fate: PodFate, now_s: float) -> bool:
        """Return whether a claim takes room that the own state does not count."""
        is_open = fate in (PodFate.OPEN, PodFate.UNKNOWN)
        return not held.is_void and is_open and not self._has_ended(held, fate, now_s)

    def _has_ended(self, held: Held, fate: PodFate, now_s: float) -> bool:
        """Return True for a claim of a Pod that is gone: no list has shown it, nor the watch for a lease."""
        is_late = now_s - held.seen_s > LEASE_S or held.seen_s <= self.listed_s
        return fate is PodFate.UNKNOWN and is_late

    def _may_drop(self, node: str, uid: str, held: Held, now_s: float) -> bool:
        fate = self._fate(uid, node)
        is_old = now_s - held.seen_s > LEASE_S
        has_ended = fate is PodFate.GONE or self._has_ended(held, fate, now_s)
        return held.is_void or has_ended or (is_old and fate is PodFate.BOUND)


def _identity(claim: messages.Claim) -> tuple[str, str, int]:
    return claim.uid, claim.scheduler, claim.at_ns
