"""Each waiting Pod's reasons are reported in turn, and again only where they have changed."""

import collections
import random
from typing import Any

import pytest

from carico_core.domain import cluster
from carico_core.runtime.process import clock as clocks
from carico_scheduler.decide import cycle
from carico_scheduler.gangs import table
from carico_scheduler.nodes import fleet
from carico_scheduler.pods import demand as demands
from carico_scheduler.pods import queue, reservations
from carico_scheduler.report import conditions, decisions, notices, reporter, verdicts
from carico_scheduler.rules import policy
from tests.unit.scheduler import objects


class Sink:
    """Counts the Events of each Pod."""

    def __init__(self) -> None:
        self.told: collections.Counter[str] = collections.Counter()

    def failed(self, pod: cluster.Pod, text: str) -> None:
        self.told[pod.name] += 1


class Conditions:
    """Keeps the newest verdict on each Pod."""

    def __init__(self) -> None:
        self.verdicts: dict[str, verdicts.Verdict] = {}

    def note(self, waiting: queue.Waiting, verdict: verdicts.Verdict, text: str, reasons: frozenset[str]) -> bool:
        self.verdicts[waiting.pod.name] = verdict
        return False


class Held:
    """Room that is held."""

    def __init__(self) -> None:
        self.found: list[cycle.Nominee] = []
        self.of_others: list[cycle.Held] = []

    def nominees(self) -> list[cycle.Nominee]:
        return self.found

    def slots_for_others(self) -> list[cycle.Held]:
        return self.of_others


class Desk:
    """A reporter over a full cluster of one node, and Pods that wait."""

    def __init__(self, pods: int, jobs: int = 1) -> None:
        self.clock = clocks.FakeClock(monotonic_s=1000.0)
        self.fleet = fleet.Fleet(policy.Policy())
        self.fleet.put_node(objects.make_node(), reservations.Load())
        self.hear(0.2)
        self.records: list[decisions.Facts] = []
        self.log = decisions.Log(
            boot=objects.BOOT, threshold=1.0, clock=self.clock, on_record=self.records.append, on_drop=lambda: None
        )
        self.sink = Sink()
        self.cycle = cycle.Cycle(self.fleet.policy)
        said = notices.Notices(self.sink, after_s=30.0)
        self.conditions = Conditions()
        self.reporter = reporter.Reporter(
            cycle=self.cycle, log=self.log, notices=said, conditions=self.conditions, gangs=table.Gangs()
        )
        self.held = Held()
        self.queue = queue.Queue(random.Random(0))
        for index in range(pods):
            pod = objects.make_pod(f"p{index}", owner=cluster.Owner(kind="Job", name=f"job-{index % jobs}", uid="u"))
            self.queue.offer(pod, self.clock.monotonic_s())
        self.decide()

    def hear(self, capacity: float) -> None:
        self.capacity = capacity
        self.fleet.put_advertisement(objects.make_advertisement(capacity=capacity), self.clock.monotonic_s())

    def decide(self) -> None:
        self.cycle.run(self.fleet.snapshot(self.clock.monotonic_s()), self.queue, most=10**6)

    def rounds(self, count: int) -> list[bool]:
        """What each round said, one every half second."""
        said = []
        for _ in range(count):
            self.clock.advance(0.5)
            self.hear(self.capacity)
            said.append(self.reporter.round(self.queue, self.fleet.snapshot(self.clock.monotonic_s()), self.held))
        return said

    def known(self, pods: int) -> int:
        """How many of so many Pods have a record."""
        return sum(self.log.latest("default", f"p{index}") is not None for index in range(pods))


def test_every_pod_is_reported_in_turn_however_many_wait() -> None:
    desk = Desk(2000)
    desk.rounds(2000 // reporter.PODS_A_ROUND + 1)
    assert desk.known(2000) == 2000
    # Events are repeated, and have turns of their own.
    desk.rounds(int(30.0 / 0.5) + 2 * 2000 // reporter.PODS_A_ROUND)
    assert len(desk.sink.told) == 2000


def test_a_pod_that_fits_after_all_is_found_whatever_is_held_elsewhere() -> None:
    desk = Desk(2)
    (first, second) = sorted(desk.queue, key=lambda each: each.key)
    earlier = (-1, 0.0, "uid-earlier")
    other = demands.Demand(pod_class="other")
    assert desk.rounds(1) == [False]
    desk.hear(1.0)
    assert desk.rounds(1) == [True]
    desk.held.found = [cycle.Nominee("uid-earlier", earlier, 0, other)]
    assert desk.rounds(1) == [False], "the room is another's"
    desk.held.found = [cycle.Nominee("uid-later", (0, 1e9, "uid-later"), 0, other)]
    assert desk.rounds(1) == [True], "what is held for a Pod that comes after it is its room"
    desk.held.found = [cycle.Nominee(first.pod.uid, first.key, 0, first.demand)]
    assert desk.rounds(1) == [True], "it is held for one of these"
    desk.held.found = [cycle.Nominee("uid-elsewhere", earlier, 0, second.demand)]
    assert desk.rounds(1) == [False], "it is held for a Pod of another scheduler"
    desk.held.found, desk.held.of_others = [], [(0, other, None)]
    assert desk.rounds(1) == [False]
    desk.hear(2.0)
    assert desk.rounds(1) == [True]


def test_a_record_is_written_again_only_where_the_reasons_have_changed() -> None:
    desk = Desk(5)
    desk.rounds(100)
    assert len(desk.records) == 5
    desk.fleet.put_node(objects.make_node(ready=False), reservations.Load())
    desk.rounds(100)
    assert [each.refused for each in desk.records[5:]] == [{"not_ready": 1}] * 5


@pytest.mark.parametrize(("wrote", "late_s", "records"), [(True, 5.0, 0), (False, 5.0, 1), (True, None, 1)])
def test_what_another_scheduler_has_recorded_is_recorded_again_only_for_other_reasons(
    wrote: bool, late_s: float | None, records: int
) -> None:
    desk = Desk(1)
    waiting = next(iter(desk.queue))
    waiting.pod = waiting.pod._replace(unscheduled_reason=conditions.UNSCHEDULABLE if wrote else "")
    waiting.late_s = late_s
    desk.rounds(50)
    assert len(desk.records) == records
    waiting.in_vain = "evictions did not help"
    desk.rounds(50)
    assert [each.message.endswith("did not help") for each in desk.records] == [False] * records + [True]


def test_reasons_that_go_to_and_fro_are_not_reported_each_time() -> None:
    desk = Desk(1)
    for turn in range(100):
        desk.fleet.put_node(objects.make_node(ready=bool(turn % 2)), reservations.Load())
        desk.rounds(1)
    assert len(desk.records) <= 1 + 50.0 / notices.CHANGE_EVERY_S


def test_a_pod_that_would_fit_and_was_not_woken_is_noticed() -> None:
    desk = Desk(2)
    assert desk.rounds(1) == [False]
    desk.hear(3.0)
    assert desk.rounds(1) == [True]


def test_many_demands_take_turns_too(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(600, jobs=600)
    looks: list[int] = []
    explain = desk.cycle.explain

    def count(*args: Any) -> Any:
        looks[-1] += 1
        return explain(*args)

    monkeypatch.setattr(desk.cycle, "explain", count)
    for _ in range(600 // reporter.DEMANDS_A_ROUND + 1):
        looks.append(0)
        desk.rounds(1)
    assert max(looks) <= reporter.DEMANDS_A_ROUND
    assert desk.known(600) == 600


def test_more_namespaces_than_demands_in_a_round_take_turns() -> None:
    desk = Desk(0, jobs=1)
    namespaces = [f"n{number}" for number in range(reporter.DEMANDS_A_ROUND + 8)]
    for namespace in namespaces:
        for number in range(20):
            demand = {"request_cores": 1000.0 + len(desk.queue)}
            made = objects.make_pod(f"{namespace}-{number}", namespace=namespace, **demand)
            desk.queue.offer(made, desk.clock.monotonic_s())
    desk.decide()
    desk.rounds(2)
    told = {each for each in namespaces if any(desk.log.latest(each, f"{each}-{number}") for number in range(20))}
    assert told == set(namespaces)


def test_namespaces_take_turns() -> None:
    """A tenant with 10,000 Pods of different demands had all turns of 150 s."""
    desk = Desk(600, jobs=600)
    desk.rounds(2)
    for name in ("a", "b"):
        desk.queue.offer(objects.make_pod(name, namespace="other", request_cores=1000.0), desk.clock.monotonic_s())
    desk.decide()
    desk.rounds(1)
    assert [desk.log.latest("other", name) is not None for name in ("a", "b")] == [True, True]
    desk.hear(0.1)
    desk.fleet.put_node(objects.make_node(ready=False), reservations.Load())
    # All have had a turn but most of the 600; those of the others have theirs again nevertheless.
    desk.rounds(int(notices.CHANGE_EVERY_S / 0.5))
    found = [desk.log.latest("other", name) for name in ("a", "b")]
    assert [each is not None and each.refused for each in found] == [{"not_ready": 1}] * 2
