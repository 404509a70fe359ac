"""`carico explain job`: where a job's time went."""

import dataclasses
import json
from typing import Any

import pytest

from carico_cli.explain import command, job_text
from carico_cli.live import addresses
from carico_cli.output import words
from carico_core.domain import errors

AT = "2026-11-21T10:{:02}:{:02}Z"
AT_S = 1_795_255_200.0


def pod(
    node: str | None, *, bound: int = 0, started: int = 0, ended: int | None = None, **status: Any
) -> dict[str, Any]:
    """A Pod created at 10:00:00; the other times in seconds after that."""

    def at(seconds: int) -> str:
        return AT.format(*divmod(seconds, 60))

    state: dict[str, Any] = {"running": {"startedAt": at(started)}}
    if ended is not None:
        state = {"terminated": {"startedAt": at(started), "finishedAt": at(ended), "exitCode": 0}}
    found: dict[str, Any] = {"phase": "Pending"}
    if node is not None:
        found = {
            "phase": "Running" if ended is None else "Succeeded",
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at(bound)}],
            "containerStatuses": [{"name": "main", "state": state}],
        }  # fmt: skip
    return {
        "metadata": {"name": "a", "creationTimestamp": AT.format(0, 0), "annotations": {"carico.dev/work": "5s"}},
        "spec": {} if node is None else {"nodeName": node},
        "status": found | status,
    }


def test_a_job_that_has_ended() -> None:
    found = job_text.answer(
        "first", [pod("node-10", bound=40, started=41, ended=51), pod("node-2", bound=0, started=1, ended=11)],
        now_s=AT_S + 900,
    )  # fmt: skip
    assert (found["job_s"], found["slowness"], found["ended"]) == (51.0, 2.0, True)
    assert found["spans"]["waiting"] == {"mean_s": 20.0, "most_s": 40.0, "total_s": 40.0}
    assert job_text.text(found).splitlines() == [
        "job first: 2 Pods (2 succeeded), in 51.0 s",
        "  its Pods mostly waited for a node: more nodes or a higher ceiling shorten",
        "    that; a Pod took 2.0 times its work alone",
        "",
        "A POD WAS           ON AVERAGE  AT MOST  OF ALL",
        "waiting for a node      20.0 s   40.0 s     65%",
        "starting                 1.0 s    1.0 s      3%",
        "running                 10.0 s   10.0 s     32%",
        "",
        "NODE     PODS  STARTING  RUNNING  TIMES ITS WORK  FAILED",
        "node-2      1     1.0 s   10.0 s            2.00       0",
        "node-10     1     1.0 s   10.0 s            2.00       0",
    ]


def test_what_still_waits_or_runs_counts_until_now() -> None:
    found = job_text.answer("first", [pod(None), pod("node-1", started=2)], now_s=AT_S + 30)
    assert found["spans"]["waiting"]["total_s"] == 30.0 and found["spans"]["running"]["total_s"] == 28.0
    assert (found["ended"], found["slowness"]) == (False, None)
    text = job_text.text(found)
    assert "(1 pending, 1 running), so far 30.0 s" in text
    assert "not yet started: 1 Pod (`carico top`, P)" in " ".join(text.split())
    shop = dataclasses.replace(addresses.OF_SHELL, name="shop", is_local=True)
    assert "(`carico top --name shop`, P)" in " ".join(job_text.text(found, at=shop).split())


def test_a_clock_that_is_behind_does_not_hide_how_long_pods_wait() -> None:
    found = job_text.answer("first", [pod(None), pod("node-1", started=50)], now_s=AT_S - 10)
    assert (found["job_s"], found["spans"]["waiting"]["total_s"]) == (50.0, 50.0)


@pytest.mark.parametrize(
    ("pods", "verdict"),
    [
        (
            [pod("n", started=0, ended=60)],
            "mostly ran, slowly: fewer on a node (a lower ceiling) make each faster; a Pod took 12.0 times",
        ),
        ([pod("n", started=0, ended=6)], "its Pods mostly ran; a Pod took 1.2 times its work alone"),
        ([pod("n", started=50, ended=55)], "its Pods mostly waited to be started by their nodes"),
    ],
)
def test_the_verdict_names_what_took_most(pods: list[dict[str, Any]], verdict: str) -> None:
    text = job_text.text(job_text.answer("first", pods, now_s=AT_S + 900))
    assert verdict in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= words.WIDTH


def waits(why: str) -> dict[str, Any]:
    """A Pod that waits, for what its condition states."""
    return pod(None, conditions=[{"type": "PodScheduled", "status": "False", "message": why}])


@pytest.mark.parametrize(
    ("whys", "verdict"),
    [
        (["2 tainted (n: taint a=b)", "1 tainted, 1 cordoned (n: taint)"], "waited for a node, and now wait: tainted"),
        (["2 tainted (n)", "2 at capacity (n)", "2 at capacity (m)"], "waited for a node: more nodes or a higher"),
        (["1 tainted, 1 at capacity (n)"], "waited for a node: more nodes or a higher ceiling shorten that"),
    ],
)
def test_more_room_is_advised_only_to_pods_that_wait_for_room(whys: list[str], verdict: str) -> None:
    pods = [waits(f"0/2 nodes fit: {why}") for why in whys]
    text = " ".join(job_text.text(job_text.answer("first", pods, now_s=AT_S + 30)).split())
    assert f"its Pods mostly {verdict}" in text
    assert ("`carico explain a` shows what each node lacks" in text) == ("now wait" in verdict)


def test_a_job_with_a_pod_that_failed_begins_with_it() -> None:
    pods = [pod("n", started=0, ended=6), pod("n", started=0, ended=6, phase="Failed")]
    pods[1]["metadata"] |= {"name": "b", "namespace": "shop"}
    text = job_text.text(job_text.answer("first", pods, now_s=AT_S + 900))
    _, first, *_ = text.splitlines()
    assert first == "  1 Pod failed: `kubectl logs b -n shop` shows the output of one,"
    assert (
        "`kubectl logs b -n shop` shows the output of one, `carico explain b -n shop` why it ended its Pods mostly ran"
        in " ".join(text.split())
    )
    assert max(map(len, text.splitlines())) <= words.WIDTH


def test_the_times_of_our_workloads_are_exact() -> None:
    found = pod("n", started=1, ended=3)
    message = {"workload": "pi", "started_ns": int((AT_S + 1.5) * 1e9), "finished_ns": int((AT_S + 2.25) * 1e9)}
    found["status"]["containerStatuses"][0]["state"]["terminated"]["message"] = json.dumps(message)
    assert job_text.answer("j", [found], now_s=AT_S)["spans"]["running"]["total_s"] == pytest.approx(0.75, abs=0.01)


def test_a_large_cluster_is_cut() -> None:
    pods = [pod(f"node-{number}", started=1, ended=2) for number in range(25)]
    found = job_text.answer("j", pods, now_s=AT_S)
    assert job_text.text(found).endswith("... and 5 nodes more (-o wide shows all)")
    assert "more" not in job_text.text(found, wide=True).splitlines()[-1]


@pytest.mark.parametrize("what", [("job", "a"), ("job/a",), ("jobs", "a"), ("jobs/a",)])
def test_a_job_is_named_as_in_kubectl(what: tuple[str, ...]) -> None:
    assert command._meant(what) == (command.JOB, "a")
    with pytest.raises(errors.SettingsError, match="expected POD, or: node NODE, or: job JOB"):
        command._meant(("job",))


def event(uid: str, message: str) -> dict[str, Any]:
    return {"involvedObject": {"uid": uid}, "message": message}


def test_a_job_that_has_ended_says_what_its_pods_waited_for() -> None:
    pods = [pod("n", bound=40, started=41, ended=51), pod("n", bound=40, started=41, ended=51)]
    said = [
        event("a", "0/2 nodes fit: 2 at capacity (n: 0.7 free of threshold 1)"),
        event("b", "0/2 nodes fit: 2 tainted (n: taint gpu:NoSchedule not tolerated)"),
        event("a", "0/2 nodes fit: 1 tainted (n: taint gpu:NoSchedule not tolerated)"),
    ]
    text = job_text.text(job_text.answer("first", pods, now_s=AT_S + 900, said=said))
    assert max(map(len, text.splitlines())) <= words.WIDTH
    shown = " ".join(text.split())
    # A higher ceiling would not have helped.
    assert "its Pods mostly waited for a node; a Pod took 2.0 times its work alone what" in shown
    assert "what they waited for, by the Events that are kept: tainted (2 Pods)" in shown
    found = job_text.answer("first", pods, now_s=AT_S + 900, said=said[:2])
    assert found["waited"] == {"at capacity": 1, "tainted": 1}
    shown = " ".join(job_text.text(found).split())
    assert "more nodes or a higher ceiling" in shown and "kept: at capacity (1 Pod); tainted (1 Pod)" in shown
    many = [event(str(number), f"0/2 nodes fit: 2 reason-{number}") for number in range(5)]
    found = job_text.answer("first", pods, now_s=AT_S + 900, said=many)
    assert "reason-2 (1 Pod); and for 2 other reasons" in " ".join(job_text.text(found).split())
    for some in (said, []):
        found = job_text.answer("first", pods, now_s=AT_S + 900, said=some, unread="only the first 500 were read")
        assert "of the Events about why Pods waited, only the first 500 were" in " ".join(job_text.text(found).split())


def test_pods_that_a_job_has_counted_and_that_are_gone_are_said() -> None:
    own = [pod("n", started=0, ended=6), pod("n", started=0, ended=6, phase="Failed"), pod("n", started=0)]
    for each in own:
        each["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "crunch", "controller": True}]
    status: dict[str, Any] = {"failed": 3, "succeeded": 1, "uncountedTerminatedPods": {"failed": ["u"]}}
    job = {"metadata": {"name": "crunch"}, "status": status}
    found = job_text.answer("crunch", own, now_s=AT_S + 30, jobs=[job])
    assert (found["pods"], found["gone"]) == (3, {"failed": 3, "succeeded": 0})
    text = job_text.text(found)
    assert max(map(len, text.splitlines())) <= words.WIDTH
    assert (
        "without 3 Pods that failed, or were evicted or deleted: the Job has counted them, and they no longer exist"
        in " ".join(text.split())
    )
    # All are there; of Pods without a Job nothing is known.
    for jobs in ([{**job, "status": {"failed": 1}}], [{**job, "status": {}}], []):
        assert "no longer" not in job_text.text(job_text.answer("crunch", own, now_s=AT_S + 30, jobs=jobs))
