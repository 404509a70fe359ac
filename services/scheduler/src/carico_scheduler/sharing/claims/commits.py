"""Commits claims: one compare and set for each node of a cycle, all of them sent at once.

    asked --> sent --> stored, and the stream is still the same one: may be bound
               |
               +-> refused or unanswered: the node is read again
                      the claim is there: stored          it still fits: sent again          else: given up

A claim that is given up costs the Pod its decision. The next cycle makes another one, by what the others have claimed;
after some losses the Pod waits before that (`queue.CHOICES_AT_ONCE`).
"""

import asyncio
import collections
import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from carico_core.domain import errors, messages
from carico_core.runtime.bus import port as buses
from carico_core.runtime.process import clock as clocks
from carico_core.wire import codec, subjects
from carico_core.wire import messages as wire
from carico_core.wire.messages import claims as claim_messages
from carico_scheduler.bind import binder
from carico_scheduler.pods import demand as demands
from carico_scheduler.sharing.claims import ledger as ledgers

# Rounds until the claims of a node are given up. Nearly all conflicts end in the second.
ROUNDS = 4
# A decision that is older when its claim is sent is checked by the present view of the node: its volumes took long to
# prepare, or the process was stopped.
FRESH_S = 1.0
# Outcomes of claims that were given up for claims of other schedulers.
_TO_OTHERS = frozenset({"no_room", "given_up", "near"})


class Lost(binder.Withheld):
    """A claim that was given up: the bind is not sent, and the Pod waits again.

    `rival`: the scheduler that has the newest claim on the node, if the claim was given up for those of others.
    """

    def __init__(self, outcome: str, detail: str, rival: str | None) -> None:
        self.outcome = outcome
        self.rival = rival
        super().__init__(f"not sent: {detail}")


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class ClaimRequest:
    """A claim to be stored, or (`claim` is None) a node whose void claims are to leave the stream."""

    node: str
    claim: messages.Claim | None
    demand: demands.Demand
    # The number of the message about the node by which was decided; -1 if it must be checked that the Pod fits.
    seq: int
    # When the decision began; -inf if there was none.
    decided_s: float
    ended: asyncio.Future[float]
    # When it was first sent, in monotonic seconds.
    sent_s: float | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What commits need. `count(outcome)`: counts.

    `fits(request, lost)`: whether a Pod of this member still fits, without those that were given up a moment ago.
    `is_apart(request)`: whether it is still apart from all that it must be, and its group spread.
    """

    claims: Callable[[], buses.Claims]
    ledger: ledgers.Ledger
    clock: clocks.Clock
    # The epoch of the stream as last read; None if nothing may be committed.
    epoch: Callable[[], str | None]
    on_doubt: Callable[[], None]
    # Called where the stream turns out to have lost claims, and to be the same one by its epoch.
    on_set_back: Callable[[], None]
    fits: Callable[[ClaimRequest, Sequence[ClaimRequest]], bool]
    is_apart: Callable[[ClaimRequest], bool]
    # Called with the UID of a Pod whose claim takes the place of another scheduler's, whose bind may still arrive.
    on_replace: Callable[[str], None]
    header: Callable[[], tuple[str, int]]
    count: Callable[[str], None]
    # Called with why a message about a node cannot be read.
    on_drop: Callable[[str], None]
    # Called when a batch has ended.
    on_idle: Callable[[], None]


class Commits:
    """The commits of one member; one batch at a time."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._asked: list[ClaimRequest] = []
        self._due = asyncio.Event()
        self._is_sending = False
        # What was sent last, by node: its bytes, and what they contain.
        self._sent: dict[str, tuple[bytes, messages.NodeClaims]] = {}

    @property
    def is_busy(self) -> bool:
        """True while claims are asked for or sent: a cycle now could only decide by an older view."""
        return self._is_sending or bool(self._asked)

    def ask(
        self, node: str, claim: messages.Claim | None, demand: demands.Demand, *, seq: int, decided_s: float = -math.inf
    ) -> "asyncio.Future[float]":
        """Ask for a claim. The future gives when it was first sent, or raises `Lost`."""
        ended: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._asked.append(
            ClaimRequest(node=node, claim=claim, demand=demand, seq=seq, decided_s=decided_s, ended=ended)
        )
        self._due.set()
        return ended

    async def run_forever(self) -> None:
        """Commit what is asked for, until cancelled."""
        while True:
            await self._due.wait()
            self._due.clear()
            batch, self._asked = self._asked, []
            self._is_sending = True
            try:
                await self._commit(batch)
            finally:
                self._is_sending = False
                for request in batch:
                    _lose(request, "unanswered", "the commit was interrupted")
                self._parts.on_idle()

    async def withdraw(self, nodes: Iterable[str], epoch: str) -> None:
        """Write once what is left of nodes without claims that have ended; nothing else is committed any more.

        Raises `BusUnavailable`.
        """
        sent = []
        for node in nodes:
            await self.read(node)
            ended: asyncio.Future[float] = asyncio.get_running_loop().create_future()
            request = ClaimRequest(
                node=node, claim=None, demand=demands.Demand(), seq=-1, decided_s=-math.inf, ended=ended
            )  # fmt: skip
            change = self._change(node, [request], epoch)
            sent += [] if change is None else [change]
        if sent:
            await self._send(sent)

    async def _commit(self, batch: Sequence[ClaimRequest]) -> None:
        epoch = self._parts.epoch()
        if epoch is None:
            self._lose_all(batch, "not_ready", "this scheduler may not claim room now")
            return
        left, stored = list(batch), dict[ClaimRequest, None]()
        for _ in range(ROUNDS):
            if self._parts.epoch() != epoch:
                self._lose_all(left, "epoch", "the stream of claims is another one, or must be read again")
                left = []
                break
            by_node = collections.defaultdict(list)
            for request in left:
                by_node[request.node].append(request)
            sent = [each for node, wanted in by_node.items() if (each := self._change(node, wanted, epoch)) is not None]
            if not sent:
                left = []
                break
            stored |= dict.fromkeys(await self._send(sent))
            left = [request for each in sent for request in each.requests if request not in stored]
            left = [request for request in left if not request.ended.done()]
            if not left:
                break
        self._lose_all(left, "given_up", "other schedulers claimed the node at the same time, several times")
        await self._verify(list(stored), epoch)

    def own(self, node: str, payload: bytes) -> messages.NodeClaims | None:
        """Return what a message about a node contains if it is the one that this member sent last; else None."""
        found = self._sent.get(node)
        return found[1] if found is not None and found[0] == payload else None

    def _change(self, node: str, wanted: Iterable[ClaimRequest], epoch: str) -> "_Sent | None":
        """Return the next message about a node; None if nothing is left to be claimed there."""
        now_s, seq = self._parts.clock.monotonic_s(), self._parts.ledger.seq(node)
        kept = self._parts.ledger.kept(node, now_s)
        if kept is None:
            self._lose_all(wanted, "unreadable", "the claims on the node cannot be read")
            return None
        going: list[ClaimRequest] = []
        lost: list[ClaimRequest] = []
        for request in wanted:
            is_current = request.seq == seq and now_s - request.decided_s <= FRESH_S
            if request.claim is not None and not is_current and not self._parts.fits(request, lost):
                lost.append(request)
            else:
                going.append(request)
        self._lose_all(lost, "no_room", "others have claimed the room, or the node's advertisement is too old by now")
        if not going:
            return None
        own = {request.claim.uid: request.claim for request in going if request.claim is not None}
        claims = (*[each for each in kept if each.uid not in own], *own.values())
        if len(claims) < len(kept) + len(own):
            self._note_replaced(kept, own)
        boot, number = self._parts.header()
        made = messages.NodeClaims(
            node=node, epoch=epoch, boot=boot, seq=number, ts_ns=self._parts.clock.wall_ns(), claims=claims
        )
        payload = wire.encode_claims(made)
        if len(claims) > claim_messages.CLAIMS_MAX or len(payload) > codec.PAYLOAD_MAX_BYTES:
            self._parts.ledger.note_full(node, now_s)
            self._lose_all(going, "full", "the node has as many claims as a message holds")
            return None
        for request in going:
            request.sent_s = now_s if request.sent_s is None else request.sent_s
        change = buses.GuardedWrite(subject=subjects.claim(node), payload=payload, seq=seq)
        return _Sent(requests=going, made=made, change=change)

    def _note_replaced(self, kept: Iterable[messages.Claim], own: Mapping[str, messages.Claim]) -> None:
        for each in kept:
            if each.uid in own and each.scheduler != own[each.uid].scheduler:
                self._parts.on_replace(each.uid)

    async def _send(self, sent: "Sequence[_Sent]") -> list[ClaimRequest]:
        """Send the changes, and return the requests that were stored; the nodes of the others are read again."""
        generation = self._parts.ledger.generation
        self._sent = {each.made.node: (each.change.payload, each.made) for each in sent}
        answers = await self._parts.claims().change([each.change for each in sent])
        if self._parts.ledger.generation != generation:
            # The numbers of a stream that is gone would hide all that the next one stores until it has counted as far.
            return []
        stored: list[ClaimRequest] = []
        unclear = []
        for each, answer in zip(sent, answers, strict=True):
            if answer.seq is None:
                self._parts.count("conflict" if answer.is_conflict else "unanswered")
                now_s = self._parts.clock.monotonic_s()
                if answer.newest is not None and self._parts.ledger.is_set_back(each.made.node, answer.newest, now_s):
                    self._parts.on_set_back()
                unclear.append(each)
                continue
            self._parts.ledger.take(each.made.node, answer.seq, each.made.claims, self._parts.clock.monotonic_s())
            stored += each.requests
        if unclear:
            await asyncio.gather(*(self._look_again(each) for each in unclear))
            stored += [request for each in unclear for request in each.requests if self._is_there(request)]
        return stored

    async def _look_again(self, sent: "_Sent") -> None:
        """Read a node again after a conflict or without an answer."""
        try:
            await self.read(sent.made.node)
        except errors.BusError as error:
            self._lose_all(sent.requests, "unanswered", f"the claims cannot be read: {error}")
        for request in sent.requests:
            request.seq = -1

    async def read(self, node: str) -> None:
        """Bring the ledger up to date with what the stream has of a node. Raises `BusUnavailable`."""
        generation = self._parts.ledger.generation
        kept = await self._parts.claims().newest(subjects.claim(node))
        if self._parts.ledger.generation != generation:
            return
        if kept is None:
            self._parts.ledger.note_missing(node)
        else:
            take(self._parts.ledger, kept, self._parts.clock.monotonic_s(), self._parts.on_drop)

    def _is_there(self, request: ClaimRequest) -> bool:
        claim = request.claim
        if claim is None or request.ended.done():
            return False
        found = self._parts.ledger.find(request.node, claim.uid)
        return found is not None and (found.scheduler, found.at_ns) == (claim.scheduler, claim.at_ns)

    async def _verify(self, stored: Sequence[ClaimRequest], epoch: str) -> None:
        """Make sure that the stream was the same one all the time: in another one, claims of others are missing."""
        if not stored:
            return
        try:
            kept = await self._parts.claims().newest(subjects.CLAIMS_EPOCH)
        except errors.BusError as error:
            self._lose_all(stored, "unanswered", f"the stream of claims cannot be read: {error}")
            return
        if kept is None or kept.payload != epoch.encode():
            self._parts.on_doubt()
            self._lose_all(stored, "epoch", "the stream of claims is another one")
            return
        # By now all claims have arrived that were stored before these. So of two Pods that rule each other out on
        # different nodes, whose schedulers did not know of the other one, at least one is given up here.
        near = [each for each in stored if not (each.claim is None or each.ended.done() or self._parts.is_apart(each))]
        self._lose_all(near, "near", "others have claimed a node for a Pod that keeps it away")
        for request in stored:
            if not request.ended.done():
                self._parts.count("stored" if request.claim is not None else "withdrawn")
                request.ended.set_result(request.sent_s if request.sent_s is not None else 0.0)

    def _lose_all(self, requests: Iterable[ClaimRequest], outcome: str, detail: str) -> None:
        for request in requests:
            claim, rival = request.claim, None
            if claim is not None and outcome in _TO_OTHERS:
                rival = self._parts.ledger.rival(request.node, claim.scheduler)
            if _lose(request, outcome, detail, rival) and claim is not None:
                self._parts.count(outcome)


class _Sent(NamedTuple):
    """A change that is sent, and what it contains."""

    requests: list[ClaimRequest]
    made: messages.NodeClaims
    change: buses.GuardedWrite


def take(ledger: ledgers.Ledger, kept: buses.Kept, now_s: float, on_drop: Callable[[str], None]) -> None:
    """Enter a stored message into the ledger."""
    found = read(ledger, kept, now_s, on_drop)
    if found is not None:
        ledger.take(found.node, kept.seq, found.claims, now_s)


def read(
    ledger: ledgers.Ledger, kept: buses.Kept, now_s: float, on_drop: Callable[[str], None],
    own: Callable[[str, bytes], messages.NodeClaims | None] = lambda *_: None,
) -> messages.NodeClaims | None:  # fmt: skip
    """Return what a stored message about a node contains; if it cannot be read return None, and enter that.

    `own`: see `Commits.own`.
    """
    try:
        node = subjects.node_of(kept.subject)
    except errors.BadName:
        # There is no such node, so that its claims count nowhere.
        on_drop(errors.Drop.BAD_NAME.value)
        return None
    try:
        return own(node, kept.payload) or wire.decode_claims(
            kept.payload, subject=kept.subject, known=functools.partial(ledger.find, node)
        )
    except errors.MessageError as error:
        on_drop(error.reason.value)
        ledger.take_unreadable(node, kept.seq, now_s)
        return None


def _lose(request: ClaimRequest, outcome: str, detail: str, rival: str | None = None) -> bool:
    if request.ended.done():
        return False
    request.ended.set_exception(Lost(outcome, detail, rival))
    # The one who asked may be gone: asyncio would log that no one has looked at it.
    request.ended.exception()
    return True
