"""Runs for a Lease for as long as the service runs: leads, stands by, and leads again.

client-go's users exit where they lose the Lease, since what they hold in memory is then in doubt. Here a scheduler
stays: all it holds is kept in step with the API whether it leads or not, so that it is a warm standby the next moment.
"""

import asyncio
import contextlib
import dataclasses
import math
from collections.abc import Awaitable, Callable

from carico_core.domain import errors
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_scheduler.leadership import candidate as candidates
from carico_scheduler.leadership import leases

# The end of a term is reported within this; whether it has ended is asked of the clock at each bind.
LOOK_EVERY_S = 0.25


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Duties:
    """What the elected does: `is_fit` before it runs, `prepare` before each term, `on_change` at its begin and end."""

    is_fit: Callable[[], bool]
    prepare: Callable[[], Awaitable[object]]
    on_change: Callable[[bool], None]


class Elector:
    """One candidate at work: `campaign_forever` and `take_office_forever` run side by side."""

    def __init__(
        self, candidate: candidates.Candidate, where: leases.Leases, *, clock: clocks.Clock, duties: Duties
    ) -> None:
        self._candidate = candidate
        self._leases = where
        self._clock = clock
        self._duties = duties
        self._line = logs.get("leadership", identity=candidate.identity)
        self._odd_line = logs.RateLimited(self._line, clock=clock)
        # The term that `prepare` was done for.
        self._prepared: int | None = None
        self._was_leading = False
        self._seen_holder = ""
        self._has_resigned = False
        self._writing = asyncio.Lock()
        self._moved = asyncio.Event()
        # Why the Lease could not be read or written at the last try.
        self.trouble: str | None = "the Lease was not read yet"
        # When it was last read or written, on the monotonic clock.
        self.heard_s = -math.inf

    @property
    def identity(self) -> str:
        """The name of this candidate in the Lease."""
        return self._candidate.identity

    @property
    def holder(self) -> str:
        """The leader as far as is known here; empty for none."""
        return self._candidate.holder

    @property
    def is_leading(self) -> bool:
        """True while this one may bind: by the clock, as at this very moment."""
        return self._prepared is not None and self._prepared == self._candidate.term and self._holds

    @property
    def term(self) -> int | None:
        """The number of the term in which this one leads; None while it does not."""
        return self._prepared if self.is_leading else None

    @property
    def _holds(self) -> bool:
        return not self._has_resigned and self._candidate.leads(self._clock.monotonic_s())

    async def campaign_forever(self) -> None:
        """Renew the Lease while it is held and take it over when it ends, until cancelled."""
        while True:
            await self._round()
            self._moved.set()
            now_s = self._clock.monotonic_s()
            await asyncio.sleep(max(self._candidate.next_s(now_s) - now_s, 0.0))

    async def take_office_forever(self) -> None:
        """Prepare each term and report when this one begins and ceases to lead, until cancelled."""
        while True:
            if self._holds and not self.is_leading:
                await self._prepare_term()
            self._note_changes()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._moved.wait()
            self._moved.clear()

    def stand_down(self) -> None:
        """Stop leading now. The Lease stays held: binds under way may still land."""
        self._has_resigned = True
        self._note_changes()

    async def release(self) -> bool:
        """True where the Lease was given up, so that another takes over at once. Nothing may be under way any more."""
        self.stand_down()
        async with self._writing:
            try:
                if self._candidate.must_read:
                    self._candidate.see(await self._leases.read(), self._clock.monotonic_s())
                given_up = self._candidate.resignation(self._clock.wall_ns())
                if given_up is None:
                    return False
                await self._leases.write(given_up)
            except (errors.ApiError, errors.ApiUnavailable) as error:
                self._line.warning("the Lease was not given up: others wait for its end", error=str(error))
                return False
        self._line.info("the Lease is given up")
        return True

    async def _round(self) -> None:
        """Reads the Lease where its version is not known, and writes it where that is due."""
        async with self._writing:
            if self._has_resigned:
                return
            try:
                if self._candidate.must_read:
                    self._candidate.see(await self._leases.read(), self._clock.monotonic_s())
                    self.heard_s = self._clock.monotonic_s()
                await self._run()
            except errors.Conflict:
                # Another was faster, or an earlier write of ours was taken though its answer was lost.
                self.trouble = None
            except (errors.ApiError, errors.ApiUnavailable) as error:
                self.trouble = f"the Lease cannot be read or written: {error}"
                self._odd_line.warning(type(error).__name__, "no answer about the Lease", error=str(error))
            else:
                self.trouble = None

    async def _run(self) -> None:
        """Writes the Lease where it is ours or free."""
        sent_s = self._clock.monotonic_s()
        wanted = self._candidate.proposal(sent_s, self._clock.wall_ns())
        # To be read before the next try, unless this one is accepted.
        self._candidate.doubt()
        if wanted is None or (self.holder != self.identity and not self._duties.is_fit()):
            return
        written = await self._leases.write(wanted)
        self.heard_s = self._clock.monotonic_s()
        self._candidate.accept(written, sent_s=sent_s, now_s=self.heard_s)

    async def _prepare_term(self) -> None:
        term = self._candidate.term
        try:
            await self._duties.prepare()
        except (errors.ApiError, errors.ApiUnavailable) as error:
            self._odd_line.warning("prepare", "a term cannot begin yet", term=term, error=str(error))
        else:
            self._prepared = term

    def _note_changes(self) -> None:
        if self.holder != self._seen_holder:
            self._seen_holder = self.holder
            self._line.info("the Lease is held", holder=self.holder or "nobody")
        if self.holder != self.identity:
            self._prepared = None
        if self.is_leading != self._was_leading:
            self._was_leading = not self._was_leading
            self._line.info("leading" if self._was_leading else "leading no more", term=self._candidate.term)
            self._duties.on_change(self._was_leading)
