"""No Pod events: telemetry and the model work, but Pods are not counted and their cost is not learnt."""

import asyncio
import dataclasses
from collections.abc import Callable

from carico_agent import ports
from carico_core.domain import recording


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NoPodSet:
    """No Pods, ever."""

    running: frozenset[str] = frozenset()
    baseline: frozenset[str] = frozenset()
    ended: frozenset[str] = frozenset()
    holding: bool = False


class NoPods:
    """A `PodEvents` that never changes."""

    def current(self) -> ports.PodSet:
        """Return no Pods."""
        return NoPodSet()

    def on_change(self, callback: Callable[[], None]) -> None:
        """Do nothing: there is no change."""

    def on_event(self, witness: Callable[[recording.EventKind, str, float], None]) -> None:
        """Do nothing: there are no events."""

    async def run(self) -> None:
        """Wait until cancelled."""
        await asyncio.Event().wait()
