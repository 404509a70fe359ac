"""What classes use, added up over nodes: order, decay, bounds, what one node may claim, and restarts."""

import asyncio
import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import orjson
import pytest

from carico_aggregator import app, kept_usage, recommendations, versions
from carico_aggregator import usage as usages
from carico_core.domain import errors, messages, usage
from carico_core.numerics import distribution, recommendation
from carico_core.wire import codec, fields, streams, subjects
from carico_core.wire import messages as wire
from carico_core.wire.messages import recommended
from carico_core.wire.messages import usage as wire_usage
from tests.tools import waiting
from tests.tools.memory import memory_bus
from tests.unit.aggregator import reports, test_aggregator_intake

MIB = 2.0**20
DAY_NS = 86_400 * 10**9
PI = "Job/default/pi"
BOOT = "0" * 16
NOW_NS = 10**18
Replica = test_aggregator_intake.Replica


def used(
    cpu: float = 0.5, *, pods: int = 1, seconds: float = 20.0, memory: float = 100 * MIB, image: str = "a" * 16,
    failed: int = 0, running: int = 1,
) -> usage.ClassUsage:  # fmt: skip
    return usage.ClassUsage(
        pods=pods, failed=failed, running=running,
        seconds={
            "cpu": {distribution.bucket("cpu", cpu): seconds},
            "memory": {distribution.bucket("memory", memory): seconds},
        },
        pod_means={distribution.bucket("cpu", cpu): float(pods)}, peaks={"cpu": cpu, "memory": memory},
        template=usage.Template(image=image, containers=("main",), requests={"cpu": 2.0}),
    )  # fmt: skip


def entry(node: str) -> messages.Entry:
    found = reports.report(node, 1)
    return messages.Entry(
        node=node, boot=BOOT, seq=1, ts_ns=1, age_s=0.0, dims=found.dims, gram=found.u @ found.u.T, weight=4.0,
        scale=found.scale, evidence={}, peak_pods_per_core=0.0,
    )  # fmt: skip


_seqs = itertools.count(1)


def report(node: str = "node-1", *, pi: usage.ClassUsage) -> usage.UsageReport:
    return of_classes(node, {PI: pi})


def of_classes(node: str, classes: dict[str, usage.ClassUsage]) -> usage.UsageReport:
    return usage.UsageReport(node=node, boot=BOOT, seq=next(_seqs), ts_ns=1, classes=classes)


def take(known: usages.Usages, found: usage.UsageReport, *, now_ns: int = NOW_NS, now_s: float = 1.0) -> None:
    known.take(found, entry(found.node), now_ns=now_ns, now_s=now_s)


def known_of(*found: usage.UsageReport) -> usages.Usages:
    known = usages.Usages(lease_s=10.0)
    for each in found:
        take(known, each)
    return known


def test_reports_add_up_over_nodes_in_any_order() -> None:
    parts = [report(f"node-{number}", pi=used(0.1 * number + 0.1, pods=number + 1)) for number in range(3)]
    ways = [known_of(*order).facts(PI) for order in itertools.permutations(parts)]
    assert all(each == ways[0] for each in ways)
    found = known_of(*parts).measured(PI, now_ns=NOW_NS)
    assert (found.pods, found.nodes, found.measured_s) == (6, 3, 60.0)
    assert found.memory.peak == 100 * MIB


def test_a_day_later_the_old_counts_half_and_the_peak_stays() -> None:
    known = known_of(report(pi=used(1.0, memory=900 * MIB)))
    take(known, report(pi=used(0.1)), now_ns=NOW_NS + DAY_NS)
    found = known.measured(PI, now_ns=NOW_NS + DAY_NS)
    assert found.cpu.weights[distribution.bucket("cpu", 1.0)] == 10.0
    assert found.cpu.weights[distribution.bucket("cpu", 0.1)] == 20.0
    assert found.memory.peak == 900 * MIB


def flags(known: usages.Usages, *, days: float = 0.0) -> set[str]:
    row = orjson.loads(recommendations.answer(known, {}, b"", NOW_NS + int(days * DAY_NS)))["classes"][0]
    return set(row["flags"])


def test_pods_that_fail_of_late_are_flagged_whatever_ran_well_before() -> None:
    known = known_of(report(pi=used(pods=9)))
    take(known, report(pi=used(pods=5, failed=5)), now_ns=NOW_NS + DAY_NS)
    # 5 of 4.5 + 5.
    assert "all_failed" not in flags(known)
    take(known, report(pi=used(pods=5, failed=5)), now_ns=NOW_NS + 3 * DAY_NS)
    # 6.25 of 1.125 + 1.25 + 5.
    assert "all_failed" in flags(known, days=3.0)
    # What is kept continues so.
    again = usages.Usages(lease_s=10.0)
    again.resume(wire.decode_kept(wire.encode_kept([known.facts(PI)])))
    assert "all_failed" in flags(again, days=3.0)


def test_pods_that_fail_at_their_start_and_run_well_for_days_are_flagged_no_more() -> None:
    known = known_of(report(pi=used(pods=5, failed=5)))
    assert "all_failed" in flags(known)
    for day in (1, 2):
        # A mean each day that a Pod runs on.
        runs_on = dataclasses.replace(used(pods=5), pods=0)
        take(known, report(pi=runs_on), now_ns=NOW_NS + day * DAY_NS)
    assert "all_failed" not in flags(known, days=2.0)


def test_what_was_kept_without_recent_pods_counts_all_of_them() -> None:
    kept = orjson.loads(wire.encode_kept([known_of(report(pi=used(pods=9, failed=9))).facts(PI)]))
    for each in kept["classes"]:
        del each["recent_pods"], each["recent_failed"]
    known = usages.Usages(lease_s=10.0)
    known.resume(wire.decode_kept(orjson.dumps(kept)))
    assert "all_failed" in flags(known)


def holding(known: usages.Usages, mib: float, *, minute: float, **changed: Any) -> set[str]:
    """Take in what five Pods hold at a minute, and return the flags."""
    at_ns = NOW_NS + int(minute * MINUTE_NS)
    take(known, report(pi=used(pods=5 if minute == 0.0 else 0, memory=mib * MIB, **changed)), now_ns=at_ns)
    return flags(known)


def test_memory_that_grows_is_flagged_for_as_long_as_it_does() -> None:
    known = usages.Usages(lease_s=10.0)
    found = {minute: holding(known, 30.0 + 10.0 * minute, minute=minute) for minute in (0.0, 0.5, 1.0, 2.0, 4.0, 60.0)}
    assert ["growing" in each for each in found.values()] == [False, *[True] * 5]
    # What is kept continues so.
    again = usages.Usages(lease_s=10.0)
    again.resume(wire.decode_kept(wire.encode_kept([known.facts(PI)])))
    assert flags(again) == flags(known)
    late = [holding(again, 630.0, minute=minute) for minute in (61.0, 119.0, 120.0, 240.0)]
    assert ["growing" in each for each in late] == [True, True, False, False]


def test_pods_that_start_and_then_stay_are_flagged_for_a_moment() -> None:
    known = usages.Usages(lease_s=10.0)
    found = [
        holding(known, min(100.0, 10.0 + 600.0 * minute), minute=minute)
        for minute in (0.0, 1 / 12, 1 / 6, 1 / 3, 2 / 3)
    ]
    assert ["growing" in each for each in found] == [False, True, True, False, False]


def test_pods_that_have_ended_are_flagged_no_longer_than_pods_that_stay() -> None:
    known = usages.Usages(lease_s=10.0)
    assert "growing" not in holding(known, 16.0, minute=0.0)
    assert "growing" in holding(known, 20.0, minute=0.1)
    later = [flags(known, days=minute / 1440.0) for minute in (0.1, 0.19, 0.21)]
    assert ["growing" in each for each in later] == [True, True, False]
    # Between two marks: by the later one until another one had come.
    assert "growing" in holding(known, 25.0, minute=0.15)
    later = [flags(known, days=minute / 1440.0) for minute in (0.15, 0.39, 0.41, 100.0)]
    assert ["growing" in each for each in later] == [True, True, False, False]
    # What is kept continues so.
    assert "growing" in holding(known, 30.0, minute=200.0)
    again = usages.Usages(lease_s=10.0)
    again.resume(wire.decode_kept(wire.encode_kept([known.facts(PI)])))
    later = [flags(again, days=minute / 1440.0) for minute in (200.0, 390.0, 410.0)]
    assert ["growing" in each for each in later] == [True, True, False]


def test_a_peak_that_rises_once_is_flagged_for_hours() -> None:
    known = usages.Usages(lease_s=10.0)
    found = {}
    for hour in range(7 * 24):
        found[hour] = "growing" in holding(known, 150.0 if hour >= 5 * 24 else 100.0, minute=60.0 * hour)
    assert not any(found[hour] for hour in range(5 * 24))
    assert found[5 * 24] and sum(found.values()) <= 12


def gives(known: usages.Usages) -> dict[str, object]:
    ((found,), _) = recommended.decode_recommended(recommendations.answer(known, {}, b"", NOW_NS))
    return {dim: pytest.approx(amount) for dim, amount in found.node_gives.items()}


def test_a_row_states_what_the_largest_node_gives_a_pod() -> None:
    node = entry("node-1")
    scale = dict(zip(node.dims, node.scale.tolist(), strict=True))
    known = known_of(report(pi=used()))
    assert gives(known) == {"cpu": 0.9 * 4.0, "memory": 0.9 * scale["memory"]}
    large = dataclasses.replace(entry("node-2"), weight=16.0)
    known.take(of_classes("node-2", {}), large, now_ns=NOW_NS, now_s=1.0)
    assert gives(known)["cpu"] == 0.9 * 16.0
    # It is gone, and no Pod of the class was on it.
    known.expire(now_ns=NOW_NS, now_s=usages.SILENT_MOST_S + 0.5)
    take(known, report(pi=used()), now_s=usages.SILENT_MOST_S + 0.6)
    known.expire(now_ns=NOW_NS, now_s=usages.SILENT_MOST_S + 1.5)
    assert gives(known)["cpu"] == 0.9 * 4.0


def test_a_class_that_ran_on_a_larger_node_is_not_measured_by_those_of_now() -> None:
    known = usages.Usages(lease_s=10.0)
    known.take(report(pi=used()), dataclasses.replace(entry("node-1"), weight=16.0), now_ns=NOW_NS, now_s=1.0)
    again = usages.Usages(lease_s=10.0)
    again.resume(wire.decode_kept(wire.encode_kept([known.facts(PI)])))
    again.take(of_classes("node-2", {}), entry("node-2"), now_ns=NOW_NS, now_s=1.0)
    assert gives(again)["cpu"] == 0.9 * 16.0


def test_a_report_counts_once() -> None:
    known, found = usages.Usages(lease_s=10.0), report(pi=used())
    take(known, found)
    with pytest.raises(errors.MessageError, match="replayed"):
        take(known, found)
    assert known.measured(PI, now_ns=NOW_NS).pods == 1


def of_parts(**peaks: float) -> usage.ClassUsage:
    """Pods with two containers, each with these peaks."""
    both = usage.Template(image="a" * 16, containers=("main", "proxy"), requests={})
    parts = dict.fromkeys(both.containers, usage.ContainerUsage(cpu={3: 90.0}, peaks=peaks))
    return dataclasses.replace(used(pods=9), template=both, containers=parts)


@pytest.mark.parametrize(
    ("claimed", "path"),
    [
        (used(cpu=50.0), r"peaks\.cpu"),
        (used(memory=9e9), r"peaks\.memory"),
        (of_parts(cpu=0.1, memory=1e18), r"peaks\.memory"),
        (of_parts(cpu=50.0, memory=MIB), r"peaks\.cpu"),
    ],
)
def test_a_pod_that_is_larger_than_its_node_is_refused(claimed: usage.ClassUsage, path: str) -> None:
    known = usages.Usages(lease_s=10.0)
    with pytest.raises(errors.MessageError, match=path):
        take(known, report(pi=claimed))
    assert len(known) == 0


@pytest.mark.parametrize("without", [False, True])
def test_a_node_that_says_it_is_larger_than_any_spoils_no_page(*, without: bool) -> None:
    known, node = usages.Usages(lease_s=10.0), entry("node-1")
    boundless = dataclasses.replace(node, scale=np.full(len(node.dims), 1e18))
    nameless = dataclasses.replace(node, dims=tuple(f"not-{dim}" for dim in node.dims))
    with pytest.raises(errors.MessageError, match=r"peaks\.memory"):
        known.take(report(pi=used(memory=9e17)), nameless if without else boundless, now_ns=NOW_NS, now_s=1.0)
    take(known, report(pi=used()))
    rows, is_last = recommended.decode_recommended(recommendations.answer(known, {}, b'{"margin": 10}', NOW_NS))
    assert (len(rows), is_last) == (1, True)


def test_a_node_that_reports_time_without_end_makes_nothing_kept_unreadable() -> None:
    known = known_of(*(report(pi=used(seconds=9e12)) for _ in range(3)))
    (kept,) = wire.decode_kept(wire.encode_kept([known.facts(PI)]))
    assert kept.measured_s == kept.seconds["cpu"][distribution.bucket("cpu", 0.5)] == 1e13


def test_a_node_whose_size_is_not_known_is_refused() -> None:
    with pytest.raises(errors.MessageError, match="has not reported yet"):
        usages.Usages(lease_s=10.0).take(report(pi=used()), None, now_ns=1, now_s=1.0)


def test_without_streams_for_longer_than_a_lease_what_nodes_measure_is_taken_in() -> None:
    # A node's size comes through a stream, its usage does not.
    known = known_of(report(pi=used()))
    known.take(report(pi=used(pods=2)), None, now_ns=NOW_NS, now_s=15.0)
    with pytest.raises(errors.MessageError, match=r"peaks\.memory"):
        known.take(report(pi=used(memory=9e9)), None, now_ns=NOW_NS, now_s=20.0)
    known.expire(now_ns=NOW_NS, now_s=20.0)
    known.take(report(pi=used(pods=3)), None, now_ns=NOW_NS, now_s=25.0)
    assert known.measured(PI, now_ns=NOW_NS).pods == 6
    known.expire(now_ns=NOW_NS, now_s=25.0 + usages.SILENT_MOST_S)
    with pytest.raises(errors.MessageError, match="has not reported yet"):
        known.take(report(pi=used()), None, now_ns=NOW_NS, now_s=700.0)


OLD, NEW = {"image": "a" * 16, "memory": 900 * MIB}, {"image": "b" * 16, "memory": 100 * MIB}
MINUTE_NS = 60 * 10**9


def taking(known: usages.Usages, found: usage.ClassUsage, *, minute: float, node: str = "node-1") -> None:
    now_ns = NOW_NS + int(minute * MINUTE_NS)
    take(known, report(node, pi=found), now_ns=now_ns)
    known.expire(now_ns=now_ns, now_s=1.0)


def test_a_new_image_is_flagged_until_it_is_learnt_and_the_old_one_counts_until_the_new_one_is_as_old() -> None:
    known = usages.Usages(lease_s=10.0)
    for minute in (0, 60):
        taking(known, used(pods=9, **OLD), minute=minute)  # type: ignore[arg-type]  # of several types
    taking(known, used(pods=2, **NEW), minute=61)  # type: ignore[arg-type]
    found = known.measured(PI, now_ns=NOW_NS)
    assert (found.has_new_image, found.pods, found.memory.peak) == (True, 20, 900 * MIB)
    taking(known, used(pods=5, seconds=60.0, **NEW), minute=62)  # type: ignore[arg-type]
    # Learnt, but its memory may still grow as that of the old one did.
    found = known.measured(PI, now_ns=NOW_NS)
    assert (found.has_new_image, found.memory.peak) == (False, 900 * MIB)
    taking(known, used(pods=0, **NEW), minute=121)  # type: ignore[arg-type]
    found = known.measured(PI, now_ns=NOW_NS)
    assert (found.pods, found.memory.peak) == (7, 100 * MIB)


def test_while_pods_of_both_images_run_both_count() -> None:
    known = usages.Usages(lease_s=10.0)
    for minute in range(0, 3 * 24 * 60, 60):
        taking(known, used(**OLD), minute=minute)  # type: ignore[arg-type]
        taking(known, used(pods=9, seconds=60.0, **NEW), minute=minute, node="node-2")  # type: ignore[arg-type]
    found = known.measured(PI, now_ns=NOW_NS)
    assert (found.has_new_image, found.memory.peak) == (False, 900 * MIB)


def test_of_three_images_that_run_at_the_same_time_only_one_that_is_new_is_flagged() -> None:
    known = usages.Usages(lease_s=10.0)
    live = [{"image": letter * 16, "memory": 100 * MIB} for letter in "abc"]
    for count in range(10):
        for image in live:
            taking(known, used(pods=1, **image), minute=count / 10)  # type: ignore[arg-type]  # of several types
    assert not known.measured(PI, now_ns=NOW_NS).has_new_image
    assert known.about(PI, now_ns=NOW_NS).images == 3
    # Also after a restart of the aggregator.
    again = usages.Usages(lease_s=10.0)
    again.resume(wire.decode_kept(wire.encode_kept([known.facts(PI)])))
    for image in (*live, *live):
        taking(again, used(pods=1, **image), minute=1.0)  # type: ignore[arg-type]
    assert (again.measured(PI, now_ns=NOW_NS).has_new_image, again.about(PI, now_ns=NOW_NS).images) == (False, 3)
    taking(again, used(image="d" * 16), minute=1.1)
    assert again.measured(PI, now_ns=NOW_NS).has_new_image


def test_a_class_with_more_images_than_are_remembered_is_not_flagged_for_ever() -> None:
    known = usages.Usages(lease_s=10.0)
    for count in range(20):
        for number in range(wire_usage.IMAGES_MAX + 4):
            taking(known, used(pods=1, image=f"{number:016d}"), minute=count / 10)
    found = known.measured(PI, now_ns=NOW_NS)
    assert (found.has_new_image, found.pods) == (False, 20 * (wire_usage.IMAGES_MAX + 4))


def test_an_image_that_is_rolled_back_is_forgotten_and_nothing_is_flagged() -> None:
    known = usages.Usages(lease_s=10.0)
    for minute, image in ((0, NEW), (60, NEW), (61, OLD), (62, NEW)):
        taking(known, used(pods=9, seconds=60.0, **image), minute=minute)  # type: ignore[arg-type]
    found = known.measured(PI, now_ns=NOW_NS)
    assert (found.has_new_image, found.pods, found.memory.peak) == (False, 27, 100 * MIB)


def test_of_many_images_the_older_ones_are_added_up() -> None:
    known = usages.Usages(lease_s=10.0)
    for number in range(20):
        taking(known, used(pods=1, image=f"{number:016d}", memory=(20 - number) * MIB), minute=number)
    found = known.measured(PI, now_ns=NOW_NS)
    assert (found.pods, found.memory.peak, found.has_new_image) == (20, 20 * MIB, True)
    # What is kept is all of that.
    again = usages.Usages(lease_s=10.0)
    kept = wire.decode_kept(wire.encode_kept([known.facts(PI)]))
    again.resume(kept)
    assert again.measured(PI, now_ns=NOW_NS).pods == 20
    assert again.facts(PI).earlier is not None


def test_each_container_gets_its_own_amounts() -> None:
    both = usage.Template(image="a" * 16, containers=("main", "proxy"), requests={})
    parts = {
        "main": usage.ContainerUsage(
            cpu={distribution.bucket("cpu", 0.4): 90.0}, peaks={"cpu": 0.4, "memory": 80 * MIB}
        ),
        "proxy": usage.ContainerUsage(
            cpu={distribution.bucket("cpu", 0.1): 90.0}, peaks={"cpu": 0.1, "memory": 40 * MIB}
        ),
    }
    found = dataclasses.replace(used(pods=9), template=both, containers=parts)
    known = known_of(report(pi=found), report("node-2", pi=found))
    (row,) = orjson.loads(recommendations.answer(known, {}, b"", NOW_NS))["classes"]
    wanted = {name: each["requests"] for name, each in row["of_containers"].items()}
    assert wanted["main"] == {"cpu": 0.43, "memory": 92 * MIB}
    assert wanted["proxy"] == {"cpu": 0.108, "memory": 46 * MIB}
    assert row["of_containers"]["proxy"]["limits"] == {"memory": 46 * MIB}
    # All or none: a Pod of which a container has no request is not what was measured.
    lacking = dataclasses.replace(found, containers={"main": parts["main"]})
    (row,) = orjson.loads(recommendations.answer(known_of(report(pi=lacking)), {}, b"", NOW_NS))["classes"]
    assert row["of_containers"] == {}


def test_containers_of_a_class_are_bounded_whatever_its_images_name_them() -> None:
    known = usages.Usages(lease_s=10.0)
    one = usage.ContainerUsage(cpu={3: 90.0}, peaks={"cpu": 0.4, "memory": MIB})
    for version in range(4):
        parts = {f"c{version}-{number}": one for number in range(fields.CONTAINERS_MAX)}
        found = dataclasses.replace(used(pods=9, image=f"{version:016d}"), containers=parts)
        taking(known, found, minute=version)
    (kept,) = wire.decode_kept(wire.encode_kept([known.facts(PI)]))
    assert kept.earlier is not None
    assert len(kept.containers) == len(kept.earlier.containers) == 16
    assert len(known.about(PI, now_ns=NOW_NS).containers) <= 16


def test_a_container_without_a_peak_of_cpu_spoils_no_page() -> None:
    known = known_of(report(pi=of_parts(memory=MIB)))
    (row,), _ = recommended.decode_recommended(recommendations.answer(known, {}, b"", NOW_NS))
    assert row.of_containers["main"].peaks == {"memory": MIB}


def test_the_pods_that_run_are_those_of_live_nodes() -> None:
    known = known_of(report("a", pi=used(running=3)), report("b", pi=used(running=4)))
    assert known.running() == {PI: 7}
    # A report that leaves a class out changes nothing about it.
    take(known, of_classes("a", {"other": used(running=1)}), now_s=1.0 + versions.RUNNING_S)
    assert known.running() == {PI: 7, "other": 1}
    known.expire(now_ns=NOW_NS, now_s=1.0 + versions.RUNNING_S)
    assert known.running() == {"other": 1}
    take(known, of_classes("a", {"other": used(running=0)}), now_s=1.0 + versions.RUNNING_S)
    assert known.running() == {"other": 0}


def test_an_agent_that_starts_again_counts_no_pod_again() -> None:
    known = usages.Usages(lease_s=10.0)
    take(known, report(pi=used(pods=5, running=3)))
    again = dataclasses.replace(report(pi=used(pods=2, running=2)), boot="1" * 16)
    take(known, again, now_s=5.0)
    # The last of the three, and a new one.
    take(known, dataclasses.replace(report(pi=used(pods=2, running=4)), boot="1" * 16), now_s=10.0)
    assert known.measured(PI, now_ns=NOW_NS).pods == 6
    # One of them has ended meanwhile: that is not made up for by a Pod that comes much later.
    take(known, dataclasses.replace(report(pi=used(pods=0, running=4)), boot="2" * 16), now_s=15.0)
    take(known, dataclasses.replace(report(pi=used(pods=1)), boot="2" * 16), now_s=15.0 + usages.AGAIN_S)
    assert known.measured(PI, now_ns=NOW_NS).pods == 7


def test_an_agent_whose_new_image_is_pulled_for_minutes_counts_no_pod_again() -> None:
    known = known_of(report(pi=used(pods=5, running=5)))
    for now_s in range(20, 200, 20):
        known.expire(now_ns=NOW_NS, now_s=float(now_s))
    assert known.running() == {}
    take(known, dataclasses.replace(report(pi=used(pods=6, running=6)), boot="1" * 16), now_s=200.0)
    assert known.measured(PI, now_ns=NOW_NS).pods == 6
    assert known.running() == {PI: 6}
    # After this time another node may have its name.
    known.expire(now_ns=NOW_NS, now_s=200.0 + usages.SILENT_MOST_S)
    take(known, dataclasses.replace(report(pi=used(pods=6)), boot="2" * 16), now_s=801.0)
    assert known.measured(PI, now_ns=NOW_NS).pods == 12


def test_classes_are_bounded_and_those_seen_last_stay() -> None:
    known = usages.Usages(lease_s=10.0)
    for number in range(usages.CLASSES_MOST + 3):
        take(known, of_classes("node-1", {f"app/x/{number}": used()}), now_ns=NOW_NS + number)
    known.expire(now_ns=NOW_NS, now_s=1.0)
    assert len(known) == usages.CLASSES_MOST
    assert not {"app/x/0", "app/x/1", "app/x/2"} & set(known.names())


def test_classes_are_bounded_between_two_expirations_too() -> None:
    known = usages.Usages(lease_s=10.0)
    take(known, of_classes("node-0", {PI: used()}))
    for number in range(50):
        take(known, of_classes(f"node-{number}", {f"Job/crowd/{number}-{each}": used() for each in range(100)}))
        assert len(known) <= usages.CLASSES_HELD_MOST
    # Others' are not forgotten for it.
    assert PI in known.names()
    assert known.running()[PI] == 1


def test_what_a_node_reports_under_ever_new_names_is_not_kept() -> None:
    """The agent of one node chooses the names of classes, and may report in each that Pods run."""
    known = known_of(report("honest", pi=used(running=7)))
    for number in range(40):
        boot = f"{number // 20}" * 16
        made_up = {f"Job/crowd/{number}-{each}": used(running=1) for each in range(100)}
        take(known, dataclasses.replace(of_classes("liar", made_up), boot=boot))
        held = known._nodes["liar"]
        assert max(len(held.running), len(held.last), len(held.again)) <= usages.NODE_CLASSES_MOST
    known.expire(now_ns=NOW_NS, now_s=1.0)
    assert known.running()[PI] == 7
    # Those reported last count.
    assert known.running()["Job/crowd/39-99"] == 1 and "Job/crowd/0-0" not in known.running()


def test_counts_of_names_that_are_made_up_are_not_kept_and_those_known_longest_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a key of all nodes, one can report under any number of names."""
    monkeypatch.setattr(usages, "COUNTS_MOST", 200)
    known = known_of(report("honest", pi=used(running=7)))
    for number in range(500):
        take(known, of_classes(f"made-up-{number}", {} if number % 2 else {PI: used(running=1)}))
        assert sum(each.counts for each in known._nodes.values()) <= usages.COUNTS_MOST
    assert "honest" in known._nodes
    known.expire(now_ns=NOW_NS, now_s=usages.SILENT_MOST_S + 1.0)
    assert known.running() == {} and known._counts == 0


def test_a_tenant_with_a_class_for_each_pod_costs_no_other_tenant_what_was_learnt() -> None:
    known = usages.Usages(lease_s=10.0)
    rare = [f"Job/shop/nightly-{number}" for number in range(20)]
    for name in rare:
        take(known, of_classes("node-1", {name: used()}), now_ns=NOW_NS)
    for number in range(usages.CLASSES_MOST + 500):
        take(known, of_classes("node-1", {f"app/crowd/{number}": used()}), now_ns=NOW_NS + 1 + number)
    known.expire(now_ns=NOW_NS, now_s=1.0)
    assert len(known) == usages.CLASSES_MOST
    assert set(rare) <= set(known.names())


@pytest.mark.parametrize(("namespace", "count"), [("made-up", 2048), ("team", 40)])
def test_a_node_that_makes_up_classes_costs_no_class_of_others(namespace: str, count: int) -> None:
    """It names namespaces at will: ones of its own, or those of others."""
    replica = Replica()
    nodes = [f"node-{number}" for number in range(31)]
    replica.app.members.take([reports.report(node, 1) for node in nodes], 0.0)
    on_all = [f"Job/team-{number % 40}/{number}" for number in range(200)]
    # Of one Pod each: on one node, as what is made up.
    alone = {f"Job/team-{number}/nightly": nodes[number % 30] for number in range(40)}
    for node in nodes[:30]:
        found = dict.fromkeys((*on_all, *(name for name, at in alone.items() if at == node)), used())
        replica.app.usage.on_report(subjects.usage(node), wire.encode_usage(of_classes(node, found)))
    empty = usage.ClassUsage(pods=0, failed=0, running=0, seconds={}, pod_means={}, peaks={}, template=None)
    for first in range(0, 2048, 512):
        replica.clock.advance(1.0)
        found = {f"a/{namespace}-{number % count}/{number}": empty for number in range(first, first + 512)}
        payload = wire.encode_usage(of_classes(nodes[30], found))
        replica.app.usage.on_report(subjects.usage(nodes[30]), payload)
    known = replica.app.usage.known
    known.expire(now_ns=replica.clock.wall_ns(), now_s=replica.clock.monotonic_s())
    assert len(known) == usages.CLASSES_MOST
    honest = {*on_all, *alone}
    assert honest <= set(known.names())
    # Also if a key of the bucket has room for half of its classes.
    kept = known.take_changed().values()
    assert honest <= {each.name for found in kept for each in found[: len(found) // 2]}


def test_a_class_without_pods_is_forgotten_after_eight_days() -> None:
    known = known_of(report(pi=used()))
    known.expire(now_ns=NOW_NS + 8 * DAY_NS - 1, now_s=1.0)
    assert known.names() == [PI]
    known.expire(now_ns=NOW_NS + 8 * DAY_NS, now_s=1.0)
    assert known.names() == []
    # Its key is written again, without it.
    assert list(known.take_changed().values()) == [[]]


def ask(known: usages.Usages, **question: object) -> "dict[str, object]":
    found: dict[str, object] = orjson.loads(recommendations.answer(known, {}, orjson.dumps(question), NOW_NS))
    return found


def test_a_row_states_what_is_recommended_and_what_it_would_save() -> None:
    evidence = {PI: messages.ClassEvidence(pods=1, cost={name: messages.Estimate(0.5, 0.1) for name in ("cpu", "gpu")})}
    known = known_of(report(pi=used(pods=9, running=3)))
    row = orjson.loads(recommendations.answer(known, evidence, b"", NOW_NS))["classes"][0]
    assert row["requests"]["memory"] == row["limits"]["memory"] == 115 * MIB
    assert row["requests"]["cpu"] == 0.538
    assert row["saves"] == {"cpu": pytest.approx(3 * (2.0 - row["requests"]["cpu"]))}
    assert (row["requested"], row["containers"], row["running"]) == ({"cpu": 2.0}, ["main"], 3)
    assert row["further"] == {"gpu": {"mean": 0.5, "sd": 0.1}}
    assert (row["flags"], row["confidence"]) == ([], "low")


def test_the_rule_of_the_question_counts() -> None:
    known = known_of(report(pi=used(pods=9)))
    plain = ask(known, margin=0.0)["classes"][0]  # type: ignore[index]  # a list
    assert plain["requests"]["memory"] == 100 * MIB
    with pytest.raises(errors.CaricoError, match=r"percentile: got 1\.5"):
        ask(known, percentile=1.5)
    with pytest.raises(errors.CaricoError, match="margin"):
        ask(known, margin="x")


def test_what_was_measured_of_several_images_is_added_up_once_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    known = known_of(*(of_classes("node-1", {f"app/x/{number}": used(image=image)}) for number in range(7)
                       for image in ("a" * 16, "b" * 16)))  # fmt: skip
    calls: list[int] = []
    added_up = versions.added_up

    def counted(held: Sequence[versions.Version]) -> versions.Version:
        calls.append(len(held))
        return added_up(held)

    monkeypatch.setattr(versions, "added_up", counted)
    ask(known)
    assert calls == [2] * 7


def test_pages_contain_every_class_once() -> None:
    known = known_of(*(of_classes("node-1", {f"app/x/{'y' * 500}{number}": used()}) for number in range(900)))
    found: list[str] = []
    while True:
        page = ask(known, after=found[-1] if found else "")
        found += [row["class"] for row in page["classes"]]  # type: ignore[attr-defined]  # a list
        if page["complete"]:
            break
    assert found == known.names()


def test_metrics_are_of_few_classes_and_leave_out_what_is_flagged() -> None:
    many = [of_classes("node-1", {f"app/x/{number}": used(pods=2, running=number)}) for number in range(60)]
    known = known_of(*many, report(pi=used(pods=1, running=100)))
    found = dict(recommendations.series(known, now_ns=NOW_NS))
    assert len(found) == recommendations.METRICS_MOST - 1
    assert PI not in found and "app/x/59" in found and "app/x/0" not in found


async def test_a_replica_that_starts_continues_from_what_was_kept() -> None:
    first = Replica()
    node = reports.report("node-1", 1)
    first.app.members.take([node], 0.0)
    first.app.usage.on_report(subjects.usage("node-1"), wire.encode_usage(report(pi=used(pods=9))))
    await first.app.usage.keep()
    assert len(first.hub.usage) == 1
    second = Replica()
    second.hub.usage.update(first.hub.usage)
    second.hub.usage[(next(iter(first.hub.usage)) + 1) % streams.USAGE_KEYS] = b"not JSON"
    await second.app.listen()
    assert second.app.usage.known.facts(PI) == first.app.usage.known.facts(PI)
    assert second.drops("kept_usage") == {"undecodable": 1.0}


@pytest.mark.parametrize("joins_as", ["q9", "r9"])
async def test_a_rolling_update_counts_each_report_once(joins_as: str) -> None:
    old = Replica()
    new = Replica(hub=old.hub, name=joins_as)
    for each in (old, new):
        each.app.members.take([reports.report("node-1", 1)], 0.0)

    await old.app.listen()
    await publish(old.hub, used(pods=1))
    await old.app.usage.keep()
    # Since it was written the last time.
    await publish(old.hub, used(pods=2, memory=900 * MIB))
    keeping = asyncio.create_task(old.app.usage.keep_forever())
    joining = asyncio.create_task(new.app.listen())
    async with asyncio.timeout(waiting.WAIT_S):
        while kept_of(old.hub)[0].pods < 3:
            await asyncio.sleep(0)
    await publish(old.hub, used(pods=4))
    await joining
    keeping.cancel()
    await old.app.usage.keep()
    await publish(old.hub, used(pods=8))
    await new.app.usage.keep()
    (kept,) = kept_of(old.hub)
    assert (kept.pods, kept.peaks["memory"]) == (15, 900 * MIB)


async def test_a_replica_that_comes_back_under_its_name_learns_what_the_others_know() -> None:
    first = Replica()
    other = Replica(name="r1", hub=first.hub)
    again = Replica(hub=first.hub, boot="1" * 16)
    for each in (first, other, again):
        each.app.members.take([reports.report("node-1", 1)], 0.0)
    await first.app.listen()
    await other.app.listen()
    await first.app._send_partial(complete=False, joining=False, entries=())
    assert other.app.replicas.leader(0.0) == "r0"
    keeping = asyncio.create_task(other.app.usage.keep_forever())
    await publish(first.hub, used(pods=1))
    await first.app.usage.keep()
    # Killed, and started again within its lease.
    await first.app._bus.close()  # type: ignore[attr-defined]  # a bus in memory
    await publish(first.hub, used(pods=2, memory=900 * MIB))
    await again.app.listen()
    await publish(first.hub, used(pods=4))
    await again.app.usage.keep()
    keeping.cancel()
    (kept,) = kept_of(first.hub)
    assert (kept.pods, kept.peaks["memory"]) == (7, 900 * MIB)


async def test_what_arrives_while_the_keeper_writes_for_a_new_replica_counts_once_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = Replica()
    new = Replica(hub=old.hub, name="r9")
    for each in (old, new):
        each.app.members.take([reports.report("node-1", 1)], 0.0)
    write, joined = old.app.usage._write, asyncio.Event()

    async def write_late() -> None:
        joined.set()
        await asyncio.sleep(0.03)
        await write()

    monkeypatch.setattr(old.app.usage, "_write", write_late)
    await old.app.listen()
    await publish(old.hub, used(pods=1))
    keeping = asyncio.create_task(old.app.usage.keep_forever())
    joining = asyncio.create_task(new.app.listen())
    await joined.wait()
    await publish(old.hub, used(pods=2))
    await joining
    keeping.cancel()
    assert [each.app.usage.known.facts(PI).pods for each in (old, new)] == [3, 3]


async def publish(hub: memory_bus.Hub, found: usage.ClassUsage) -> None:
    await memory_bus.MemoryBus(hub).publish(subjects.usage("node-1"), wire.encode_usage(report(pi=found)))


def kept_of(hub: memory_bus.Hub) -> list[usage.KeptClass]:
    return [each for payload in hub.usage.values() for each in wire.decode_kept(payload)]


async def test_what_cannot_be_written_is_written_later() -> None:
    replica = Replica()
    replica.app.members.take([reports.report("node-1", 1)], 0.0)
    replica.app.usage.on_report(subjects.usage("node-1"), wire.encode_usage(report(pi=used())))
    replica.hub.set_away(True)
    await replica.app.usage.keep()
    replica.hub.set_away(False)
    await replica.app.usage.keep()
    assert len(replica.hub.usage) == 1


async def test_what_the_bucket_has_lost_is_written_again() -> None:
    replica = Replica()
    names = [f"app/x/{number}" for number in range(60)]
    replica.app.members.take([reports.report("node-1", 1)], 0.0)
    found = of_classes("node-1", {name: used() for name in names})
    replica.app.usage.on_report(subjects.usage("node-1"), wire.encode_usage(found))
    await replica.app.usage.keep()
    replica.hub.usage.clear()
    for _ in range(streams.USAGE_KEYS):
        await replica.app.usage.keep()
    assert sorted(each.name for each in kept_of(replica.hub)) == sorted(names)


@pytest.mark.parametrize("is_handed_on", [True, False])
async def test_what_the_bucket_has_lost_is_known_to_a_replica_that_joins_or_comes_next(*, is_handed_on: bool) -> None:
    old = Replica()
    new = Replica(hub=old.hub, name="r9")
    names = {f"app/x/{number}" for number in range(60)}
    old.app.members.take([reports.report("node-1", 1)], 0.0)
    await old.app.listen()
    await memory_bus.MemoryBus(old.hub).publish(
        subjects.usage("node-1"), wire.encode_usage(of_classes("node-1", dict.fromkeys(names, used())))
    )
    await old.app.usage.keep()
    # NATS and its store are replaced, and then the aggregator.
    old.hub.set_away(True)
    old.hub.usage.clear()
    old.hub.set_away(False)
    keeping = asyncio.create_task(old.app.usage.keep_forever())
    joining = asyncio.create_task(new.app.listen()) if is_handed_on else None
    if joining is not None:
        await joining
    keeping.cancel()
    await old.app.usage.keep_all()
    if joining is None:
        await new.app.listen()
    assert set(new.app.usage.known.names()) == names


async def test_a_replica_that_joined_before_the_one_that_knows_was_back_learns_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = Replica()
    # It is the one that writes from then on.
    new = Replica(hub=old.hub, name="q9")
    names = {f"app/x/{number}" for number in range(60)}
    old.app.members.take([reports.report("node-1", 1)], 0.0)
    found = of_classes("node-1", dict.fromkeys(names, used()))
    old.app.usage.on_report(subjects.usage("node-1"), wire.encode_usage(found))
    await old.app.usage.keep()
    old.hub.usage.clear()
    # The old one does not listen yet.
    await new.app.listen()
    assert len(new.app.usage.known) == 0
    keeping = asyncio.create_task(old.app.usage.keep_forever())
    old.app._bus.came_back()  # type: ignore[attr-defined]  # a bus in memory
    await waiting.until(lambda: {each.name for each in kept_of(old.hub)} == names)
    keeping.cancel()
    monkeypatch.setattr(kept_usage, "KEEP_EVERY_S", 0.0)
    keeping = asyncio.create_task(new.app.usage.keep_forever())
    await waiting.until(lambda: set(new.app.usage.known.names()) == names)
    keeping.cancel()


async def test_a_stop_while_it_is_written_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Replica()
    names = [f"app/x/{number}" for number in range(60)]
    replica.app.members.take([reports.report("node-1", 1)], 0.0)
    found = of_classes("node-1", {name: used() for name in names})
    replica.app.usage.on_report(subjects.usage("node-1"), wire.encode_usage(found))
    bus, asked = replica.app._bus, asyncio.Event()

    async def put_usage(key: int, payload: bytes) -> None:
        if len(replica.hub.usage) == 5:
            asked.set()
            await asyncio.Event().wait()
        await memory_bus.MemoryBus.put_usage(bus, key, payload)  # type: ignore[arg-type]  # a bus in memory

    with monkeypatch.context() as slow:
        slow.setattr(bus, "put_usage", put_usage)
        keeping = asyncio.create_task(replica.app.usage.keep())
        await asked.wait()
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
    await replica.app.usage.keep()
    assert sorted(each.name for each in kept_of(replica.hub)) == sorted(names)


async def test_of_more_than_a_key_holds_those_seen_last_are_kept_and_the_others_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replica = Replica()
    replica.app.members.take([reports.report("node-1", 1)], 0.0)
    names = [name for name in (f"app/x/{number}" for number in range(200)) if usages._key(name) == 0]
    for name in names:
        found = of_classes("node-1", {name: used()})
        replica.app.usage.on_report(subjects.usage("node-1"), wire.encode_usage(found))
        replica.clock.advance(1.0)
    size = len(wire.encode_kept(replica.app.usage.known.facts(name) for name in names))
    monkeypatch.setattr(codec, "MODEL_MAX_BYTES", size - 1)
    await replica.app.usage.keep()
    assert sorted(each.name for each in kept_of(replica.hub)) == sorted(names[1:])
    assert replica.drops("kept_usage") == {"oversized": 1.0}


async def test_a_class_that_does_not_fit_costs_no_other_that_does(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Replica()
    replica.app.members.take([reports.report("node-1", 1)], 0.0)
    small = [name for name in (f"app/x/{number}" for number in range(200)) if usages._key(name) == 0]
    large = next(name for name in (f"app/{'y' * 600}/{number}" for number in range(200)) if usages._key(name) == 0)
    for name in (*small, large):
        found = of_classes("node-1", {name: used()})
        replica.app.usage.on_report(subjects.usage("node-1"), wire.encode_usage(found))
        replica.clock.advance(1.0)
    # The one seen last is too large alone; of those before it one fits.
    one = len(wire.encode_kept([replica.app.usage.known.facts(small[0])]))
    monkeypatch.setattr(codec, "MODEL_MAX_BYTES", one + 300)
    await replica.app.usage.keep()
    assert [each.name for each in kept_of(replica.hub)] == [small[-1]]
    assert replica.drops("kept_usage") == {"oversized": float(len(small))}


async def test_a_report_that_is_refused_is_counted() -> None:
    replica = Replica()
    replica.app.usage.on_report(subjects.usage("node-1"), b"{}")
    replica.app.usage.on_report(subjects.usage("node-1"), wire.encode_usage(report(pi=used())))
    assert replica.drops("usage") == {"missing_field": 1.0, "foreign_node": 1.0}
    answer = app.answers(replica.app, clock=replica.clock)["recommend"]
    assert orjson.loads(await answer(b"{}")) == {"classes": [], "learnt": 0, "complete": True}


async def test_a_node_that_floods_is_left_out_and_others_are_heard() -> None:
    replica = Replica()
    replica.app.members.take([reports.report("node-1", 1), reports.report("node-2", 1)], 0.0)
    await replica.app.listen()
    bus = memory_bus.MemoryBus(replica.hub)
    for _ in range(kept_usage.ALLOWED.most + 3):
        await bus.publish(subjects.usage("node-1"), b"{}")
    listening = asyncio.create_task(replica.app.usage.listen_forever())
    try:
        await waiting.until(lambda: subjects.usage("node-2") in heard_by(replica))
        assert not {subjects.USAGE_ALL, subjects.usage("node-1")} & heard_by(replica)
    finally:
        listening.cancel()
    assert replica.drops("usage") == {"missing_field": kept_usage.ALLOWED.most, "flood": 1.0}


def heard_by(replica: Replica) -> set[str]:
    """Return the subjects of which the bus sends messages."""
    return {subject for subject, _ in replica.hub.subscriptions}


async def test_a_replica_that_starts_alone_waits_for_the_size_of_each_node_that_reports() -> None:
    replica = Replica()
    joining = asyncio.create_task(replica.app.listen())
    await waiting.until(lambda: replica.hub.subscriptions)
    await publish(replica.hub, used(pods=3))
    await joining
    await publish(replica.hub, used(pods=4))
    stranger = dataclasses.replace(report(pi=used()), node="node-2")
    replica.app.usage.on_report(subjects.usage("node-2"), wire.encode_usage(stranger))
    assert replica.drops("usage") == {}
    replica.app.members.take([reports.report("node-1", 1)], 0.0)
    await waiting.until(lambda: replica.drops("usage"))
    assert replica.app.usage.known.facts(PI).pods == 7
    assert replica.drops("usage") == {"foreign_node": 1.0}


def test_the_metrics_show_what_is_recommended() -> None:
    replica = Replica()
    replica.app.members.take([reports.report("node-1", 1)], 0.0)
    replica.app.usage.on_report(subjects.usage("node-1"), wire.encode_usage(report(pi=used(pods=9))))
    assert dict(replica.app.usage.recommended())[PI][recommendation.MEMORY] == 115 * MIB
    first = replica.app.usage.recommended()
    assert replica.app.usage.recommended() is first, "both metrics of a scrape are one calculation"
    replica.clock.advance(kept_usage.RECOMMENDED_EVERY_S)
    assert replica.app.usage.recommended() is not first


def test_one_class_is_answered_with_its_distribution() -> None:
    known = known_of(report(pi=used(0.1, seconds=90.0)), report("node-2", pi=used(1.0, seconds=10.0)))
    answered = orjson.loads(recommendations.answer(known, {}, orjson.dumps({"class": PI}), NOW_NS))
    assert answered["complete"]
    (found,) = answered["classes"]
    (low, most), (high, rest) = found["distribution"]["cpu"]
    assert (most, rest) == (90.0, 10.0)
    # The percentiles of the row, of the same buckets; the highest is at most the peak.
    assert (low, min(high, 1.0)) == (found["usage"]["cpu"]["p90"], found["usage"]["cpu"]["p99"])
    assert found["distribution"]["memory"][0][1] == 100.0
    unknown = orjson.loads(recommendations.answer(known, {}, b'{"class": "Job/default/unknown"}', NOW_NS))
    assert (unknown["classes"], unknown["complete"]) == ([], True)
