"""A compose cluster while it changes: nodes come and go, parts are killed and started again in the middle of a job."""

import functools
import time

import pytest

from tests.e2e.compose import compose_stack
from tests.tools import debian

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(compose_stack.COLD_TIMEOUT_S),
    pytest.mark.skipif(debian.allowed() is not None, reason=str(debian.allowed())),
]
KILLED_PODS, SCALED_PODS = 48, 90


def _ended(stack: compose_stack.Stack, job: str, goal: int) -> bool:
    return compose_stack.phases(stack.pods(job)).get("Succeeded", 0) >= goal


def test_whatever_is_killed_and_started_again_no_pod_is_lost(stack: compose_stack.Stack) -> None:
    job = f"killed-{int(time.time()) % 10_000}"
    submitting = stack.submit(job, pods=KILLED_PODS, seconds=1.0)
    others = [stack.containers(service)[0] for service in ("node", "aggregator", "nats-server", "api")]
    engine = stack.running.engine
    for number, victim in enumerate([*stack.leader(), *others]):
        goal = number * 3
        stack.until(f"{goal} Pods of the job have ended", functools.partial(_ended, stack, job, goal))
        engine.run("kill", victim)
        engine.run("start", victim)
    out, _ = submitting.communicate(timeout=2 * compose_stack.PATIENCE_S)
    assert submitting.returncode == 0, out[-2000:]
    pods = stack.pods(job)
    assert compose_stack.phases(pods) == {"Succeeded": KILLED_PODS}
    # Only with its node is a container lost, and then run again there.
    rerun = {pod["spec"]["nodeName"] for pod in pods if pod["status"]["containerStatuses"][0]["restartCount"]}
    assert len(rerun) <= 1
    stack.compose("up", "--detach", "--wait")
    assert len(stack.nodes()) == compose_stack.NODES


def test_new_nodes_take_work_at_once_and_leaving_ones_finish_theirs(stack: compose_stack.Stack) -> None:
    job, more = f"scaled-{int(time.time()) % 10_000}", compose_stack.NODES * 2
    submitting = stack.submit(job, pods=SCALED_PODS, seconds=1.0)
    stack.until("the job's Pods wait", lambda: compose_stack.phases(stack.pods(job)).get("Running", 0) > 0)
    stack.compose("up", "--detach", "--no-recreate", "--scale", f"node={more}")
    new = {f"node-{number}" for number in range(compose_stack.NODES + 1, more + 1)}
    took_s = stack.until(
        "each new node has a Pod of the job",
        lambda: new <= {pod["spec"].get("nodeName") for pod in stack.pods(job)},
    )
    print(f"{len(new)} new nodes had Pods {took_s:.1f} s after `up --scale` returned")
    assert took_s < compose_stack.NEW_NODE_MOST_S or not compose_stack.is_idle()
    stack.compose("up", "--detach", "--no-recreate", "--scale", f"node={compose_stack.NODES}")
    assert not new & set(stack.nodes())
    on_new = [pod for pod in stack.pods(job) if pod["spec"].get("nodeName") in new]
    assert compose_stack.phases(on_new) == {"Succeeded": len(on_new)}
    out, _ = submitting.communicate(timeout=2 * compose_stack.PATIENCE_S)
    assert submitting.returncode == 0, out[-2000:]
