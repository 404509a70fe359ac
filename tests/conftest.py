"""Fixtures of several folders, the order of tests, and the tiers."""

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

# Even if the environment disables it: compiling the tests takes 15 s, and each process would compile the project again,
# also those that tests start.
sys.dont_write_bytecode = False
os.environ.pop(tiers.NO_BYTECODE, None)
# Servers of tests listen on this machine, whatever proxy is used for others.
os.environ["no_proxy"] = ",".join(filter(None, (os.environ.get("no_proxy"), "127.0.0.1,localhost")))
# No deadlines: time depends on other work of the machine. The same examples in every run, so that a failure is
# reproducible and belongs to the change. `--hypothesis-profile=explore` draws others.
WITHOUT_TIME = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.register_profile("explore", WITHOUT_TIME)
hypothesis.settings.register_profile("carico", WITHOUT_TIME, derandomize=True)
hypothesis.settings.load_profile("carico")

REAL = "real_control_plane"
# kube-scheduler would place the tests' Pods.
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
        tmp_path_factory.mktemp("real"), environ={**settings.environment(), **kubernetes.LASTING},
        clock=clocks.SystemClock(), found=found, parts=PARTS, name="tests",
    ).start()  # fmt: skip
    yield plane
    plane.stop()


@pytest.fixture
async def real_api(real_control_plane: standalone.Standalone) -> AsyncIterator[api_client.KubeClient]:
    """A client of the real control plane."""
    chosen = api_client.KubeSettings(kubeconfig=str(real_control_plane.kubeconfig))
    client = await api_client.connect(chosen, clock=clocks.SystemClock(), user_agent="test")
    yield client
    await client.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run long files first, also those that may wait for the first build of real programs, which others do not."""
    tiers.refuse_misplaced(items)
    for item in items:
        shares = _shares_plane(item)
        if shares:
            tiers.refuse_another_plane(item)
        if shares or item.get_closest_marker("real_programs"):
            item.add_marker(pytest.mark.real_programs)
            item.add_marker(pytest.mark.timeout(kubernetes.BUILD_TIMEOUT_S))
    items.sort(key=lambda item: not tiers.is_long(item))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Build real programs before the test that needs them, so that no deadline of its own includes the build."""
    if item.get_closest_marker("real_programs"):
        kubernetes.control_plane_programs()


def _shares_plane(item: pytest.Item) -> bool:
    if REAL in getattr(item, "fixturenames", ()):
        return True
    call = getattr(item, "callspec", None)
    return call is not None and "real" in (call.params.get("kube_api"), call.params.get("site"))
