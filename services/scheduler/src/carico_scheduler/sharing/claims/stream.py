"""Follows the stream of claims, and notices when it is another one.

The stream is in memory, so a restart of NATS may lose it. What names it is kept in it, as its epoch: a scheduler
that finds no epoch writes one, and so does one that finds the stream set back: of three servers, two of which were
killed, the one that is left may lack what it had not received yet. In a new epoch nothing is committed for `SETTLE_S`:
binds by claims that were lost arrive until then, and each member states again what it knows of claims whose Pods are
not bound yet, or that another member may not have seen to be bound.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from carico_core.domain import errors, messages
from carico_core.runtime.bus import port as buses
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_scheduler.sharing.claims import commits
from carico_scheduler.sharing.claims import ledger as ledgers

# A bind arrives at most 5 s after its claim was written (`BIND_MOST_S`), and the watch shows it within 2 s.
BIND_MOST_S = 5.0
SETTLE_S = BIND_MOST_S + 2.0
CHECK_EVERY_S = 1.0
RESTATE_ROUNDS = 8
# Nodes whose claims are written before the answers are awaited.
RESTATED_AT_ONCE = 200


class Stream:
    """The stream as one member knows it."""

    def __init__(
        self, ledger: ledgers.Ledger, *, clock: clocks.Clock, new_epoch: Callable[[], str],
        header: Callable[[], tuple[str, int]], on_read: Callable[[], None], on_drop: Callable[[str], None],
        own: Callable[[str, bytes], messages.NodeClaims | None] = lambda *_: None,
    ) -> None:  # fmt: skip
        """`new_epoch` returns a new name. `on_read` is called when the stream has been read.

        `own(node, payload)` returns what a message contains that this member has sent, without decoding it.
        """
        self._ledger = ledger
        self._clock = clock
        self._new_epoch = new_epoch
        self._header = header
        self._on_read = on_read
        self._on_drop = on_drop
        self._own = own
        self._line = logs.get("sharing")
        self._doubt = asyncio.Event()
        # Claims of an earlier epoch that must be stated in this one, by node.
        self._left: dict[str, list[messages.Claim]] = {}
        self._must_read = True
        # The epoch is to be replaced: the stream has lost claims of it.
        self._is_set_back = False
        self._doubts = 0
        self._since_s = 0.0
        self.epoch: str | None = None
        # How many epochs this member has seen.
        self.number = 0

    def why_not_ready(self) -> str | None:
        """Return why nothing may be committed now; None if it may."""
        if self.epoch is None or self._must_read:
            return "the stream of claims has not been read"
        rest_s = self._since_s + SETTLE_S - self._clock.monotonic_s()
        return f"the stream of claims is new to this scheduler: it waits {rest_s:.1f} s" if rest_s > 0.0 else None

    def doubt(self) -> None:
        """Check at once whether the stream is still the same one, and read it again."""
        self._must_read = True
        self._doubts += 1
        self._doubt.set()

    def note_set_back(self) -> None:
        """Give the stream a new epoch unless it has one already: claims that it had stored are missing in it."""
        self._line.warning("the stream of claims lacks what it had stored", epoch=self.epoch)
        self._is_set_back = True
        self.doubt()

    async def follow_forever(self, claims: buses.Claims) -> None:
        """Keep the ledger in step with the stream, until cancelled."""
        is_following = False
        while True:
            try:
                if not is_following:
                    await claims.follow(self._take)
                    is_following = True
                await self._check(claims)
            except errors.BusError as error:
                self._line.debug("the stream of claims cannot be read", error=str(error))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CHECK_EVERY_S):
                    await self._doubt.wait()
            self._doubt.clear()

    async def _check(self, claims: buses.Claims) -> None:
        """Read the stream if it must be. Raises `BusUnavailable`."""
        kept = await claims.newest(subjects.CLAIMS_EPOCH)
        if kept is None or (self._is_set_back and _name(kept) == self.epoch):
            seq = 0 if kept is None else kept.seq
            made = buses.GuardedWrite(
                subject=subjects.CLAIMS_EPOCH, payload=self._new_epoch().encode(), seq=seq, lasts=True
            )
            await claims.change([made])
            kept = await claims.newest(subjects.CLAIMS_EPOCH)
        if kept is None:
            return
        name = _name(kept)
        if name != self.epoch:
            self._begin(name)
        if self._must_read:
            await self._read(claims, name)
        elif self._left:
            await self._restate_all(claims, name)

    def _begin(self, name: str) -> None:
        for node, found in self._ledger.restart(self._clock.monotonic_s()).items():
            known = {claim.uid for claim in self._left.get(node, ())}
            self._left.setdefault(node, []).extend(claim for claim in found if claim.uid not in known)
        self.epoch, self._must_read, self._is_set_back = name, True, False
        self._since_s = self._clock.monotonic_s()
        self.number += 1
        self._line.info(
            "the stream of claims has a new epoch", epoch=name, stated_again=sum(map(len, self._left.values()))
        )

    async def _read(self, claims: buses.Claims, name: str) -> None:
        doubts = self._doubts
        for kept in await claims.all():
            commits.take(self._ledger, kept, self._clock.monotonic_s(), self._on_drop)
        await self._restate_all(claims, name)
        # What was stored before a doubt that came meanwhile may be missing.
        self._must_read = self._doubts != doubts
        self._on_read()

    async def _restate_all(self, claims: buses.Claims, name: str) -> None:
        """Write the claims of an earlier epoch into this one; other members do so at the same time."""
        for _ in range(RESTATE_ROUNDS):
            made = [each for node in list(self._left) if (each := self._restated(node, name)) is not None]
            if not made:
                return
            for begin in range(0, len(made), RESTATED_AT_ONCE):
                await self._restate(claims, made[begin : begin + RESTATED_AT_ONCE])
        raise errors.BusUnavailable(
            f"claims on {len(self._left)} nodes could not be stated again in {RESTATE_ROUNDS} rounds"
        )

    def _restated(self, node: str, name: str) -> messages.NodeClaims | None:
        """Return the message about a node with what is missing in it; None if nothing is, or it cannot be read."""
        kept = self._ledger.kept(node, self._clock.monotonic_s())
        if kept is None:
            # What is there may be of a newer version. The next check tries again; nothing is committed there.
            return None
        known = {claim.uid for claim in kept}
        missing = [claim for claim in self._left[node] if claim.uid not in known]
        if not missing:
            del self._left[node]
            return None
        boot, seq = self._header()
        return messages.NodeClaims(
            node=node, epoch=name, boot=boot, seq=seq, ts_ns=self._clock.wall_ns(), claims=(*kept, *missing)
        )

    async def _restate(self, claims: buses.Claims, made: Sequence[messages.NodeClaims]) -> None:
        """Write messages; of those nodes about which another one was stored before, take that in."""
        changes = [
            buses.GuardedWrite(
                subject=subjects.claim(each.node), payload=wire.encode_claims(each), seq=self._ledger.seq(each.node)
            )
            for each in made
        ]
        refused = []
        for each, change, answer in zip(made, changes, await claims.change(changes), strict=True):
            if answer.seq is None:
                refused.append((each.node, change.subject))
            else:
                self._ledger.take(each.node, answer.seq, each.claims, self._clock.monotonic_s())
                del self._left[each.node]
        found = await asyncio.gather(*(claims.newest(subject) for _, subject in refused))
        for (node, _), newest in zip(refused, found, strict=True):
            if newest is None:
                self._ledger.note_missing(node)
            else:
                commits.take(self._ledger, newest, self._clock.monotonic_s(), self._on_drop)

    def _take(self, kept: buses.Kept) -> None:
        """Take in what the stream has stored."""
        now_s = self._clock.monotonic_s()
        found = commits.read(self._ledger, kept, now_s, self._on_drop, self._own)
        if found is None:
            return
        if found.epoch != self.epoch:
            self.doubt()
        else:
            self._ledger.take(found.node, kept.seq, found.claims, now_s)


def _name(kept: buses.Kept) -> str:
    """Return the name in a message about the epoch."""
    return kept.payload.decode(errors="replace")
