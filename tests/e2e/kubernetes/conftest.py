"""Fixtures of the tests on real kubelets: an engine with the images, and one cluster for all tests that can share it.

That cluster is a third of a small machine, so it ends with the last test that uses it and not with the session.
"""

import contextlib
import pathlib
from collections.abc import Generator, Iterator

import pytest

from carico_core.domain import errors
from tests.e2e.kubernetes import kubelet_site
from tests.tools.docker import docker_engine

HERE = pathlib.Path(__file__).parent
# Each goes on from what the one before has left there; those on clusters of their own follow.
ON_THE_SITE = (
    "test_e2e_callout.py", "test_e2e_kubelets.py", "test_e2e_parts.py", "test_e2e_rights.py", "test_e2e_overlays.py",
)  # fmt: skip
_OPEN = pytest.StashKey[contextlib.ExitStack]()


@pytest.fixture(scope="session")
def site_images(docker: docker_engine.Running) -> kubelet_site.Images:
    """The project's images; skips, saying why, where they cannot be had."""
    try:
        return kubelet_site.built_images(docker)
    except errors.EnvironmentUnfit as error:
        pytest.skip(f"not available here: {error}")


@pytest.fixture(scope="session")
def site(
    request: pytest.FixtureRequest, site_images: kubelet_site.Images, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[kubelet_site.Site]:
    """A running cluster of two kubelets, until the last test that uses it has ended."""
    folder: pathlib.Path = tmp_path_factory.mktemp("kubelets")
    with contextlib.ExitStack() as opened:
        request.session.stash[_OPEN] = opened
        yield opened.enter_context(kubelet_site.started(site_images, folder))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
    """Ends the shared cluster after the last test that uses it, once what is of its module has ended."""
    try:
        yield
    finally:
        if nextitem is None or not _uses_site(nextitem):
            item.session.stash.get(_OPEN, contextlib.ExitStack()).close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on the shared cluster follow each other; all others stay where they are."""
    places = [place for place, item in enumerate(items) if item.path.parent == HERE]
    for place, item in zip(places, sorted((items[place] for place in places), key=_turn), strict=True):
        items[place] = item


def _turn(item: pytest.Item) -> int:
    return ON_THE_SITE.index(item.path.name) if _uses_site(item) else len(ON_THE_SITE)


def _uses_site(item: pytest.Item) -> bool:
    return "site" in getattr(item, "fixturenames", ()) and item.path.parent == HERE
