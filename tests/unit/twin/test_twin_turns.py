"""Fairness in the twin: a Pod with four threads next to an endless stream of small ones that come after it."""

import math
from unittest import mock

from carico_scheduler.decide import turns
from carico_twin import catalogue, scenario, world
from carico_twin.evaluate import contenders
from carico_twin.nodes import machine, work

AFTER_S = 20.0
STREAM_AT_S, LARGE_AT_S = 12.0, 30.0
STREAM_S = 140.0
EVERY_S = 0.8
# Of different lengths, so that they do not end together.
SMALL = work.Work(name="small", cpu_s=4.0, spread=0.5)


def plan() -> scenario.Scenario:
    """Two nodes of four cores, and in every second more small Pods than both can run."""
    starts_s = [STREAM_AT_S + EVERY_S * number for number in range(int((STREAM_S - STREAM_AT_S) / EVERY_S))]
    # Jobs of one CronJob: one class.
    names = [f"small-{28391040 + number}" for number in range(len(starts_s))]
    jobs = [scenario.Job(name=name, work=SMALL, pods=2, at_s=at_s) for name, at_s in zip(names, starts_s, strict=True)]
    # A job of the same class before, so that its cost is known: an unmeasured Pod is tried.
    known = catalogue.job(work.FOUR_THREADS, 2, name="large-28391040")
    large = catalogue.job(work.FOUR_THREADS, 1, at_s=LARGE_AT_S, name="large")
    return scenario.Scenario(name="fairness", hardware=(machine.Hardware(),) * 2, jobs=(known, *jobs, large))


def waited_s() -> tuple[float, float]:
    """How long the large Pod waited, and the longest time for which a small one ran."""
    made = world.World(plan(), contenders.all_contenders()[contenders.DEFAULT].choice, 1)
    made.run_until(STREAM_S)
    (large,) = [pod for pod in made.pods if pod.job == "large"]
    ran_s = max(pod.pod_s for pod in made.pods if pod.work.name == "small" and not math.isnan(pod.ended_s))
    return large.bound_s - large.created_s, ran_s


def test_a_large_pod_gets_its_turn_within_the_bound() -> None:
    with mock.patch.object(turns, "AFTER_S", AFTER_S):
        found_s, ran_s = waited_s()
    # Plus its start, the reports of its end, and the second between two advertisements.
    assert found_s <= AFTER_S + ran_s + 4.0


def test_without_turns_it_waits_for_as_long_as_small_ones_come() -> None:
    with mock.patch.object(turns, "AFTER_S", math.inf):
        found_s, _ = waited_s()
    assert math.isnan(found_s) or found_s > STREAM_S / 2
