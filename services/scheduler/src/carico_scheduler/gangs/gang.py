"""One gang, with an explicit state, and the one place where that state changes.

               enough wait            decided: enough assumed        enough bound
    GATHERING <-----------> WAITING --------------------> PLACING -----------------> COMPLETE
        ^                      ^                           ^   |                         |
        |                      |           the rest        |   | a bind failed,          | none is left
        |                      |           is decided      |   v a Pod is gone           | on a node
        |                      +---------------------- INCOMPLETE                        |
        |                      |                           | timeout                     |
        +----------------------+------ GIVEN_BACK <--------+                             |
        +----------------------+---------------------------------------------------------+

- GATHERING: too few of its Pods wait, or what it asks for is not known or wrong. It holds no room.
- WAITING: enough wait; they are placed in one step once there is room for all. It holds no room.
- PLACING: at least the minimum counts on nodes; binds are under way.
- INCOMPLETE: fewer than the minimum count on nodes, but some do. A scheduler that starts may find it so.
- COMPLETE: at least the minimum was bound. Further Pods of it are placed one by one.
- GIVEN_BACK: all its Pods that are on nodes are evicted. INCOMPLETE again if this scheduler stops leading meanwhile.

Pods that end well after they were bound still count, until none of the gang is left on a node. If all that is left is
being deleted and none has ended well, what comes next is a new gang of the same name.
"""

import collections
import dataclasses
import enum
import math
from collections.abc import Callable, Iterator

from carico_core.domain import errors, gangs
from carico_scheduler.pods import record as records


class GangState(enum.Enum):
    """The state of a gang."""

    GATHERING = "gathering"
    WAITING = "waiting"
    PLACING = "placing"
    INCOMPLETE = "incomplete"
    COMPLETE = "complete"
    GIVEN_BACK = "given back"


GATHERING, WAITING, PLACING, INCOMPLETE, COMPLETE, GIVEN_BACK = GangState
_STEPS: dict[GangState, frozenset[GangState]] = {
    GATHERING: frozenset({WAITING, PLACING, INCOMPLETE, COMPLETE}),
    WAITING: frozenset({GATHERING, PLACING, INCOMPLETE, COMPLETE}),
    PLACING: frozenset({GATHERING, WAITING, INCOMPLETE, COMPLETE}),
    INCOMPLETE: frozenset({GATHERING, WAITING, PLACING, COMPLETE, GIVEN_BACK}),
    COMPLETE: frozenset({GATHERING, WAITING}),
    GIVEN_BACK: frozenset({GATHERING, WAITING, INCOMPLETE}),
}


class Role(enum.Enum):
    """What one of its Pods counts as. IDLE: it has no node, and is not decided on. LEAVING: being deleted on a node."""

    IDLE = enum.auto()
    WAITS = enum.auto()
    ASSUMED = enum.auto()
    BOUND = enum.auto()
    LEAVING = enum.auto()


class ImpossibleGangStep(errors.CaricoError):
    """A change of a gang's state that must not happen: a defect of the scheduler."""

    def __init__(self, key: gangs.Key, before: GangState, after: GangState) -> None:
        self.key, self.before, self.after = key, before, after
        super().__init__(f"gang {key}: {before.name} cannot become {after.name}")


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Gang:
    """What is known of one gang."""

    key: gangs.Key
    state: GangState = GATHERING
    # None: not known.
    asks: gangs.Asks | None = None
    roles: dict[str, Role] = dataclasses.field(default_factory=dict)
    # What its Pods' own annotations ask for, with how many Pods ask for it.
    annotated: collections.Counter[gangs.Asks] = dataclasses.field(default_factory=collections.Counter)
    # Pods that ended well since the first was placed.
    done: int = 0
    # How many Pods found room when it was last tried; None before.
    fitted: int | None = None
    # True if its PodGroup leaves its Pods to be placed one by one.
    is_single: bool = False
    # When it was last tried again (monotonic).
    tried_s: float = -math.inf
    # True if the first Pod of it that counts was on a node when it was first seen: its past is not known.
    is_found: bool = False
    _counts: collections.Counter[Role] = dataclasses.field(default_factory=collections.Counter)

    @property
    def least(self) -> int | None:
        """How many of its Pods are placed together at least; None if nothing can be placed."""
        return None if self.asks is None or self.asks.wrong else self.asks.min_member

    @property
    def held(self) -> int:
        """How many of its Pods count on nodes, without those that leave."""
        return self._counts[Role.ASSUMED] + self._counts[Role.BOUND]

    @property
    def reached(self) -> int:
        """How many Pods count towards the minimum."""
        return self.held + self.done

    @property
    def missing(self) -> int:
        """How many more Pods must be placed together."""
        if self.state is COMPLETE:
            return 0
        return max((self.least or 0) - self.reached, 0)

    @property
    def waits(self) -> int:
        """How many of its Pods wait for a node."""
        return self._counts[Role.WAITS]

    @property
    def leaving(self) -> int:
        """How many of its Pods are being deleted on their nodes."""
        return self._counts[Role.LEAVING]

    @property
    def may_place(self) -> bool:
        """True if Pods of it may be placed now, together if some are missing."""
        return self.least is not None and self.state not in (GATHERING, GIVEN_BACK)

    def nodes(self, node_of: Callable[[str], str | None]) -> Iterator[str]:
        """Yield the nodes of its Pods that stay there."""
        for uid, role in self.roles.items():
            node = node_of(uid) if role in (Role.ASSUMED, Role.BOUND) else None
            if node is not None:
                yield node

    def put(self, uid: str, role: Role) -> bool:
        """Note what a Pod counts as; return True if that is new."""
        before = self.roles.get(uid)
        if before is role:
            return False
        if not self.reached and role in (Role.ASSUMED, Role.BOUND):
            self.is_found = before is None
        if before is not None:
            self._counts[before] -= 1
        self.roles[uid] = role
        self._counts[role] += 1
        return True

    def annotate(self, asks: gangs.Asks | None, change: int) -> None:
        """Count one Pod more or fewer whose own annotations ask for this."""
        if asks is not None:
            self.annotated[asks] += change
            if not self.annotated[asks]:
                del self.annotated[asks]

    def drop(self, uid: str) -> Role | None:
        """Forget a Pod; return what it counted as."""
        before = self.roles.pop(uid, None)
        if before is not None:
            self._counts[before] -= 1
        return before

    def renew(self) -> GangState | None:
        """Bring the state up to date; return the new one, or None if it stays."""
        if self.state in (COMPLETE, GIVEN_BACK) and not self.held and not (self.state is COMPLETE and self.leaving):
            self.done = 0
        after = self._due()
        return self.step(after) if after is not self.state else None

    def step(self, after: GangState) -> GangState:
        """Change the state. Raises `ImpossibleGangStep`."""
        if after not in _STEPS[self.state]:
            raise ImpossibleGangStep(self.key, self.state, after)
        self.state = after
        return after

    def _due(self) -> GangState:
        """Return the state that the counts call for."""
        least = self.least
        if self.is_single:
            return GATHERING
        if self.state is COMPLETE and (self.held or (self.leaving and self.done)):
            return COMPLETE
        if self.state is GIVEN_BACK and self.held:
            return GIVEN_BACK
        if not self.reached:
            return WAITING if least is not None and self.waits >= least else GATHERING
        if least is None or self.reached < least:
            return INCOMPLETE
        return COMPLETE if self.reached - self._counts[Role.ASSUMED] >= least else PLACING


def role_of(record: records.Record) -> Role:
    """Return what a Pod counts as."""
    if record.is_placed:
        if record.pod is not None and record.pod.deleting:
            return Role.LEAVING
        return Role.BOUND if record.is_bound else Role.ASSUMED
    return Role.WAITS if record.state is records.WAITING else Role.IDLE
