"""What is heard becomes a picture; what cannot be used is counted and changes nothing."""

import orjson
import pytest

from carico_cli.live import capacity_list, node_answers, services, signals
from carico_core.domain import decision, errors
from carico_core.runtime.process import clock as clocks
from carico_core.wire import freshness, subjects
from carico_core.wire import messages as wire
from tests.fixtures.golden import records
from tests.unit.cli import fake_cluster


@pytest.fixture
def clock() -> clocks.FakeClock:
    return clocks.FakeClock(monotonic_s=50.0)


@pytest.fixture
def heard(clock: clocks.FakeClock) -> signals.Signals:
    return signals.Signals(clock=clock, lease_s=fake_cluster.LEASE_S)


def say(heard: signals.Signals, clock: clocks.FakeClock, node: str = "node-1", seq: int = 1) -> None:
    found = fake_cluster.advertisement(node, at_ns=clock.wall_ns(), seq=seq)
    heard.on_capacity(subjects.capacity(node), wire.encode_advertisement(found))


def states(heard: signals.Signals) -> list[str]:
    return [node.freshness.value for node in heard.picture(jobs=(), links=()).nodes]


def test_a_node_ages_and_is_forgotten_a_minute_after_its_lease(heard: signals.Signals, clock: clocks.FakeClock) -> None:
    say(heard, clock)
    seen = []
    for wait_s in (0.0, 3.0, 3.0, 5.0, 58.0, 2.0):
        clock.advance(wait_s)
        seen.append(states(heard))
    assert seen == [["fresh"], ["ageing"], ["stale"], ["absent"], ["absent"], []]


@pytest.mark.parametrize(("ahead_s", "counts"), [(60.0, True), (-60.0, True), (0.5, False)])
def test_a_picture_is_of_the_clusters_time(
    heard: signals.Signals, clock: clocks.FakeClock, ahead_s: float, counts: bool
) -> None:
    """Pods say since when they wait by a clock of the cluster."""
    ts_ns = clock.wall_ns() + round(ahead_s * 1e9)
    heard.on_capacity_list(capacity_list.parse(orjson.dumps({"nodes": [], "ts": ts_ns})))
    clock.advance(4.0)
    now_ns = ts_ns if counts else ts_ns - round(ahead_s * 1e9)
    assert heard.picture(jobs=(), links=()).taken_ns == now_ns + 4_000_000_000
    # An older scheduler does not say.
    heard.on_capacity_list(capacity_list.parse(orjson.dumps({"nodes": []})))
    assert heard.picture(jobs=(), links=()).taken_ns == now_ns + 4_000_000_000


def test_a_node_that_the_scheduler_lists_is_kept_though_it_says_nothing(
    heard: signals.Signals, clock: clocks.FakeClock
) -> None:
    rows = [{"node": "node-10", "reserved": 2, "free": -0.5}, {"node": "node-9", "reserved": 0, "free": None}]
    heard.on_capacity_list(capacity_list.parse(orjson.dumps({"nodes": rows})))
    say(heard, clock, "node-9")
    clock.advance(500.0)
    first, second = heard.picture(jobs=(), links=()).nodes
    assert (first.name, first.reserved, first.free) == ("node-9", 0, None)
    assert (second.name, second.reserved, second.free, second.advertisement) == ("node-10", 2, -0.5, None)
    heard.scheduler_silent()
    assert states(heard) == []


def test_a_node_that_may_have_no_pods_is_not_shown_as_fresh(heard: signals.Signals, clock: clocks.FakeClock) -> None:
    ready = [(None, None), (True, True), (True, False), (False, True), (False, False)]
    rows = [
        {"node": f"node-{number}", "reserved": 0, "ready": is_ready, "schedulable": is_schedulable}
        for number, (is_ready, is_schedulable) in enumerate(ready)
    ]
    heard.on_capacity_list(capacity_list.parse(orjson.dumps({"nodes": rows})))
    for number in range(len(rows)):
        say(heard, clock, f"node-{number}")
    nodes = heard.picture(jobs=(), links=()).nodes
    assert [node.state for node in nodes] == ["fresh", "fresh", "cordon", "unready", "unready"]
    assert {node.freshness for node in nodes} == {freshness.Freshness.FRESH}


@pytest.mark.parametrize("answer", [b"", b"[]", b'{"nodes":[{"node":"n"}]}', b'{"nodes":[{"node":3,"reserved":1}]}'])
def test_an_answer_of_the_scheduler_that_cannot_be_read_is_refused(heard: signals.Signals, answer: bytes) -> None:
    with pytest.raises(errors.MessageError):
        heard.on_capacity_list(capacity_list.parse(answer))


def test_a_kept_advertisement_is_as_old_as_it_is(heard: signals.Signals, clock: clocks.FakeClock) -> None:
    old = fake_cluster.advertisement(at_ns=clock.wall_ns() - 4_000_000_000)
    heard.on_stored_capacity(subjects.capacity("node-1"), wire.encode_advertisement(old))
    (node,) = heard.picture(jobs=(), links=()).nodes
    assert node.age_s == pytest.approx(4.0)
    say(heard, clock, seq=2)
    assert states(heard) == [freshness.Freshness.FRESH.value]


def test_what_cannot_be_used_is_counted_by_reason(heard: signals.Signals, clock: clocks.FakeClock) -> None:
    say(heard, clock, seq=5)
    heard.on_capacity(subjects.capacity("node-1"), b"not json")
    heard.on_capacity(subjects.capacity("node-2"), wire.encode_advertisement(fake_cluster.advertisement(at_ns=1)))
    heard.on_decision(subjects.decision("default", "x"), b"{}")
    heard.on_model(subjects.MODEL, b"\xc1")
    found = heard.picture(jobs=(), links=())
    assert found.dropped == {"undecodable": 2, "foreign_node": 1, "missing_field": 1}
    assert [node.name for node in found.nodes] == ["node-1"]


def test_decisions_come_newest_first_once_each_and_only_the_last_are_kept(heard: signals.Signals) -> None:
    kept = signals.DECISIONS_KEPT
    for number in range(kept + 50):
        found = fake_cluster.placed(f"pod-{number}", seq=number + 1)
        heard.on_decision(subjects.decision("default", found.pod), wire.encode_decision(found))
    heard.on_decision(subjects.decision("default", found.pod), wire.encode_decision(found))
    seen = heard.picture(jobs=(), links=()).decisions
    assert len(seen) <= kept
    assert [one.pod for one in seen[:2]] == [f"pod-{kept + 49}", f"pod-{kept + 48}"]
    assert len({one.id for one in seen}) == len(seen)


@pytest.mark.parametrize("is_other", [False, True])
def test_nothing_of_a_cluster_that_was_replaced_under_its_name_stays(
    heard: signals.Signals, clock: clocks.FakeClock, is_other: bool
) -> None:
    def shown() -> tuple[list[str], list[str], int]:
        found = heard.picture(jobs=(), links=())
        return [one.pod for one in found.decisions], [each.name for each in found.nodes], len(found.summaries)

    def decide(pod: str, seq: int, boot: str) -> None:
        found = fake_cluster.placed(pod, seq=seq, boot=boot, id=f"{boot}-{seq}")
        heard.on_decision(subjects.decision("default", pod), wire.encode_decision(found))

    heard.begin()
    for node in ("node-1", "node-2"):
        say(heard, clock, node)
    decide("before", 1, fake_cluster.BOOT)
    heard.on_summary(subjects.SUMMARY, wire.encode_summary(records.SUMMARY))
    clock.advance(20.0)
    # As after `carico down` and `carico up`, or after NATS was killed: the bus keeps nothing of before.
    heard.begin()
    boot = "f" * 16 if is_other else fake_cluster.BOOT
    decide("after", 2, boot)
    for step in range(1, 8):
        clock.advance(1.0)
        said = fake_cluster.advertisement("node-1", at_ns=clock.wall_ns(), seq=1 + step, boot=boot)
        heard.on_capacity(subjects.capacity("node-1"), wire.encode_advertisement(said))
        if step == 3:
            assert shown()[0] == ["after", "before"], "perhaps it is the same cluster, and is slow"
    if is_other:
        assert shown() == (["after"], ["node-1"], 0)
    else:
        assert shown() == (["after", "before"], ["node-1", "node-2"], 1)


def test_the_model_is_shown_by_what_typical_work_uses(heard: signals.Signals, clock: clocks.FakeClock) -> None:
    heard.on_model(subjects.MODEL, wire.encode_model(fake_cluster.model(at_ns=clock.wall_ns())))
    clock.advance(2.0)
    found = heard.picture(jobs=(), links=()).model
    assert found is not None
    assert found.contributors == 2
    assert found.age_s == pytest.approx(2.0)
    assert found.magnitude == pytest.approx({"cpu": 0.5, "memory": 0.1})


def test_messages_a_second_are_counted(heard: signals.Signals, clock: clocks.FakeClock) -> None:
    for seq in range(1, 21):
        say(heard, clock, seq=seq)
    clock.advance(2.0)
    assert heard.picture(jobs=(), links=()).heard_per_s == pytest.approx(10.0)


def test_a_services_statistics_are_read_and_what_is_none_of_ours_is_left_out() -> None:
    endpoints = [
        {"name": "a", "num_requests": 3, "num_errors": 1, "last_error": "x", "processing_time": 3_000_000},
        {"name": "b", "num_requests": 1, "num_errors": 0, "last_error": "", "processing_time": 1_000_000},
    ]
    good = {"name": "carico-scheduler", "id": "X1", "version": "", "endpoints": endpoints}
    answers = [(0.25, orjson.dumps(good)), (0.1, b"?"), (0.1, b'{"name":"carico-scheduler"}')]
    # Another service that answers as the scheduler.
    forged = [(0.1, orjson.dumps({**good, "id": "X2"}))]
    (found,) = services.parse_all({"carico-scheduler": answers, "carico-aggregator": forged})
    assert (found.instance, found.requests, found.errors, found.last_error) == ("X1", 4, 1, "x")
    assert found.processing_s == pytest.approx(0.001)
    assert found.answered_s == 0.25


def test_an_agents_answer_is_read() -> None:
    found = node_answers.parse_detail(orjson.dumps(fake_cluster.STATE))
    assert found.history["capacity"][:2] == (4.0, 3.95)
    assert found.ceiling["cpu"] == 0.74
    assert found.innovation["cpu"] == -0.01
    assert found.notes == ("no PSI",)


@pytest.mark.parametrize("rows", [[[1.0]], [["x"] * 7], "rows", [[None] * 7]])
def test_an_answer_with_a_broken_history_is_refused(rows: object) -> None:
    with pytest.raises(errors.MessageError):
        node_answers.parse_detail(
            orjson.dumps({**fake_cluster.STATE, "history": fake_cluster.HISTORY | {"rows": rows}})
        )
    with pytest.raises(errors.MessageError):
        node_answers.parse_standing(
            orjson.dumps({**fake_cluster.STANDING, "history": fake_cluster.KEPT | {"rows": rows}})
        )


def test_a_schedulers_answer_is_read_with_the_nodes_history() -> None:
    found = node_answers.parse_standing(orjson.dumps(fake_cluster.STANDING))
    assert found is not None
    assert found.bounds[0].pods == 1.1
    assert found.history["age_s"][::89] == (890.0, 0.0)
    assert found.history["pods"][:11] == (0.0,) * 10 + (1.0,)
    older = {name: value for name, value in fake_cluster.STANDING.items() if name != "history"}
    found = node_answers.parse_standing(orjson.dumps(older))
    assert found is not None
    assert found.history == {}


def test_a_decision_that_waits_is_kept_as_it_is(heard: signals.Signals) -> None:
    waits = fake_cluster.placed(outcome=decision.Outcome.UNSCHEDULABLE, node=None, free=None, message="no room")
    heard.on_decision(subjects.decision("default", waits.pod), wire.encode_decision(waits))
    (found,) = heard.picture(jobs=(), links=()).decisions
    assert (found.node, found.message) == (None, "no room")
