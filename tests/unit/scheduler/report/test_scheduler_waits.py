"""Waiting times by namespace and class: what is counted, and that labels are bounded."""

import random

from carico_core.runtime.observe import metrics
from carico_core.runtime.process import clock as clocks
from carico_scheduler.pods import queue
from carico_scheduler.report import waits
from tests.unit.scheduler import objects


def labels(image: str, namespace: str = "default") -> dict[str, str]:
    return {"namespace": namespace, "class": f"image/{namespace}/{image}"}


def test_pods_and_the_seconds_that_they_waited_are_counted_by_class_and_namespace() -> None:
    series = metrics.Metrics("scheduler")
    found = waits.Waits(series)
    for image, namespace, waited_s in (("a", "default", 1.0), ("a", "default", 3.0), ("a", "shop", 5.0)):
        found.placed(objects.make_pod(image=image, namespace=namespace), waited_s, 0.0)
    assert series.value("class_placed_pods_total", labels("a")) == 2
    assert series.value("class_waited_seconds_total", labels("a")) == 4.0
    assert series.value("class_waited_seconds_total", labels("a", "shop")) == 5.0


def test_the_longest_wait_of_each_class_is_read_when_it_is_asked_for() -> None:
    series, clock = metrics.Metrics("scheduler"), clocks.FakeClock(monotonic_s=100.0)
    found, source = waits.Waits(series), queue.Queue(random.Random(0))
    found.watch(source, clock)
    source.offer(objects.make_pod("old", image="a"), 90.0)
    source.offer(objects.make_pod("young", image="a"), 99.0)
    source.offer(objects.make_pod("other", image="b"), 95.0)
    clock.advance(1.0)
    assert series.value("class_oldest_waiting_seconds", labels("a")) == 11.0
    assert series.value("class_oldest_waiting_seconds", labels("b")) == 6.0
    source.forget("uid-other")
    assert series.value("class_oldest_waiting_seconds", labels("b")) is None


def test_of_more_classes_than_the_bound_the_rest_are_others_and_idle_ones_give_way() -> None:
    series, clock = metrics.Metrics("scheduler"), clocks.FakeClock(monotonic_s=100.0)
    found, source = waits.Waits(series), queue.Queue(random.Random(0))
    found.watch(source, clock)
    for number in range(waits.CLASSES_MAX + 10):
        found.placed(objects.make_pod(image=f"i{number}"), 1.0, float(number))
        source.offer(objects.make_pod(f"p{number}", image=f"i{number}"), float(number))
    others = {"namespace": waits.OTHERS, "class": waits.OTHERS}
    assert series.value("class_placed_pods_total", others) == 10
    assert series.value("class_oldest_waiting_seconds", others) == 100.0 - waits.CLASSES_MAX
    assert series.render().count(b"carico_scheduler_class_placed_pods_total{") == waits.CLASSES_MAX + 1
    found.placed(objects.make_pod(image="late"), 1.0, waits.IDLE_S + 1.0)
    assert series.value("class_placed_pods_total", labels("late")) == 1
    assert series.value("class_placed_pods_total", labels("i0")) is None
