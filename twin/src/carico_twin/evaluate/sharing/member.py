"""One scheduler of several: it decides on a batch, and commits what it has decided.

    waits --> decided --> sent --> stored, and so is the rest of the batch: bound --> ended
      ^                    |  ^
      |                    v  | it still fits
      +-- given up <--- the node has changed: it is read again

The first times, a Pod that was given up is decided on with the next batch; then it waits.

What a commit does in time follows `sharing.commits`, which waits for a real bus.
"""

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from carico_scheduler.pods import queue
from carico_scheduler.rules import registry
from carico_scheduler.sharing.claims import fits
from carico_twin import virtual_time
from carico_twin.evaluate.sharing import cluster, placing, pods
from carico_twin.evaluate.sharing import setup as setups

# As `commits.ROUNDS`.
ROUNDS = 4
# A Pod that was given up so often that it has to wait is decided on again after this time (docs/high-availability.md),
# and one that fits nowhere when it is next looked at.
AGAIN_S = (0.05, 0.1)
LOOK_AGAIN_S = 0.01


class Run(Protocol):
    """The run that a scheduler is part of."""

    setup: setups.Setup
    timeline: virtual_time.Timeline
    truth: cluster.Truth
    rng: np.random.Generator

    def store(self, node: int, scheduler: str, requests: Sequence[pods.Request]) -> int:
        """Place Pods on a node for good; return the commit's number."""

    def bound(self, requests: Sequence[pods.Request]) -> None:
        """Note that these Pods may be bound."""

    def lost(self, pod: pods.Pod) -> None:
        """Note that a claim was given up."""

    def offer(self, pod: pods.Pod) -> None:
        """Give a Pod to the scheduler that decides on it."""

    def correct(self, pod: pods.Pod, node: int | None) -> None:
        """Give a Pod to the correction function: it was turned away from a node, or (None) found none."""

    def count(self, name: str, by: int = 1) -> None:
        """Count during the measured time."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Parts:
    """What a scheduler decides by."""

    view: cluster.View
    placing: placing.Placing


class Member:
    """One scheduler: idle, or busy with one batch."""

    def __init__(self, run: Run, name: str, parts: Parts) -> None:
        self._run = run
        self._name = name
        self._stages = registry.by_capacity(cluster.RULES)
        self._placing = parts.placing
        self.view = parts.view
        self._queue: collections.deque[pods.Pod] = collections.deque()
        # The claims of the present batch that were stored.
        self._stored: list[pods.Request] = []
        self._is_busy = False
        self._began_s = 0.0
        self._busy_s = 0.0

    @property
    def busy_s(self) -> float:
        """The seconds in which it was busy, after the warm-up."""
        return self._busy_s + (self._since(self._began_s) if self._is_busy else 0.0)

    def offer(self, pod: pods.Pod) -> None:
        """Queue a Pod."""
        self._queue.append(pod)
        if not self._is_busy:
            self._is_busy, self._began_s = True, self._run.timeline.now_s
            # After all Pods of the same burst have arrived.
            self._run.timeline.after(0.0, self._decide)

    def _since(self, began_s: float) -> float:
        return max(0.0, self._run.timeline.now_s - max(began_s, self._run.setup.warm_up_s))

    def _decide(self) -> None:
        run = self._run
        self.view.advance(run.timeline.now_s)
        batch = self._next_batch()
        requests, parked = self._placing.place(self.view, batch)
        self._park(parked)
        decided_s = run.setup.decision_s * len(batch)
        if requests:
            run.timeline.after(decided_s, lambda: self._decided(requests))
        else:
            run.timeline.after(decided_s, self._idle)

    def _next_batch(self) -> list[pods.Pod]:
        """Take the Pods of the next cycle from the queue, oldest first."""
        return [self._queue.popleft() for _ in range(min(self._run.setup.batch, len(self._queue)))]

    def _park(self, parked: Sequence[pods.Pod]) -> None:
        """Take back Pods that fit nowhere."""
        if self._run.setup.mode is not setups.Mode.PAPER:
            self._queue.extend(parked)
            return
        for pod in parked:
            self._run.correct(pod, None)

    def _idle(self) -> None:
        """Look again later, since no Pod fits."""
        self._busy_s += self._since(self._began_s)
        self._is_busy = False
        self._run.timeline.after(LOOK_AGAIN_S, self._wake)

    def _wake(self) -> None:
        if self._queue and not self._is_busy:
            self._is_busy, self._began_s = True, self._run.timeline.now_s
            self._decide()

    def _ready(self) -> None:
        """Decide on the next batch, or wait for one."""
        if self._queue:
            self._decide()
            return
        self._busy_s += self._since(self._began_s)
        self._is_busy = False

    def _decided(self, requests: list[pods.Request]) -> None:
        if self._run.setup.mode in (setups.Mode.SHARED, setups.Mode.PAPER):
            self._send(requests, round_=0)
            return
        for node, wanted in pods.by_node(requests).items():
            self.view.read(node, self._run.store(node, self._name, wanted))
        self._run.bound(requests)
        self._ready()

    def _send(self, requests: Sequence[pods.Request], *, round_: int, read: Mapping[int, int] | None = None) -> None:
        """Send the claims. `read`: the commit up to which nodes were read again."""
        run, setup = self._run, self._run.setup
        self.view.advance(run.timeline.now_s)
        wanted: pods.Changes = pods.by_node(requests)
        if setup.detection is setups.Detection.FINE:
            wanted, lost = self._checked(wanted, read or {})
            if lost and setup.transaction is setups.Transaction.ALL_OR_NOTHING:
                lost, wanted = [*lost, *(each for own in wanted.values() for each in own)], {}
            self._lose(lost)
        if not wanted:
            self._verify()
            return
        if round_:
            run.count("retries", sum(map(len, wanted.values())))
        expected = {node: own[0].seq for node, own in wanted.items()}
        run.timeline.after(0.5 * setup.commit_s, lambda: self._arrived(wanted, expected, round_))

    def _checked(
        self, wanted: pods.Changes, read: Mapping[int, int]
    ) -> tuple[dict[int, list[pods.Request]], list[pods.Request]]:
        """Return the claims whose Pods still fit where nodes have changed, and those that do not."""
        going: dict[int, list[pods.Request]] = {}
        lost: list[pods.Request] = []
        for node, own in wanted.items():
            until = max(read.get(node, 0), self.view.seq[node])
            if until != own[0].seq:
                claims = self.view.claims(node, until)
                gone: list[pods.Request] = []
                for each in own:
                    row = self.view.snapshot.row(node).counting([(placing.CLAIM, True)] * (1 + len(gone)), -1)
                    if fits.fits(row, placing.DEMAND, claims, self._stages):
                        going.setdefault(node, []).append(each)
                    else:
                        gone.append(each)
                    each.seq = until
                lost += gone
                self.view.read(node, until)
            else:
                going[node] = own
        return going, lost

    def _arrived(self, wanted: pods.Changes, expected: Mapping[int, int], round_: int) -> None:
        """Compare and set, where the claims are kept."""
        run, setup = self._run, self._run.setup
        is_current = {node: run.truth.seq[node] == expected[node] for node in wanted}
        if setup.transaction is setups.Transaction.ALL_OR_NOTHING:
            everything = all(is_current.values())
            is_current = dict.fromkeys(wanted, everything)
            run.count("commits")
            run.count("conflicts", not everything)
        else:
            run.count("commits", len(wanted))
            run.count("conflicts", sum(not each for each in is_current.values()))
        stored = {node: run.store(node, self._name, own) for node, own in wanted.items() if is_current[node]}
        refused = [each for node, own in wanted.items() if not is_current[node] for each in own]
        bound = [each for node in stored for each in wanted[node]]
        run.timeline.after(0.5 * setup.commit_s, lambda: self._answered(bound, stored, refused, round_))

    def _answered(
        self, bound: list[pods.Request], stored: Mapping[int, int], refused: list[pods.Request], round_: int
    ) -> None:
        run, setup = self._run, self._run.setup
        for node, seq in stored.items():
            self.view.read(node, seq)
        self._stored += bound
        if refused and setup.detection is setups.Detection.FINE and round_ + 1 < ROUNDS:
            run.timeline.after(0.5 * setup.commit_s, lambda: self._read(refused, round_))
            return
        self._lose(refused)
        self._verify()

    def _read(self, refused: list[pods.Request], round_: int) -> None:
        """Read nodes again, where the claims are kept."""
        run = self._run
        read = {each.node: run.truth.seq[each.node] for each in refused}
        run.timeline.after(0.5 * run.setup.commit_s, lambda: self._send(refused, round_=round_ + 1, read=read))

    def _verify(self) -> None:
        """Ask once more whether the claims are still kept in the same place; only then may Pods be bound.

        The paper's schedulers bind at once: it has no answer to a master state that is lost.
        """
        stored, self._stored = self._stored, []
        if not stored:
            self._ready()
            return

        def done() -> None:
            self._run.bound(stored)
            self._ready()

        is_paper = self._run.setup.mode is setups.Mode.PAPER
        self._run.timeline.after(0.0 if is_paper else self._run.setup.commit_s, done)

    def _lose(self, requests: Sequence[pods.Request]) -> None:
        for each in requests:
            self._run.lost(each.pod)
            self.view.give_up(each.node)
            if self._run.setup.mode is setups.Mode.PAPER:
                each.pod.has_waited = True
                self._run.correct(each.pod, each.node)
            else:
                self._again(each.pod)

    def _again(self, pod: pods.Pod) -> None:
        # What has changed is not read if every change is a conflict, so that the next batch would lose it again.
        if pod.losses <= queue.CHOICES_AT_ONCE and self._run.setup.detection is setups.Detection.FINE:
            # It comes before those that have waited for less time.
            self._queue.appendleft(pod)
            return
        pod.has_waited = True
        self._run.timeline.after(self._run.rng.uniform(*AGAIN_S), lambda: self.offer(pod))
