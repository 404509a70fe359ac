"""The last test of this folder: what `docker compose down` leaves."""

import pytest

from tests.e2e.compose import compose_site
from tests.tools import debian

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(compose_site.COLD_TIMEOUT_S),
    pytest.mark.skipif(debian.allowed() is not None, reason=str(debian.allowed())),
]


def test_down_leaves_nothing(stack: compose_site.Stack) -> None:
    stack.compose("--profile", "*", "down", "--volumes")
    engine = stack.running.engine
    assert engine.run("ps", "--all", "--quiet") == ""
    assert engine.run("volume", "ls", "--quiet") == ""
    assert "carico" not in engine.run("network", "ls", "--format", "{{.Name}}")
