"""One cluster of docker-compose.yml for all tests of this folder."""

import time
from collections.abc import Iterator

import pytest

from tests.e2e.compose import compose_site
from tests.tools import debian
from tests.tools.docker import docker_engine


@pytest.fixture(scope="session")
def built_stack(
    docker: docker_engine.Running, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[compose_site.Stack]:
    """Built images, nothing started; skips, saying why, where they cannot be had."""
    with debian.opened(compose_site.built(docker, tmp_path_factory.mktemp("compose"))) as found:
        yield found


@pytest.fixture(scope="session")
def first_pod_s(built_stack: compose_site.Stack) -> float:
    """Seconds from `docker compose up` to the first Pod placed, as a person types it."""
    began_s = time.monotonic()
    built_stack.compose("up", "--detach", "--wait")
    up_s = time.monotonic() - began_s
    submitting = built_stack.submit("first", pods=1, seconds=0.2)
    built_stack.until("a Pod is placed", lambda: any(pod["spec"].get("nodeName") for pod in built_stack.pods("first")))
    elapsed_s = time.monotonic() - began_s
    print(f"docker compose up --wait returned after {up_s:.1f} s")
    out, _ = submitting.communicate(timeout=compose_site.PATIENCE_S)
    assert submitting.returncode == 0, out
    print(built_stack.starts_of(built_stack.nodes()))
    return elapsed_s


@pytest.fixture
def stack(built_stack: compose_site.Stack, first_pod_s: float) -> compose_site.Stack:
    """A cluster that is up."""
    assert first_pod_s > 0.0
    return built_stack
