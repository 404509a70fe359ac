"""The Pods that wait for a node: highest priority first, then oldest.

Pods with equal demands wait in one lane. If one of them finds no node, none of the lane can, so the lane is parked and
costs nothing until a change that could help it (`unpark`). A Pod whose bind failed waits for a backoff of its own
before it returns to its lane.
"""

import collections
import dataclasses
import heapq
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Set

from carico_core.domain import cluster, gangs
from carico_core.numerics import backoff
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import label_index

BACKOFF_FIRST_S = 0.1
BACKOFF_MAX_S = 10.0
# Keys of Pods that no longer wait are swept out of a lane once they are more than half of it and more than this many. A
# sweep costs as much as the lane is long, so each forgotten Pod pays for two keys at most.
SWEEP_ABOVE = 64
# Schedulers that are listed by name for one Pod, to which it lost claims; more are counted together.
RIVALS_MOST = 8
# So many lost claims do not make a Pod wait. With 8 schedulers, 90 % fill and views 50 ms old 1 % of Pods waited if the
# first one did, and .06 % if only the third does (`carico_twin.evaluate.sharing`).
CHOICES_AT_ONCE = 2
OTHER_RIVALS = "others"
Key = tuple[int, float, str]


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Waiting:
    """One Pod in the queue, with its attempts and reports. Monotonic seconds."""

    pod: cluster.Pod
    demand: demands.Demand
    since_s: float
    # How long it had waited before, if a list showed it first, as after a start. What needs time to see how things are,
    # such as evictions, has it from `since_s` on.
    before_s: float = 0.0
    # How long it had waited when it came here from another scheduler; None: it has always waited here.
    late_s: float | None = None
    attempts: int = 0
    # Why it did not get the room the last time that others were evicted for it; empty: not so.
    in_vain: str = ""
    # How often it lost a claim, by the scheduler to which it did.
    lost: dict[str, int] = dataclasses.field(default_factory=dict)
    # True from a lost claim until it is back in the queue, which it enters without a backoff.
    goes_at_once: bool = False
    # The last report about it, reasons and time, by subject (`notices`); and when it was last considered for one.
    reported: dict[str, tuple[frozenset[str], float]] = dataclasses.field(default_factory=dict)
    considered_s: float = -math.inf

    @property
    def key(self) -> Key:
        """Sorts highest priority first, then oldest, then by UID."""
        return key_of(self.pod)

    @property
    def began_s(self) -> float:
        """Since when it has waited for a node."""
        return self.since_s - self.before_s

    def note_lost(self, rival: str) -> None:
        """Count a claim that was given up for one of another scheduler."""
        # The next cycle knows what the others have claimed, so there is nothing to wait for.
        self.goes_at_once = sum(self.lost.values()) < CHOICES_AT_ONCE
        name = rival if rival in self.lost or len(self.lost) < RIVALS_MOST else OTHER_RIVALS
        self.lost[name] = self.lost.get(name, 0) + 1


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class _Lane:
    demand: demands.Demand
    heap: list[Key] = dataclasses.field(default_factory=list)
    is_parked: bool = False
    # At least the number of keys in the heap whose Pods no longer wait in this lane.
    dead: int = 0


def key_of(pod: cluster.Pod) -> Key:
    """Return the key by which Pods are decided on: highest priority first, then oldest, then by UID."""
    return (-pod.priority, pod.created_at_s, pod.uid)


def backoff_s(attempts: int, rng: random.Random) -> float:
    """Return how long a Pod waits after its n-th failed bind: 100 ms doubling to 10 s, less up to half at random."""
    return backoff.drawn_s(max(attempts - 1, 0), first_s=BACKOFF_FIRST_S, most_s=BACKOFF_MAX_S, rng=rng)


class Queue:
    """Waiting Pods by UID. A Pod is in it at most once; `take` removes it, `park` or `retry` returns it."""

    def __init__(
        self, rng: random.Random, demand_of: Callable[[cluster.Pod], demands.Demand] = demands.demand_of
    ) -> None:
        self._rng = rng
        self._demand_of = demand_of
        self._waiting: dict[str, Waiting] = {}
        self._labels = label_index.LabelIndex()
        self._lanes: dict[demands.Demand, _Lane] = {}
        # The same lanes by gang; None: of Pods without one, whose changes must not look at the lanes of every gang.
        self._by_gang: dict[gangs.Key | None, dict[demands.Demand, _Lane]] = {}
        # Heads of open lanes. Entries may be out of date, which `take` checks.
        self._open: list[tuple[Key, int]] = []
        self._by_id: dict[int, _Lane] = {}
        # The classes of parked lanes, cached since each advertisement asks for them; None: to be computed again.
        self._parked: Mapping[float, Set[str]] | None = None
        self._backing_off: list[tuple[float, str]] = []
        self._due: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, uid: str) -> bool:
        return uid in self._waiting

    def __iter__(self) -> Iterator[Waiting]:
        return iter(list(self._waiting.values()))

    def parked_classes(self) -> Mapping[float, Set[str]]:
        """Return the classes of the parked Pods, without gangs: those that found no node when last tried.

        They come by the offset of the ceiling under which they look for room.
        """
        if self._parked is None:
            found: collections.defaultdict[float, set[str]] = collections.defaultdict(set)
            for demand, lane in self._by_gang.get(None, {}).items():
                if lane.is_parked:
                    found[demand.ceiling_offset].add(demand.pod_class)
            self._parked = found
        return self._parked

    def find(self, uid: str) -> Waiting | None:
        """Return the waiting Pod; None if it does not wait."""
        return self._waiting.get(uid)

    def labelled(self, labels: Iterable[label_index.Label]) -> list[Waiting]:
        """Return the waiting Pods that have any of these labels, and those of very many labels."""
        uids = self._labels.find(labels, (each.pod for each in self._waiting.values()))
        return [self._waiting[uid] for uid in uids]

    def due_s(self, uid: str) -> float | None:
        """Return when the Pod's backoff after a failed bind ends (monotonic); None if it has none."""
        return self._due.get(uid)

    def parked(self) -> list[Waiting]:
        """Return the parked Pods, in no order."""
        demands_parked = {lane.demand for lane in self._lanes.values() if lane.is_parked}
        return [each for each in self._waiting.values() if each.demand in demands_parked] if demands_parked else []

    def parked_heads(self) -> list[Waiting]:
        """Return the first Pod of each parked lane, in no order; without gangs, which need several nodes at once."""
        return self._heads(lane for lane in self._by_gang.get(None, {}).values() if lane.is_parked)

    def heads(self) -> list[Waiting]:
        """Return the first Pod of each lane, parked or not, in no order; without gangs and Pods in backoff."""
        return self._heads(self._by_gang.get(None, {}).values())

    def _heads(self, lanes: Iterable[_Lane]) -> list[Waiting]:
        found = []
        for lane in lanes:
            # Keys of Pods that no longer wait may come first.
            head, is_swept = None, False
            while lane.heap and (head := self._valid(lane, lane.heap[0])) is None:
                heapq.heappop(lane.heap)
                lane.dead = max(lane.dead - 1, 0)
                is_swept = True
            if is_swept:
                self._show(lane)
            if head is not None:
                found.append(head)
        return found

    def offer(self, pod: cluster.Pod, now_s: float) -> bool:
        """Add or update a Pod; return True if it did not wait with this demand and priority yet."""
        waiting = self._waiting.get(pod.uid)
        demand = self._demand_of(pod)
        if waiting is None:
            self._insert(Waiting(pod=pod, demand=demand, since_s=now_s))
            return True
        changed = waiting.demand != demand or waiting.pod.priority != pod.priority
        self._labels.remove(waiting.pod)
        waiting.pod = pod
        self._labels.add(pod)
        if changed:
            left, waiting.demand = waiting.demand, demand
            self._unpark_lane(self._enter_lane(waiting))
            self._count_dead(left)
        return changed

    def forget(self, uid: str) -> bool:
        """Remove a Pod; return True if it was waiting."""
        self._due.pop(uid, None)
        waiting = self._leave(uid)
        if waiting is not None:
            self._count_dead(waiting.demand)
        return waiting is not None

    def may_take(self, now_s: float) -> bool:
        """Return False if `take` would return None: all Pods are parked or in backoff."""
        return bool(self._open) or (bool(self._backing_off) and self._backing_off[0][0] <= now_s)

    def take(self, now_s: float) -> Waiting | None:
        """Remove and return the next Pod to decide on; None if all are parked or in backoff."""
        self._end_backoffs(now_s)
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
                self._leave(key[2])
            if lane.heap or lane.demand.gang is None:
                self._show(lane)
            else:
                # The lanes of Pods without a gang are used again; an empty one of a gang may be of no further use.
                self._drop_lane(lane)
            if waiting is not None:
                return waiting
        return None

    def park(self, waiting: Waiting) -> None:
        """Return a Pod to the queue that found no node, and park its lane."""
        self._enter(waiting)
        self._enter_lane(waiting).is_parked = True
        self._parked = None

    def retry(self, waiting: Waiting, now_s: float) -> float:
        """Return a Pod to the queue whose bind failed; return the seconds of its backoff."""
        if waiting.goes_at_once:
            waiting.goes_at_once = False
            self._insert(waiting)
            return 0.0
        rest_s = backoff_s(waiting.attempts, self._rng)
        self._enter(waiting)
        self._due[waiting.pod.uid] = now_s + rest_s
        heapq.heappush(self._backing_off, (now_s + rest_s, waiting.pod.uid))
        return rest_s

    def unpark(self) -> None:
        """Open every lane but those of gangs: something has changed that could help."""
        self.unpark_if(lambda _: True)

    def unpark_if(self, could_help: Callable[[demands.Demand], bool]) -> None:
        """Open the parked lanes of the demands that a change could help, but for gangs; drop empty lanes.

        Whether a whole gang fits is expensive to find out, and no single change decides it: `unpark_gangs`.
        """
        self._unpark(None, could_help)

    def unpark_gangs(self, keys: Set[gangs.Key]) -> None:
        """Open the parked lanes of these gangs."""
        for key in keys:
            self._unpark(key, lambda _: True)

    def _unpark(self, gang: gangs.Key | None, could_help: Callable[[demands.Demand], bool]) -> None:
        for lane in list(self._by_gang.get(gang, {}).values()):
            if not lane.heap:
                self._drop_lane(lane)
            elif lane.is_parked and could_help(lane.demand):
                self._unpark_lane(lane)

    def next_due_s(self) -> float | None:
        """Return when the next backoff ends (monotonic), or None."""
        while self._backing_off and self._due.get(self._backing_off[0][1]) != self._backing_off[0][0]:
            heapq.heappop(self._backing_off)
        return self._backing_off[0][0] if self._backing_off else None

    def _enter(self, waiting: Waiting) -> None:
        known = self._waiting.get(waiting.pod.uid)
        if known is not None:
            self._labels.remove(known.pod)
        self._waiting[waiting.pod.uid] = waiting
        self._labels.add(waiting.pod)

    def _leave(self, uid: str) -> Waiting | None:
        waiting = self._waiting.pop(uid, None)
        if waiting is not None:
            self._labels.remove(waiting.pod)
        if not self._waiting:
            self._labels.drop()
        return waiting

    def _insert(self, waiting: Waiting) -> None:
        self._enter(waiting)
        lane = self._enter_lane(waiting)
        if not lane.is_parked and lane.heap[0] == waiting.key:
            self._show(lane)

    def _enter_lane(self, waiting: Waiting) -> _Lane:
        """Add the Pod to the lane of its demand, and return the lane, whose demand is the Pod's from now on."""
        lane = self._lanes.get(waiting.demand)
        if lane is None:
            lane = self._lanes[waiting.demand] = _Lane(demand=waiting.demand)
            self._by_gang.setdefault(waiting.demand.gang, {})[waiting.demand] = lane
            self._by_id[id(lane)] = lane
        waiting.demand = lane.demand
        heapq.heappush(lane.heap, waiting.key)
        return lane

    def _count_dead(self, demand: demands.Demand) -> None:
        """Note that a Pod has left the lane of `demand`; sweep the lane if most of its keys are dead."""
        lane = self._lanes.get(demand)
        if lane is None:
            return
        lane.dead += 1
        # Nothing else removes keys behind a head that never leaves.
        if lane.dead >= len(lane.heap) or (lane.dead > SWEEP_ABOVE and 2 * lane.dead > len(lane.heap)):
            self._sweep(lane)

    def _sweep(self, lane: _Lane) -> None:
        """Keep each waiting Pod in the lane once; drop the lane if there is none."""
        lane.heap = sorted({key for key in lane.heap if self._valid(lane, key) is not None})
        lane.dead = 0
        if lane.heap:
            self._show(lane)
        else:
            self._drop_lane(lane)

    def _drop_lane(self, lane: _Lane) -> None:
        self._parked = None
        del self._lanes[lane.demand]
        of_gang = self._by_gang[lane.demand.gang]
        del of_gang[lane.demand]
        if not of_gang:
            del self._by_gang[lane.demand.gang]
        del self._by_id[id(lane)]

    def _unpark_lane(self, lane: _Lane) -> None:
        lane.is_parked = False
        self._parked = None
        self._show(lane)

    def _show(self, lane: _Lane) -> None:
        """Add the lane's head to the open heads."""
        if lane.heap and not lane.is_parked:
            heapq.heappush(self._open, (lane.heap[0], id(lane)))
            if len(self._open) > SWEEP_ABOVE and len(self._open) > 2 * len(self._lanes):
                self._sweep_open()

    def _sweep_open(self) -> None:
        """Keep the head of each open lane once: a standby takes nothing, so its heads would only accumulate."""
        self._open = [(lane.heap[0], id(lane)) for lane in self._lanes.values() if lane.heap and not lane.is_parked]
        heapq.heapify(self._open)

    def _valid(self, lane: _Lane, key: Key) -> Waiting | None:
        """Return the Pod of a lane's entry; None if the entry is out of date or the Pod is in backoff."""
        waiting = self._waiting.get(key[2])
        if waiting is None or waiting.demand != lane.demand or waiting.key != key or key[2] in self._due:
            return None
        return waiting

    def _end_backoffs(self, now_s: float) -> None:
        while self._backing_off and self._backing_off[0][0] <= now_s:
            due_s, uid = heapq.heappop(self._backing_off)
            if self._due.get(uid) == due_s:
                del self._due[uid]
                self._insert(self._waiting[uid])
