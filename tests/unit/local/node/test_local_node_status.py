"""The status of a Pod is a function of what runs: phases and conditions as a kubelet's."""

import pytest

from carico_local.node.reporting import status
from carico_local.node.spec import pod as podspec

NOW_NS = 1_700_000_000 * 10**9
OK = status.ContainerState(
    state=status.Terminated(exit_code=0, reason="Completed", started_ns=NOW_NS, finished_ns=NOW_NS)
)
BAD = status.ContainerState(state=status.Terminated(exit_code=3, reason="Error", started_ns=NOW_NS, finished_ns=NOW_NS))
UP = status.ContainerState(state=status.Running(started_ns=NOW_NS), ready=True)
NEW = status.ContainerState()
CRASHED = status.ContainerState(
    state=status.Waiting(reason="CrashLoopBackOff"),
    last=status.Terminated(exit_code=1, reason="Error", started_ns=NOW_NS, finished_ns=NOW_NS),
    restarts=1,
)


def spec(policy: str = "Never", containers: int = 1, inits: int = 0) -> podspec.PodSpec:
    def item(name: str) -> dict[str, object]:
        return {"name": name, "image": "i", "command": ["true"]}

    return podspec.parse(
        {
            "metadata": {"name": "p", "namespace": "n", "uid": "u"},
            "spec": {
                "nodeName": "node",
                "restartPolicy": policy,
                "containers": [item(f"c{n}") for n in range(containers)],
                "initContainers": [item(f"i{n}") for n in range(inits)],
            },
        }
    )


def state(
    *mains: status.ContainerState,
    inits: tuple[status.ContainerState, ...] = (),
    ended: bool = False,
    rejected: tuple[str, str] | None = None,
) -> status.PodState:
    return status.PodState(
        start_ns=NOW_NS,
        pod_ip="127.1.1.1",
        host_ip="127.0.0.1",
        containers={f"c{n}": main for n, main in enumerate(mains)},
        init_containers={f"i{n}": init for n, init in enumerate(inits)},
        sandboxed=True,
        ended=ended,
        rejected=rejected,
    )


@pytest.mark.parametrize(
    ("policy", "mains", "expected"),
    [
        ("Never", (NEW,), "Pending"),
        ("Never", (UP,), "Running"),
        ("Never", (OK,), "Succeeded"),
        ("Never", (BAD,), "Failed"),
        ("Never", (OK, BAD), "Failed"),
        ("Never", (UP, BAD), "Running"),
        ("Never", (UP, NEW), "Pending"),
        ("OnFailure", (OK,), "Succeeded"),
        ("OnFailure", (BAD,), "Running"),
        ("OnFailure", (CRASHED,), "Running"),
        ("Always", (OK,), "Running"),
        ("Always", (CRASHED,), "Running"),
    ],
)
def test_phase_follows_containers_and_restart_policy(
    policy: str, mains: tuple[status.ContainerState, ...], expected: str
) -> None:
    assert status.phase(spec(policy, len(mains)), state(*mains)) == expected


@pytest.mark.parametrize(
    ("policy", "init", "expected"),
    [("Never", BAD, "Failed"), ("Always", BAD, "Pending"), ("Never", UP, "Pending"), ("Never", OK, "Pending")],
)
def test_init_containers_hold_the_phase(policy: str, init: status.ContainerState, expected: str) -> None:
    assert status.phase(spec(policy, inits=1), state(NEW, inits=(init,))) == expected


def test_a_deleted_pod_ends_in_a_terminal_phase_whatever_its_policy() -> None:
    assert status.phase(spec("Always"), state(OK, ended=True)) == "Succeeded"
    assert status.phase(spec("Always"), state(BAD, ended=True)) == "Failed"
    lost = status.ContainerState(state=status.lost(now_ns=NOW_NS))
    assert status.phase(spec("Always"), state(lost, ended=True)) == "Failed"


def conditions(found: dict[str, object]) -> dict[str, dict[str, object]]:
    entries = found["conditions"]
    assert isinstance(entries, list)
    return {entry["type"]: entry for entry in entries}


def test_conditions_keep_their_time_while_they_hold_and_others_stay() -> None:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}
    first = status.pod_status(spec(), state(UP), previous={"conditions": [scheduled]}, now_ns=NOW_NS)
    later = status.pod_status(spec(), state(OK), previous=first, now_ns=NOW_NS + 60 * 10**9)
    before, after = conditions(first), conditions(later)
    assert after["PodScheduled"] == scheduled
    assert after["Initialized"]["lastTransitionTime"] == before["Initialized"]["lastTransitionTime"]
    assert after["Ready"]["lastTransitionTime"] != before["Ready"]["lastTransitionTime"]
    assert (after["Ready"]["status"], after["Ready"]["reason"]) == ("False", "PodCompleted")
    assert (before["Ready"]["status"], before["Ready"]["reason"]) == ("True", None)


def test_a_refused_pod_failed_with_reason_and_no_container_statuses() -> None:
    found = status.pod_status(spec(), state(NEW, rejected=("OutOfpods", "full")), previous={}, now_ns=NOW_NS)
    assert (found["phase"], found["reason"], found["message"]) == ("Failed", "OutOfpods", "full")
    assert "containerStatuses" not in found


def test_container_statuses_tell_state_and_last_state() -> None:
    found = status.pod_status(spec("Always"), state(CRASHED), previous={}, now_ns=NOW_NS)
    (container,) = found["containerStatuses"]
    assert container["state"] == {"waiting": {"reason": "CrashLoopBackOff"}}
    assert container["lastState"]["terminated"]["exitCode"] == 1
    assert container["restartCount"] == 1
