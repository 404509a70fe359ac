"""Decides the next step of a move by surge, from what the API shows of it now. Pure."""

import dataclasses
import enum
from collections.abc import Sequence

from carico_rescheduler.context import objects

# From one look to the next it takes a second and some requests; longer, and the API was away.
LOOK_MOST_S = 5.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """How long a new Pod may wait for its node, how long it may take to be ready, and the old one to be chosen."""

    place_s: float
    start_s: float
    choose_s: float = 60.0


class Action(enum.StrEnum):
    """What to do next."""

    WAIT = "wait"
    MARK = "mark"
    ADOPT = "adopt"
    UNMARK = "unmark"
    DELETE = "delete"
    MOVED = "moved"
    KEPT = "kept"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What the API shows of a move. None: it is gone.

    `pods`: the other active Pods of the ReplicaSet, the old one among them. `wanted`: replicas. `least_ready_s`: how
    long a Pod must be ready before the Deployment counts it.
    """

    surge: objects.KnownPod | None
    old: objects.KnownPod | None
    pods: Sequence[objects.KnownPod]
    wanted: int
    has_replica_set: bool
    least_ready_s: float
    target: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """For how many seconds this process has seen the new Pod, seen it ready, and seen it in its ReplicaSet."""

    seen_s: float = 0.0
    ready_s: float = 0.0
    adopted_s: float = 0.0


class Watch:
    """Measures by this process' own clock how long a state lasts: times in objects are of other machines' clocks.

    A process that continues a move of another one begins to count again. While the API is away, no time passes: nothing
    could place the new Pod or report that it is ready.
    """

    def __init__(self) -> None:
        # By state: for how long it has been seen without a break, and when this process last looked.
        self._lasted_s: dict[str, float] = {}
        self._looked_s = 0.0

    def look(self, surge: objects.KnownPod | None, now_s: float) -> Waited:
        """Take in what the new Pod is like now."""
        holds = {
            "seen_s": surge is not None,
            "ready_s": surge is not None and surge.ready_at_s is not None,
            "adopted_s": surge is not None and not surge.is_surge,
        }
        passed_s, self._looked_s = min(now_s - self._looked_s, LOOK_MOST_S), now_s
        self._lasted_s = {
            name: self._lasted_s[name] + passed_s if name in self._lasted_s else 0.0
            for name, is_so in holds.items()
            if is_so
        }
        return Waited(**self._lasted_s)


def next_action(view: View, limits: StepTimes, waited: Waited, *, is_stopping: bool) -> tuple[Action, str]:
    """Return what to do next, and why."""
    old = view.old if view.old is not None and view.old.is_active else None
    if view.surge is None or view.surge.pod.deleting:
        return _after_surge(old, "the new Pod is gone")
    if not view.surge.is_surge:
        if view.surge.pod.is_terminal:
            return _after_surge(old, "the new Pod has ended")
        return _after_adoption(old, limits, waited)
    is_needed = _is_needed(view, old)
    gives_up = _why_not(view, old, limits, waited, is_needed=is_needed)
    if is_stopping and not is_needed:
        gives_up = gives_up or "the rescheduler stops"
    if gives_up:
        # The mark first: without the new Pod, it would not be found any more.
        return (Action.UNMARK, gives_up) if old is not None and old.leaves_for else (Action.DELETE, gives_up)
    waits_for = _waits_for(view, waited, is_needed=is_needed)
    if waits_for:
        return Action.WAIT, waits_for
    if old is not None and old.leaves_for != view.surge.pod.name:
        return Action.MARK, "the new Pod is ready"
    return Action.ADOPT, "a replica is missing without the new Pod" if is_needed else "the old Pod is the one to go"


def _is_needed(view: View, old: objects.KnownPod | None) -> bool:
    """Return whether a ready replica would be missing without the new Pod, as where the node of the old one dies.

    The ReplicaSet that adopts the new Pod deletes one that is not ready, if it has one too many.
    """
    surge = view.surge
    assert surge is not None
    is_there = surge.ready_at_s is not None and surge.pod.node_name == view.target
    if not is_there or (old is not None and old.ready_at_s is not None):
        return False
    return sum(each.ready_at_s is not None for each in view.pods if each.uid != surge.replaces) < view.wanted


def _after_surge(old: objects.KnownPod | None, why: str) -> tuple[Action, str]:
    return (Action.UNMARK, why) if old is not None and old.leaves_for else (Action.KEPT, why)


def _after_adoption(old: objects.KnownPod | None, limits: StepTimes, waited: Waited) -> tuple[Action, str]:
    if old is None:
        return Action.MOVED, "the new Pod has its place"
    if not old.leaves_for:
        return Action.KEPT, "another replica went in its place"
    if waited.adopted_s > limits.choose_s:
        return Action.UNMARK, "another replica went in its place"
    return Action.WAIT, "the ReplicaSet is to delete the old Pod"


def _why_not(
    view: View, old: objects.KnownPod | None, limits: StepTimes, waited: Waited, *, is_needed: bool
) -> str:  # fmt: skip
    """Return why the move is given up; empty if it continues."""
    surge = view.surge
    assert surge is not None
    if surge.pod.is_terminal:
        # Such as a node without room for it: no controller would ever delete it.
        return f"the new Pod has ended on {surge.pod.node_name}"
    if not view.has_replica_set or view.wanted == 0:
        return "its ReplicaSet has no replicas any more"
    if surge.pod.owner is not None and surge.pod.owner.kind != "ReplicaSet":
        return f"a {surge.pod.owner.kind} controls the new Pod"
    if is_needed:
        return ""
    if old is None:
        return "the old Pod is gone"
    if surge.pod.node_name is None:
        return f"no room on {view.target} within {limits.place_s:.0f} s" if waited.seen_s > limits.place_s else ""
    if surge.pod.node_name != view.target:
        return f"the new Pod is on {surge.pod.node_name}"
    if surge.ready_at_s is None and waited.seen_s > limits.start_s:
        return f"the new Pod was not ready within {limits.start_s:.0f} s"
    # The others of the ReplicaSet may take as long to become ready again.
    return "other replicas were not ready" if waited.seen_s > 2.0 * limits.start_s else ""


def _waits_for(view: View, waited: Waited, *, is_needed: bool) -> str:
    """Return what must happen before the old Pod may go; empty if it may go now."""
    surge = view.surge
    assert surge is not None
    if surge.pod.node_name is None:
        return f"the scheduler is to place it on {view.target}"
    if surge.ready_at_s is None or waited.ready_s < view.least_ready_s:
        return "the new Pod is to become ready"
    if is_needed:
        return ""
    # A ReplicaSet deletes Pods that are not ready before all others, whatever their cost.
    if len(view.pods) != view.wanted or any(each.ready_at_s is None for each in view.pods):
        return "all other replicas must be ready"
    return ""
