"""The last tests of this folder: other schedulers than the other tests have, and what `docker compose down` leaves."""

import dataclasses

import pytest

from tests.e2e.compose import compose_site
from tests.tools import debian

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(compose_site.COLD_TIMEOUT_S),
    pytest.mark.skipif(debian.allowed() is not None, reason=str(debian.allowed())),
]
SCHEDULERS, PODS = 4, 12


def test_four_schedulers_that_share_the_work_run_a_job(stack: compose_site.Stack) -> None:
    # Those that share do not run next to one that leads.
    stack.compose("stop", "scheduler")
    shared = dataclasses.replace(stack, environ={**stack.environ, "CARICO_SCHEDULER_SHARING": "shared"})
    shared.compose("up", "--detach", "--wait", "--scale", f"scheduler={SCHEDULERS}", "scheduler")
    shared.says(f"{SCHEDULERS} members; ", "run", "--rm", "-T", "carico", "doctor")
    submitting = shared.submit("shared", pods=PODS, seconds=0.2)
    out, _ = submitting.communicate(timeout=compose_site.PATIENCE_S)
    assert submitting.returncode == 0, out[-2000:]
    assert compose_site.phases(shared.pods("shared")) == {"Succeeded": PODS}


def test_down_leaves_nothing(stack: compose_site.Stack) -> None:
    stack.compose("--profile", "*", "down", "--volumes")
    engine = stack.running.engine
    assert engine.run("ps", "--all", "--quiet") == ""
    assert engine.run("volume", "ls", "--quiet") == ""
    assert "carico" not in engine.run("network", "ls", "--format", "{{.Name}}")
