"""Fixtures of the tests on real kubelets: an engine with the images, and one cluster, for the whole session."""

import pathlib
from collections.abc import Iterator

import pytest

from carico_core.domain import errors
from tests.e2e.kubernetes import kubelet_site
from tests.tools import docker_engine


@pytest.fixture(scope="session")
def site_images(docker: docker_engine.Running) -> kubelet_site.Images:
    """The project's images; skips, saying why, where they cannot be had."""
    try:
        return kubelet_site.built_images(docker)
    except errors.EnvironmentUnfit as error:
        pytest.skip(f"not to be had here: {error}")


@pytest.fixture(scope="session")
def site(site_images: kubelet_site.Images, tmp_path_factory: pytest.TempPathFactory) -> Iterator[kubelet_site.Site]:
    """A running cluster of two kubelets."""
    folder: pathlib.Path = tmp_path_factory.mktemp("kubelets")
    with kubelet_site.started(site_images, folder) as found:
        yield found
