"""What several kinds of tests share: one real control plane a session, its place at the end of it, the tiers."""

import logging
import os
import sys
from collections.abc import AsyncIterator, Iterator

import hypothesis
import pytest
import structlog

from carico_core.runtime.kube import api_client
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import settings
from carico_local.control_plane import commands, standalone
from tests.tools import kubernetes, tiers

# Also where the environment says otherwise, which holds for all that tests start: tests take 15 s to compile, and each
# of the processes would compile the project anew.
sys.dont_write_bytecode = False
# What tests start listens on this machine, wherever its requests to others go.
os.environ["no_proxy"] = ",".join(filter(None, (os.environ.get("no_proxy"), "127.0.0.1,localhost")))
# Time is what other work on the machine makes of it: 200 ms an example (hypothesis' own deadline) proves nothing, nor
# does the time to draw one. The same draws on every run: what fails for one fails for everybody, and no change is held
# up by what it has not done. `--hypothesis-profile=explore` draws others.
WITHOUT_TIME = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.register_profile("explore", WITHOUT_TIME)
hypothesis.settings.register_profile("carico", WITHOUT_TIME, derandomize=True)
hypothesis.settings.load_profile("carico")

REAL = "real_control_plane"
# kube-scheduler would take an interest in the tests' Pods.
PARTS = tuple(part for part in standalone.ALL if part != commands.SCHEDULER)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the flags of the tiers."""
    tiers.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Prepare this process for its part of a tier."""
    tiers.configure(config)


@pytest.fixture(autouse=True)
def _logs_of_before() -> Iterator[None]:
    """Restore this process's logs after each test: which tests a process runs, and in which order, varies."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def real_control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[standalone.Standalone]:
    """A running real control plane with kwok, which starts in about 4 s."""
    found = kubernetes.control_plane_programs()
    plane = standalone.Standalone(
        tmp_path_factory.mktemp("real"), environ=settings.environment(), clock=clocks.SystemClock(), found=found,
        parts=PARTS, name="tests",
    ).start()  # fmt: skip
    yield plane
    plane.stop()


@pytest.fixture
async def real_api(real_control_plane: standalone.Standalone) -> AsyncIterator[api_client.KubeClient]:
    """A client of it."""
    chosen = api_client.KubeSettings(kubeconfig=str(real_control_plane.kubeconfig))
    client = await api_client.connect(chosen, clock=clocks.SystemClock(), user_agent="test")
    yield client
    await client.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on real programs come last, since a first build of these takes minutes; each may be the one that waits."""
    tiers.refuse_misplaced(items)
    real = [item for item in items if _needs_real_programs(item)]
    for item in real:
        item.add_marker(pytest.mark.real_programs)
        item.add_marker(pytest.mark.timeout(kubernetes.BUILD_TIMEOUT_S))
    others = [item for item in items if item not in set(real)]
    items[:] = others + real


def _needs_real_programs(item: pytest.Item) -> bool:
    if REAL in getattr(item, "fixturenames", ()) or item.get_closest_marker("real_programs"):
        return True
    call = getattr(item, "callspec", None)
    return call is not None and "real" in (call.params.get("kube_api"), call.params.get("site"))
