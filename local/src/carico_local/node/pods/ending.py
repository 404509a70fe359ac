"""How a Pod is ended, and when by its own word: activeDeadlineSeconds after its start, which people may change.

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
    """How a Pod is to end. `report`: its last status is written; `delete`: its object then goes.

    `stays`: its object stays after its end, until a user deletes it.
    """

    grace_s: float
    report: bool
    delete: bool
    failed: tuple[str, str] | None = None
    stays: bool = False


class Deadline:
    """An alarm `seconds` after the start of a Pod, which a restart of the node's process does not move."""

    def __init__(self, exceeded: Callable[[], None], *, start_ns: int, clock: clocks.Clock) -> None:
        self._exceeded = exceeded
        self._start_ns = start_ns
        self._clock = clock
        self._alarm: asyncio.TimerHandle | None = None

    def set(self, seconds: float | None) -> None:
        """Set the alarm to this time, or turn it off."""
        self.cancel()
        if seconds is not None:
            left_s = seconds - (self._clock.wall_ns() - self._start_ns) / 1e9
            self._alarm = asyncio.get_running_loop().call_later(max(0.0, left_s), self._exceeded)

    def cancel(self) -> None:
        """Turn the alarm off."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
