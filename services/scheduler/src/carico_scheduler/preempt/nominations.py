"""The Pods for which room is being made on a node, each with its state.

                 chosen                     last victim gone                  bound there: PLACED
    (none) ---------------> EVICTING ----------------------------> FREED ----------------------------> (none)
                               |                                     |
                               |  bound to another node: ELSEWHERE; the Pod or the node is gone: GONE; a victim could
                               |  not be evicted: FAILED; a victim stays, or the room is not enough: EXPIRED
                               +-------------------------------------+-------------------------------> (none)

While a Pod has a nomination, Pods that come after it in the queue do not get the room (those of lower priority, and the
younger ones of its own), and no further Pod is evicted for it. If it takes the room of another Pod like it, they
exchange their nominations.

Pods are also evicted for no nomination: opportunistic ones, and gangs that are given back. They are noted here until
they are gone, so that no other goes in their place, and all count against their budgets together.
"""

import dataclasses
import enum
from collections.abc import Callable, Iterator, Sequence, Set

from carico_core.domain import amounts, cluster
from carico_scheduler.pods import demand as demands
from carico_scheduler.preempt import budgets

# How long the room is held after the last victim is gone: its agent must have measured that (about 2 s), and a load
# that it has not measured grows in steps.
FREED_FOR_S = 10.0
# How long victims may take to go. Grace periods are 30 s by default; a Pod with a longer one, or with a finalizer,
# would hold the room for ever.
EVICTING_FOR_S = 300.0
# A Pod that leaves is waited for until so long after its grace period: one with a finalizer may stay for ever. If the
# grace period lasts for longer than victims may take, it is not waited for: who creates a Pod chooses that period.
STUCK_AFTER_S = 60.0


class State(enum.Enum):
    """The state of a nomination."""

    EVICTING = enum.auto()
    FREED = enum.auto()


class End(enum.StrEnum):
    """How a nomination ended."""

    PLACED = "placed"
    ELSEWHERE = "elsewhere"
    GONE = "gone"
    FAILED = "failed"
    EXPIRED = "expired"


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Nomination:
    """One Pod, the node on which room is made for it, and the Pods that have to go. Monotonic seconds.

    Of these, those that are being deleted when it is made are not evicted, only waited for.
    """

    pod: cluster.Pod
    demand: demands.Demand
    node: str
    victims: tuple[cluster.Pod, ...]
    # When the state began.
    since_s: float
    state: State = State.EVICTING
    has_failed: bool = False
    # How many budgets the evictions violate.
    violations: int = 0
    # True once it has ended: no further victim goes.
    is_over: bool = False
    # The nominations of its gang, itself included: the room is held until the victims of all of them are gone. If one
    # fails or is gone, all of them fail.
    together: list["Nomination"] = dataclasses.field(default_factory=list)

    @property
    def evicted(self) -> list[cluster.Pod]:
        """The victims that are evicted for it; the others leave anyway, and are only awaited."""
        return [each for each in self.victims if not each.deleting]


def ends_in_time(pod: cluster.Pod, unix_s: float) -> bool:
    """Return True if a Pod that is being deleted can be waited for: it ends soon, or should have ended just now."""
    return -STUCK_AFTER_S < pod.ends_at_s - unix_s <= EVICTING_FOR_S


def in_vain(ended: Nomination, end: End) -> str:
    """Return in words what was done for a Pod that did not get the room, and why."""
    evicted, where = len(ended.evicted), f"on {ended.node} without success"
    done = f"{amounts.plural(evicted, 'Pod')} evicted for it {where}" if evicted else f"Pods awaited {where}"
    match end:
        case End.GONE:
            return f"{done}: the node is gone"
        case End.FAILED:
            return f"{done}: not all that had to go could be evicted"
    return f"{done}: " + ("what went freed too little" if ended.state is State.FREED else "not all have left")


class Nominations:
    """All nominations, by the UID of their Pod and by node."""

    def __init__(self) -> None:
        self._by_uid: dict[str, Nomination] = {}
        self._by_node: dict[str, list[Nomination]] = {}
        # Those that are evicted for no nomination, by UID.
        self._evicted: dict[str, cluster.Pod] = {}
        # See `budgets.Spent`: of all Pods that are being deleted on nodes, by UID.
        self._deleted_at: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._by_uid)

    def __iter__(self) -> Iterator[Nomination]:
        return iter(list(self._by_uid.values()))

    def find(self, uid: str) -> Nomination | None:
        """Return the nomination of a Pod; None if it has none."""
        return self._by_uid.get(uid)

    def on(self, node: str) -> Sequence[Nomination]:
        """Return the nominations on a node."""
        return self._by_node.get(node, ())

    def add(self, nomination: Nomination) -> None:
        """Enter a nomination of a Pod that has none: the evictions follow."""
        self._by_uid[nomination.pod.uid] = nomination
        self._by_node.setdefault(nomination.node, []).append(nomination)

    def exchange(self, uid: str, node: str, *, node_of: Callable[[str], str | None]) -> None:
        """Take in that a Pod was placed on a node: one like it for which room is made there gets its room instead.

        Pods that wait get whichever room is free first. Without it no room would be held for the other one, which other
        schedulers that share the work then take. `node_of` returns the node on which a Pod counts.
        """
        own = self._by_uid.get(uid)
        if own is None or own.node == node or own.together:
            return
        kind = own.demand, own.pod.priority
        alike = (each for each in self.on(node) if (each.demand, each.pod.priority) == kind and not each.together)
        other = next((each for each in alike if node_of(each.pod.uid) is None), None)
        if other is not None:
            own.pod, other.pod = other.pod, own.pod
            self._by_uid |= {own.pod.uid: own, other.pod.uid: other}

    def refresh(
        self, now_s: float, *, node_of: Callable[[str], str | None], is_binding: Callable[[str], bool],
        waits: Callable[[str], bool], nodes: Set[str],
    ) -> list[tuple[Nomination, End]]:  # fmt: skip
        """Bring all of them up to date, and return those that have ended.

        `node_of` returns the node on which a Pod counts, `is_binding` whether it is only chosen, `waits` whether the
        Pod waits for one; `nodes` are those there are.
        """
        ended = []
        evicting: dict[int, bool] = {}
        for each in self:
            if is_binding(each.pod.uid):
                continue
            gang = id(each.together or each)
            if gang not in evicting:
                evicting[gang] = _is_evicting(each.together or [each], node_of)
            end = self._step(each, now_s, node_of=node_of, waits=waits, nodes=nodes, is_evicting=evicting[gang])
            if end is not None:
                self.drop(each)
                ended.append((each, end))
        return ended

    def note_evicted(self, pod: cluster.Pod) -> None:
        """Note that a Pod is evicted for no nomination."""
        self._evicted[pod.uid] = pod

    def note_stays(self, uid: str) -> None:
        """Note that it could not be evicted."""
        self._evicted.pop(uid, None)

    def note_deleting(self, uid: str, writes: int) -> None:
        """Note that the API shows a Pod on a node as being deleted, after so many writes of budgets."""
        self._deleted_at[uid] = writes

    def note_gone(self, uid: str) -> None:
        """Note that a Pod is on no node any more."""
        self._evicted.pop(uid, None)
        self._deleted_at.pop(uid, None)

    def is_evicted(self, uid: str, node: str) -> bool:
        """Return True if a Pod on a node is being evicted; that others only wait for it does not make it go."""
        return uid in self._evicted or any(victim.uid == uid for each in self.on(node) for victim in each.evicted)

    def is_leaving(self, pod: cluster.Pod, node: str, unix_s: float) -> bool:
        """Return True if a Pod on a node ends in time, or is being evicted."""
        return ends_in_time(pod, unix_s) if pod.deleting else self.is_evicted(pod.uid, node)

    def evicting(self, node_of: Callable[[str], str | None]) -> Iterator[budgets.Spent]:
        """Yield the Pods that are being evicted and are not gone yet: budgets may not have counted them."""
        victims = {victim.uid: victim for each in self for victim in each.evicted}
        for uid, pod in (self._evicted | victims).items():
            if node_of(uid) is not None:
                yield budgets.Spent(pod, self._deleted_at.get(uid))

    def drop(self, nomination: Nomination) -> None:
        """Take back a nomination that has ended, or for which nothing was evicted."""
        nomination.is_over = True
        del self._by_uid[nomination.pod.uid]
        here = self._by_node[nomination.node]
        here.remove(nomination)
        if not here:
            del self._by_node[nomination.node]

    def _step(
        self, each: Nomination, now_s: float, *, node_of: Callable[[str], str | None], waits: Callable[[str], bool],
        nodes: Set[str], is_evicting: bool,
    ) -> End | None:  # fmt: skip
        placed = node_of(each.pod.uid)
        if placed is not None:
            return End.PLACED if placed == each.node else End.ELSEWHERE
        if each.node not in nodes or not waits(each.pod.uid):
            # Without it its gang would not be placed: no further victim goes for the others.
            each.has_failed = True
            return End.GONE
        if each.has_failed or any(other.has_failed for other in each.together):
            return End.FAILED
        if each.state is State.EVICTING and not is_evicting:
            each.state, each.since_s = State.FREED, now_s
        most_s = EVICTING_FOR_S if each.state is State.EVICTING else FREED_FOR_S
        return End.EXPIRED if now_s - each.since_s > most_s else None


def _is_evicting(together: Sequence[Nomination], node_of: Callable[[str], str | None]) -> bool:
    """Return True while a victim of one of these nominations is on its node."""
    return any(node_of(victim.uid) == each.node for each in together for victim in each.victims)
