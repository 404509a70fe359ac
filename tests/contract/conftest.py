"""One API for each test of CARICO's client, of every kind."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.contract import kube_site
from tests.contract.kubernetes import control_planes


@pytest.fixture(scope="session")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[control_planes.KubeApi]:
    with control_planes.embedded(tmp_path_factory.mktemp("kube-client")) as api:
        yield api
        api.pool.clear()


@pytest.fixture(params=kube_site.SITES)
async def site(request: pytest.FixtureRequest) -> AsyncIterator[kube_site.Site]:
    async with kube_site.SITES[request.param](request) as made:
        yield made
