"""Keeps a scheduler that leads alone from binding next to others that share the work.

It does not read their claims, so it would give the same room away again. They stop if it takes the Lease, but not at
once, and without leader election they cannot know of it.
"""

import asyncio
import math
from collections.abc import Callable

from carico_core.runtime.bus import serving
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.wire import subjects
from carico_scheduler.report import instruments
from carico_scheduler.sharing import heartbeats, parts
from carico_scheduler.sharing.claims import stream

_TURN_S = heartbeats.EVERY_S / 2.0


class Fence:
    """Closed while a member announces a share, and until its last binds must have arrived."""

    def __init__(
        self, beats: heartbeats.Heartbeats, *, clock: clocks.Clock, metrics: instruments.Instruments,
        wake: Callable[[], None],
    ) -> None:  # fmt: skip
        """`beats` has nothing to say; `wake` tries every waiting Pod again."""
        self._heartbeats = beats
        self._clock = clock
        self._metrics = metrics
        self._wake = wake
        self._line = logs.get("sharing")
        # When a member last had a share, on the monotonic clock.
        self._shared_s = -math.inf
        self._was_closed = False
        # How often it was closed: what was decided before is of another term.
        self.number = 0

    def why_closed(self) -> str | None:
        """Return why this scheduler may not bind now; None if it may."""
        if self._shared_s == -math.inf:
            return None
        others = self._heartbeats.others()
        if others:
            return f"{others[0]} shares the work: give all schedulers the same CARICO_SCHEDULER_SHARING"
        rest_s = self._shared_s + stream.SETTLE_S - self._clock.monotonic_s()
        if rest_s > 0.0 or self._heartbeats.stood_still:
            return f"schedulers that share the work have just stopped: it waits {max(rest_s, 0.0):.1f} s"
        return None

    async def follow_forever(self, bus: parts.Bus) -> None:
        """Listen to the members, until cancelled."""
        await serving.until_taken(lambda: bus.subscribe(subjects.MEMBER_ALL, self._take), every_s=_TURN_S)
        while True:
            self._heartbeats.note_turn()
            self._review()
            await asyncio.sleep(_TURN_S)

    def _take(self, subject: str, payload: bytes) -> None:
        self._heartbeats.take(subject, payload)
        self._review()

    def _review(self) -> None:
        if self._heartbeats.others():
            self._shared_s = self._clock.monotonic_s()
        why = self.why_closed()
        is_closed, was_closed, self._was_closed = why is not None, self._was_closed, why is not None
        self._metrics.other_mode.set(is_closed)
        if is_closed and not was_closed:
            self.number += 1
            self._line.warning("this scheduler places no Pods", why=why)
        elif was_closed and not is_closed:
            self._line.info("this scheduler places Pods again")
            self._wake()
