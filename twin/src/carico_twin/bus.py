"""The bus of the twin: every message arrives after a delay, or is lost."""

import dataclasses
from collections.abc import Callable

import numpy as np

from carico_twin import events


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """delay_s: mean time on the way; half of it is fixed, half exponential. loss: share of messages lost."""

    delay_s: float = 0.002
    loss: float = 0.0

    def __post_init__(self) -> None:
        if not self.delay_s >= 0.0:
            raise ValueError(f"delay_s: expected 0 or more seconds, got {self.delay_s}")
        if not 0.0 <= self.loss < 1.0:
            raise ValueError(f"loss: expected a share from 0 to below 1, got {self.loss}")


class Bus:
    """Carries bytes between the twin's services."""

    def __init__(self, link: Link, timeline: events.Timeline, rng: np.random.Generator) -> None:
        self._link = link
        self._timeline = timeline
        self._rng = rng
        self.sent = 0
        self.lost = 0

    def send(self, deliver: Callable[[], None]) -> None:
        """Calls `deliver` when the message arrives, if it does."""
        self.sent += 1
        link = self._link
        if link.loss > 0.0 and self._rng.random() < link.loss:
            self.lost += 1
            return
        delay_s = 0.5 * link.delay_s * (1.0 + self._rng.standard_exponential()) if link.delay_s > 0.0 else 0.0
        self._timeline.after(delay_s, deliver)
