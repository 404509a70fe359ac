"""What the container runtime itself costs the CPU: a burst of work at each creation and at each end of a container.

Creating a container takes about half a core-second, taking one down a fifth, within some 0.2 s each (design, section
12). Behind the filter that reads for a second or two as if one more Pod ran: it was learnt as the Pods' cost, and a
node then took its next Pods a second late. So both count as classes of their own, whose cost is learnt beside theirs.
"""

from carico_core.numerics.estimators import base

# Names that no class of Pods has: those begin with a kind of owner, an image, or are `*` and `?`.
CREATED = "~created"
ENDED = "~ended"
KINDS = (CREATED, ENDED)
# Runnable tasks while it lasts, (mean, variance): a little below the recorded 0.5 and 0.2 core-seconds in PULSE_S, as
# nodes that are forked or emulated have next to none; both are measured after a few containers.
PRIOR: dict[str, base.Evidence] = {CREATED: (1.5, 1.0), ENDED: (0.6, 0.25)}
# The work of one container, and the time constant with which it is taken to be done.
PULSE_S = 0.25
_DONE_S = 0.15
# Over how long the usual rate is averaged: some lives of short Pods.
_USUAL_S = 10.0


class Pulses:
    """Containers being created (or taken down), as the filtered usage shows them, and as they usually are."""

    __slots__ = ("_left_s", "shown", "usual")

    def __init__(self) -> None:
        self._left_s = 0.0
        self.shown = 0.0
        self.usual = 0.0

    def begin(self) -> None:
        """One more."""
        self._left_s += PULSE_S

    def tick(self, gain: float, dt_s: float) -> None:
        """Move on by one sample with the CPU filter's gain in [0, 1]."""
        if dt_s <= 0.0:
            return
        now = 0.0
        if self._left_s:
            done_s = self._left_s * base.approached(dt_s, _DONE_S)
            self._left_s -= done_s
            now = done_s / dt_s
        self.usual += base.approached(dt_s, _USUAL_S) * (now - self.usual)
        self.shown += gain * (now - self.shown)
