"""How a Pod is ended, and its own deadline: activeDeadlineSeconds after its start, which users may change.

Source: kubernetes/pkg/kubelet/active_deadline.go.
"""

import asyncio
import dataclasses
from collections.abc import Callable

from carico_core.runtime.process import clock as clocks

DEADLINE_REASON = "DeadlineExceeded"
DEADLINE_MESSAGE = "Pod was active on the node longer than the specified deadline"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a Pod is to end. `report`: write its last status; `delete`: then delete its object.

    `stays`: its object stays until a user deletes it.
    """

    grace_s: float
    report: bool
    delete: bool
    failed: tuple[str, str] | None = None
    stays: bool = False


class Deadline:
    """A timer relative to the start of a Pod; a restart of the node's process does not change it."""

    def __init__(self, exceeded: Callable[[], None], *, start_ns: int, clock: clocks.Clock) -> None:
        self._exceeded = exceeded
        self._start_ns = start_ns
        self._clock = clock
        self._alarm: asyncio.TimerHandle | None = None

    def set(self, seconds: float | None) -> None:
        """Set the timer to this many seconds after the Pod's start; None: cancel it."""
        self.cancel()
        if seconds is not None:
            left_s = seconds - (self._clock.wall_ns() - self._start_ns) / 1e9
            self._alarm = asyncio.get_running_loop().call_later(max(0.0, left_s), self._exceeded)

    def cancel(self) -> None:
        """Cancel the timer."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
