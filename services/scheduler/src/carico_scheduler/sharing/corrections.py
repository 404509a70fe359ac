"""Corrections: Pods that a member hands over to the holder of the Lease, which decides on them in its place.

    of a member's share --> handed over --> bound, or gone
             ^                  |
             +------------------+  the holder is gone, has not placed it for a while, or another Pod is more urgent

The paper has a queue of what its agents could not place, served by one process with a full view. Ours has no queue of
its own: a member states in each heartbeat which Pods it has handed over, so that nothing is lost with a message or a
process, and a new holder of the Lease knows all of them at once. The holder puts them into its own queue. It alone
evicts Pods for others and gives turns, and states in its heartbeat for which Pods it holds room.
"""

import collections
import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence, Set

from carico_core.domain import cluster, messages
from carico_core.wire.messages import claims as claim_messages
from carico_scheduler.decide import cycle as cycles
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import queue as queues
from carico_scheduler.sharing import heartbeats as beats
from carico_scheduler.state import placements
from carico_scheduler.state import state as states

# A Pod that its member has not placed for so long: there is no room, or the member is slow.
AFTER_S = 5.0
# One that may have others evicted waits for as long as with one scheduler (`preemptor.AFTER_S`).
PREEMPTS_AFTER_S = 1.0
# A Pod that lost so many claims or binds is handed over at once.
TRIES_MOST = 3
MOST = claim_messages.HANDED_MAX
# Pods of one demand that are handed over at a time; five times a second.
OF_ONE_DEMAND = 8
# For so long a Pod is with a holder that makes no room for it. Then its member tries it again, for AFTER_S: the holder
# may be slow, or the API may refuse its binds, and Pods that fit nowhere would keep the places of others.
TRIED_S = 30.0
# Demands remembered whose Pods came back.
ROUNDS_KEPT = 1024


class HandOvers:
    """The Pods that this member has handed over, those that it has taken over, and the room that is held for some."""

    def __init__(
        self, state: states.State, heartbeats: beats.Heartbeats, *, holder: Callable[[], str],
        count_taken: Callable[[int], None], on_room: Callable[[], None],
    ) -> None:  # fmt: skip
        """`holder` returns the name in the Lease; `count_taken` counts the Pods that are taken over.

        `on_room` is called when the holder of the Lease holds some room no longer.
        """
        self._state = state
        self._heartbeats = heartbeats
        self._holder = holder
        self._count_taken = count_taken
        self._on_room = on_room
        # Returns the Pods for which this scheduler holds room itself, in the order of the queue.
        self.own_nominees: Callable[[], Sequence[cycles.Nominee]] = tuple
        # What the holder of the Lease holds, by its newest heartbeat and by the slot of the node.
        self._held: tuple[beats.LastHeartbeat | None, dict[int, list[cycles.Nominee]]] = (None, {})
        # The same by UID and node, when last reviewed.
        self._held_before: Mapping[str, str] = {}
        # How often Pods without a node have lost a claim or a bind.
        self._failures: collections.Counter[str] = collections.Counter()
        # Since when the Pods have waited (monotonic), by UID.
        self._handed: dict[str, float] = {}
        self._taken: dict[str, float] = {}
        # Since when they are handed over; and until when others are not, after the holder has not placed them.
        self._handed_s: dict[str, float] = {}
        self._rests: dict[str, float] = {}
        # How often Pods of a demand came back from the holder, and the first of those that did last.
        self._rounds: dict[demands.Demand, tuple[int, str]] = {}

    def note_failure(self, uid: str) -> None:
        """Note that a decision of this member on a Pod did not lead to a bind."""
        self._failures[uid] += 1

    def is_handed(self, uid: str) -> bool:
        """Return True for a Pod of this member's share that the holder of the Lease decides on."""
        return uid in self._handed

    def is_taken(self, uid: str) -> bool:
        """Return True for a Pod of another's share that this member decides on, as the holder of the Lease."""
        return uid in self._taken

    def review(self, now_s: float, *, has_lease: bool, has_share: bool, is_own: Callable[[cluster.Pod], bool]) -> bool:
        """Hand Pods over to the holder of the Lease, or take over those of others; return True if they change.

        `is_own`: whether a Pod that was handed over is still of this member's share.
        """
        self._review_held()
        taken = self._of_others() if has_lease else {}
        before, self._taken = self._taken, taken
        self._count_taken(len(taken.keys() - before.keys()))
        is_taken = self._share(before, taken, now_s)
        if not (has_share and not has_lease and self._is_served()):
            return self._hand_over({}, now_s) or is_taken
        is_handed = self._take_back(now_s)
        for _ in range(OF_ONE_DEMAND):
            # Those that go bring others to the front of the queue.
            if not self._hand_over(self._chosen(now_s, is_own), now_s):
                break
            is_handed = True
        return is_handed or is_taken

    def passed(self, now_s: float, *, has_lease: bool) -> messages.Corrections:
        """Return what this member announces: of the room that it holds, as much as a heartbeat has room for.

        That for which Pods are evicted comes first.
        """
        own = self.own_nominees() if has_lease else ()
        own = sorted(own, key=lambda each: self._state.nominations.find(each.uid) is None)
        return messages.Corrections(
            handed={uid: max(now_s - since_s, 0.0) for uid, since_s in self._handed.items()},
            held={each.uid: self._state.fleet.row(each.slot).node.name for each in own},
        )

    def may_hold(self, more: int) -> bool:
        """Return True if a heartbeat has room for all Pods for which others are evicted, and for so many more."""
        held = {each.pod.uid: each.node for each in self._state.nominations}
        longest = max(self._state.fleet.names(), key=len, default="")
        held |= {f"{number:36}": longest for number in range(more)}
        return len(claim_messages.announced(held)) == len(held)

    def nominees(self) -> list[cycles.Nominee]:
        """Return the Pods for which room is held, by this member or by the holder of the Lease, in queue order."""
        by_holder = (each for slot in self._held_slots() for each in self._held_by_holder(slot))
        found = {each.uid: each for each in (*by_holder, *self.own_nominees())}
        return sorted(found.values(), key=lambda each: each.key)

    def held_on(self, node: str, pod: cluster.Pod) -> list[demands.Demand]:
        """Return for which Pods room is held on a node against a Pod, by evictions or by the holder of the Lease."""
        slot, key = self._state.fleet.slot_of(node), queues.key_of(pod)
        by_holder = [] if slot is None else self._held_by_holder(slot)
        return self._state.nominated_on(node, pod) + [each.demand for each in by_holder if each.key < key]

    def _review_held(self) -> None:
        """Notice that the holder of the Lease holds some room no longer."""
        heard = self._heartbeats.holder(self._holder())
        passed = None if heard is None else heard.beat.corrections
        before, self._held_before = self._held_before, {} if passed is None else passed.held
        if before.items() - self._held_before.items():
            self._on_room()

    def _held_slots(self) -> Mapping[int, list[cycles.Nominee]]:
        heard = self._heartbeats.holder(self._holder())
        if heard is not self._held[0]:
            # An extender asks for each node: it is computed once for each heartbeat.
            found: dict[int, list[cycles.Nominee]] = {}
            for each in () if heard is None else self._nominees_of(heard.beat):
                found.setdefault(each.slot, []).append(each)
            self._held = (heard, found)
        return self._held[1]

    def _held_by_holder(self, slot: int) -> list[cycles.Nominee]:
        return [each for each in self._held_slots().get(slot, ()) if self._state.node_of(each.uid) is None]

    def _nominees_of(self, beat: messages.Heartbeat) -> Iterator[cycles.Nominee]:
        for uid, node in {} if beat.corrections is None else beat.corrections.held.items():
            pod, slot = self._state.pod(uid), self._state.fleet.slot_of(node)
            if pod is not None and slot is not None:
                yield cycles.Nominee(uid, queues.key_of(pod), slot, self._state.demand_of(pod), pod)

    def _is_served(self) -> bool:
        """Return whether another member holds the Lease, corrects, and serves the same names."""
        heard = self._heartbeats.holder(self._holder())
        if heard is None or heard.beat.corrections is None or heard.beat.report is None:
            return False
        return self._state.fleet.policy.names <= set(heard.beat.report.names)

    def _of_others(self) -> dict[str, float]:
        """Return since when the Pods have waited that others have handed over."""
        found: dict[str, float] = {}
        for each in self._heartbeats.newest():
            passed = each.beat.corrections
            found |= {} if passed is None else {uid: each.at_s - waited_s for uid, waited_s in passed.handed.items()}
        return found

    def _chosen(self, now_s: float, is_own: Callable[[cluster.Pod], bool]) -> dict[str, float]:
        """Return the Pods to be handed over, and since when they wait.

        They are the first ones in the order of the queue, with the first of each demand before the second of any, and
        those of a demand that came back later by as many places: Pods that fit nowhere must not keep others from the
        holder of the Lease, whether they are alike or not.
        """
        wanted = {uid: since_s for uid, since_s in self._handed.items() if self._is_still(uid, is_own)}
        asked = {uid: self._state.demand_of(pod) for uid in wanted if (pod := self._state.pod(uid)) is not None}
        due = self._due(now_s, set(asked.values()))
        wanted |= {each.pod.uid: each.began_s for each in due}
        asked |= {each.pod.uid: each.demand for each in due}
        # Without Pods that are gone by now.
        keys = {uid: queues.key_of(pod) for uid in asked if (pod := self._state.pod(uid)) is not None}
        counts = collections.Counter({asks: count for asks, (count, _) in self._rounds.items()})
        ranks: dict[str, tuple[int, queues.Key]] = {}
        for uid in sorted(keys, key=keys.__getitem__):
            ranks[uid] = (counts[asked[uid]], keys[uid])
            counts[asked[uid]] += 1
        chosen = heapq.nsmallest(MOST, ranks, key=ranks.__getitem__)
        return {uid: wanted[uid] for uid in chosen}

    def _take_back(self, now_s: float) -> bool:
        """Take Pods back for which the holder has found no room for long; return True if there are any."""
        self._rests = {uid: until_s for uid, until_s in self._rests.items() if until_s > now_s}
        # Where one of them has been placed there is room again.
        self._rounds = {asks: each for asks, each in self._rounds.items() if not self._is_placed(each[1])}
        late = [
            uid for uid, since_s in self._handed_s.items()
            if now_s - since_s >= TRIED_S and uid not in self._held_before
        ]  # fmt: skip
        pods = sorted((pod for uid in late if (pod := self._state.pod(uid)) is not None), key=queues.key_of)
        first: dict[demands.Demand, str] = {}
        for pod in pods:
            first.setdefault(self._state.demand_of(pod), pod.uid)
        for asks, uid in first.items():
            self._rounds[asks] = (self._rounds.get(asks, (0, ""))[0] + 1, uid)
        while len(self._rounds) > ROUNDS_KEPT:
            del self._rounds[next(iter(self._rounds))]
        self._rests |= dict.fromkeys(late, now_s + AFTER_S)
        return bool(late) and self._hand_over({uid: at for uid, at in self._handed.items() if uid not in late}, now_s)

    def _hand_over(self, wanted: dict[str, float], now_s: float) -> bool:
        """Hand these Pods over, and take all others back."""
        before, self._handed = self._handed, wanted
        self._handed_s = {uid: self._handed_s.get(uid, now_s) for uid in wanted}
        waits = (uid for uid in self._failures if uid not in wanted and self._state.has_no_node(uid))
        self._failures = collections.Counter({uid: self._failures[uid] for uid in waits})
        return self._share(before, wanted, now_s)

    def _share(self, before: Mapping[str, float], after: Mapping[str, float], now_s: float) -> bool:
        changed = before.keys() ^ after.keys()
        for uid in changed:
            self._state.share(uid, after[uid] if uid in after else before[uid], now_s)
        return bool(changed)

    def _is_placed(self, uid: str) -> bool:
        pod = self._state.pod(uid)
        return pod is not None and pod.node_name is not None

    def _is_still(self, uid: str, is_own: Callable[[cluster.Pod], bool]) -> bool:
        pod = self._state.pod(uid)
        return pod is not None and self._state.is_undecided(uid) and is_own(pod)

    def _due(self, now_s: float, handed: Set[demands.Demand]) -> list[queues.Waiting]:
        """Return the Pods of the queue that may be handed over now; `handed`: the demands of those that are.

        Where the cluster is full thousands of demands may wait: without those that come after too many others.
        """
        queue, lowest = self._state.queue, self._state.placements.lowest_priority()
        tried = [queue.find(uid) for uid, count in self._failures.items() if count >= TRIES_MOST]
        found = [
            each for each in queue.heads()
            if now_s - each.since_s >= _after_s(each.pod, lowest) and each.pod.uid not in self._rests
        ]  # fmt: skip
        if len(found) > MOST + len(tried):
            # Each that was tried comes before one of its demand at most.
            first = heapq.nsmallest(MOST + len(tried), found, key=self._least_rank)
            found = [*first, *(each for each in found if each.demand in handed)]
        return [*found, *(each for each in tried if each is not None and each.pod.uid not in self._rests)]

    def _least_rank(self, waiting: queues.Waiting) -> tuple[int, queues.Key]:
        """Return the rank of a Pod if no other of its demand comes before it."""
        return self._rounds.get(waiting.demand, (0, ""))[0], waiting.key


def _after_s(pod: cluster.Pod, lowest: int | None) -> float:
    return PREEMPTS_AFTER_S if placements.may_preempt(pod, lowest) else AFTER_S
