"""One move: what is to happen, how far it is, and what became of it.

    STARTING --> RELEASING --> REPLACING --> MOVED
        |            |             |
        |            |             +-------> KEPT       another replica went in place of the old Pod; `evict`: the
        |            |                                  new one is not ready, or on the old node
        +------------+--> UNDOING ---------> KEPT       the old Pod stays where it is
                             |
                             +-------------> MOVED      a write whose answer was lost took effect after all
                             |
                             +--> RELEASING, REPLACING  the old Pod has failed meanwhile: the new one is needed

STARTING: the new Pod is to become ready on the target (`evict`: the controller's own). RELEASING: the old Pod is marked
as the one to go. REPLACING: the new Pod has its place. The API's objects hold the state, so that another process can
continue: here is what this process has seen of it.
"""

import dataclasses
import enum

from carico_core.domain import errors
from carico_rescheduler.context import movable


class State(enum.StrEnum):
    """How far a move is."""

    STARTING = "starting"
    RELEASING = "releasing"
    REPLACING = "replacing"
    UNDOING = "undoing"
    MOVED = "moved"
    KEPT = "kept"


_NEXT = {
    State.STARTING: {State.RELEASING, State.REPLACING, State.UNDOING, State.MOVED, State.KEPT},
    State.RELEASING: {State.REPLACING, State.UNDOING, State.MOVED, State.KEPT},
    State.REPLACING: {State.MOVED, State.KEPT, State.UNDOING},
    State.UNDOING: {State.RELEASING, State.REPLACING, State.KEPT, State.MOVED},
    State.MOVED: set(),
    State.KEPT: set(),
}
ENDED = frozenset({State.MOVED, State.KEPT})


class ImpossibleStep(errors.CaricoError):
    """A move that would go from one state to another that cannot follow it."""


class NotLeading(errors.CaricoError):
    """A write that was not sent: this replica does not lead any more."""


@dataclasses.dataclass(slots=True, kw_only=True)
class Record:
    """A move of `pod` (namespace/name). Times are monotonic seconds of this process."""

    pod: str
    uid: str
    source: str
    target: str
    mode: movable.Mode
    why: str
    gain: float
    began_s: float
    # The same in Unix nanoseconds: with the UID it identifies a move, since one that failed may be tried again.
    began_at_ns: int
    state: State = State.STARTING
    # The Pod's controller (`objects.KnownPod.controller`).
    owner: str = ""
    # For people: what is waited for, or why it ended so. `successor`: the new Pod, once it is known.
    detail: str = ""
    successor: str = ""
    # It ended, and its marks could not be taken off: a later process is to do that.
    is_marked: bool = False
    ended_s: float | None = None

    def advance(self, state: State, detail: str, *, now_s: float) -> None:
        """Go to a state. Raises `ImpossibleStep`."""
        if state is not self.state and state not in _NEXT[self.state]:
            raise ImpossibleStep(f"move of {self.pod}: got {state.value} after {self.state.value}")
        self.state = state
        self.detail = detail or self.detail
        if state in ENDED:
            self.ended_s = now_s
