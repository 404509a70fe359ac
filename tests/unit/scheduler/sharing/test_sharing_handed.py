"""Which Pods a member hands over, of thousands that wait: those that come first by the rank that `_chosen` states."""

import collections
import dataclasses
import random
from collections.abc import Collection

import pytest

from carico_core.domain import cluster, messages
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_scheduler.pods import queue as queues
from carico_scheduler.rules import policy
from carico_scheduler.sharing import corrections, heartbeats
from carico_scheduler.state import state as states
from tests.fixtures.golden import records
from tests.unit.scheduler import objects

MOST = 6


class Desk:
    """What one member hands over to a holder of the Lease that is alive and places nothing."""

    def __init__(self, rng: random.Random, *, images: int = 40) -> None:
        self.clock = clocks.FakeClock(monotonic_s=100.0)
        self.state = states.State(policy.Policy(), random.Random(0))
        self.beats = heartbeats.Heartbeats(
            "a", boot="a" * 16, identity=lambda: "a", clock=self.clock, lease_s=15.0, on_change=lambda: None,
            on_drop=lambda reason: None,
        )  # fmt: skip
        self.seq = 0
        self.found = corrections.HandOvers(
            self.state, self.beats, holder=lambda: "b", count_taken=lambda count: None, on_room=lambda: None
        )
        self.state.is_mine = lambda pod: not self.found.is_handed(pod.uid)
        self.pods = [
            objects.make_pod(
                f"pod-{index}", image=f"image-{rng.randrange(images)}", priority=rng.randrange(3),
                created_at_s=float(rng.randrange(50)),
            )
            for index in range(300)
        ]  # fmt: skip
        for pod in self.pods:
            self.state.put_pod(pod, self.clock.monotonic_s())

    def review(self) -> bool:
        """One review, after a heartbeat of the holder."""
        self.seq += 1
        assert records.HEARTBEAT_REPORT.report is not None
        made = dataclasses.replace(
            records.HEARTBEAT_REPORT, replica="b", boot="b" * 16, seq=self.seq, identity="b", is_leaving=False,
            report=dataclasses.replace(records.HEARTBEAT_REPORT.report, names=("carico",)),
            corrections=messages.Corrections(handed={}, held={}),
        )  # fmt: skip
        self.beats.take(subjects.member("b"), wire.encode_heartbeat(made))
        return self.found.review(
            self.clock.monotonic_s(), has_lease=False, has_share=True, is_own=lambda pod: True
        )  # fmt: skip

    def end(self, uids: Collection[str]) -> None:
        """These Pods are deleted."""
        for uid in uids:
            self.state.remove_pod(uid)
        self.pods = [pod for pod in self.pods if pod.uid not in uids]

    def handed(self) -> set[str]:
        """The UIDs of the Pods that are handed over."""
        return {pod.uid for pod in self.pods if self.found.is_handed(pod.uid)}

    def expected(self) -> set[str]:
        """Those that are handed over next: all that may be, ranked."""
        queue, rests, failures = self.state.queue, self.found._rests, self.found._failures
        heads = {each.pod.uid for each in queue.heads()}
        tried = {uid for uid, count in failures.items() if count >= corrections.TRIES_MOST and uid in queue}
        wanted = self.handed() | {uid for uid in heads | tried if uid not in rests}
        counts = collections.Counter({asks: count for asks, (count, _) in self.found._rounds.items()})
        ranks = {}
        for pod in sorted((pod for pod in self.pods if pod.uid in wanted), key=queues.key_of):
            asks = self.state.demand_of(pod)
            ranks[pod.uid] = (counts[asks], queues.key_of(pod))
            counts[asks] += 1
        return set(sorted(ranks, key=ranks.__getitem__)[:MOST])


@pytest.mark.parametrize("seed", range(3))
def test_of_many_demands_those_that_come_first_are_handed_over(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corrections, "MOST", MOST)
    monkeypatch.setattr(corrections, "OF_ONE_DEMAND", 1)
    monkeypatch.setattr(corrections, "TRIED_S", 4.0)
    rng = random.Random(seed)
    desk = Desk(rng)
    rounds, changes, most = 0, 0, 0
    for _ in range(100):
        desk.clock.advance(rng.choice([0.2, 1.0]))
        for _ in range(rng.randrange(3)):
            desk.found.note_failure(rng.choice(desk.pods).uid)
        if rng.random() < 0.3:
            desk.end(sorted(desk.handed())[:1])
        most = max([most, *(count for count, _ in desk.found._rounds.values())])
        now_s, late = desk.clock.monotonic_s(), desk.found._handed_s
        if now_s < 106.0 or any(now_s - since_s >= corrections.TRIED_S for since_s in late.values()):
            # What comes back first changes what is expected.
            desk.review()
            continue
        desk.found._rests = {uid: until_s for uid, until_s in desk.found._rests.items() if until_s > now_s}
        expected = desk.expected()
        changes += desk.review()
        rounds += 1
        assert desk.handed() == expected
    assert rounds > 40
    assert changes > 5
    assert most > 1


def test_of_thousands_of_demands_few_are_compared_in_a_review(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corrections, "MOST", MOST)
    desk = Desk(random.Random(0), images=10_000)
    desk.clock.advance(6.0)
    assert desk.review()
    assert len(desk.handed()) == MOST
    asked: list[str] = []
    find = desk.state.pod

    def count(uid: str) -> cluster.Pod | None:
        asked.append(uid)
        return find(uid)

    desk.state.pod = count  # type: ignore[method-assign]
    desk.clock.advance(0.2)
    assert not desk.review()
    assert len(asked) < 10 * MOST < len(desk.pods)
