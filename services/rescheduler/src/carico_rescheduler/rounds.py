"""The rounds of the replica that leads: finish what an earlier process left, plan, move, look at what came of it.

Each round makes a plan and carries it out move by move; the next round plans with what it has changed.
"""

import asyncio
import contextlib
import dataclasses
import functools

from carico_core.domain import errors
from carico_core.runtime.leadership import status
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_rescheduler import asked_plans, instruments, journal, planner
from carico_rescheduler import settings as setting
from carico_rescheduler.context import problem as contexts
from carico_rescheduler.moves import executor
from carico_rescheduler.moves import record as records
from carico_rescheduler.plan import decision, lasting, planning

# How soon a round that could not plan is repeated; and the first of a term, when agents and scheduler may not be there.
SOON_S = 5.0
FIRST_S = 0.5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What rounds work with."""

    settings: setting.ReschedulerSettings
    boot: str
    planner: planner.Planner
    executor: executor.Executor
    journal: journal.Journal
    leadership: status.Leadership
    clock: clocks.Clock
    metrics: instruments.Instruments


class Rounds:
    """One round after the other while this replica leads."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self._line = logs.get("rescheduler")
        self._odd_line = logs.RateLimited(self._line, clock=parts.clock)
        self.reflection = parts.planner.reflection
        self._lasting = lasting.Lasting(every_s=parts.settings.every_s)
        self.last: decision.Plan | None = None
        # Why the last round moved nothing.
        self.rests = "no plan has been made yet"
        # Rounds that have ended, and whether one is under way.
        self.ended = 0
        self._is_turning = False
        # The last term in which what others have left was looked at.
        self._recovered_in: int | None = None
        # Set by a query: the next round of this term carries out this plan, automatic or not.
        self._asked: planning.Question | None = None
        self._asked_in: int | None = None
        self._wake = asyncio.Event()
        self._is_stopping = False

    async def run_forever(self) -> None:
        """Make rounds while this replica leads, until cancelled; after `stop`, none begins."""
        while True:
            await self.parts.leadership.until(leads=True)
            while self.parts.leadership.leads() and not self._is_stopping:
                self._wake.clear()
                pause_s = await self._round()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await self._wake.wait()
            if self._is_stopping:
                await asyncio.Event().wait()

    def stop(self) -> None:
        """Begin no further round or move; the move under way is undone if it can be."""
        self._is_stopping = True
        self.parts.executor.stop()
        self.wake()

    def wake(self) -> None:
        """End the pause between two rounds."""
        self._wake.set()

    def apply(self, asked: planning.Question) -> int:
        """Have a round carry out a plan; return how many rounds have ended when it has."""
        self._asked, self._asked_in = asked, self.parts.leadership.term()
        self.wake()
        return self.ended + (2 if self._is_turning else 1)

    @property
    def is_idle(self) -> bool:
        """Whether no round is under way, and so no move and no other write."""
        return not self._is_turning

    async def _round(self) -> float:
        """Make one plan and carry it out; return the seconds until the next round."""
        asked, self._asked = self._asked, None
        term = self.parts.leadership.term()
        # Who asked was told that another replica leads: that one does not know of the request.
        if self._asked_in != term:
            asked = None
        if self._recovered_in != term:
            # Another replica may have moved Pods in between.
            self._lasting.forget()
        self._is_turning, pause_s = True, self.parts.settings.every_s
        try:
            why = await self._turn(asked, term)
        except (asked_plans.NotReady, records.NotLeading) as error:
            why = str(error)
            pause_s = min(SOON_S if self._recovered_in == term else FIRST_S, pause_s)
        except (errors.ApiError, errors.ApiUnavailable) as error:
            why = f"the API does not answer: {error}"
        finally:
            self._is_turning = False
        stuck = self.parts.executor.stuck_pins
        self.rests = "; ".join(filter(None, (why, stuck)))
        self.ended += 1
        if why:
            self._odd_line.warning(why, "nothing is moved", why=why)
        if stuck:
            self._odd_line.warning(stuck, "a pin is left", why=stuck)
        return pause_s

    async def _turn(self, asked: planning.Question | None, term: int | None) -> str:
        """Do what a round of a term does; return why it moved nothing."""
        parts = self.parts
        parts.planner.check_known()
        # Also while paused: nothing is left half done.
        await parts.executor.recover()
        paused = await parts.journal.read()
        if self._recovered_in != term:
            self.reflection.take_over(parts.journal.effects)
            self._recovered_in = term
        parts.metrics.paused.set(bool(paused))
        context, plan = await parts.planner.problem_and_plan(asked or planning.Question())
        self.last = plan
        has_not_lasted = await parts.planner.aside(functools.partial(self._why_not_lasting, context, plan))
        await parts.planner.aside(functools.partial(self._lasting.note, context, parts.clock.monotonic_s()))
        await self._reflect(plan)
        now_s = self._now_s
        if paused:
            return paused
        if asked is None:
            if not parts.settings.automatic:
                return "plans are carried out on request only"
            if self.reflection.is_settling():
                return "the effect of the last plan is still to be measured"
            if self.reflection.rests(now_s):
                return self.reflection.rests(now_s)
            if has_not_lasted:
                return has_not_lasted
        return await self._carry_out(plan) if plan.moves else plan.verdict

    def _why_not_lasting(self, context: contexts.Context, plan: decision.Plan) -> str:
        """Return why a plan rests on readings of the moment; empty if it does not."""
        if not plan.moves:
            return ""
        return self._lasting.why_not(context, plan, self.parts.planner.rule(), self.parts.clock.monotonic_s())

    async def _carry_out(self, plan: decision.Plan) -> str:
        """Make the moves of a plan in order, until one fails or ends elsewhere: the rest is for another cluster."""
        gain, why = 0.0, ""
        made: list[records.Record] = []
        try:
            for planned in plan.moves:
                move = await self.parts.planner.current(planned, made)
                if isinstance(move, planner.Withdrawn):
                    why = move.detail
                    self.parts.metrics.withdrawn.labels(move.reason).inc()
                    break
                why = await self.parts.journal.read()
                if why or self._is_stopping:
                    break
                ended = await self.parts.executor.run(move)
                if ended.state is not records.State.MOVED:
                    why = f"{ended.pod}: {ended.detail}"
                    break
                made.append(ended)
                if ended.target != move.target:
                    why = f"{ended.pod}: {ended.detail}"
                    break
                gain += move.gain
        finally:
            if made:
                self._lasting.forget()
            # Also if the API goes away in between: what was made takes effect, and is measured.
            self.reflection.made(plan, gain, plan.weights, self._now_s)
            self.parts.metrics.predicted.inc(max(gain, 0.0))
            if gain > 0.0:
                await self.parts.journal.note_effects(self.reflection.kept())
        return why

    @property
    def _now_s(self) -> float:
        """Unix seconds: what became of plans outlives this process."""
        return self.parts.clock.wall_ns() / 1e9

    async def _reflect(self, plan: decision.Plan) -> None:
        found = self.reflection.measure(plan.traffic_bytes[0], plan.excess_tasks[0], self._now_s)
        if found is not None:
            await self.parts.journal.note_effects(self.reflection.kept())
            predicted, measured = found
            self.parts.metrics.measured.inc(max(measured, 0.0))
            self._line.info("effect of the last plan", predicted=round(predicted, 4), measured=round(measured, 4))
