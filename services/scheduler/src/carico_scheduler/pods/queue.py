"""The Pods that wait for a node: highest priority first, then oldest.

Pods of one demand wait in one lane. Where one of them finds no node, none of the lane can, so the lane is parked and
costs nothing until something happens that could help it (`unpark`). A Pod whose bind failed waits out a backoff of
its own before it returns to its lane.
"""

import dataclasses
import heapq
import math
import random
from collections.abc import Callable, Iterator

from carico_core.domain import cluster
from carico_scheduler.pods import demand as demands

BACKOFF_FIRST_S = 0.1
BACKOFF_MAX_S = 10.0
# Keys of Pods that wait no more are swept out of a lane where they are more than half of it, and more than this: a
# sweep costs as much as the lane is long, so that each forgotten Pod pays for two keys at most.
SWEEP_ABOVE = 64
_Key = tuple[int, float, str]


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Waiting:
    """One Pod in the queue and what is kept of its attempts. Monotonic seconds."""

    pod: cluster.Pod
    demand: demands.Demand
    since_s: float
    attempts: int = 0
    # What was reported of it: reasons and when, by subject (`notices`); and when it was last considered.
    told: dict[str, tuple[frozenset[str], float]] = dataclasses.field(default_factory=dict)
    looked_s: float = -math.inf

    @property
    def key(self) -> _Key:
        """Sorts highest priority first, then oldest, then by UID."""
        return (-self.pod.priority, self.pod.created_at_s, self.pod.uid)


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class _Lane:
    demand: demands.Demand
    heap: list[_Key] = dataclasses.field(default_factory=list)
    is_parked: bool = False
    # At least as many as keys in the heap whose Pods wait no more, or wait elsewhere.
    dead: int = 0


def backoff_s(attempts: int, rng: random.Random) -> float:
    """How long a Pod waits after its n-th failed bind: 100 ms doubling to 10 s, less up to a half at random."""
    full = min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2.0 ** min(max(attempts - 1, 0), 16))
    return full * (1.0 - 0.5 * rng.random())


class Queue:
    """Waiting Pods by UID. A Pod is in it at most once; `take` hands it out, `park` or `retry` gives it back."""

    def __init__(
        self, rng: random.Random, demand_of: Callable[[cluster.Pod], demands.Demand] = demands.demand_of
    ) -> None:
        self._rng = rng
        self._demand_of = demand_of
        self._waiting: dict[str, Waiting] = {}
        self._lanes: dict[demands.Demand, _Lane] = {}
        # Heads of open lanes, oldest entries may be out of date: checked when taken.
        self._open: list[tuple[_Key, int]] = []
        self._by_id: dict[int, _Lane] = {}
        # The classes of parked lanes, kept as each advertisement asks for them; None: to be computed again.
        self._parked: frozenset[str] | None = None
        self._resting: list[tuple[float, str]] = []
        self._due: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, uid: str) -> bool:
        return uid in self._waiting

    def __iter__(self) -> Iterator[Waiting]:
        return iter(list(self._waiting.values()))

    def parked_classes(self) -> frozenset[str]:
        """The classes of the Pods for which there was no node when they were last looked at."""
        if self._parked is None:
            self._parked = frozenset(lane.demand.pod_class for lane in self._lanes.values() if lane.is_parked)
        return self._parked

    def find(self, uid: str) -> Waiting | None:
        """The Pod as it waits; None where it does not."""
        return self._waiting.get(uid)

    def due_s(self, uid: str) -> float | None:
        """Until when (monotonic) the Pod rests after a bind that failed; None where it does not rest."""
        return self._due.get(uid)

    def parked(self) -> list[Waiting]:
        """The Pods for which there was no node when they were last looked at, in no order."""
        demands_parked = {lane.demand for lane in self._lanes.values() if lane.is_parked}
        return [each for each in self._waiting.values() if each.demand in demands_parked] if demands_parked else []

    def offer(self, pod: cluster.Pod, now_s: float) -> bool:
        """True where the Pod was not waiting with this demand and priority yet; otherwise it is brought up to date."""
        waiting = self._waiting.get(pod.uid)
        demand = self._demand_of(pod)
        if waiting is None:
            self._insert(Waiting(pod=pod, demand=demand, since_s=now_s))
            return True
        changed = waiting.demand != demand or waiting.pod.priority != pod.priority
        waiting.pod = pod
        if changed:
            left, waiting.demand = waiting.demand, demand
            self._unpark_lane(self._enter_lane(waiting))
            self._count_dead(left)
        return changed

    def forget(self, uid: str) -> bool:
        """True where the Pod was waiting; it waits no more."""
        self._due.pop(uid, None)
        waiting = self._waiting.pop(uid, None)
        if waiting is not None:
            self._count_dead(waiting.demand)
        return waiting is not None

    def may_take(self, now_s: float) -> bool:
        """False where `take` would return None: all wait for something."""
        return bool(self._open) or (bool(self._resting) and self._resting[0][0] <= now_s)

    def take(self, now_s: float) -> Waiting | None:
        """The next Pod to decide on, taken out of the queue; None where all wait for something."""
        self._wake_rested(now_s)
        while self._open:
            key, lane_id = heapq.heappop(self._open)
            lane = self._by_id.get(lane_id)
            if lane is None or lane.is_parked or not lane.heap or lane.heap[0] != key:
                continue
            heapq.heappop(lane.heap)
            waiting = self._valid(lane, key)
            if waiting is None:
                lane.dead = max(lane.dead - 1, 0)
            else:
                del self._waiting[key[2]]
            self._show(lane)
            if waiting is not None:
                return waiting
        return None

    def park(self, waiting: Waiting) -> None:
        """Give a Pod back for which there is no node now, and parks its lane with it."""
        self._waiting[waiting.pod.uid] = waiting
        self._enter_lane(waiting).is_parked = True
        self._parked = None

    def retry(self, waiting: Waiting, now_s: float) -> float:
        """Give a Pod back whose bind failed; the seconds it rests first."""
        rest_s = backoff_s(waiting.attempts, self._rng)
        self._waiting[waiting.pod.uid] = waiting
        self._due[waiting.pod.uid] = now_s + rest_s
        heapq.heappush(self._resting, (now_s + rest_s, waiting.pod.uid))
        return rest_s

    def unpark(self) -> None:
        """Open every lane: something has happened that could help."""
        self.unpark_if(lambda _: True)

    def unpark_if(self, could_help: Callable[[demands.Demand], bool]) -> None:
        """Open the parked lanes of the demands that something has happened for; drops lanes that are empty."""
        for lane in list(self._lanes.values()):
            if not lane.heap:
                self._drop_lane(lane)
            elif lane.is_parked and could_help(lane.demand):
                self._unpark_lane(lane)

    def next_due_s(self) -> float | None:
        """When the next resting Pod may be tried again (monotonic), or None."""
        while self._resting and self._due.get(self._resting[0][1]) != self._resting[0][0]:
            heapq.heappop(self._resting)
        return self._resting[0][0] if self._resting else None

    def _insert(self, waiting: Waiting) -> None:
        self._waiting[waiting.pod.uid] = waiting
        lane = self._enter_lane(waiting)
        if not lane.is_parked and lane.heap[0] == waiting.key:
            self._show(lane)

    def _enter_lane(self, waiting: Waiting) -> _Lane:
        """The lane of the Pod's demand, with the Pod in it."""
        lane = self._lanes.get(waiting.demand)
        if lane is None:
            lane = self._lanes[waiting.demand] = _Lane(demand=waiting.demand)
            self._by_id[id(lane)] = lane
        heapq.heappush(lane.heap, waiting.key)
        return lane

    def _count_dead(self, demand: demands.Demand) -> None:
        """Note that a Pod has left the lane of `demand`, and sweeps the lane where it is mostly such keys."""
        lane = self._lanes.get(demand)
        if lane is None:
            return
        lane.dead += 1
        # Behind a head that waits for ever nothing else would ever take them out.
        if lane.dead >= len(lane.heap) or (lane.dead > SWEEP_ABOVE and 2 * lane.dead > len(lane.heap)):
            self._sweep(lane)

    def _sweep(self, lane: _Lane) -> None:
        """Leave each Pod that waits in the lane once, and drops the lane where none does."""
        lane.heap = sorted({key for key in lane.heap if self._valid(lane, key) is not None})
        lane.dead = 0
        if lane.heap:
            self._show(lane)
        else:
            self._drop_lane(lane)

    def _drop_lane(self, lane: _Lane) -> None:
        self._parked = None
        del self._lanes[lane.demand]
        del self._by_id[id(lane)]

    def _unpark_lane(self, lane: _Lane) -> None:
        lane.is_parked = False
        self._parked = None
        self._show(lane)

    def _show(self, lane: _Lane) -> None:
        """Enter the lane's head among the open ones."""
        if lane.heap and not lane.is_parked:
            heapq.heappush(self._open, (lane.heap[0], id(lane)))
            if len(self._open) > SWEEP_ABOVE and len(self._open) > 2 * len(self._lanes):
                self._sweep_open()

    def _sweep_open(self) -> None:
        """Leave the head of each open lane once: where nothing is taken, as on a standby, heads only ever come."""
        self._open = [(lane.heap[0], id(lane)) for lane in self._lanes.values() if lane.heap and not lane.is_parked]
        heapq.heapify(self._open)

    def _valid(self, lane: _Lane, key: _Key) -> Waiting | None:
        """The Pod of a lane's entry, unless the entry is out of date or the Pod rests."""
        waiting = self._waiting.get(key[2])
        if waiting is None or waiting.demand != lane.demand or waiting.key != key or key[2] in self._due:
            return None
        return waiting

    def _wake_rested(self, now_s: float) -> None:
        while self._resting and self._resting[0][0] <= now_s:
            due_s, uid = heapq.heappop(self._resting)
            if self._due.get(uid) == due_s:
                del self._due[uid]
                self._insert(self._waiting[uid])
