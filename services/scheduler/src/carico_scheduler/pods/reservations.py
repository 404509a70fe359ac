"""Which Pods count on which node, and which of them no advertisement covers yet.

A Pod counts from the decision that chose its node, or from the moment the API shows that any scheduler bound it, until
it has ended. While the node's newest advertisement does not cover it, it is reserved: the node does not account for it
yet. After a restart of the agent its first advertisement decides again. Baseline Pods (DaemonSets, static Pods) count
for the Pod limit and requests, but are never reserved.
"""

import math
import types
from collections.abc import Callable, Mapping, Set
from typing import Any, NamedTuple, TypeVar

from carico_core.domain import cluster, names
from carico_scheduler.rules import policy as policies

_V = TypeVar("_V")
_NOTHING: frozenset[str] = frozenset()
_EMPTY: Mapping[str, Any] = types.MappingProxyType({})


class Booking(NamedTuple):
    """A Pod's booking on a node.

    Monotonic seconds: `since_s`: when it was placed. `left_pending_s`: when the API first showed that its containers
    were created, +inf before: that a Pod waits for its image is not the node's fault. `Booking` and `Load` are named
    tuples since each event of a Pod creates some: frozen dataclasses take twice as long.
    """

    uid: str
    key: str
    node: str
    cores: float
    size_bytes: float
    others: tuple[tuple[str, float], ...]
    is_baseline: bool
    pod_class: str
    is_pending: bool
    since_s: float
    left_pending_s: float = math.inf


class Load(NamedTuple):
    """The sum of the bookings on one node."""

    placed: int = 0
    workloads: int = 0
    used_cores: float = 0.0
    used_bytes: float = 0.0
    used_others: Mapping[str, float] = _EMPTY
    reserved: int = 0
    # The reserved Pods by class.
    classes: Mapping[str, int] = _EMPTY
    # Since when a Pod whose containers were created is in no advertisement.
    uncovered_since_s: float = math.inf


def booking_of(pod: cluster.Pod, *, node: str, now_s: float, is_baseline: bool = False) -> Booking:
    """Return the booking of `pod` on `node`."""
    return Booking(
        uid=pod.uid,
        key=pod.key,
        node=node,
        cores=pod.request_cores,
        size_bytes=pod.request_bytes,
        others=pod.request_others,
        is_baseline=is_baseline,
        pod_class=names.class_of(pod),
        is_pending=pod.phase == "Pending",
        since_s=now_s,
        left_pending_s=math.inf if pod.phase == "Pending" else now_s,
    )


class Reservations:
    """The bookings of all Pods that have not ended, by node. Each Pod's record holds its booking (`record`)."""

    def __init__(self, release: policies.Release) -> None:
        self._release = release
        self._by_node: dict[str, dict[str, Booking]] = {}
        self._covers: dict[str, Set[str]] = {}
        self._reserved: dict[str, dict[str, float]] = {}
        # Kept up to date, since every cycle logs it.
        self._reserved_count = 0
        # Called with the UID of each Pod that is newly covered, and since when it was reserved.
        self.on_covered: Callable[[str, float], None] = lambda uid, since_s: None
        # Called with the UID of each Pod that is no longer covered.
        self.on_uncovered: Callable[[str], None] = lambda uid: None

    def __len__(self) -> int:
        return sum(map(len, self._by_node.values()))

    @property
    def reserved_count(self) -> int:
        """The number of reserved Pods on all nodes."""
        return self._reserved_count

    def is_reserved(self, booking: Booking) -> bool:
        """Return True if the Pod's node does not account for it yet."""
        return booking.uid in self._reserved.get(booking.node, _EMPTY)

    def reserved(self) -> list[tuple[Booking, float]]:
        """Return every reserved booking and since when it is uncovered."""
        return [
            (self._by_node[node][uid], since_s)
            for node, each in self._reserved.items()
            for uid, since_s in each.items()
        ]

    def oldest_pending_s(self) -> float:
        """Return since when the Pod is reserved that has waited longest to be started; +inf if none waits.

        A running Pod on a node that does not advertise stays reserved, but does not wait.
        """
        oldest_s = math.inf
        # Asked twice a second, of each of maybe 10,000 Pods: few bookings are looked at.
        for node, each in self._reserved.items():
            bookings = self._by_node[node]
            for uid, since_s in each.items():
                if since_s < oldest_s and bookings[uid].is_pending:
                    oldest_s = since_s
        return oldest_s

    def on(self, node: str) -> list[Booking]:
        """Return the bookings on a node."""
        return list(self._by_node.get(node, _EMPTY).values())

    def place(self, booking: Booking, old: Booking | None = None) -> Booking:
        """Enter a booking in place of the Pod's `old` one; on the same node it keeps its times.

        Return the booking as entered: `old` itself if nothing has changed.
        """
        if old is not None and old.node == booking.node:
            booking = booking._replace(
                since_s=old.since_s, left_pending_s=min(old.left_pending_s, booking.left_pending_s)
            )
            if booking == old:
                return old
        elif old is not None:
            self.remove(old)
        self._by_node.setdefault(booking.node, {})[booking.uid] = booking
        self._mark(booking)
        return booking

    def remove(self, booking: Booking) -> None:
        """End a booking."""
        _discard(self._by_node, booking.node, booking.uid)
        self._reserved_count -= _discard(self._reserved, booking.node, booking.uid)

    def cover(self, node: str, covers: Set[str], now_s: float) -> bool:
        """Take in which UIDs the newest advertisement of `node` covers; return True if what is reserved changed."""
        self._covers[node] = covers
        bookings = self._by_node.get(node)
        if not bookings or self._release is policies.Release.PAPER:
            return False
        before = self._reserved.get(node)
        uncovered = [uid for uid in bookings if uid not in covers and not bookings[uid].is_baseline]
        if not uncovered and not before:
            return False
        # A Pod that was covered and no longer is (the agent restarted) is reserved from now on.
        after = {uid: before[uid] if before and uid in before else now_s for uid in uncovered}
        if after == before:
            return False
        if after:
            self._reserved[node] = after
        else:
            self._reserved.pop(node, None)
        self._reserved_count += len(after) - len(before or ())
        for uid, since_s in (before or {}).items():
            if uid not in after:
                self.on_covered(uid, since_s)
        for uid in after:
            if before is None or uid not in before:
                self.on_uncovered(uid)
        return True

    def forget_node(self, node: str) -> None:
        """Forget the advertisement of `node`; the bookings on it stay until their Pods end."""
        self._covers.pop(node, None)
        for booking in self._by_node.get(node, {}).values():
            self._mark(booking)
            if self.is_reserved(booking):
                self.on_uncovered(booking.uid)

    def load(self, node: str) -> Load:
        """Return the sum of the bookings on `node`."""
        bookings = self._by_node.get(node)
        if not bookings:
            return Load()
        # One loop for all sums, since this runs at every event of a Pod on the node.
        workloads, cores, size_bytes = 0, 0.0, 0.0
        others: dict[str, float] = {}
        for booking in bookings.values():
            workloads += not booking.is_baseline
            cores += booking.cores
            size_bytes += booking.size_bytes
            for name, amount in booking.others:
                others[name] = others.get(name, 0.0) + amount
        reserved = self._reserved.get(node, _EMPTY)
        classes: dict[str, int] = {}
        uncovered_since_s = math.inf
        for uid, since_s in reserved.items():
            booking = bookings[uid]
            classes[booking.pod_class] = classes.get(booking.pod_class, 0) + 1
            uncovered_since_s = min(uncovered_since_s, max(since_s, booking.left_pending_s))
        return Load(
            placed=len(bookings),
            workloads=workloads,
            used_cores=cores,
            used_bytes=size_bytes,
            used_others=others,
            reserved=len(reserved),
            classes=classes,
            uncovered_since_s=uncovered_since_s,
        )

    def _mark(self, booking: Booking) -> None:
        """Mark the booking as reserved or as covered."""
        if self._release is policies.Release.PAPER:
            is_reserved = booking.is_pending
        else:
            is_reserved = booking.uid not in self._covers.get(booking.node, _NOTHING)
        if is_reserved and not booking.is_baseline:
            on_node = self._reserved.setdefault(booking.node, {})
            self._reserved_count += booking.uid not in on_node
            on_node.setdefault(booking.uid, booking.since_s)
        else:
            self._reserved_count -= _discard(self._reserved, booking.node, booking.uid)


def is_lighter(new: Booking, old: Booking) -> bool:
    """Return True if replacing `old` by `new` frees room, apart from reservations."""
    return (
        new.node != old.node
        or new.cores < old.cores
        or new.size_bytes < old.size_bytes
        or new.others != old.others
        or new.pod_class != old.pod_class
        or (new.is_baseline and not old.is_baseline)
    )


def _discard(table: dict[str, dict[str, _V]], node: str, uid: str) -> bool:
    """Remove table[node][uid], and table[node] with its last entry; return True if it existed."""
    inner = table.get(node)
    if inner is None or uid not in inner:
        return False
    del inner[uid]
    if not inner:
        del table[node]
    return True
