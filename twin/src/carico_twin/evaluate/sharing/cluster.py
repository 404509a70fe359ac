"""The true state of the nodes, and each scheduler's view of it, which is older by a delay.

The state keeps a journal of its changes. A view has a position in it, and counts what is older than the delay; what the
scheduler itself has chosen counts at once.
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from carico_core.domain import messages
from carico_scheduler.nodes import fleet, headroom, snapshot
from carico_scheduler.pods import reservations
from carico_scheduler.rules import policy
from carico_twin import records
from carico_twin.evaluate.sharing import setup as setups

RULES = policy.Policy()
_BYTES = 64.0 * 2**30


class _Change(NamedTuple):
    """Pods that were placed on a node by commit `seq`, or (seq None) one that has ended there."""

    at_s: float
    node: int
    seq: int | None
    scheduler: str
    uids: Sequence[str]


class Truth:
    """What is really on the nodes."""

    def __init__(self, setup: setups.Setup) -> None:
        self.limit = setup.pods_per_node
        # Pods by node, and the number of the last commit on each.
        self.pods = _filled(setup)
        self.before = self.pods.copy()
        self.seq = [0] * setup.nodes
        self.journal: list[_Change] = []
        # The commits of each node, oldest first: number n at index n - 1.
        self._commits: list[list[_Change]] = [[] for _ in range(setup.nodes)]

    def store(self, node: int, scheduler: str, uids: Sequence[str], now_s: float) -> int:
        """Place Pods on a node, and return the commit's number."""
        self.seq[node] += 1
        self.pods[node] += len(uids)
        assert self.pods[node] <= self.limit, f"{self.pods[node]} Pods on node {node}, which has room for {self.limit}"
        change = _Change(now_s, node, self.seq[node], scheduler, uids)
        self.journal.append(change)
        self._commits[node].append(change)
        return self.seq[node]

    def end(self, node: int, now_s: float) -> None:
        """End one Pod of a node."""
        self.pods[node] -= 1
        self.journal.append(_Change(now_s, node, None, "", ("",)))

    def between(self, node: int, after: int, until: int) -> list[_Change]:
        """Return the commits on a node with numbers from `after` + 1 to `until`."""
        return self._commits[node][after:until]


def _filled(setup: setups.Setup) -> snapshot.Ints:
    """Return the Pods by node at the start: as even as can be."""
    pods = round(setup.fill * setup.nodes * setup.pods_per_node)
    each, more = divmod(pods, setup.nodes)
    return np.array([each + (node < more) for node in range(setup.nodes)], dtype=np.int64)


class View:
    """The nodes as one scheduler sees them. `snapshot` is always the present view."""

    def __init__(
        self, truth: Truth, static: snapshot.Snapshot, *, own: str, delay_s: float, usable: snapshot.Bools
    ) -> None:
        """`usable`: the nodes on which this scheduler may place Pods."""
        self._truth = truth
        self._own = own
        self._delay_s = delay_s
        self._position = 0
        self.limit = truth.limit
        self.pods = truth.before.copy()
        self.seq = [0] * len(self.pods)
        self._offer = headroom.Offer((headroom.PODS,), (float(truth.limit),), {}, (1.0,))
        self.snapshot = dataclasses.replace(
            static, placed=self.pods, workloads=self.pods, reserved=self.pods, schedulable=usable, room=self._room,
            free=self._free,
        )  # fmt: skip

    def advance(self, now_s: float) -> None:
        """Take in the changes that have become visible."""
        journal, seen_s = self._truth.journal, now_s - self._delay_s
        while self._position < len(journal) and journal[self._position].at_s <= seen_s:
            change = journal[self._position]
            self._position += 1
            if change.seq is None:
                self.pods[change.node] -= 1
            else:
                self._take(change)

    def choose(self, node: int) -> None:
        """Count a Pod that this scheduler has placed."""
        self.pods[node] += 1

    def give_up(self, node: int) -> None:
        """Count it no longer."""
        self.pods[node] -= 1

    def claims(self, node: int, until: int) -> list[messages.Claim]:
        """Return the claims on a node that this view does not count yet, up to a commit."""
        return [_claim(uid, each) for each in self._unseen(node, until) for uid in each.uids]

    def read(self, node: int, until: int) -> None:
        """Count all claims on a node up to a commit."""
        for each in self._unseen(node, until):
            self._take(each)

    def _unseen(self, node: int, until: int) -> Iterable[_Change]:
        return self._truth.between(node, self.seq[node], until)

    def _take(self, change: _Change) -> None:
        assert change.seq is not None, "only commits are taken"
        if change.seq <= self.seq[change.node]:
            return
        self.seq[change.node] = change.seq
        if change.scheduler != self._own:
            self.pods[change.node] += len(change.uids)

    def _room(self, slot: int) -> headroom.NodeRoom:
        return headroom.NodeRoom(
            self._offer, (float(self.pods[slot]),), -math.inf, math.inf, math.inf, math.inf
        )  # fmt: skip

    def _free(self, pod_class: str, offset: float = 0.0) -> snapshot.Floats:
        free: snapshot.Floats = self._truth.limit - self.pods.astype(np.float64)
        return free


def static(setup: setups.Setup) -> snapshot.Snapshot:
    """Return what never changes in a run: the nodes, all ready, with advertisements that do not age."""
    found = fleet.Fleet(RULES)
    for node in range(setup.nodes):
        found.put_node(records.api_node(node, cores=float(setup.pods_per_node), size=_BYTES), reservations.Load())
    return dataclasses.replace(found.snapshot(0.0), sampled_s=np.full(setup.nodes, math.inf))


def _claim(uid: str, change: _Change) -> messages.Claim:
    return messages.Claim(
        uid=uid, pod_class="", cores=0.0, size_bytes=0.0, others=(), scheduler=change.scheduler,
        at_ns=round(change.at_s * 1e9),
    )  # fmt: skip
