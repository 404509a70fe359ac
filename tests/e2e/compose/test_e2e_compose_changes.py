"""A compose cluster while it changes: nodes come and go, parts are killed and started again in the middle of a job."""

import functools
import time
from collections.abc import Callable

import pytest

from tests.e2e.compose import compose_site
from tests.tools import debian

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(compose_site.COLD_TIMEOUT_S),
    pytest.mark.skipif(debian.allowed() is not None, reason=str(debian.allowed())),
]
KILLED_PODS, SCALED_PODS, ORPHAN_PODS = 48, 90, 6


def _ended(stack: compose_site.Stack, job: str, goal: int) -> bool:
    return compose_site.phases(stack.pods(job)).get("Succeeded", 0) >= goal


def _starts(stack: compose_site.Stack, names: list[str]) -> dict[str, str]:
    """When each container started."""
    return {each["Name"].lstrip("/"): each["State"]["StartedAt"] for each in stack.running.engine.inspect(*names)}


def _have_started_since(stack: compose_site.Stack, starts: dict[str, str]) -> bool:
    found = _starts(stack, list(starts))
    return set(found) <= set(stack.containers()) and all(found[name] != starts[name] for name in starts)


def _key(stack: compose_site.Stack) -> str:
    return stack.compose("exec", "-T", "--index", "1", "scheduler", "cat", "/bus/scheduler/scheduler.nk")


def _standby(stack: compose_site.Stack) -> list[str]:
    return sorted(set(stack.containers("scheduler")) - set(stack.leader()))


def test_whatever_is_killed_comes_back_by_itself_and_no_pod_is_lost(stack: compose_site.Stack) -> None:
    """Every service of a cluster, in the middle of one job; replicas that all do the same thing at once, too."""
    job = f"killed-{int(time.time()) % 10_000}"
    submitting = stack.submit(job, pods=KILLED_PODS, seconds=1.0)
    victims: list[Callable[[], list[str]]] = [
        # As they are by then: who leads changes with the first.
        stack.leader,
        lambda: stack.containers("node")[:1],
        lambda: stack.containers("aggregator"),
        lambda: stack.containers("nats-server"),
        lambda: stack.containers("api"),
        lambda: _standby(stack),
    ]
    for number, chosen in enumerate(victims):
        goal = number * 3
        stack.until(f"{goal} Pods of the job have ended", functools.partial(_ended, stack, job, goal))
        names = chosen()
        assert names
        starts = _starts(stack, names)
        stack.kill(names)
        stack.until(f"{names} run again", functools.partial(_have_started_since, stack, starts))
    out, _ = submitting.communicate(timeout=2 * compose_site.PATIENCE_S)
    assert submitting.returncode == 0, out[-2000:]
    pods = stack.pods(job)
    assert compose_site.phases(pods) == {"Succeeded": KILLED_PODS}
    # Only with its node is a container lost, and then run again there.
    rerun = {pod["spec"]["nodeName"] for pod in pods if pod["status"]["containerStatuses"][0]["restartCount"]}
    assert len(rerun) <= 1
    # It fails where a container is not healthy yet again, which on a slow machine takes longer than the job.
    stack.until("all is well again", lambda: stack.attempt("up", "--detach", "--wait").returncode == 0)
    stack.until("all nodes are there", lambda: len(stack.nodes()) == compose_site.NODES)
    stack.until("one of the schedulers leads", lambda: len(stack.leader()) == 1)


def test_a_node_that_a_person_killed_stays_away_until_the_next_up(stack: compose_site.Stack) -> None:
    nodes, key = stack.containers("node"), _key(stack)
    stack.running.engine.run("kill", nodes[0])
    assert stack.containers("node") == nodes[1:]
    stack.compose("up", "--detach", "--wait")
    assert stack.containers("node") == nodes
    assert _key(stack) == key


def test_a_job_goes_on_without_who_submitted_it(stack: compose_site.Stack) -> None:
    job, engine = f"orphan-{int(time.time()) % 10_000}", stack.running.engine
    submitting = stack.submit(job, pods=ORPHAN_PODS, seconds=1.5)
    stack.until("all its Pods are there", lambda: len(stack.pods(job)) == ORPHAN_PODS)
    by_service = "label=com.docker.compose.service=submit"
    engine.run("kill", *engine.run("ps", "--quiet", "--filter", by_service).split())
    submitting.communicate(timeout=compose_site.PATIENCE_S)
    assert submitting.returncode != 0
    stack.until("its Pods have ended", functools.partial(_ended, stack, job, ORPHAN_PODS))


def test_new_nodes_take_work_at_once_and_leaving_ones_finish_theirs(stack: compose_site.Stack) -> None:
    job, more = f"scaled-{int(time.time()) % 10_000}", compose_site.NODES * 2
    submitting = stack.submit(job, pods=SCALED_PODS, seconds=1.0)
    stack.until("the job's Pods wait", lambda: compose_site.phases(stack.pods(job)).get("Running", 0) > 0)
    # However long the new nodes take, the job waits for them.
    with stack.cordoned(stack.nodes()):
        typed_s = time.monotonic()
        stack.compose("up", "--detach", "--no-recreate", "--scale", f"node={more}")
        returned_s = time.monotonic()
        new = {f"node-{number}" for number in range(compose_site.NODES + 1, more + 1)}
        took_s = stack.until(
            "each new node has a Pod of the job",
            lambda: new <= {pod["spec"].get("nodeName") for pod in stack.pods(job)},
        )
    print(
        f"{len(new)} new nodes had Pods {took_s:.1f} s after `up --scale` returned, "
        f"{time.monotonic() - typed_s:.1f} s after it was typed (which took {returned_s - typed_s:.1f} s)"
    )
    print(stack.starts_of(new))
    assert took_s < compose_site.NEW_NODE_MOST_S
    stack.compose("up", "--detach", "--no-recreate", "--scale", f"node={compose_site.NODES}")
    assert not new & set(stack.nodes())
    on_new = [pod for pod in stack.pods(job) if pod["spec"].get("nodeName") in new]
    assert compose_site.phases(on_new) == {"Succeeded": len(on_new)}
    out, _ = submitting.communicate(timeout=2 * compose_site.PATIENCE_S)
    assert submitting.returncode == 0, out[-2000:]
