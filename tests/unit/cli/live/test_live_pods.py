"""Pods in the order in which they are shown, and what their status says."""

import math
from typing import Any

import pytest

from carico_cli.live import picture as pictures
from carico_cli.live import pods, signals
from carico_core.domain import decision, errors
from carico_core.runtime.kube import list_watch
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_local.jobs import job_labels
from tests.unit.cli import fake_cluster

NAMES = frozenset({"carico"})
CREATED_S = 1_795_255_200.0


def pod(name: str, *, created: str = "10:00:00", priority: int = 0, **changed: Any) -> dict[str, Any]:
    found = fake_cluster.pod(name, **changed)
    found["metadata"] |= {"namespace": "default", "creationTimestamp": f"2026-11-21T{created}Z"}
    found["spec"]["priority"] = priority
    return found


def listed(*objects: dict[str, Any]) -> pods.Pods:
    table = pods.Pods()
    table.on_event(list_watch.Listed(objects=list(objects), resource_version="1"))
    return table


def test_those_that_wait_come_first_as_they_are_queued() -> None:
    gated = pod("gated", phase="Pending", node=None)
    gated["spec"]["schedulingGates"] = [{"name": "x"}]
    foreign = pod("foreign", phase="Pending", node=None)
    foreign["spec"]["schedulerName"] = "default-scheduler"
    table = listed(
        pod("done", phase="Succeeded"), pod("runs"), pod("failed", phase="Failed"), gated, foreign,
        pod("young", phase="Pending", node=None, created="10:00:09"),
        pod("old", phase="Pending", node=None, created="10:00:01"),
        pod("urgent", phase="Pending", node=None, created="10:00:10", priority=5), pod("starts", phase="Pending"),
    )  # fmt: skip
    rows = table.rows(NAMES)
    assert [each.name for each in rows] == ["urgent", "old", "young", "gated", "starts", "runs", "failed", "done"]
    seen = signals.Signals(clock=clocks.FakeClock(), lease_s=10.0).picture(jobs=(), links=(), pods=rows)
    assert seen.waiting == 3
    # The same rows until something changes.
    assert table.rows(NAMES) is rows
    table.on_event(list_watch.Changed(type="MODIFIED", object=pod("old")))
    assert [each.name for each in table.rows(NAMES)][:2] == ["urgent", "young"]
    table.on_event(list_watch.Changed(type="DELETED", object=pod("urgent")))
    assert table.rows(NAMES)[0].name == "young"
    assert "foreign" in {each.name for each in table.rows(frozenset({"carico", "default-scheduler"}))}


@pytest.mark.parametrize(
    ("phase", "node", "status", "state", "since_s", "why"),
    [
        ("Pending", None, {}, "waiting", CREATED_S, ""),
        (
            "Pending", None, {"conditions": [{"type": "PodScheduled", "status": "False", "message": "no\nroom"}]},
            "waiting", CREATED_S, "no room",
        ),
        (
            "Pending", "node-1",
            {
                "conditions": [
                    {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-21T10:00:05Z"}
                ],
                "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such"}}}],
            },
            "starting", CREATED_S + 5, "ImagePullBackOff: no such",
        ),
        (
            "Running", "node-1", {"containerStatuses": [{"state": {"running": {"startedAt": "2026-11-21T10:00:07Z"}}}]},
            "running", CREATED_S + 7, "",
        ),
        (
            "Running", "node-1",
            {"containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}}}]},
            "running", CREATED_S, "CrashLoopBackOff: back-off 40s",
        ),
        ("Running", "node-1", {"startTime": "later"}, "running", CREATED_S, ""),
        ("Failed", "node-1", {"reason": "Evicted"}, "failed", CREATED_S, "Evicted"),
        (
            "Failed", "node-1", {"containerStatuses": [{"state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]},
            "failed", CREATED_S, "Error",
        ),
    ],
)  # fmt: skip
def test_a_record_says_since_when_and_why(
    phase: str, node: str | None, status: dict[str, Any], state: str, since_s: float, why: str
) -> None:
    found = pod("a", phase=phase, node=node)
    found["status"] |= status
    record = pods.record_of(found)
    assert (record.state, record.since_s, record.why) == (state, since_s, why)


def test_a_pod_without_what_is_usual_is_shown_all_the_same() -> None:
    record = pods.record_of({"metadata": {"uid": "u", "name": "a", "deletionTimestamp": "x"}, "spec": {}, "status": {}})
    assert (record.state, record.pod_class, record.created_s) == ("ending", "", -math.inf)
    assert pods.record_of(pod("a")).pod_class == "image/default/"


def test_why_a_pod_waits_comes_from_its_decision_or_from_one_of_its_job() -> None:
    heard = signals.Signals(clock=clocks.FakeClock(), lease_s=10.0)
    rows = listed(
        *(pod(name, phase="Pending", node=None) for name in ("a", "b")),
        pod("c", phase="Pending", node=None, job=None),
    ).rows(NAMES)  # fmt: skip
    refused = fake_cluster.placed("a", outcome=decision.Outcome.UNSCHEDULABLE, node=None, message="at capacity")
    heard.on_decision("carico.v1.decision.default.a", wire.encode_decision(refused))
    seen = heard.picture(jobs=(), links=(), pods=rows)
    assert [seen.why(each) for each in rows] == ["at capacity", "at capacity", ""]
    bound = fake_cluster.placed("a", seq=2)
    heard.on_decision("carico.v1.decision.default.a", wire.encode_decision(bound))
    assert [heard.picture(jobs=(), links=(), pods=rows).why(each) for each in rows] == ["", "", ""]


def test_refusals_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "REFUSALS_KEPT", 2)
    heard = signals.Signals(clock=clocks.FakeClock(), lease_s=10.0)
    for seq, name in enumerate("abc", start=1):
        refused = fake_cluster.placed(name, seq=seq, outcome=decision.Outcome.UNSCHEDULABLE, node=None, message=name)
        heard.on_decision(f"carico.v1.decision.default.{name}", wire.encode_decision(refused))
    assert dict(heard.picture(jobs=(), links=()).refusals) == {"uid-b": "b", "uid-c": "c"}


def test_the_order_of_states_is_that_of_the_enum() -> None:
    assert next(iter(pictures.PodState)) is pictures.PodState.WAITING


def test_jobs_are_counted_by_where_their_pods_are() -> None:
    found = pods.Pods()
    made = [
        fake_cluster.pod("a", phase="Pending", node=None), fake_cluster.pod("b", phase="Pending"),
        fake_cluster.pod("c"), fake_cluster.pod("d", phase="Succeeded"), fake_cluster.pod("e", phase="Failed"),
        fake_cluster.pod("f", job=None),
    ]  # fmt: skip
    foreign = fake_cluster.pod("g")
    foreign["spec"]["schedulerName"] = "default-scheduler"
    found.on_event(list_watch.Listed(objects=[*made, foreign], resource_version="1"))
    first, last = found.jobs({"carico"})
    assert (first.name, first.pending, first.starting, first.running, first.succeeded, first.failed) == (
        "hello", 1, 1, 1, 1, 1,
    )  # fmt: skip
    assert (first.pods, first.ended) == (5, 2)
    assert (last.name, last.running) == (job_labels.OTHERS, 1)
    assert found.jobs({"carico", "default-scheduler"})[0].running == 2
    found.on_event(list_watch.Changed(type="MODIFIED", object=fake_cluster.pod("c", phase="Succeeded")))
    assert found.jobs({"carico"})[0].succeeded == 2
    for name in "abcdefg":
        found.on_event(list_watch.Changed(type="DELETED", object=fake_cluster.pod(name)))
    assert found.jobs({"carico"}) == ()


def test_an_api_that_is_away_keeps_the_jobs_and_says_so() -> None:
    found = pods.Pods()
    found.on_event(list_watch.Listed(objects=[fake_cluster.pod("a")], resource_version="1"))
    found.on_event(list_watch.Away(error=errors.ApiUnavailable("GET /api/v1/pods: refused")))
    assert found.trouble is not None
    assert len(found.jobs({"carico"})) == 1
    found.on_event(list_watch.Listed(objects=[], resource_version="2"))
    assert found.trouble is None
